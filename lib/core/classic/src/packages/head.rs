//! The bundle at the head of a channel, as far as it is shown.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use olm_api_classic::{
    ApiServiceDefinitions, ApiServiceDescription, CrdDescription, CsvDescription, CustomResourceDefinitions,
    GroupVersionKind, Icon, InstallMode, Link, Maintainer,
};
use olm_fbc::{PROPERTY_BUNDLE_OBJECT, PROPERTY_CSV_METADATA, PROPERTY_PACKAGE};
use olm_semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

const KIND: &str = "ClusterServiceVersion";

/// Why a bundle cannot be shown.
#[derive(Debug, Error)]
pub enum HeadError {
    /// Its document cannot be read.
    #[error("bundle {bundle:?} cannot be read: {cause}")]
    Unreadable {
        /// The bundle.
        bundle: String,
        /// The reason.
        cause: String,
    },
    /// It has neither a ClusterServiceVersion nor a summary of one.
    #[error("bundle {0:?} has no ClusterServiceVersion in the catalog")]
    Bare(String),
}

/// What the package adds where the bundle says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PackageDisplay {
    /// The description.
    pub description: String,
    /// The icon.
    pub icon: Option<Icon>,
}

impl PackageDisplay {
    /// Reads an `olm.package` document.
    ///
    /// # Errors
    /// It is not JSON, or a field has another type.
    pub fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

/// The bundle at the head of a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Head {
    /// The name of its ClusterServiceVersion.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its description, without icons.
    pub description: CsvDescription,
    /// Its first icon.
    pub icon: Option<Icon>,
}

#[derive(Deserialize)]
struct BundleLine<'a> {
    #[serde(default)]
    name: String,
    #[serde(borrow, default)]
    properties: Vec<PropertyLine<'a>>,
    #[serde(default, rename = "relatedImages")]
    related_images: Option<Vec<RelatedImage>>,
}

#[derive(Deserialize)]
struct PropertyLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct RelatedImage {
    #[serde(default)]
    image: String,
}

impl Head {
    /// Reads an `olm.bundle` document: the ClusterServiceVersion among its objects, else the summary in
    /// `olm.csv.metadata`, to which `package` adds the icon and the description.
    ///
    /// # Errors
    /// The document, or the ClusterServiceVersion in it, cannot be read, or there is none.
    pub fn read(bundle: &str, line: &[u8], package: &PackageDisplay) -> Result<Self, HeadError> {
        let unreadable = |cause: String| HeadError::Unreadable { bundle: bundle.to_owned(), cause };
        let line: BundleLine<'_> =
            serde_json::from_slice(line).map_err(|error| unreadable(error.to_string()))?;
        let of_kind = |kind| line.properties.iter().filter(move |property| property.kind == kind);
        for property in of_kind(PROPERTY_BUNDLE_OBJECT) {
            if let Some(version) = version_in(property.value).map_err(&unreadable)? {
                return Ok(version.head());
            }
        }
        let mut summaries = of_kind(PROPERTY_CSV_METADATA);
        let (Some(summary), None) = (summaries.next(), summaries.next()) else {
            return Err(HeadError::Bare(bundle.to_owned()));
        };
        let shown: Shown =
            serde_json::from_str(summary.value.get()).map_err(|error| unreadable(error.to_string()))?;
        let version = of_kind(PROPERTY_PACKAGE).find_map(|property| {
            #[derive(Deserialize)]
            struct Value {
                version: String,
            }
            serde_json::from_str::<Value>(property.value.get()).ok().map(|value| value.version)
        });
        let images = line.related_images.unwrap_or_default().into_iter().map(|related| related.image);
        let (annotations, labels) = (shown.annotations.clone(), shown.labels.clone().unwrap_or_default());
        let mut description = shown.described(version, annotations, images.collect());
        if description.long_description.is_empty() {
            description.long_description.clone_from(&package.description);
        }
        Ok(Self { name: line.name, labels, description, icon: package.icon.clone() })
    }
}

/// The ClusterServiceVersion in a property with an object, if it is one.
fn version_in(property: &RawValue) -> Result<Option<ClusterServiceVersion>, String> {
    #[derive(Deserialize)]
    struct Object {
        data: String,
    }
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let text = |error: serde_json::Error| error.to_string();
    let object: Object = serde_json::from_str(property.get()).map_err(text)?;
    let bytes = STANDARD.decode(object.data).map_err(|error| error.to_string())?;
    let kind: Kind = serde_json::from_slice(&bytes).map_err(text)?;
    if kind.kind != KIND {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(Some).map_err(text)
}

/// As far as it is shown. Fields that are absent or null are empty.
#[derive(Deserialize)]
struct ClusterServiceVersion {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Shown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl ClusterServiceVersion {
    fn head(self) -> Head {
        let Metadata { name, labels, annotations } = self.metadata;
        let mut spec = self.spec;
        let icon = spec.icon.take().and_then(|icons| icons.into_iter().next());
        let deployments = spec.install.take().filter(|install| install.strategy == "deployment");
        let deployments =
            deployments.into_iter().flat_map(|install| install.spec.deployments.unwrap_or_default());
        let containers = deployments.flat_map(|deployment| {
            let pod = deployment.spec.template.spec;
            pod.containers.into_iter().chain(pod.init_containers).flatten()
        });
        let related = spec.related_images.take().unwrap_or_default().into_iter().map(|one| one.image);
        let images = containers.map(|container| container.image).chain(related).collect();
        let version = spec.version.take();
        Head {
            name,
            labels: labels.unwrap_or_default(),
            description: spec.described(version, annotations, images),
            icon,
        }
    }
}

/// The fields of a spec that are shown, which a summary has under almost the same names.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Shown {
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    display_name: Option<String>,
    icon: Option<Vec<Icon>>,
    version: Option<String>,
    provider: Option<Link>,
    keywords: Option<Vec<String>>,
    links: Option<Vec<Link>>,
    maintainers: Option<Vec<Maintainer>>,
    maturity: Option<String>,
    description: Option<String>,
    install_modes: Option<Vec<InstallMode>>,
    #[serde(alias = "crdDescriptions")]
    customresourcedefinitions: Option<Apis>,
    #[serde(alias = "apiServiceDefinitions")]
    apiservicedefinitions: Option<Apis>,
    #[serde(alias = "nativeAPIs")]
    native_apis: Option<Vec<Api>>,
    min_kube_version: Option<String>,
    related_images: Option<Vec<RelatedImage>>,
    install: Option<Install>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Apis {
    owned: Option<Vec<Api>>,
    required: Option<Vec<Api>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Api {
    name: String,
    group: String,
    version: String,
    kind: String,
    display_name: Option<String>,
    description: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Install {
    strategy: String,
    spec: Deployments,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Deployments {
    deployments: Option<Vec<Deployment>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Deployment {
    spec: DeploymentSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeploymentSpec {
    template: Template,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: Pod,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pod {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
}

impl Shown {
    fn described(
        self,
        version: Option<String>,
        annotations: Option<BTreeMap<String, String>>,
        images: BTreeSet<String>,
    ) -> CsvDescription {
        let version = version.and_then(|text| Version::parse_tolerant(&text).ok());
        let provider = self.provider.unwrap_or_default();
        let (crds, services) = (self.customresourcedefinitions, self.apiservicedefinitions);
        let (crds, services) = (crds.unwrap_or_default(), services.unwrap_or_default());
        CsvDescription {
            display_name: self.display_name.unwrap_or_default(),
            icon: Vec::new(),
            version: version.map_or_else(|| "0.0.0".to_owned(), |version| version.to_string()),
            provider: link(provider),
            annotations: annotations.unwrap_or_default(),
            keywords: self.keywords.unwrap_or_default(),
            links: self.links.unwrap_or_default().into_iter().map(link).collect(),
            maintainers: self.maintainers.unwrap_or_default().into_iter().map(maintainer).collect(),
            maturity: self.maturity.unwrap_or_default(),
            long_description: self.description.unwrap_or_default(),
            install_modes: self.install_modes.unwrap_or_default(),
            custom_resource_definitions: CustomResourceDefinitions {
                owned: each(crds.owned, Api::custom_resource),
                required: each(crds.required, Api::custom_resource),
            },
            api_service_definitions: ApiServiceDefinitions {
                owned: each(services.owned, Api::service),
                required: each(services.required, Api::service),
            },
            native_apis: each(self.native_apis, |api| GroupVersionKind {
                group: api.group,
                version: api.version,
                kind: api.kind,
            }),
            min_kube_version: self.min_kube_version.unwrap_or_default(),
            related_images: images.into_iter().collect(),
        }
    }
}

impl Api {
    fn custom_resource(self) -> CrdDescription {
        CrdDescription {
            name: self.name,
            version: self.version,
            kind: self.kind,
            display_name: filled(self.display_name),
            description: filled(self.description),
            ..CrdDescription::default()
        }
    }

    fn service(self) -> ApiServiceDescription {
        ApiServiceDescription {
            name: self.name,
            group: self.group,
            version: self.version,
            kind: self.kind,
            display_name: filled(self.display_name),
            description: filled(self.description),
            ..ApiServiceDescription::default()
        }
    }
}

fn each<T, U>(list: Option<Vec<T>>, made: impl Fn(T) -> U) -> Vec<U> {
    list.unwrap_or_default().into_iter().map(made).collect()
}

/// Texts that are empty are not shown.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn link(link: Link) -> Link {
    Link { name: filled(link.name), url: filled(link.url) }
}

fn maintainer(one: Maintainer) -> Maintainer {
    Maintainer { name: filled(one.name), email: filled(one.email) }
}
