//! What catalogs show people of a bundle: names, texts, install modes and APIs, from its CSV or the cut of it that catalogs
//! have.

use olm_fbc::PROPERTY_CSV_METADATA;
use olm_go::field::Fields;
use serde::Serialize;

use crate::{
    limits::{APIS_MAX, KEYWORDS_MAX, TEXT_CHARACTERS_MAX},
    objects,
};

/// The annotation of a CSV with its short description.
const SUMMARY_ANNOTATION: &str = "description";

/// A bundle as people see it. Absent texts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Display name.
    pub display_name: String,
    /// Who provides the operator.
    pub provider: String,
    /// Keywords.
    pub keywords: Vec<String>,
    /// Short description.
    pub summary: String,
    /// Description, in Markdown.
    pub description: String,
    /// The install modes it supports.
    pub install_modes: Vec<String>,
    /// The oldest Kubernetes version it runs on.
    pub min_kube_version: String,
    /// The APIs it brings.
    pub provided_apis: Vec<Api>,
    /// The APIs it needs.
    pub required_apis: Vec<Api>,
}

/// A kind that a bundle brings or needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Api {
    /// Name of the CRD, such as `lighthouses.example.com`.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// Version.
    pub version: String,
}

impl Profile {
    /// The profile of an `olm.bundle` document given as its line, if it has one.
    pub fn of_line(line: &[u8]) -> Option<Self> {
        let bundle: serde_json::Value = serde_json::from_slice(line).ok()?;
        Self::of(Fields::of(&bundle))
    }

    /// The profile of an `olm.bundle` document, if it has one.
    pub fn of(bundle: Fields<'_>) -> Option<Self> {
        let mut properties = bundle.objects("properties");
        if let Some(metadata) = properties.find(|property| property.text("type") == PROPERTY_CSV_METADATA) {
            let metadata = metadata.object("value");
            let annotations = metadata.object("annotations");
            return Some(Self::new(metadata, annotations, metadata.object("crdDescriptions")));
        }
        let manifests = objects::read(bundle.text("package"), bundle.text("name"), bundle).ok()?;
        let csv = manifests.csv?;
        let (spec, metadata) = (Fields::of(&csv).object("spec"), Fields::of(&csv).object("metadata"));
        Some(Self::new(spec, metadata.object("annotations"), spec.object("customresourcedefinitions")))
    }

    fn new(spec: Fields<'_>, annotations: Fields<'_>, crds: Fields<'_>) -> Self {
        let text = |value: &str| value.chars().take(TEXT_CHARACTERS_MAX).collect::<String>();
        let keywords = spec.list("keywords").iter().filter_map(serde_json::Value::as_str);
        let modes = spec.objects("installModes");
        let supported = modes.filter(|mode| mode.raw("supported").is_some_and(|value| value == true));
        Self {
            display_name: text(spec.text("displayName")),
            provider: text(spec.object("provider").text("name")),
            keywords: keywords.take(KEYWORDS_MAX).map(text).collect(),
            summary: text(annotations.text(SUMMARY_ANNOTATION)),
            description: text(spec.text("description")),
            install_modes: supported.map(|mode| text(mode.text("type"))).take(KEYWORDS_MAX).collect(),
            min_kube_version: text(spec.text("minKubeVersion")),
            provided_apis: apis(crds, "owned"),
            required_apis: apis(crds, "required"),
        }
    }
}

fn apis(crds: Fields<'_>, list: &str) -> Vec<Api> {
    let api = |api: Fields<'_>| Api {
        name: api.text("name").to_owned(),
        kind: api.text("kind").to_owned(),
        version: api.text("version").to_owned(),
    };
    crds.objects(list).take(APIS_MAX).map(api).collect()
}
