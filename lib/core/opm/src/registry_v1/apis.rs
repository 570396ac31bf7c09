//! The APIs of a bundle: those its CRDs and its ClusterServiceVersion provide, and those the latter requires.

use std::{collections::BTreeSet, fmt};

use olm_bundle::Manifest;
use olm_go::field::Fields;
use serde_json::{Value, json};

use super::{BundleError, checked};
use crate::structures::CRD;

const CRD_KIND: &str = "CustomResourceDefinition";

/// Group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gvk {
    group: String,
    version: String,
    kind: String,
}

impl Gvk {
    /// That of an API service, or of a property.
    pub(super) fn of(fields: Fields<'_>) -> Self {
        Self::new(fields.text("group"), fields.text("version"), fields.text("kind"))
    }

    fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// The value of a property.
    pub(super) fn value(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// An API with its plural name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Api(Gvk, String);

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Gvk { group, version, kind }, plural) = self;
        write!(f, "{group}/{version}/{kind} ({plural})")
    }
}

/// The APIs of a bundle.
#[derive(Debug)]
pub(super) struct Apis {
    /// Each version of each CRD in the bundle, and the API services that the ClusterServiceVersion owns.
    pub(super) provided: BTreeSet<Gvk>,
    pub(super) required: BTreeSet<Gvk>,
}

impl Apis {
    /// The bundle must have the CRDs that its ClusterServiceVersion owns.
    pub(super) fn of(
        bundle: &str,
        manifests: &[Manifest],
        csv: &Manifest,
        spec: Fields<'_>,
    ) -> Result<Self, BundleError> {
        let service = |service: Fields<'_>| Api(Gvk::of(service), service.text("name").to_owned());
        let crds = spec.object("customresourcedefinitions");
        let services = spec.object("apiservicedefinitions");
        let mut named: BTreeSet<Api> = services.objects("owned").map(service).collect();
        for manifest in manifests.iter().filter(|manifest| manifest.kind() == CRD_KIND) {
            named.extend(crd_apis(checked(manifest, &CRD)?));
        }
        let mut required: BTreeSet<Gvk> = services.objects("required").map(Gvk::of).collect();
        for crd in crds.objects("required") {
            required.insert(described_crd(csv, crd)?.0);
        }
        for crd in crds.objects("owned") {
            let owned = described_crd(csv, crd)?;
            if !named.contains(&owned) {
                let found: Vec<String> = named.iter().map(|api| format!("{api}:{{}}")).collect();
                return Err(BundleError::Rule(format!(
                    "error checking provided apis in bundle {bundle}: couldn't find {owned} in bundle. found: map[{}]",
                    found.join(" ")
                )));
            }
        }
        Ok(Self { provided: named.into_iter().map(|api| api.0).collect(), required })
    }
}

/// Every version of a CRD, served or not; one of an unknown API version has none.
fn crd_apis(crd: Fields<'_>) -> Vec<Api> {
    let form = crd.text("apiVersion").rsplit('/').next().unwrap_or_default();
    let (spec, names) = (crd.object("spec"), crd.object("spec").object("names"));
    let mut versions: Vec<&str> = match form {
        "v1" | "v1beta1" => spec.objects("versions").map(|version| version.text("name")).collect(),
        _ => Vec::new(),
    };
    if form == "v1beta1" && !spec.text("version").is_empty() {
        versions.push(spec.text("version"));
    }
    let api = |version| {
        Api(Gvk::new(spec.text("group"), version, names.text("kind")), names.text("plural").to_owned())
    };
    versions.into_iter().map(api).collect()
}

/// The API of a CRD as a ClusterServiceVersion describes it, by its name `plural.group`.
fn described_crd(csv: &Manifest, crd: Fields<'_>) -> Result<Api, BundleError> {
    let name = crd.text("name");
    let Some((plural, group)) = name.split_once('.') else {
        let text = format!("{}: couldn't parse plural.group from crd name: {name}", csv.file);
        return Err(BundleError::Rule(text));
    };
    Ok(Api(Gvk::new(group, crd.text("version"), crd.text("kind")), plural.to_owned()))
}
