//! Admission webhooks that do not answer, and whose they are.

use std::{collections::BTreeMap, fmt};

use olm_api::names::{OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use serde::Deserialize;

use super::untrusted;

/// An admission webhook that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Webhook {
    /// Its name.
    name: String,
    /// Namespace and name of the Service that it is called through.
    service: Option<(String, String)>,
    /// The configuration that it is in and the owner of that, once they are known.
    owner: Option<String>,
}

/// Labels or annotations for the name and the namespace of an owner, and the word for it. Owners that others belong to
/// come first.
const OWNERS: [(&str, &str, &str); 5] = [
    ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace", "Helm release"),
    ("helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace", "HelmRelease"),
    ("kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace", "Kustomization"),
    ("olm.owner", "olm.owner.namespace", "ClusterServiceVersion"),
    ("app.kubernetes.io/instance", "", "application"),
];

#[derive(Deserialize)]
struct Configurations {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Vec<Configuration>,
}

#[derive(Deserialize)]
struct Configuration {
    metadata: Metadata,
    #[serde(default)]
    webhooks: Vec<Configured>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    kind: String,
    name: String,
    #[serde(default)]
    controller: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configured {
    name: String,
    client_config: ClientConfig,
}

#[derive(Deserialize)]
struct ClientConfig {
    service: Option<Service>,
}

#[derive(Deserialize)]
struct Service {
    namespace: String,
    name: String,
}

impl Webhook {
    /// The webhook that did not answer, if the API server reports one: `failed calling webhook "<name>": failed to call
    /// webhook: Post "https://<service>.<namespace>.svc:<port>/<path>?timeout=10s": <cause>`.
    pub(super) fn unanswered(message: &str) -> Option<Self> {
        let (name, rest) = message.split_once("failed calling webhook \"")?.1.split_once('"')?;
        let host = rest.split_once("Post \"https://").and_then(|(_, url)| url.split([':', '/', '"']).next());
        let service = host.and_then(|host| host.strip_suffix(".svc")).and_then(|host| host.split_once('.'));
        let service = service.map(|(name, namespace)| (namespace.to_owned(), name.to_owned()));
        Some(Self { name: name.to_owned(), service, owner: None })
    }

    /// Looks the webhook up in a list of ValidatingWebhookConfigurations or MutatingWebhookConfigurations, as JSON;
    /// whether it is there.
    pub fn find_owner(&mut self, list: &[u8]) -> bool {
        let Ok(list) = serde_json::from_slice::<Configurations>(list) else { return false };
        let is_it = |one: &&Configuration| one.webhooks.iter().any(|configured| self.is(configured));
        let Some(found) = list.items.iter().find(is_it) else { return false };
        let kind = list.kind.strip_suffix("List").unwrap_or("webhook configuration");
        let configuration = format!("{kind} {}", found.metadata.name);
        self.owner = Some(match owner(&found.metadata) {
            Some(owner) => format!("{configuration}, which belongs to {owner}"),
            None => configuration,
        });
        true
    }

    fn is(&self, configured: &Configured) -> bool {
        let service = configured.client_config.service.as_ref();
        let service = service.map(|service| (service.namespace.as_str(), service.name.as_str()));
        let own = self.service.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        self.name == configured.name && own == service
    }
}

/// The owner of a webhook configuration: the ClusterExtension, else the owner reference, else what its labels name.
fn owner(metadata: &Metadata) -> Option<String> {
    let Metadata { labels, annotations, owner_references, .. } = metadata;
    if let (Some(kind), Some(name)) = (labels.get(OWNER_KIND_LABEL), labels.get(OWNER_NAME_LABEL)) {
        return Some(format!("{kind} {name}"));
    }
    let controller = owner_references.iter().find(|reference| reference.controller);
    if let Some(Reference { kind, name, .. }) = controller.or(owner_references.first()) {
        return Some(format!("{kind} {name}"));
    }
    let value = |key: &str| annotations.get(key).or_else(|| labels.get(key));
    OWNERS.iter().find_map(|(name, namespace, word)| {
        let name = value(name)?;
        Some(match value(namespace) {
            Some(namespace) => format!("{word} {namespace}/{name}"),
            None => format!("{word} {name}"),
        })
    })
}

impl fmt::Display for Webhook {
    /// `the admission webhook <name> of Service <namespace>/<name> (<configuration>, which belongs to <owner>)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the admission webhook {}", untrusted(&self.name))?;
        if let Some((namespace, name)) = &self.service {
            write!(f, " of Service {}/{}", untrusted(namespace), untrusted(name))?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " ({})", untrusted(owner))?;
        }
        Ok(())
    }
}
