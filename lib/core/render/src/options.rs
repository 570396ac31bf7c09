//! The choices of the user and of the administrator about a rendering.

use serde_json::Value;

/// The inputs of a rendering besides the bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The namespace the operator runs in (`spec.namespace`).
    pub install_namespace: String,
    /// `spec.config.inline`; absent means none was given.
    pub config: Option<Value>,
    /// Who makes the certificates of webhooks.
    pub certificate_provider: CertificateProvider,
    /// The alpha features that matter here.
    pub features: Features,
}

impl CertificateProvider {
    /// The name of the provider in flags and annotations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CertManager => "cert-manager",
            Self::OpenshiftServiceCa => "openshift-service-ca",
            Self::BuiltIn => "built-in",
        }
    }

    /// The provider of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        [Self::None, Self::CertManager, Self::OpenshiftServiceCa, Self::BuiltIn]
            .into_iter()
            .find(|provider| provider.as_str() == name)
    }
}

impl Options {
    /// No configuration, cert-manager, all features.
    pub fn new(install_namespace: impl Into<String>) -> Self {
        Self {
            install_namespace: install_namespace.into(),
            config: None,
            certificate_provider: CertificateProvider::CertManager,
            features: Features::default(),
        }
    }
}

/// Who issues webhook certificates and injects their CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateProvider {
    /// No provider: bundles with webhooks are refused.
    None,
    /// cert-manager.io: an Issuer and a Certificate for each Deployment that serves webhooks.
    #[default]
    CertManager,
    /// OpenShift's service CA operator: annotations only.
    OpenshiftServiceCa,
    /// The program that applies the objects: only the volumes of the serving Deployments are rendered, the Secrets
    /// of [`crate::webhook_certificates`] and the `caBundle`s are written separately.
    BuiltIn,
}

/// Alpha features, on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// `SingleOwnNamespaceInstallSupport`: bundles without the install mode AllNamespaces.
    pub single_own_namespace_install_support: bool,
    /// `DeploymentConfig`: the configuration's `deploymentConfig`.
    pub deployment_config: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { single_own_namespace_install_support: true, deployment_config: true }
    }
}
