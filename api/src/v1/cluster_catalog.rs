//! ClusterCatalog: an image of catalog content that the cluster serves.
//!
//! The rules on image references search rather than match, as upstream's do: they catch common mistakes at
//! admission; the controller parses strictly and reports the rest.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{date_time, rule, union_member};
use crate::conditions::Conditions;

/// The source of the catalog's content, and its part in resolution.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterCatalog",
    status = "ClusterCatalogStatus",
    doc = "ClusterCatalog makes the content of a catalog image available to the cluster.",
    shortname = "ccat",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    annotation("olm.operatorframework.io/generator", "standard"),
    printcolumn(name = "LastUnpacked", type_ = "date", json_path = ".status.lastUnpacked"),
    printcolumn(
        name = "Serving",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Serving\")].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogSpec {
    /// The source of the content.
    pub source: CatalogSource,

    /// The priority among catalogs that offer the same package: the highest number wins.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,

    /// Whether the content is served and used. `Unavailable`: as if the catalog did not exist.
    #[serde(default)]
    pub availability_mode: AvailabilityMode,
}

/// Whether clients may use a catalog's content.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AvailabilityMode {
    /// The content is removed, as if the catalog did not exist.
    // First, because refusals list the values in this order, as upstream's do.
    Unavailable,
    /// The content is served.
    #[default]
    Available,
}

/// The source of a catalog's content: a union, `type` says which member is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = union_member(
    "type", "Image", "image", "image is required when source type is Image, and forbidden otherwise",
))]
pub struct CatalogSource {
    /// The kind of source.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,

    /// The image. Required when `type` is `Image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// The kinds of source of a catalog.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatalogSourceType {
    /// An image in a registry.
    #[default]
    Image,
}

/// An image in a registry.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule(
    "self.ref.find('(@.*:)') != \"\" ? !has(self.pollIntervalMinutes) : true",
    "cannot specify pollIntervalMinutes while using digest-based image",
))]
pub struct ImageSource {
    /// The image's reference, with a tag or a digest: `quay.io/example/catalog:latest`.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    #[x_kube(validation = starts_with_domain())]
    #[x_kube(validation = has_name())]
    #[x_kube(validation = rule(
        "self.find('(@.*:)') != \"\" || self.find(':') != \"\"",
        "must end with a digest or a tag",
    ))]
    #[x_kube(validation = rule(
        "self.find('(@.*:)') == \"\" ? (self.find(':.*$') != \"\" ? self.find(':.*$').substring(1).size() <= 127 : true) : true",
        "tag is invalid. the tag must not be more than 127 characters",
    ))]
    #[x_kube(validation = rule(
        r#"self.find('(@.*:)') == "" ? (self.find(':.*$') != "" ? self.find(':.*$').matches(r':\w[\w.-]*$') : true) : true"#,
        "tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", and \"-\" characters",
    ))]
    #[x_kube(validation = digest_algorithm())]
    #[x_kube(validation = digest_length())]
    #[x_kube(validation = digest_hex())]
    pub ref_: String,

    /// Minutes between two checks for a new image under the tag. Unset: the tag is only checked when the catalog
    /// changes. Cannot be set together with a digest, which never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub poll_interval_minutes: Option<i64>,
}

/// The observed state of the catalog.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogStatus {
    /// The conditions of the catalog: `Serving`, `Progressing`, and for GitOps tools `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schemars(schema_with = "super::common::conditions")]
    pub conditions: Conditions,

    /// The image, by digest, whose content is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedCatalogSource>,

    /// The addresses of the served content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls: Option<ClusterCatalogUrls>,

    /// The time at which the served content was unpacked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub last_unpacked: Option<Time>,
}

/// The addresses of a catalog's content.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogUrls {
    /// The base URL of the catalog, without a trailing slash; clients append `/api/v1/all`.
    #[schemars(length(max = 525))]
    #[x_kube(validation = rule("isURL(self)", "must be a valid URL"))]
    #[x_kube(validation = rule(
        "isURL(self) ? (url(self).getScheme() == \"http\" || url(self).getScheme() == \"https\") : true",
        "scheme must be either http or https",
    ))]
    pub base: String,
}

/// The resolved source: a union, `type` says which member is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = union_member(
    "type", "Image", "image", "image is required when source type is Image, and forbidden otherwise",
))]
pub struct ResolvedCatalogSource {
    /// The kind of source.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,

    /// The image, by digest.
    pub image: ResolvedImageSource,
}

/// An image by digest.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedImageSource {
    /// `<repository>@<digest>`. For an image of several platforms the digest is the index's.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    #[x_kube(validation = starts_with_domain())]
    #[x_kube(validation = has_name())]
    #[x_kube(validation = rule("self.find('(@.*:)') != \"\"", "must end with a digest"))]
    #[x_kube(validation = digest_algorithm())]
    #[x_kube(validation = digest_length())]
    #[x_kube(validation = digest_hex())]
    pub ref_: String,
}

use reference_rules::{digest_algorithm, digest_hex, digest_length, has_name, starts_with_domain};

/// The rules that references with a tag and references with a digest share.
mod reference_rules {
    use kube::core::Rule;

    use super::rule;

    pub(super) fn starts_with_domain() -> Rule {
        rule(
            r"self.matches(r'^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?\b')",
            "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character.",
        )
    }

    pub(super) fn has_name() -> Rule {
        rule(
            "self.find('/[a-z0-9]+') != \"\"",
            "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters.",
        )
    }

    pub(super) fn digest_algorithm() -> Rule {
        rule(
            "self.find('(@.*:)') != \"\" ? self.find('(@.*:)').matches('@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:') : true",
            "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters.",
        )
    }

    pub(super) fn digest_length() -> Rule {
        rule(
            "self.find('(@.*:)') != \"\" ? self.find(':.*$').substring(1).size() >= 32 : true",
            "digest is not valid. the encoded string must be at least 32 characters",
        )
    }

    pub(super) fn digest_hex() -> Rule {
        rule(
            "self.find('(@.*:)') != \"\" ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true",
            "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)",
        )
    }
}
