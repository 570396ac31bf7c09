//! Which provider makes the certificates of a new revision.

use std::{sync::Arc, time::Duration};

use clap::ValueEnum;
use olm_bundle::{BundleFiles, defines_crd};
use olm_render::CertificateProvider;
use olm_runtime::{Discovery, DiscoveryError};

/// Life of a built-in certificate, the one that cert-manager's rendering asks for: two years.
const LIFETIME: Duration = Duration::from_hours(17_520);

/// What the administrator says about providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ProviderSetting {
    /// cert-manager or OpenShift's service CA where the cluster has their kinds, else the built-in provider.
    #[default]
    Auto,
    /// Always cert-manager.
    CertManager,
    /// Always OpenShift's service CA.
    OpenshiftServiceCa,
    /// Always the built-in provider.
    BuiltIn,
}

/// Settings of webhook certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Who makes them.
    pub provider: ProviderSetting,
    /// Life of what the built-in provider makes; renewed when a third of it is left.
    pub lifetime: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { provider: ProviderSetting::Auto, lifetime: LIFETIME }
    }
}

/// The setting with what the feature gates leave of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidates {
    pub(crate) setting: ProviderSetting,
    pub(crate) cert_manager: bool,
    pub(crate) service_ca: bool,
}

/// The CRD that cert-manager brings.
const CERTIFICATES: &str = "certificates.cert-manager.io";

/// The provider for a new revision of the bundle in `files`, which reading may take `memory` bytes for. cert-manager itself does not wait for what only it can
/// make: an upgrade whose webhook does not answer would never heal.
///
/// # Errors
/// The API server could not be asked what it serves.
pub(crate) async fn choose(
    candidates: Candidates,
    files: &Arc<BundleFiles>,
    memory: usize,
    discovery: &Discovery,
) -> Result<CertificateProvider, DiscoveryError> {
    match candidates.setting {
        ProviderSetting::CertManager => return Ok(CertificateProvider::CertManager),
        ProviderSetting::OpenshiftServiceCa => return Ok(CertificateProvider::OpenshiftServiceCa),
        ProviderSetting::BuiltIn => return Ok(CertificateProvider::BuiltIn),
        ProviderSetting::Auto => {}
    }
    // The kinds that say a provider is there; cert-manager goes first, as upstream has it.
    for (on, api_version, kind, provider) in [
        (
            candidates.cert_manager && !brings_cert_manager(files, memory).await,
            "cert-manager.io/v1",
            "Certificate",
            CertificateProvider::CertManager,
        ),
        (
            candidates.service_ca,
            "operator.openshift.io/v1",
            "ServiceCA",
            CertificateProvider::OpenshiftServiceCa,
        ),
    ] {
        if !on {
            continue;
        }
        match discovery.kind(api_version, kind).await {
            Ok(_) => return Ok(provider),
            Err(DiscoveryError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(CertificateProvider::BuiltIn)
}

/// Whether a bundle brings cert-manager's CRD; reading it is work for a thread of its own.
async fn brings_cert_manager(files: &Arc<BundleFiles>, memory: usize) -> bool {
    let files = Arc::clone(files);
    let read = tokio::task::spawn_blocking(move || defines_crd(&files, CERTIFICATES, memory));
    read.await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use olm_bundle::MEMORY_BYTES_MAX;

    use super::*;

    #[test]
    fn only_who_brings_the_kind_is_the_provider() {
        let mut files = BundleFiles::new();
        let csv = format!("kind: ClusterServiceVersion\nspec: {{required: [{{name: {CERTIFICATES}}}]}}\n");
        files.insert("manifests/csv.yaml", csv);
        files.insert("manifests/broken.yaml", format!("{{{CERTIFICATES}"));
        assert!(!defines_crd(&files, CERTIFICATES, MEMORY_BYTES_MAX));
        let crd = format!(
            "kind: ConfigMap\n---\nkind: CustomResourceDefinition\nmetadata: {{name: {CERTIFICATES}}}\n"
        );
        files.insert("manifests/crd.yaml", crd);
        assert!(defines_crd(&files, CERTIFICATES, MEMORY_BYTES_MAX));
        assert!(!defines_crd(&files, CERTIFICATES, 100), "there is no memory to read it");
    }
}
