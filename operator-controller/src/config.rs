//! The settings of operator-controller.

use std::{path::PathBuf, time::Duration};

use olm_runtime::{AccountRef, FeatureGates, Terms};
use olm_semver::ReleaseSupport;
use thiserror::Error;

use crate::{
    content::RemoteCatalogd,
    webhook_certificates::{Candidates, ProviderSetting, Settings},
};

/// Extensions, and revisions, that are worked on at the same time unless a flag says otherwise.
pub const MAX_CONCURRENT_RECONCILES: u16 = 8;

/// Settings of an [`crate::Operator`], beside those that every process has.
#[derive(Clone)]
pub struct Config {
    /// Folder for bundles that were pulled; may be emptied at any time.
    pub cache_path: PathBuf,
    /// The catalogs' part; its cache lies in a folder of its own.
    pub catalogd: catalogd::Config,
    /// A catalogd on its own, whose content is used instead of that of the one in this process.
    pub remote_catalogd: Option<RemoteCatalogd>,
    /// Where catalog content is served: `host:port`, or `:port` for all interfaces.
    pub catalogs_address: String,
    /// Terms of the election, if there is one.
    pub terms: Terms,
    /// Account of extensions that name none, instead of the one that the settings' ConfigMap names.
    pub default_account: Option<AccountRef>,
    /// How long a catalog that has never been served keeps others of its priority or a lower one from being
    /// used.
    pub catalog_deadline: Duration,
    /// Feature gates.
    pub gates: Gates,
    /// Certificates of webhooks.
    pub webhook_certificates: Settings,
    /// Extensions worked on at the same time, and revisions likewise.
    pub max_concurrent_reconciles: u16,
}

/// Feature gates. The alpha ones of the original are on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a gate is on or off, and each has a name")]
pub struct Gates {
    single_own_namespace: bool,
    deployment_config: bool,
    bundle_release: bool,
    preflight_permissions: bool,
    cert_manager: bool,
    service_ca: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            single_own_namespace: true,
            deployment_config: true,
            bundle_release: true,
            preflight_permissions: true,
            cert_manager: true,
            service_ca: true,
        }
    }
}

/// Why `--feature-gates` was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// There is no gate of that name.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// The gate cannot be set to that value.
    #[error("feature gate {0}: {1}")]
    Fixed(&'static str, &'static str),
}

impl Gates {
    /// Applies `--feature-gates`, catalogd's gates included. `AllAlpha` is for those that can be on and off.
    ///
    /// # Errors
    /// A gate is unknown, or it cannot have that value.
    pub fn apply(&mut self, gates: &FeatureGates, catalogd: &mut catalogd::Config) -> Result<(), GateError> {
        if let Some(on) = gates.alpha() {
            (catalogd.metas, catalogd.graphql) = (on, on);
            self.single_own_namespace = on;
            self.deployment_config = on;
            self.bundle_release = on;
            self.preflight_permissions = on;
        }
        for (name, on) in gates.named() {
            match name {
                "SingleOwnNamespaceInstallSupport" => self.single_own_namespace = on,
                "DeploymentConfig" => self.deployment_config = on,
                "BundleReleaseSupport" => self.bundle_release = on,
                "PreflightPermissions" => self.preflight_permissions = on,
                "WebhookProviderCertManager" => self.cert_manager = on,
                "WebhookProviderOpenshiftServiceCA" => self.service_ca = on,
                "APIV1MetasHandler" => catalogd.metas = on,
                "GraphQLCatalogQueries" => catalogd.graphql = on,
                fixed => Self::check_fixed(fixed, on)?,
            }
        }
        Ok(())
    }

    /// What is always on, and what is never.
    fn check_fixed(name: &str, on: bool) -> Result<(), GateError> {
        match name {
            "BoxcutterRuntime" if on => Ok(()),
            "SyntheticPermissions" | "HelmChartSupport" if !on => Ok(()),
            "BoxcutterRuntime" => Err(GateError::Fixed(
                "BoxcutterRuntime",
                "revisions are the only runtime: remove the gate or set it to true",
            )),
            "SyntheticPermissions" => Err(GateError::Fixed(
                "SyntheticPermissions",
                "synthetic users are not supported: set spec.serviceAccount.name in the extension",
            )),
            "HelmChartSupport" => {
                Err(GateError::Fixed("HelmChartSupport", "Helm charts are not supported as bundles"))
            }
            other => Err(GateError::Unknown(other.to_owned())),
        }
    }

    /// How every gate of operator-controller stands, those that cannot be changed included.
    pub fn states(self) -> [(&'static str, bool); 9] {
        [
            ("SingleOwnNamespaceInstallSupport", self.single_own_namespace),
            ("DeploymentConfig", self.deployment_config),
            ("BundleReleaseSupport", self.bundle_release),
            ("PreflightPermissions", self.preflight_permissions),
            ("WebhookProviderCertManager", self.cert_manager),
            ("WebhookProviderOpenshiftServiceCA", self.service_ca),
            ("BoxcutterRuntime", true),
            ("SyntheticPermissions", false),
            ("HelmChartSupport", false),
        ]
    }

    /// Refuses a provider that its gate turns off.
    ///
    /// # Errors
    /// The gate's name and what to do.
    pub fn check_provider(self, provider: ProviderSetting) -> Result<(), GateError> {
        const CONTRADICTION: &str =
            "--webhook-certificate-provider selects this provider: turn the gate on or select another";
        match provider {
            ProviderSetting::CertManager if !self.cert_manager => {
                Err(GateError::Fixed("WebhookProviderCertManager", CONTRADICTION))
            }
            ProviderSetting::OpenshiftServiceCa if !self.service_ca => {
                Err(GateError::Fixed("WebhookProviderOpenshiftServiceCA", CONTRADICTION))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn features(self, setting: ProviderSetting) -> crate::cluster_extension::Features {
        crate::cluster_extension::Features {
            render: olm_render::Features {
                single_own_namespace_install_support: self.single_own_namespace,
                deployment_config: self.deployment_config,
            },
            releases: if self.bundle_release { ReleaseSupport::On } else { ReleaseSupport::Off },
            preflight_permissions: self.preflight_permissions,
            certificates: Candidates {
                setting,
                cert_manager: self.cert_manager,
                service_ca: self.service_ca,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> Result<(Gates, catalogd::Config), String> {
        let (mut gates, mut catalogd) = (Gates::default(), catalogd::Config::default());
        let asked = FeatureGates::parse(&[text]).map_err(|e| e.to_string())?;
        gates.apply(&asked, &mut catalogd).map_err(|e| e.to_string())?;
        Ok((gates, catalogd))
    }

    fn apply(text: &str) -> Result<Gates, String> {
        both(text).map(|(gates, _)| gates)
    }

    #[test]
    fn gates_are_set_by_name() {
        let gates = apply("DeploymentConfig=false, WebhookProviderCertManager=false").unwrap();
        assert!(!gates.deployment_config);
        let candidates = gates.features(ProviderSetting::Auto).certificates;
        assert_eq!((candidates.cert_manager, candidates.service_ca), (false, true));
        assert!(gates.check_provider(ProviderSetting::CertManager).is_err());
        assert!(gates.check_provider(ProviderSetting::OpenshiftServiceCa).is_ok());
        assert!(apply("BoxcutterRuntime=true,APIV1MetasHandler=true,SyntheticPermissions=false").is_ok());
        let catalogd = catalogd::Config::default();
        assert!(catalogd.metas && !catalogd.graphql, "GraphQL is asked for, /metas is not");
        let (_, catalogd) = both("APIV1MetasHandler=false,GraphQLCatalogQueries=true").unwrap();
        assert!(!catalogd.metas && catalogd.graphql);
    }

    #[test]
    fn all_alpha_gates_are_those_of_both_programs_that_are_not_named() {
        let on = |gates: Gates, catalogd: &catalogd::Config| -> Vec<&str> {
            let states = gates.states().into_iter().chain(catalogd.gates());
            states.filter(|(_, on)| *on).map(|(name, _)| name).collect()
        };
        let stable = ["WebhookProviderCertManager", "WebhookProviderOpenshiftServiceCA", "BoxcutterRuntime"];
        let (gates, catalogd) = both("AllAlpha=false,AllBeta=true").unwrap();
        assert_eq!(on(gates, &catalogd), stable, "revisions are no alpha here");
        let (gates, catalogd) = both("DeploymentConfig=true,GraphQLCatalogQueries=1,AllAlpha=false").unwrap();
        let named = [&["DeploymentConfig"][..], &stable, &["GraphQLCatalogQueries"]].concat();
        assert_eq!(on(gates, &catalogd), named);
        let (gates, catalogd) = both("AllAlpha=true,PreflightPermissions=false").unwrap();
        let shown = on(gates, &catalogd);
        assert_eq!(shown.len(), 8, "{shown:?}");
        assert!(!shown.contains(&"PreflightPermissions") && shown.contains(&"GraphQLCatalogQueries"));
        assert!(both("AllAlpha").is_err() && both("AllBeta=maybe").is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_sentence() {
        for (text, told) in [
            ("BoxcutterRuntime=false", "feature gate BoxcutterRuntime: revisions are the only runtime"),
            ("Nonsense=true", "unrecognized feature gate: Nonsense"),
            ("DeploymentConfig=maybe", "invalid value of feature gate \"DeploymentConfig=maybe\""),
            ("DeploymentConfig", "invalid value of feature gate \"DeploymentConfig\""),
        ] {
            let error = apply(text).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
