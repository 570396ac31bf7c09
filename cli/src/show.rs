//! `olm show`: a package as people choose it: texts, channels, versions, and what installing it takes.

mod page;

use std::{cmp::Reverse, io::Write};

use anyhow::{anyhow, bail};
use clap::Args;
use olm_fbc::{Meta, PackageContent};
use olm_opm::Profile;
use olm_resolve::{CatalogView, ListedVersion, PackageVersions, Request, Resolution, resolve};

use self::page::Page;
use crate::{
    bundle::Examination,
    catalogs::{Catalog, CatalogArgs, Wanted, no_package},
    output::{self, Column, Format, ListArgs, ListFormat},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The version is the one that a new extension would get, with --version and --channel as in its spec. Of several catalogs
with the package the one with the highest priority is shown. What installing takes is read from the bundle's image; with
--offline it is left out.

Examples:
  olm show argocd-operator
  olm show argocd-operator --version 0.17.x -o json
  olm show argocd-operator --versions --channel alpha";

/// `olm show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name of the package
    package: String,
    /// Version or range, as in spec.source.catalog.version
    #[arg(long)]
    version: Option<String>,
    /// A channel, as in spec.source.catalog.channels; may be repeated
    #[arg(long = "channel")]
    channels: Vec<String>,
    /// List the versions only, the highest first
    #[arg(long)]
    versions: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    catalogs: CatalogArgs,
}

/// The namespace that permissions are counted for; its name changes none of them.
const NAMESPACE: &str = "operators";

fn versions_table() -> [Column<ListedVersion>; 5] {
    [
        Column::new("VERSION", |listed: &ListedVersion| listed.version.to_string()),
        Column::new("CHANNELS", |listed: &ListedVersion| listed.channels.join(",")),
        Column::new(
            "DEPRECATED",
            |listed: &ListedVersion| if listed.deprecation.is_some() { "yes".into() } else { String::new() },
        ),
        Column::wide("BUNDLE", |listed: &ListedVersion| listed.bundle.clone()),
        Column::wide("IMAGE", |listed: &ListedVersion| listed.image.clone()),
    ]
}

/// A catalog with what it has of the package.
struct Having {
    catalog: Catalog,
    content: PackageContent,
}

impl Show {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let all = self.having().await?;
        let Some((first, others)) = all.split_first() else { bail!("no catalog") };
        let listed = PackageVersions::of(&first.content);
        if self.versions {
            let of_channel = |version: &ListedVersion| {
                self.channels.is_empty() || version.channels.iter().any(|name| self.channels.contains(name))
            };
            let versions: Vec<ListedVersion> = listed.versions.into_iter().filter(of_channel).collect();
            return self.list.write(out, &versions, &versions_table(), |listed| listed.version.to_string());
        }
        let chosen = self.chosen(first)?;
        let profile = self.profile(&first.catalog, &chosen.bundle).await?;
        let (needs, unknown) = match self.needs(&chosen.image).await {
            Ok(needs) => (needs, None),
            Err(error) => (None, Some(output::causes(&error))),
        };
        let also_in = others.iter().map(|other| other.catalog.name.clone()).collect();
        let page = Page::new(chosen, listed, profile, (needs, unknown), also_in);
        let format = match self.list.output {
            ListFormat::Json => Format::Json,
            ListFormat::Yaml => Format::Yaml,
            ListFormat::Name => {
                writeln!(out, "{}", olm_text::one_line(&self.package))?;
                return Ok(());
            }
            ListFormat::Text | ListFormat::Wide => Format::Text,
        };
        output::answer(out, format, &page, Page::text)
    }

    /// The catalogs that have the package, at least one, the one with the highest priority first. Those that cannot be read are reported.
    async fn having(&self) -> anyhow::Result<Vec<Having>> {
        let (mut having, mut without, mut failed) = (Vec::new(), Vec::new(), None);
        for catalog in self.catalogs.open().await? {
            match catalog.package(&self.package).await {
                Ok(content) if content.is_empty() => without.push(catalog),
                Ok(content) => having.push(Having { catalog, content }),
                Err(error) => {
                    output::warning(&error.to_string());
                    failed = Some(error);
                }
            }
        }
        having.sort_by_key(|one| (Reverse(one.catalog.priority), one.catalog.name.clone()));
        match failed {
            Some(error) if having.is_empty() => Err(anyhow!(error)),
            None if having.is_empty() => Err(no_package(&self.package, &without).await),
            _ => Ok(having),
        }
    }

    /// The bundle that a new extension would get.
    fn chosen(&self, one: &Having) -> anyhow::Result<Resolution> {
        let request = Request {
            package: self.package.clone(),
            version: self.version.clone(),
            channels: self.channels.clone(),
            ..Request::default()
        };
        let view = CatalogView { name: &one.catalog.name, priority: 0, content: Ok(&one.content) };
        resolve(&request, &[view])
            .map_err(|error| anyhow!("{error}: olm show {} --versions lists them", self.package))
    }

    /// The texts of a bundle.
    async fn profile(&self, catalog: &Catalog, bundle: &str) -> anyhow::Result<Profile> {
        let take = |profile: &mut Option<Profile>, meta: &Meta<'_>| {
            *profile = Profile::of_line(meta.line).or_else(|| profile.take());
            Ok(())
        };
        let found = catalog.fold(Wanted::Bundle(&self.package, bundle), None, take).await?;
        Ok(found.unwrap_or_default())
    }

    /// What installing the bundle takes, unless images are not to be fetched.
    async fn needs(&self, image: &str) -> anyhow::Result<Option<Examination>> {
        let registries = &self.catalogs.access.registries;
        if registries.is_offline() {
            return Ok(None);
        }
        let files = registries.files_of_image(image).await?;
        Ok(Some(Examination::of(&files, NAMESPACE)))
    }
}
