//! PackageManifest: a package of operators that a catalog offers. No object of this kind is stored: an aggregated API
//! server makes them of the catalogs that it reads.

use std::collections::BTreeMap;

use k8s_openapi::{
    ListableResource, Metadata, NamespaceResourceScope, Resource,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ApiServiceDefinitions, CustomResourceDefinitions, GroupVersionKind, Icon, InstallMode, Link, Maintainer,
};

/// A package of operators that a catalog offers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct PackageManifest {
    /// The metadata: name of the package, labels of its catalog and operator.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Nothing: packages are read only.
    #[serde(default)]
    pub spec: PackageManifestSpec,
    /// The package.
    #[serde(default)]
    pub status: PackageManifestStatus,
}

/// Nothing: packages are read only.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageManifestSpec {}

/// A package of a catalog.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PackageManifestStatus {
    /// The name of the CatalogSource.
    pub catalog_source: String,
    /// Its display name.
    pub catalog_source_display_name: String,
    /// Its publisher.
    pub catalog_source_publisher: String,
    /// Its namespace.
    pub catalog_source_namespace: String,
    /// The provider of the operator that is installed by default.
    #[serde(default)]
    pub provider: Link,
    /// The name of the package.
    pub package_name: String,
    /// The channels, by name.
    pub channels: Vec<PackageChannel>,
    /// The name of the channel that is taken when a Subscription names none.
    pub default_channel: String,
    /// That the package should not be used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Deprecation")]
    pub deprecation: Option<Deprecation>,
}

/// A channel of a package.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PackageChannel {
    /// The name.
    pub name: String,
    /// The name of the ClusterServiceVersion at its head.
    #[serde(rename = "currentCSV")]
    pub current_csv: String,
    /// The ClusterServiceVersion at its head, as far as it is shown.
    #[serde(default, rename = "currentCSVDesc")]
    pub current_csv_desc: CsvDescription,
    /// The bundles of the channel, the highest version first.
    pub entries: Vec<PackageEntry>,
    /// That the channel should not be used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Deprecation")]
    pub deprecation: Option<Deprecation>,
}

/// A bundle in a channel.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageEntry {
    /// The name of the bundle.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// That the bundle should not be used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Deprecation")]
    pub deprecation: Option<Deprecation>,
}

/// That something should not be used any more.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// Why, and what to use instead.
    pub message: String,
}

/// What is shown of a ClusterServiceVersion.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct CsvDescription {
    /// The display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// The icons. Lists leave them out; the subresource `icon` has the picture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub icon: Vec<Icon>,
    /// The version.
    #[schemars(extend("format" = "semver"))]
    pub version: String,
    /// The provider.
    pub provider: Link,
    /// The annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Keywords for searches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The maintainers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// The maturity.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub maturity: String,
    /// The description.
    #[serde(rename = "description", skip_serializing_if = "String::is_empty")]
    pub long_description: String,
    /// The sets of namespaces that the operator can serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<InstallMode>,
    /// The custom resources that it provides and needs, without their fields.
    #[serde(rename = "customresourcedefinitions")]
    pub custom_resource_definitions: CustomResourceDefinitions,
    /// The aggregated APIs that it provides and needs, without their fields.
    #[serde(rename = "apiservicedefinitions")]
    pub api_service_definitions: ApiServiceDefinitions,
    /// Kinds of the cluster that have to be served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub native_apis: Vec<GroupVersionKind>,
    /// The lowest version of Kubernetes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// The images that the operator uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_images: Vec<String>,
}

impl Resource for PackageManifest {
    const API_VERSION: &'static str = "packages.operators.coreos.com/v1";
    const GROUP: &'static str = "packages.operators.coreos.com";
    const KIND: &'static str = "PackageManifest";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "packagemanifests";
    type Scope = NamespaceResourceScope;
}

impl ListableResource for PackageManifest {
    const LIST_KIND: &'static str = "PackageManifestList";
}

impl Metadata for PackageManifest {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
