//! Certificates of webhooks: names, and the additions of each provider.
//!
//! All names derive from the Deployment that serves the webhooks, so that they can be found again.
//!
//! As in operator-controller's internal/operator-controller/rukpak/render/certprovider.go and certproviders.

use olm_object::text;
use serde_json::{Value, json};

use crate::{CertificateProvider, names::object_name};

/// Longest common name that X.509, and so cert-manager, takes.
const COMMON_NAME_CHARS_MAX: usize = 64;

/// The Service in front of a Deployment's webhooks.
pub fn service_name(deployment: &str) -> String {
    object_name(&deployment.replace('.', "-"), "service")
}

/// The Certificate of that Service, and the Secret it is stored in.
pub fn certificate_name(deployment: &str) -> String {
    object_name(&service_name(deployment), "cert")
}

/// The annotation that has the CA injected into webhook configurations and CRDs.
pub(crate) fn ca_annotation(
    provider: CertificateProvider,
    namespace: &str,
    deployment: &str,
) -> Option<(&'static str, String)> {
    match provider {
        CertificateProvider::None | CertificateProvider::BuiltIn => None,
        CertificateProvider::CertManager => {
            Some(("cert-manager.io/inject-ca-from", format!("{namespace}/{}", certificate_name(deployment))))
        }
        CertificateProvider::OpenshiftServiceCa => {
            Some(("service.beta.openshift.io/inject-cabundle", "true".to_owned()))
        }
    }
}

/// The annotation of the webhook Service that has its certificate issued.
pub(crate) fn service_annotation(
    provider: CertificateProvider,
    deployment: &str,
) -> Option<(&'static str, String)> {
    (provider == CertificateProvider::OpenshiftServiceCa)
        .then(|| ("service.beta.openshift.io/serving-cert-secret-name", certificate_name(deployment)))
}

/// The objects that have the certificate issued.
pub(crate) fn objects(provider: CertificateProvider, namespace: &str, deployment: &str) -> Vec<Value> {
    if provider == CertificateProvider::CertManager {
        cert_manager(namespace, deployment)
    } else {
        Vec::new()
    }
}

fn dns_names(host: &str) -> [String; 3] {
    [host.to_owned(), format!("{host}.svc"), format!("{host}.svc.cluster.local")]
}

/// A certificate that rendered objects expect to find in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookCertificate {
    /// Namespace of Service and Secret.
    pub namespace: String,
    /// The Service that API servers reach the webhooks through.
    pub service: String,
    /// The Secret, of type `kubernetes.io/tls`, that the serving pods mount.
    pub secret: String,
    /// The names that the certificate is for.
    pub dns_names: Vec<String>,
}

/// The certificates that the Deployments among `objects` mount, sorted, each once.
///
/// Objects that are rendered for [`CertificateProvider::BuiltIn`] need exactly these; names are those that
/// cert-manager's rendering has.
pub fn webhook_certificates<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Vec<WebhookCertificate> {
    let deployments = objects
        .into_iter()
        .filter(|object| text(object, "/kind") == "Deployment" && text(object, "/apiVersion") == "apps/v1");
    let mut found: Vec<_> = deployments
        .filter_map(|deployment| {
            let name = text(deployment, "/metadata/name");
            let (namespace, secret) =
                (text(deployment, "/metadata/namespace").to_owned(), certificate_name(name));
            let volumes = deployment.pointer("/spec/template/spec/volumes").and_then(Value::as_array)?;
            if !volumes.iter().any(|volume| text(volume, "/secret/secretName") == secret) {
                return None;
            }
            let service = service_name(name);
            let dns_names = dns_names(&format!("{service}.{namespace}")).to_vec();
            Some(WebhookCertificate { namespace, service, secret, dns_names })
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn cert_manager(namespace: &str, deployment: &str) -> Vec<Value> {
    let service = service_name(deployment);
    let certificate = certificate_name(deployment);
    let issuer = object_name(&certificate, "selfsigned-issuer");
    let host = format!("{service}.{namespace}");
    let mut spec = json!({
        "dnsNames": dns_names(&host),
        "duration": "17520h0m0s",
        "issuerRef": {"name": issuer},
        "renewBefore": "24h0m0s",
        "secretName": certificate,
        "usages": ["server auth"],
    });
    // Upstream always writes it, and cert-manager then refuses the Certificate; clients read dnsNames.
    if host.len() <= COMMON_NAME_CHARS_MAX {
        spec["commonName"] = host.as_str().into();
    }
    vec![
        json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": {"name": issuer, "namespace": namespace},
            "spec": {"selfSigned": {}},
            "status": {},
        }),
        json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": {"name": certificate, "namespace": namespace},
            "spec": spec,
            "status": {},
        }),
    ]
}

/// A volume of the Secret in the serving Pods: name, mount path, and the file names of certificate and key.
pub(crate) type Volume = (&'static str, &'static str, &'static str, &'static str);

/// The volumes.
pub(crate) const VOLUMES: [Volume; 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
];

/// The order of the volumes, which differs between the generations of upstream: another one restarts Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeOrder {
    /// As OLM v1 has it.
    WebhookFirst,
    /// As OLM Classic has it.
    ApiServiceFirst,
}

impl VolumeOrder {
    pub(crate) fn volumes(self) -> [Volume; 2] {
        let [webhook, api_service] = VOLUMES;
        match self {
            Self::WebhookFirst => [webhook, api_service],
            Self::ApiServiceFirst => [api_service, webhook],
        }
    }
}
