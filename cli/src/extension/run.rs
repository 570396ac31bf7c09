//! `olm run bundle`: a bundle that no catalog has, on a cluster.
//!
//! A ClusterExtension is installed from a catalog only, and a catalog is an image. So the bundle gets a catalog of its own
//! in a registry that the cluster reaches, and from there on it is an installation like any other.

use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use kube::{Api, Client, ResourceExt};
use olm_api::{
    ConditionType::{Progressing, Serving, Stalled},
    Conditions,
    names::{GROUP, INSTALLED_FOR_ANNOTATION},
    v1::{ClusterCatalog, ClusterExtension},
};
use olm_image::{
    CanonicalReference, Compression, ImageBuilder, LayerBuilder, LayoutRegistry, Puller, PullerConfig,
    Reference,
};
use olm_opm::RegistryV1Bundle;
use olm_runtime::if_exists;
use olm_text::visible;
use serde_json::{Value, json};

use super::{
    install::{Install, Settings},
    manifests::{Presence, apply, is_ours, label, presence, with_marks},
    uninstall::{Uninstall, remove},
};
use crate::{bundle::bundle_image, progress::Bar, sources::Source};

/// The help text below the options.
pub(crate) const HELP: &str = "The bundle gets a catalog of its own: a ClusterCatalog with the lowest priority, whose image is pushed to the repository of
--push, which the cluster must be able to pull from. A folder or layout is pushed there too; an image is used from where it
is. Then the bundle is installed as \"olm install\" does it: the same plan, checks and question. If the answer is no, or the
plan is blocked, the catalog is removed again; --dry-run needs it for the plan, and removes it too.

--cleanup removes the extension with everything that it installed, its ServiceAccount and permissions, the catalog, and the
namespace if this command created it. What was pushed stays in the registry, below the tags olm-run-bundle and
olm-run-catalog.

Exit codes: 0 done, 1 error, 2 the plan is blocked or something is missing, nothing was installed.

Examples:
  olm run bundle ./bundle --push registry.example.com/me/try
  olm run bundle quay.io/example/bundle:v1.0.0 --push quay.io/example/try --namespace try
  olm run bundle ./bundle --cleanup";

/// Time between two looks at the catalog.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long the cluster may take to serve the catalog, or to let it go.
const SERVED: Duration = Duration::from_mins(3);
/// Other catalogs with the package come first for extensions that select none.
const PRIORITY: i32 = i32::MIN;
/// The channel of the bundle.
const CHANNEL: &str = "olm-run";

/// `olm run …`
#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Installs a bundle from a folder or an image, without a catalog that has it.
    #[command(after_help = HELP)]
    Bundle(Box<RunBundle>),
}

/// `olm run bundle`
#[derive(Debug, Args)]
pub(crate) struct RunBundle {
    /// Folder, OCI image layout (oci:FOLDER[:NAME]) or image of the bundle
    #[arg(value_name = "BUNDLE")]
    source: Source,
    /// Repository for the catalog, and for a bundle that is not an image, such as registry.example.com/me/try; the
    /// cluster pulls from it
    #[arg(long, value_name = "REPOSITORY", required_unless_present = "cleanup")]
    push: Option<String>,
    /// Remove what an earlier run of this bundle made
    #[arg(long, conflicts_with_all = ["push", "with_dependencies", "config", "watch_namespace", "service_account", "namespace"])]
    cleanup: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The tags of what is pushed.
struct Pushed {
    bundle: Reference,
    catalog: Reference,
}

impl Run {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Bundle(command) => command.run(out).await,
        }
    }
}

impl RunBundle {
    async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.settings.consent.check()?;
        let files = self.settings.planning.registries().bundle_files(&self.source).await?;
        let bundle = RegistryV1Bundle::read(&files).with_context(|| self.source.to_string())?;
        let package = bundle.blob.package.clone();
        let extension = self.settings.name.clone().unwrap_or_else(|| package.clone());
        let catalog = format!("olm-run-{extension}");
        if self.cleanup {
            return self.clean(&extension, &catalog, out).await;
        }
        let pushed = Pushed::to(self.push.as_deref().unwrap_or_default())?;
        let client = self.settings.cluster.client().await?;
        let manifest = |image: &str| with_marks(cluster_catalog(&catalog, image), &extension);
        if presence(&client, &manifest(""), &extension).await? == Presence::Foreign {
            bail!(
                "ClusterCatalog {catalog} was not created by this command, and is left alone: pass another --name"
            );
        }
        let api: Api<ClusterExtension> = Api::all(client.clone());
        if if_exists(api.get_metadata(&extension)).await?.is_some() {
            bail!(
                "ClusterExtension {extension} exists already: remove it with \"olm run bundle {} --cleanup\", or pass another --name",
                self.source
            );
        }
        let puller = self.settings.planning.registries().puller()?;
        let image = self.bundle(&puller, &pushed.bundle).await?;
        let packed = catalog_image(&bundle, &image.to_string())?;
        let content = packed.push(&puller, &pushed.catalog).await.context("pushing the catalog")?;
        writeln!(out, "pushed: {content}")?;
        apply(&client, &manifest(&content.to_string()), &extension).await?;
        writeln!(out, "created: ClusterCatalog {catalog} (temporary)")?;
        let installed = match served(&client, &catalog, &content).await {
            Ok(()) => Install::of(&package, &bundle.version, &catalog, self.settings).installed(out).await,
            Err(error) => Err(error),
        };
        // What is being installed still needs it.
        if !matches!(installed, Ok(true)) && if_exists(api.get_metadata(&extension)).await?.is_none() {
            remove_catalog(&client, &catalog, &extension).await?;
            writeln!(out, "removed: ClusterCatalog {catalog}")?;
        }
        installed.map(drop)
    }

    /// Where the cluster pulls the bundle from.
    async fn bundle(&self, puller: &Puller, to: &Reference) -> anyhow::Result<CanonicalReference> {
        match &self.source {
            Source::Image(reference) => Ok(puller.resolve(reference).await?),
            Source::Folder(folder) => {
                bundle_image(folder)?.push(puller, to).await.context("pushing the bundle")
            }
            Source::Layout(folder, name) => {
                let layout = LayoutRegistry::open(folder)?;
                let image = layout.image(name.as_deref())?;
                let config = PullerConfig::new(std::env::temp_dir());
                let from = Puller::with_registry(config, Arc::new(layout));
                let target = puller.target(to.repository(), to.tag()).await?;
                let progress = Bar::new("pushing", 1).pull(&to.to_string());
                from.copy(&from.whole(&image).await?, &target, progress)
                    .await
                    .context("pushing the bundle")?;
                Ok(to.at(image.digest().clone()))
            }
            other => bail!("{other}: pass the folder, the image layout or the image of a bundle"),
        }
    }

    /// Removes everything that an earlier run made.
    async fn clean(self, extension: &str, catalog: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.settings.cluster.client().await?;
        let Some(live) = ours(&client, catalog, extension).await? else {
            bail!(
                "there is no ClusterCatalog {catalog} that \"olm run bundle\" created for {extension}: nothing is removed"
            );
        };
        let (consent, patience) = (self.settings.consent, self.settings.patience);
        let extensions: Api<ClusterExtension> = Api::all(client.clone());
        let found = if_exists(extensions.get(extension)).await.context("reading the extension")?;
        let namespace = match &found {
            Some(found) => created_namespace(&client, found, &live).await?,
            None => None,
        };
        writeln!(out, "- ClusterCatalog {catalog}")?;
        if let Some(namespace) = &namespace {
            writeln!(out, "{}", visible(&format!("- {} with everything in it", label(namespace))))?;
        }
        if found.is_some() {
            let cluster = self.settings.cluster.clone();
            Uninstall::of(extension.to_owned(), consent, patience, cluster).run(out).await?;
        } else if !consent.ask(&format!("Remove ClusterCatalog {catalog}?"))? {
            return Ok(());
        }
        if consent.dry_run {
            return Ok(());
        }
        remove_catalog(&client, catalog, extension).await?;
        writeln!(out, "removed: ClusterCatalog {catalog}")?;
        if let Some(namespace) = namespace {
            remove(&client, &namespace).await?;
            writeln!(out, "{}", visible(&format!("removed: {}", label(&namespace))))?;
        }
        Ok(())
    }
}

impl Pushed {
    fn to(repository: &str) -> anyhow::Result<Self> {
        let tagged = |tag: &str| {
            Reference::parse(&format!("{repository}:{tag}")).with_context(|| {
                format!("--push {repository}: name a repository without a tag, such as registry.example.com/me/try")
            })
        };
        Ok(Self { bundle: tagged("olm-run-bundle")?, catalog: tagged("olm-run-catalog")? })
    }
}

/// A catalog with one package, one channel and one bundle.
fn catalog_image(bundle: &RegistryV1Bundle, image: &str) -> anyhow::Result<olm_image::PackedImage> {
    let blob = bundle.render(image);
    let package = json!({"schema": "olm.package", "name": blob.package, "defaultChannel": CHANNEL});
    let channel = json!({
        "schema": "olm.channel", "package": blob.package, "name": CHANNEL, "entries": [{"name": blob.name}],
    });
    let text = format!("{package}\n{channel}\n{}\n", blob.to_blob().json.get());
    let layer = LayerBuilder::new(Compression::Gzip).file("configs/catalog.json", text)?.build()?;
    Ok(ImageBuilder::new().label(catalogd::CONFIGS_LABEL, "/configs").layer(layer).build())
}

fn cluster_catalog(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"priority": PRIORITY, "source": {"type": "Image", "image": {"ref": image}}},
    })
}

/// Waits until the cluster serves this content of the catalog.
async fn served(client: &Client, name: &str, content: &CanonicalReference) -> anyhow::Result<()> {
    let (api, begun): (Api<ClusterCatalog>, _) = (Api::all(client.clone()), Instant::now());
    let bar = Bar::new("waiting for", 1);
    loop {
        let live = if_exists(api.get(name)).await.context("reading the catalog")?;
        let live = live.ok_or_else(|| anyhow!("ClusterCatalog {name} is gone"))?;
        let (live_generation, status) = (live.metadata.generation, live.status.unwrap_or_default());
        let is_served = status.conditions.is_true(Serving);
        if is_served && status.resolved_source.is_some_and(|source| source.image.ref_ == content.to_string())
        {
            return Ok(());
        }
        if let Some(why) = stalled(&status.conditions, live_generation) {
            bail!("the cluster cannot serve ClusterCatalog {name}: {why}");
        }
        let why = status.conditions.find(Progressing).map(|condition| condition.message.clone());
        if begun.elapsed() > SERVED {
            let why = why.unwrap_or_else(|| "its status says nothing".to_owned());
            bail!("the cluster does not serve ClusterCatalog {name}: {why}");
        }
        bar.note(format!("ClusterCatalog {name}"));
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What a person has to do about the catalog as it is now.
fn stalled(conditions: &Conditions, generation: Option<i64>) -> Option<&str> {
    let found = conditions.find(Stalled).filter(|stalled| stalled.status == "True")?;
    (found.observed_generation >= generation).then_some(found.message.as_str())
}

/// The catalog of this name, if this command created it for the extension.
async fn ours(client: &Client, catalog: &str, extension: &str) -> anyhow::Result<Option<ClusterCatalog>> {
    let api: Api<ClusterCatalog> = Api::all(client.clone());
    let found = if_exists(api.get(catalog)).await.context("reading the catalog")?;
    Ok(found.filter(|catalog| is_ours(catalog, extension)))
}

async fn remove_catalog(client: &Client, catalog: &str, extension: &str) -> anyhow::Result<()> {
    let Some(live) = ours(client, catalog, extension).await? else { return Ok(()) };
    let mut manifest = cluster_catalog(catalog, "");
    manifest["metadata"]["uid"] = live.uid().into();
    remove(client, &manifest).await?;
    // catalogd has a finalizer on it, and the next run could not use a catalog that is being deleted.
    let (api, begun): (Api<ClusterCatalog>, _) = (Api::all(client.clone()), Instant::now());
    while let Some(left) = if_exists(api.get_metadata(catalog)).await.context("reading the catalog")? {
        if left.uid() != live.uid() {
            break;
        }
        if begun.elapsed() > SERVED {
            bail!(
                "ClusterCatalog {catalog} is deleted, but its finalizers are still there: is catalogd running?"
            );
        }
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}

/// The namespace of the extension, if it was created for it after the catalog was.
async fn created_namespace(
    client: &Client,
    extension: &ClusterExtension,
    catalog: &ClusterCatalog,
) -> anyhow::Result<Option<Value>> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let name = &extension.spec.namespace;
    let found = if_exists(api.get(name)).await.with_context(|| format!("reading Namespace {name}"))?;
    let is_newer = |namespace: &k8s_openapi::api::core::v1::Namespace| {
        namespace.metadata.creation_timestamp >= catalog.metadata.creation_timestamp
            && namespace.annotations().get(INSTALLED_FOR_ANNOTATION) == Some(&extension.name_any())
    };
    Ok(found.filter(is_newer).map(|namespace| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": namespace.uid()}})
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_that_needs_a_person_is_not_waited_for() {
        let conditions = |type_: &str| {
            let one = json!([{
                "type": type_, "status": "True", "reason": "Blocked", "message": "push it", "observedGeneration": 2,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            serde_json::from_value::<Conditions>(one).unwrap()
        };
        assert_eq!(stalled(&conditions("Stalled"), Some(2)), Some("push it"));
        // It was said of the image before.
        assert_eq!(stalled(&conditions("Stalled"), Some(3)), None);
        assert_eq!(stalled(&conditions("Reconciling"), Some(2)), None);
    }
}
