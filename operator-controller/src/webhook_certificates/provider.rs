//! Which provider makes the certificates of a new revision.

use std::time::Duration;

use olm_render::CertificateProvider;
use olm_runtime::{Discovery, DiscoveryError};

/// Life of a built-in certificate, the one that cert-manager's rendering asks for: two years.
const LIFETIME: Duration = Duration::from_hours(17_520);

/// What the administrator says about providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// The provider for a new revision.
///
/// # Errors
/// The API server could not be asked what it serves.
pub(crate) async fn choose(
    candidates: Candidates,
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
        (candidates.cert_manager, "cert-manager.io/v1", "Certificate", CertificateProvider::CertManager),
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
