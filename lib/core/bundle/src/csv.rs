//! A ClusterServiceVersion. Its parts are typed as far as rendering looks into them; copied parts stay JSON,
//! already in the form that Kubernetes' types give it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::declared;

/// The annotation that carries a bundle's properties.
pub const OLM_PROPERTIES: &str = "olm.properties";

/// The parts of a ClusterServiceVersion that are read.
#[derive(Debug, Clone)]
pub struct Csv {
    /// Its name.
    pub name: String,
    /// `spec.version`; empty when it has none.
    pub version: String,
    /// The oldest Kubernetes version it claims to run on, as written.
    pub min_kube_version: Option<String>,
    /// Its annotations, with the properties of `metadata/properties.yaml` merged into `olm.properties`.
    pub annotations: Map<String, Value>,
    /// The install modes it supports.
    pub install_modes: BTreeSet<InstallMode>,
    /// Names of install modes that it claims to support and that do not exist; a few short ones.
    pub unknown_install_modes: BTreeSet<String>,
    /// Deployments of its install strategy.
    pub deployments: Vec<Deployment>,
    /// Permissions in the namespaces it watches.
    pub permissions: Vec<Permission>,
    /// Permissions in the whole cluster.
    pub cluster_permissions: Vec<Permission>,
    /// Its webhooks.
    pub webhooks: Vec<Webhook>,
    /// Names of the CRDs it owns.
    pub owned_crds: Vec<String>,
    /// Whether it owns API services.
    pub owns_api_services: bool,
    /// The images it names beside those of its Deployments.
    pub related_images: Vec<String>,
    /// Kinds it defines, each with group, version and kind.
    pub(crate) owned_kinds: Vec<Value>,
    /// Kinds it requires.
    pub(crate) required_kinds: Vec<Value>,
}

impl Csv {
    /// The names of all install modes that it claims to support, sorted.
    pub fn mode_names(&self) -> Vec<&str> {
        let known = self.install_modes.iter().map(|mode| mode.as_str());
        let mut names: Vec<_> = known.chain(self.unknown_install_modes.iter().map(String::as_str)).collect();
        names.sort_unstable();
        names
    }

    /// The text for the annotation `olm.properties` of a revision, a JSON array: the annotation of the CSV merged with
    /// the properties file, and with the platform limit of OLM Classic's annotation where it has none.
    pub fn olm_properties(&self) -> Option<String> {
        declared::platform_properties(self)
    }
}

/// Which namespaces an operator can watch. The order is upstream's: by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallMode {
    /// The whole cluster.
    AllNamespaces,
    /// Several namespaces; not supported by OLM v1.
    MultiNamespace,
    /// The namespace it is installed into.
    OwnNamespace,
    /// One namespace.
    SingleNamespace,
}

impl InstallMode {
    const ALL: [Self; 4] =
        [Self::AllNamespaces, Self::MultiNamespace, Self::OwnNamespace, Self::SingleNamespace];

    /// The name of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllNamespaces => "AllNamespaces",
            Self::MultiNamespace => "MultiNamespace",
            Self::OwnNamespace => "OwnNamespace",
            Self::SingleNamespace => "SingleNamespace",
        }
    }

    /// The mode of this name; modes of other names are never supported.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// A Deployment of the install strategy.
#[derive(Debug, Clone, Deserialize)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Its labels.
    #[serde(default)]
    pub label: Map<String, Value>,
    /// Its `spec`.
    pub spec: Value,
}

/// A permission entry. The order of fields is hashed into names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// The ServiceAccount; empty for `default`.
    pub service_account_name: String,
    /// What it may do.
    pub rules: Option<Vec<PolicyRule>>,
}

impl Permission {
    /// The ServiceAccount's name; the entry as hashed may have an empty one.
    pub fn account(&self) -> &str {
        if self.service_account_name.is_empty() { "default" } else { &self.service_account_name }
    }
}

/// An RBAC rule as the ClusterServiceVersion has it. It is no `olm_object::Rule`: names are hashed from its JSON, so the
/// order of fields and of entries, repeated entries and null verbs must stay.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// Verbs.
    pub verbs: Option<Vec<String>>,
    /// API groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources, with subresources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of objects; all when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are no resources.
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// Type of a validating webhook.
pub const VALIDATING: &str = "ValidatingAdmissionWebhook";
/// Type of a mutating webhook.
pub const MUTATING: &str = "MutatingAdmissionWebhook";
/// Type of a conversion webhook.
pub const CONVERSION: &str = "ConversionWebhook";

/// An entry of `spec.webhookdefinitions`. Unknown types are kept: their Deployment still gets certificates.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Its name, with a hyphen at the end or without.
    pub generate_name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The Deployment that serves it.
    #[serde(default)]
    pub deployment_name: String,
    #[serde(default)]
    container_port: i64,
    /// The port of its containers.
    pub target_port: Option<Value>,
    /// Operations and resources it is called for.
    #[serde(default)]
    pub rules: Vec<Value>,
    /// `failurePolicy`, as written.
    pub failure_policy: Option<Value>,
    /// `matchPolicy`, as written.
    pub match_policy: Option<Value>,
    /// `objectSelector`, as written.
    pub object_selector: Option<Value>,
    /// `sideEffects`, as written.
    pub side_effects: Option<Value>,
    /// `timeoutSeconds`, as written.
    pub timeout_seconds: Option<Value>,
    /// `admissionReviewVersions`, as written.
    pub admission_review_versions: Option<Value>,
    /// `reinvocationPolicy`, as written.
    pub reinvocation_policy: Option<Value>,
    /// The path it is called at.
    #[serde(rename = "webhookPath")]
    pub path: Option<String>,
    /// CRDs it converts.
    #[serde(default, rename = "conversionCRDs")]
    pub conversion_crds: Vec<String>,
}

impl Webhook {
    /// The name of configuration and webhook: OLM v0 used `generateName` as a prefix, so it often ends in a
    /// hyphen, which is taken off before it is checked, too (upstream checks the name with it).
    pub fn name(&self) -> &str {
        self.generate_name.strip_suffix('-').unwrap_or(&self.generate_name)
    }

    /// The port of the Service. Without `containerPort` it is 443, as OLM v0 defaulted it; upstream writes 0
    /// into references, which API servers refuse.
    pub fn port(&self) -> i64 {
        if self.container_port > 0 { self.container_port } else { 443 }
    }

    /// Whether it is of this type.
    pub fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }
}
