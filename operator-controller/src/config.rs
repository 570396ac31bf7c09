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

/// The gates that can be on and off, in the order of [`Gates`]; those that are alpha upstream come first.
const GATES: [&str; 6] = [
    "SingleOwnNamespaceInstallSupport",
    "DeploymentConfig",
    "BundleReleaseSupport",
    "PreflightPermissions",
    "WebhookProviderCertManager",
    "WebhookProviderOpenshiftServiceCA",
];
/// How many of them are alpha.
const ALPHA: usize = 4;
/// The gates that have one value, and why.
const FIXED: [(&str, bool, &str); 3] = [
    ("BoxcutterRuntime", true, "revisions are the only runtime: remove the gate or set it to true"),
    (
        "SyntheticPermissions",
        false,
        "synthetic users are not supported: set spec.serviceAccount.name in the extension",
    ),
    ("HelmChartSupport", false, "Helm charts are not supported as bundles"),
];

/// Feature gates. Upstream's alpha ones are on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates([bool; GATES.len()]);

impl Default for Gates {
    fn default() -> Self {
        Self([true; GATES.len()])
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
            self.0[..ALPHA].fill(on);
        }
        for (name, on) in gates.named() {
            let own = GATES.iter().zip(&mut self.0).find(|(gate, _)| **gate == name);
            match (name, own, FIXED.iter().find(|(gate, ..)| *gate == name)) {
                ("APIV1MetasHandler", ..) => catalogd.metas = on,
                ("GraphQLCatalogQueries", ..) => catalogd.graphql = on,
                (_, Some((_, gate)), _) => *gate = on,
                (_, _, Some((_, value, _))) if on == *value => {}
                (_, _, Some((gate, _, why))) => return Err(GateError::Fixed(gate, why)),
                (_, _, None) => return Err(GateError::Unknown(name.to_owned())),
            }
        }
        Ok(())
    }

    /// The state of every gate of operator-controller, those that cannot be changed included.
    pub fn states(self) -> impl Iterator<Item = (&'static str, bool)> {
        GATES.into_iter().zip(self.0).chain(FIXED.map(|(gate, value, _)| (gate, value)))
    }

    /// Refuses a provider that its gate turns off.
    ///
    /// # Errors
    /// The gate's name and what to do.
    pub fn check_provider(self, provider: ProviderSetting) -> Result<(), GateError> {
        const CONTRADICTION: &str =
            "--webhook-certificate-provider selects this provider: turn the gate on or select another";
        let [.., cert_manager, service_ca] = self.0;
        let gate = match provider {
            ProviderSetting::CertManager if !cert_manager => "WebhookProviderCertManager",
            ProviderSetting::OpenshiftServiceCa if !service_ca => "WebhookProviderOpenshiftServiceCA",
            _ => return Ok(()),
        };
        Err(GateError::Fixed(gate, CONTRADICTION))
    }

    pub(crate) fn features(self, setting: ProviderSetting) -> crate::cluster_extension::Features {
        let [own_namespace, deployment_config, releases, preflight_permissions, cert_manager, service_ca] =
            self.0;
        crate::cluster_extension::Features {
            render: olm_render::Features {
                single_own_namespace_install_support: own_namespace,
                deployment_config,
            },
            releases: if releases { ReleaseSupport::On } else { ReleaseSupport::Off },
            preflight_permissions,
            certificates: Candidates { setting, cert_manager, service_ca },
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
        assert!(!gates.features(ProviderSetting::Auto).render.deployment_config);
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
            let states = gates.states().chain(catalogd.gates());
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
