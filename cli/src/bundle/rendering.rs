//! Flags for the rendering of a bundle.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use olm_render::{CertificateProvider, Options, Rendered, webhook_certificates};
use serde_json::{Value, json};

use crate::sources::read_limited;

/// Largest configuration in bytes; the API server takes no larger object.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The settings of an extension for its bundle.
#[derive(Debug, Clone, Args)]
pub(super) struct Rendering {
    /// Namespace the operator is installed into
    #[arg(long, short = 'n', value_name = "NAMESPACE")]
    pub(super) install_namespace: String,
    /// Namespace for the operator to watch, for bundles that do not support all namespaces
    #[arg(long, value_name = "NAMESPACE", conflicts_with = "config")]
    watch_namespace: Option<String>,
    /// File with the extension's spec.config.inline
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Provider of webhook certificates; on a cluster without cert-manager and OpenShift's service CA the controller
    /// uses built-in. With none, bundles with webhooks are rejected
    #[arg(long, value_parser = provider(), default_value = "cert-manager")]
    certificate_provider: CertificateProvider,
}

fn provider() -> impl TypedValueParser<Value = CertificateProvider> {
    let names = ["cert-manager", "openshift-service-ca", "built-in", "none"];
    PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "openshift-service-ca" => CertificateProvider::OpenshiftServiceCa,
        "built-in" => CertificateProvider::BuiltIn,
        "none" => CertificateProvider::None,
        _ => CertificateProvider::CertManager,
    })
}

impl Rendering {
    /// The renderer's options.
    ///
    /// # Errors
    /// The configuration cannot be read.
    pub(super) fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options::new(&self.install_namespace);
        options.certificate_provider = self.certificate_provider;
        if let Some(path) = &self.config {
            let bytes = read_limited(path, CONFIG_BYTES_MAX)?;
            let config = olm_yaml::text(&bytes).and_then(olm_yaml::one);
            options.config = Some(config.with_context(|| path.display().to_string())?);
        }
        if let Some(namespace) = &self.watch_namespace {
            options.config = Some(json!({"watchNamespace": namespace}));
        }
        Ok(options)
    }
}

/// Everything the ServiceAccount of an extension writes: the rendered objects, and the Secrets of the built-in provider.
pub(super) fn written(rendered: Rendered) -> Vec<Value> {
    let mut objects = rendered.objects;
    if rendered.certificate_provider == Some(CertificateProvider::BuiltIn) {
        let secrets: Vec<_> = webhook_certificates(&objects)
            .into_iter()
            .map(|certificate| {
                json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": certificate.secret, "namespace": certificate.namespace},
                })
            })
            .collect();
        objects.extend(secrets);
    }
    objects
}
