//! The APIs of a bundle: those its CRDs and its ClusterServiceVersion provide, and those the latter requires.

use std::{collections::BTreeSet, fmt};

use olm_bundle::Manifest;

use super::{BundleError, object_at};
use crate::{FieldError, fields::Fields};

const CRD_KIND: &str = "CustomResourceDefinition";

/// Group, version, kind and plural name of an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Api {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    plural: String,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} ({})", self.group, self.version, self.kind, self.plural)
    }
}

/// The APIs of a bundle.
#[derive(Debug)]
pub(super) struct Apis {
    /// Each version of each CRD in the bundle, and the API services that the ClusterServiceVersion owns.
    pub(super) provided: BTreeSet<Api>,
    pub(super) required: BTreeSet<Api>,
    owned_crds: BTreeSet<Api>,
}

impl Apis {
    pub(super) fn of(manifests: &[Manifest], csv: &Manifest) -> Result<Self, BundleError> {
        let mut provided = BTreeSet::new();
        for manifest in manifests.iter().filter(|manifest| manifest.kind() == CRD_KIND) {
            let wrong = |source| BundleError::Manifest { file: manifest.file.clone(), source };
            provided.extend(crd_apis(&object_at(manifest, &[])?).map_err(wrong)?);
        }
        let wrong = |source| BundleError::Manifest { file: csv.file.clone(), source };
        let spec = object_at(csv, &["spec"])?;
        let crds = spec.object("customresourcedefinitions").map_err(wrong)?;
        let services = spec.object("apiservicedefinitions").map_err(wrong)?;
        let mut required = BTreeSet::new();
        for service in services.objects("owned").map_err(wrong)? {
            provided.insert(service_api(&service).map_err(wrong)?);
        }
        for service in services.objects("required").map_err(wrong)? {
            required.insert(service_api(&service).map_err(wrong)?);
        }
        for crd in crds.objects("required").map_err(wrong)? {
            required.insert(described_crd(csv, &crd)?);
        }
        let owned = crds.objects("owned").map_err(wrong)?;
        let owned_crds = owned.iter().map(|crd| described_crd(csv, crd)).collect::<Result<_, _>>()?;
        Ok(Self { provided, required, owned_crds })
    }

    /// Whether the bundle has the CRDs its ClusterServiceVersion says it owns.
    pub(super) fn check_owned(&self, bundle: &str) -> Result<(), BundleError> {
        let Some(missing) = self.owned_crds.difference(&self.provided).next() else { return Ok(()) };
        let found: Vec<String> = self.provided.iter().map(|api| format!("{api}:{{}}")).collect();
        Err(BundleError::MissingApi {
            bundle: bundle.to_owned(),
            api: missing.to_string(),
            found: format!("map[{}]", found.join(" ")),
        })
    }
}

/// Every version of a CRD, served or not; one of an unknown API version has none.
fn crd_apis(crd: &Fields<'_>) -> Result<Vec<Api>, FieldError> {
    let api_version = crd.text("apiVersion")?;
    let form = api_version.rsplit('/').next().unwrap_or_default();
    if form != "v1" && form != "v1beta1" {
        return Ok(Vec::new());
    }
    let spec = crd.object("spec")?;
    let names = spec.object("names")?;
    let mut versions = Vec::new();
    for version in spec.objects("versions")? {
        versions.push(version.text("name")?);
    }
    if form == "v1beta1" && !spec.text("version")?.is_empty() {
        versions.push(spec.text("version")?);
    }
    let api = |version: &str| {
        Ok(Api {
            group: spec.text("group")?.to_owned(),
            version: version.to_owned(),
            kind: names.text("kind")?.to_owned(),
            plural: names.text("plural")?.to_owned(),
        })
    };
    versions.into_iter().map(api).collect()
}

fn service_api(service: &Fields<'_>) -> Result<Api, FieldError> {
    Ok(Api {
        group: service.text("group")?.to_owned(),
        version: service.text("version")?.to_owned(),
        kind: service.text("kind")?.to_owned(),
        plural: service.text("name")?.to_owned(),
    })
}

/// The API of a CRD as a ClusterServiceVersion describes it, by its name `plural.group`.
fn described_crd(csv: &Manifest, crd: &Fields<'_>) -> Result<Api, BundleError> {
    let wrong = |source| BundleError::Manifest { file: csv.file.clone(), source };
    let name = crd.text("name").map_err(wrong)?;
    let Some((plural, group)) = name.split_once('.') else {
        return Err(BundleError::CrdName { file: csv.file.clone(), name: name.to_owned() });
    };
    Ok(Api {
        group: group.to_owned(),
        version: crd.text("version").map_err(wrong)?.to_owned(),
        kind: crd.text("kind").map_err(wrong)?.to_owned(),
        plural: plural.to_owned(),
    })
}
