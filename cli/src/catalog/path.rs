//! `olm catalog path`: the upgrades from one version of a package to another.

use std::{collections::BTreeMap, io::Write};

use anyhow::{anyhow, bail};
use clap::Args;
use olm_fbc::{Meta, PackageContent, SCHEMA_BUNDLE};
use olm_image::image_syntax;
use olm_opm::{BundleImages, Profile};
use olm_resolve::{CatalogView, Hop, PathError, Request, resolve, upgrade_path};
use olm_semver::Version;
use olm_text::one_line;
use serde::Serialize;

use crate::{
    catalogs::{Catalog, CatalogArgs, Wanted, no_package},
    output::{self, Differs, Format, columns, counted},
    resolve::installed,
};

/// The help text below the options.
pub(crate) const HELP: &str = "The path has the fewest upgrades; of several of that length the one with the fewest deprecated versions, then the fewest
changes of the channel. Each upgrade is one that the controller makes when the extension asks for its version.

Exit codes: 0 there is a path, 1 error, 2 there is none.

Examples:
  olm catalog path argocd-operator --from 0.12.0 --to 0.18.0
  olm catalog path argocd-operator --from 0.12.0 --catalog ./catalog --channel alpha -o json";

/// `olm catalog path`
#[derive(Debug, Args)]
pub(crate) struct PathCommand {
    /// Name of the package
    package: String,
    /// Name or version of the installed bundle; name=version for one that the catalog does not list any more
    #[arg(long, value_name = "NAME|VERSION|NAME=VERSION")]
    from: String,
    /// Name or version of the bundle to upgrade to. Default: the one that a new extension would get
    #[arg(long, value_name = "NAME|VERSION")]
    to: Option<String>,
    /// A channel whose upgrade paths may be used; may be repeated. Default: all
    #[arg(long = "channel")]
    channels: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    catalogs: CatalogArgs,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Path {
    catalog: String,
    package: String,
    from: String,
    to: String,
    upgrades: Vec<Upgrade>,
}

/// One upgrade, with what it takes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Upgrade {
    #[serde(flatten)]
    hop: Hop,
    /// Whether another channel has to be chosen than for the upgrade before.
    changes_channel: bool,
    /// The oldest Kubernetes version that the bundle runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    min_kube_version: String,
    /// The images of the catalog for this bundle, its own included.
    images: Vec<String>,
}

impl PathCommand {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (catalog, content) = self.catalog().await?;
        let contents = [Ok(content)];
        let from = installed("--from", &self.from, &contents)?;
        let [Ok(content)] = contents else { bail!("no content") };
        let to = self.end(&content)?;
        let version: Version =
            from.version.parse().map_err(|error| anyhow!("--from {}: {error}", self.from))?;
        let hops = match upgrade_path(&content, (&from.name, &version), &to, &self.channels) {
            Ok(hops) => hops,
            Err(error @ PathError::None { .. }) => {
                output::error(&anyhow!(error));
                return Err(Differs.into());
            }
            Err(error) => return Err(error.into()),
        };
        let upgrades = upgrades(&catalog, &self.package, hops).await?;
        let answer = Path { catalog: catalog.name, package: self.package, from: from.name, to, upgrades };
        output::answer(out, self.output, &answer, Path::text)
    }

    /// The catalog with the highest priority that has the package.
    async fn catalog(&self) -> anyhow::Result<(Catalog, PackageContent)> {
        let mut catalogs = self.catalogs.open().await?;
        catalogs.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        for index in 0..catalogs.len() {
            match catalogs[index].package(&self.package).await {
                Ok(content) if content.is_empty() => {}
                Ok(content) => return Ok((catalogs.swap_remove(index), content)),
                Err(error) => output::warning(&error.to_string()),
            }
        }
        Err(no_package(&self.package, &catalogs).await)
    }

    /// The name of the bundle to get to.
    fn end(&self, content: &PackageContent) -> anyhow::Result<String> {
        if let Some(to) = &self.to {
            return Ok(installed("--to", to, &[Ok(content.clone())])?.name);
        }
        let request =
            Request { package: self.package.clone(), channels: self.channels.clone(), ..Request::default() };
        let view = CatalogView { name: "catalog", priority: 0, content: Ok(content) };
        Ok(resolve(&request, &[view]).map_err(|error| anyhow!("{error}"))?.bundle)
    }
}

/// The upgrades, with what the bundles' documents say of them.
async fn upgrades(catalog: &Catalog, package: &str, hops: Vec<Hop>) -> anyhow::Result<Vec<Upgrade>> {
    let names: Vec<String> = hops.iter().map(|hop| hop.bundle.clone()).collect();
    let take = move |found: &mut BTreeMap<String, (String, Vec<String>)>, meta: &Meta<'_>| {
        if meta.envelope.schema == SCHEMA_BUNDLE && names.iter().any(|name| meta.envelope.name == *name) {
            let kubernetes = Profile::of_line(meta.line).unwrap_or_default().min_kube_version;
            let images = BundleImages::of_line(meta.line, image_syntax)?.references();
            found.insert(meta.envelope.name.clone().into_owned(), (kubernetes, images.into_iter().collect()));
        }
        Ok(())
    };
    let mut details = catalog.fold(Wanted::Package(package), BTreeMap::new(), take).await?;
    let mut last: Option<String> = None;
    let upgrade = |hop: Hop| {
        let changes_channel = last.as_ref().is_some_and(|last| *last != hop.channel);
        last = Some(hop.channel.clone());
        let (min_kube_version, images) = details.remove(&hop.bundle).unwrap_or_default();
        Upgrade { hop, changes_channel, min_kube_version, images }
    };
    Ok(hops.into_iter().map(upgrade).collect())
}

impl Path {
    fn text(&self) -> String {
        let mut text = format!(
            "{} to {}: {} (catalog {})\n",
            one_line(&self.from),
            one_line(&self.to),
            counted(self.upgrades.len(), "upgrade"),
            self.catalog
        );
        if self.upgrades.is_empty() {
            return text;
        }
        let mut rows = vec![["VERSION", "CHANNEL", "KUBERNETES", "NOTES"].map(str::to_owned)];
        for Upgrade { hop, changes_channel, min_kube_version, images } in &self.upgrades {
            let mut notes = vec![counted(images.len(), "image")];
            if *changes_channel {
                notes.insert(0, format!("change the channel to {}", hop.channel));
            }
            notes
                .extend(hop.deprecation.as_ref().map(|message| format!("deprecated: {}", one_line(message))));
            let kubernetes =
                if min_kube_version.is_empty() { String::new() } else { format!(">={min_kube_version}") };
            rows.push([hop.version.to_string(), hop.channel.clone(), kubernetes, notes.join(", ")]);
        }
        text.push_str(&columns(&rows));
        text
    }
}

#[cfg(test)]
mod tests;
