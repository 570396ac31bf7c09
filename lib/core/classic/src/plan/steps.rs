//! From a bundle to the steps of a plan: the ClusterServiceVersion, the other manifests in the order of their files, and what
//! is derived from the permissions.

use olm_api_classic::{Step, StepResource};
use olm_bundle::{
    CSV_KIND, Manifest, Permission,
    typed::{CLUSTER_SERVICE_VERSION, convert, in_exact_case},
};
use olm_object::text;
use serde_json::Value;
use thiserror::Error;

use super::{
    Reference,
    permissions::{self, Owner},
    texts,
};

/// The annotation of a bundle without properties.
const NO_PROPERTIES: &str = "{}";

/// A bundle that a plan installs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlannedBundle {
    /// The namespace that it is installed into.
    pub namespace: String,
    /// Its name in the catalog, which is that of its ClusterServiceVersion.
    pub name: String,
    /// The ClusterServiceVersion that it replaces; empty if there is none.
    pub replaces: String,
    /// Its properties as JSON, `{"properties": [...]}`, or empty ([`crate::subscription::install_plan::properties_text`]).
    pub properties: String,
    /// Name of the CatalogSource.
    pub catalog: String,
    /// Namespace of the CatalogSource.
    pub catalog_namespace: String,
    /// Its image; empty for a bundle that is in the catalog as a whole.
    pub image: String,
    /// The digest of the image, or of the content in the catalog.
    pub digest: String,
    /// Its manifests, in the order of their files.
    pub manifests: Vec<Manifest>,
}

/// Why a bundle cannot be planned. Trying again is of no use.
#[derive(Debug, Error)]
pub enum PlanError {
    /// It has no ClusterServiceVersion.
    #[error("bundle {0} has no ClusterServiceVersion")]
    NoClusterServiceVersion(String),
    /// Its ClusterServiceVersion has no `apiVersion`. The text is upstream's.
    #[error("bundle CSV {0} missing APIVersion")]
    NoApiVersion(String),
    /// Its ClusterServiceVersion has another name than the bundle has in the catalog.
    #[error(
        "the ClusterServiceVersion of bundle {bundle} is called {found:?}: the catalog has to name it so"
    )]
    OtherName {
        /// The name of the bundle.
        bundle: String,
        /// The name of the ClusterServiceVersion.
        found: String,
    },
    /// Its ClusterServiceVersion is none.
    #[error("the ClusterServiceVersion of bundle {bundle} cannot be read: {message}")]
    Unreadable {
        /// The name of the bundle.
        bundle: String,
        /// The place and the reason.
        message: String,
    },
    /// An object has no name.
    #[error("{kind} in {file} of bundle {bundle} has no name")]
    NoName {
        /// The name of the bundle.
        bundle: String,
        /// The file.
        file: String,
        /// The kind.
        kind: String,
    },
    /// A name or hash cannot be made.
    #[error("permissions cannot be written: {0}")]
    Permissions(#[from] serde_json::Error),
}

/// An object of a plan, and its step.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedObject {
    /// The step, with a reference to the object.
    pub step: Step,
    /// The object. What is derived from permissions has neither `apiVersion` nor `kind`: the step has them.
    pub object: Value,
}

/// The steps that install a bundle. Their manifests are references ([`Reference`]).
///
/// # Errors
/// The bundle has no usable ClusterServiceVersion.
pub fn steps(bundle: &PlannedBundle) -> Result<Vec<Step>, PlanError> {
    Ok(objects(bundle)?.into_iter().map(|planned| planned.step).collect())
}

/// The steps that install a bundle, with their objects.
///
/// # Errors
/// The bundle has no usable ClusterServiceVersion.
pub fn objects(bundle: &PlannedBundle) -> Result<Vec<PlannedObject>, PlanError> {
    let manifest = bundle.manifests.iter().find(|manifest| manifest.kind() == CSV_KIND);
    let manifest = manifest.ok_or_else(|| PlanError::NoClusterServiceVersion(bundle.name.clone()))?;
    let csv = cluster_service_version(bundle, manifest)?;
    let mut reference = Reference::of(bundle, manifest.file.clone());
    let derived = derived(bundle, &csv)?;
    let of_csv = reference.clone();
    reference.replaces.clone_from(&bundle.replaces);
    reference.properties.clone_from(&bundle.properties);
    let mut planned = vec![shipped(bundle, manifest, csv, &reference)?];
    for manifest in bundle.manifests.iter().filter(|manifest| manifest.kind() != CSV_KIND) {
        let reference = Reference::of(bundle, manifest.file.clone());
        planned.push(shipped(bundle, manifest, manifest.object.clone(), &reference)?);
    }
    for one in derived {
        let resource = resource(bundle, [one.group, "v1", one.kind], one.name, &of_csv)?;
        planned.push(PlannedObject { step: step(bundle, resource), object: one.object });
    }
    Ok(planned)
}

/// The ClusterServiceVersion as upstream writes it: what its types know, in the namespace of the plan.
fn cluster_service_version(bundle: &PlannedBundle, manifest: &Manifest) -> Result<Value, PlanError> {
    let mut csv = manifest.object.clone();
    in_exact_case(&CLUSTER_SERVICE_VERSION, &mut csv);
    if text(&csv, "/apiVersion").is_empty() {
        return Err(PlanError::NoApiVersion(bundle.name.clone()));
    }
    let unreadable = |message: String| PlanError::Unreadable { bundle: bundle.name.clone(), message };
    convert(&CLUSTER_SERVICE_VERSION, &mut csv).map_err(|error| unreadable(error.to_string()))?;
    let name = text(&csv, "/metadata/name");
    if name != bundle.name {
        return Err(PlanError::OtherName { bundle: bundle.name.clone(), found: name.to_owned() });
    }
    csv["metadata"]["namespace"] = bundle.namespace.as_str().into();
    let properties = if bundle.properties.is_empty() { NO_PROPERTIES } else { &bundle.properties };
    csv["metadata"]["annotations"][texts::PROPERTIES_ANNOTATION] = properties.into();
    if let Some(spec) = csv["spec"].as_object_mut() {
        spec.remove("replaces");
        if !bundle.replaces.is_empty() {
            spec.insert("replaces".to_owned(), bundle.replaces.as_str().into());
        }
    }
    Ok(csv)
}

/// What is derived from the permissions of a ClusterServiceVersion.
fn derived(bundle: &PlannedBundle, csv: &Value) -> Result<Vec<permissions::Derived>, PlanError> {
    let read = |field: &str| -> Result<Vec<Permission>, serde_json::Error> {
        let list = &csv["spec"]["install"]["spec"][field];
        if list.is_null() { Ok(Vec::new()) } else { serde_json::from_value(list.clone()) }
    };
    let owner = Owner {
        name: &bundle.name,
        namespace: &bundle.namespace,
        api_version: "operators.coreos.com/v1alpha1",
    };
    permissions::derived(&owner, &read("permissions")?, &read("clusterPermissions")?)
}

/// The step of an object that the bundle has.
fn shipped(
    bundle: &PlannedBundle,
    manifest: &Manifest,
    object: Value,
    reference: &Reference,
) -> Result<PlannedObject, PlanError> {
    let name = ["/metadata/name", "/metadata/generateName"]
        .into_iter()
        .map(|field| text(&object, field))
        .find(|name| !name.is_empty());
    let name = name.map(str::to_owned).ok_or_else(|| PlanError::NoName {
        bundle: bundle.name.clone(),
        file: manifest.file.clone(),
        kind: manifest.kind().to_owned(),
    })?;
    let api_version = text(&object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = if manifest.kind() == "Secret" { texts::BUNDLE_SECRET } else { manifest.kind() };
    let resource = resource(bundle, [group, version, kind], name, reference)?;
    Ok(PlannedObject { step: step(bundle, resource), object })
}

fn resource(
    bundle: &PlannedBundle,
    [group, version, kind]: [&str; 3],
    name: String,
    reference: &Reference,
) -> Result<StepResource, PlanError> {
    Ok(StepResource {
        source_name: bundle.catalog.clone(),
        source_namespace: bundle.catalog_namespace.clone(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        name,
        manifest: Some(serde_json::to_string(reference)?),
    })
}

fn step(bundle: &PlannedBundle, resource: StepResource) -> Step {
    Step { resolving: bundle.name.clone(), resource, optional: None, status: texts::UNKNOWN.to_owned() }
}
