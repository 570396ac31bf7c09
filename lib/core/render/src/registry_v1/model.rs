//! A loaded bundle. The CSV's parts are typed as far as generators look into them; what they only copy
//! stays JSON, already in the form that Kubernetes' types give it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A bundle after loading.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    pub(super) package: String,
    pub(super) csv: Csv,
    /// CustomResourceDefinitions, typed, in reading order.
    pub(super) crds: Vec<Value>,
    /// All other objects as shipped, in reading order.
    pub(super) others: Vec<Value>,
}

/// What rendering needs of a ClusterServiceVersion.
#[derive(Debug, Clone)]
pub(super) struct Csv {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) min_kube_version: Option<String>,
    pub(super) annotations: Map<String, Value>,
    pub(super) install_modes: BTreeSet<InstallMode>,
    pub(super) deployments: Vec<Deployment>,
    pub(super) permissions: Vec<Permission>,
    pub(super) cluster_permissions: Vec<Permission>,
    pub(super) webhooks: Vec<Webhook>,
    pub(super) owned_crds: Vec<String>,
    /// Kinds it defines, each with group, version and kind.
    pub(super) owned_kinds: Vec<Value>,
    /// Kinds it says it needs.
    pub(super) required_kinds: Vec<Value>,
    pub(super) owns_api_services: bool,
}

/// The annotation that carries a bundle's properties.
pub(super) const OLM_PROPERTIES: &str = "olm.properties";

impl Csv {
    pub(super) fn olm_properties(&self) -> Option<&str> {
        self.annotations.get(OLM_PROPERTIES).and_then(Value::as_str)
    }
}

/// Which namespaces an operator can watch. The order is upstream's: by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InstallMode {
    AllNamespaces,
    MultiNamespace,
    OwnNamespace,
    SingleNamespace,
}

impl InstallMode {
    const ALL: [Self; 4] =
        [Self::AllNamespaces, Self::MultiNamespace, Self::OwnNamespace, Self::SingleNamespace];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AllNamespaces => "AllNamespaces",
            Self::MultiNamespace => "MultiNamespace",
            Self::OwnNamespace => "OwnNamespace",
            Self::SingleNamespace => "SingleNamespace",
        }
    }

    /// The mode of this name; modes of other names are never supported.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Deployment {
    pub(super) name: String,
    #[serde(default)]
    pub(super) label: Map<String, Value>,
    pub(super) spec: Value,
}

/// A permission entry. The order of fields is hashed into names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Permission {
    pub(super) service_account_name: String,
    pub(super) rules: Option<Vec<PolicyRule>>,
}

impl Permission {
    /// The account's name; the entry as hashed may have an empty one.
    pub(super) fn account(&self) -> &str {
        if self.service_account_name.is_empty() { "default" } else { &self.service_account_name }
    }
}

/// An RBAC rule. The order of fields is hashed into names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyRule {
    pub(super) verbs: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) api_groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_names: Vec<String>,
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub(super) non_resource_urls: Vec<String>,
}

pub(super) const VALIDATING: &str = "ValidatingAdmissionWebhook";
pub(super) const MUTATING: &str = "MutatingAdmissionWebhook";
pub(super) const CONVERSION: &str = "ConversionWebhook";

/// An entry of `spec.webhookdefinitions`. Unknown types are kept: their Deployment still gets certificates.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Webhook {
    pub(super) generate_name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) deployment_name: String,
    #[serde(default)]
    container_port: i64,
    pub(super) target_port: Option<Value>,
    #[serde(default)]
    pub(super) rules: Vec<Value>,
    pub(super) failure_policy: Option<Value>,
    pub(super) match_policy: Option<Value>,
    pub(super) object_selector: Option<Value>,
    pub(super) side_effects: Option<Value>,
    pub(super) timeout_seconds: Option<Value>,
    pub(super) admission_review_versions: Option<Value>,
    pub(super) reinvocation_policy: Option<Value>,
    #[serde(rename = "webhookPath")]
    pub(super) path: Option<String>,
    #[serde(default, rename = "conversionCRDs")]
    pub(super) conversion_crds: Vec<String>,
}

impl Webhook {
    /// The name of configuration and webhook: OLM v0 used `generateName` as a prefix, so it often ends in a
    /// hyphen, which is taken off before it is checked, too (upstream checks the name with it).
    pub(super) fn name(&self) -> &str {
        self.generate_name.strip_suffix('-').unwrap_or(&self.generate_name)
    }

    /// The port of the Service. Without `containerPort` it is 443, as OLM v0 defaulted it; upstream writes 0
    /// into references, which API servers refuse.
    pub(super) fn port(&self) -> i64 {
        if self.container_port > 0 { self.container_port } else { 443 }
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }
}
