//! The objects that steps refer to, made from the content of bundles.

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use olm_api_classic::{CatalogSource, CatalogSourceSpec, Step};
use olm_bundle::first_manifests;
use olm_bundles::{Bundles, Loaded, Requested};
use olm_classic_core::{
    plan::{self, Content, PlannedBundle, PlannedObject, Reference},
    registry_model::Catalog,
};
use olm_image::Puller;
use serde_json::Value;

use crate::{Contents, SourceKey, sources::content, subscriptions::manifests};
use catalogd::RegistryContent;

/// Most steps that a plan may have.
pub(super) const STEPS_MAX: usize = 2_000;
/// Most bundles of a plan.
const BUNDLES_MAX: usize = 100;

/// Reads bundles.
pub(super) struct BundleContent {
    pub(super) client: Client,
    pub(super) contents: Contents,
    pub(super) puller: Puller,
    pub(super) bundles: Bundles,
}

/// Why there are no objects.
pub(super) enum Missing {
    /// They come: what is waited for.
    Waits(String),
    /// They cannot be had: error and remedy.
    Failed(String, String),
}

/// What identifies an object among those of a bundle.
type Identity = (String, String, String, String, String);

/// The objects of steps.
#[derive(Default)]
pub(super) struct Objects(BTreeMap<Identity, Value>);

impl Objects {
    /// The object of a step.
    pub(super) fn of(&self, step: &Step) -> Option<&Value> {
        self.0.get(&identity(step))
    }
}

fn identity(step: &Step) -> Identity {
    let resource = &step.resource;
    (
        step.resolving.clone(),
        resource.group.clone(),
        resource.version.clone(),
        resource.kind.clone(),
        resource.name.clone(),
    )
}

/// The name of a job: namespace and name of the plan first, which a blank ends.
fn job(plan: &str, bundle: &str) -> String {
    format!("{plan} {bundle}")
}

/// The plan of a job.
pub(super) fn plan_of_job(job: &str) -> &str {
    job.split(' ').next().unwrap_or_default()
}

impl BundleContent {
    /// The objects of all steps that refer to one. The plan is named by namespace and name.
    pub(super) async fn objects(&self, plan: (&str, &str), steps: &[Step]) -> Result<Objects, Missing> {
        let mut bundles: BTreeMap<&str, Reference> = BTreeMap::new();
        for step in steps {
            let Some(reference) = reference(step)? else { continue };
            let known = bundles.entry(&step.resolving).or_insert_with(|| reference.clone());
            // The step of the ClusterServiceVersion knows what the catalog adds.
            if step.resource.kind == olm_bundle::CSV_KIND {
                *known = reference;
            }
        }
        if bundles.len() > BUNDLES_MAX {
            return Err(Missing::Failed(
                format!("the plan has more than {BUNDLES_MAX} bundles"),
                String::new(),
            ));
        }
        let mut objects = Objects::default();
        for (name, reference) in bundles {
            let planned = self.bundle(plan, name, reference).await?;
            objects.0.extend(planned.into_iter().map(|planned| (identity(&planned.step), planned.object)));
        }
        Ok(objects)
    }

    async fn bundle(
        &self,
        (namespace, plan): (&str, &str),
        name: &str,
        reference: Reference,
    ) -> Result<Vec<PlannedObject>, Missing> {
        let key = SourceKey {
            namespace: reference.catalog_source_namespace.clone(),
            name: reference.catalog_source_name.clone(),
        };
        let bundle = PlannedBundle {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            replaces: reference.replaces.clone(),
            properties: reference.properties.clone(),
            catalog: key.name.clone(),
            catalog_namespace: key.namespace.clone(),
            image: if reference.kind == Content::Image { reference.path.clone() } else { String::new() },
            digest: reference.digest.clone(),
            manifests: Vec::new(),
        };
        match reference.kind {
            Content::Image => {
                let job = job(&format!("{namespace}/{plan}"), name);
                self.of_image(&job, &key, bundle).await
            }
            Content::Catalog => self.of_catalog(&key, bundle).await,
        }
    }

    /// The objects of a bundle image, by its digest.
    async fn of_image(
        &self,
        job: &str,
        key: &SourceKey,
        bundle: PlannedBundle,
    ) -> Result<Vec<PlannedObject>, Missing> {
        let failed = |error: String, advice: &str| {
            let remedy = format!("{advice} The bundle comes from CatalogSource {key}.");
            Missing::Failed(format!("bundle {}: {error}", bundle.name), remedy.trim().to_owned())
        };
        let source = self.contents.get(key).map(|content| content.source);
        let secrets = match source.as_deref() {
            Some(source) => content::pull_secrets(&self.client, source).await,
            None => content::pull_secrets(&self.client, &unknown(key)).await,
        };
        let credentials = content::puller(&self.client, &self.puller, &secrets).await;
        let (puller, reader) = credentials.map_err(|error| failed(error, ""))?;
        let bundles = self.bundles.of_reader(&puller, &reader);
        match bundles.request(job, &pinned(&bundle.image, &bundle.digest)).await {
            Requested::Loaded(loaded) => planned(bundle, loaded).await,
            Requested::Pulling { .. } => Err(Missing::Waits(format!("Pulling {}.", bundle.image))),
            Requested::Waiting(_) => Err(Missing::Waits(format!("{} waits for memory.", bundle.image))),
            Requested::Failed { error, .. } => {
                Err(failed(error.to_string(), error.advice().unwrap_or_default()))
            }
        }
    }

    /// The objects of a bundle that is in its catalog as a whole.
    async fn of_catalog(
        &self,
        key: &SourceKey,
        bundle: PlannedBundle,
    ) -> Result<Vec<PlannedObject>, Missing> {
        let Some(found) = self.contents.get(key) else {
            return Err(Missing::Failed(
                format!("bundle {}: the content of CatalogSource {key} is not here", bundle.name),
                format!("Check CatalogSource {key}."),
            ));
        };
        let key = key.clone();
        let work = move || {
            let name = bundle.name.clone();
            let failed = |error: String, remedy: &str| {
                Missing::Failed(format!("bundle {name}: {error}"), remedy.to_owned())
            };
            let syntax = found.image_syntax();
            let catalog = Catalog::read(RegistryContent(Arc::clone(&found.generation)), syntax)
                .map_err(|error| failed(error.to_string(), ""))?;
            let objects = catalog.objects(&name).map_err(|error| failed(error.to_string(), ""))?;
            let (manifests, digest) = manifests(&objects).map_err(|error| failed(error, ""))?;
            if digest != bundle.digest {
                let text = format!("the content of CatalogSource {key} has changed since the plan was made");
                return Err(failed(text, "Delete the InstallPlan: another is made."));
            }
            let bundle = PlannedBundle { manifests, ..bundle.clone() };
            plan::objects(&bundle).map_err(|error| failed(error.to_string(), ""))
        };
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| Err(Missing::Failed(error.to_string(), String::new())))
    }
}

/// The reference of a step; none for a step that holds its object.
fn reference(step: &Step) -> Result<Option<Reference>, Missing> {
    let manifest = step.resource.manifest.as_deref().unwrap_or_default();
    if step.resource.kind == "Subscription" {
        return Ok(None);
    }
    serde_json::from_str(manifest).map(Some).map_err(|error| {
        let text = plan::texts::unreadable(&step.resource.name, &error.to_string());
        Missing::Failed(text, "Delete the InstallPlan: another is made.".to_owned())
    })
}

/// A CatalogSource of which nothing but its name is known.
fn unknown(key: &SourceKey) -> CatalogSource {
    let mut source = CatalogSource::new(&key.name, CatalogSourceSpec::default());
    source.metadata.namespace = Some(key.namespace.clone());
    source
}

/// The image with its digest in place of a tag.
fn pinned(image: &str, digest: &str) -> String {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let tag = name.rfind(':').filter(|at| !name[*at..].contains('/'));
    format!("{}@{digest}", &name[..tag.unwrap_or(name.len())])
}

async fn planned(mut bundle: PlannedBundle, loaded: Loaded) -> Result<Vec<PlannedObject>, Missing> {
    let work = move || {
        // Memory and note are kept until the objects are made.
        let Loaded { files, memory: _memory, reading: _reading, .. } = loaded;
        bundle.manifests = first_manifests(&files, &mut Vec::new());
        drop(files);
        plan::objects(&bundle).map_err(|error| Missing::Failed(error.to_string(), String::new()))
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Missing::Failed(error.to_string(), String::new())))
}

#[cfg(test)]
mod tests {
    use super::{pinned, plan_of_job};

    #[test]
    fn a_tag_gives_way_to_the_digest() {
        for image in ["h:5000/a/b:v1", "h:5000/a/b", "h:5000/a/b@sha256:0", "h:5000/a/b:v1@sha256:0"] {
            assert_eq!(pinned(image, "sha256:1"), "h:5000/a/b@sha256:1");
        }
        assert_eq!(plan_of_job("ns/install-x lamp.v1.0.0"), "ns/install-x");
    }
}
