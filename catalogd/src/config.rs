//! The settings of catalogd.

use std::{path::PathBuf, time::Duration};

use olm_runtime::FeatureGates;
use thiserror::Error;

/// The gate of `/metas`.
const METAS_GATE: &str = "APIV1MetasHandler";
/// The gate of `/graphql`.
const GRAPHQL_GATE: &str = "GraphQLCatalogQueries";

/// Settings of a [`crate::Catalogd`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where content is kept; survives restarts.
    pub cache_dir: PathBuf,
    /// `host[:port]` in the addresses that statuses name.
    pub external_address: String,
    /// Whether the addresses are `https`.
    pub tls: bool,
    /// Whether `/metas` is served.
    pub metas: bool,
    /// Whether `/graphql` is served.
    pub graphql: bool,
    /// Time between two garbage collections.
    pub gc_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_dir: "/var/cache/catalogd".into(),
            external_address: "catalogd-service.olmv1-system.svc".into(),
            tls: true,
            metas: true,
            graphql: false,
            gc_interval: Duration::from_hours(12),
        }
    }
}

impl Config {
    /// The base of all catalogs' addresses, without a slash at the end.
    pub(crate) fn base_url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}/catalogs", self.external_address)
    }

    /// The names that clients call the catalog server by.
    pub fn serving_names(&self) -> Vec<String> {
        let host = self.external_address.split(':').next().unwrap_or_default();
        let mut names = vec![host.to_owned(), "localhost".to_owned()];
        if host.rsplit('.').next() == Some("svc") {
            names.push(format!("{host}.cluster.local"));
        }
        names.dedup();
        names
    }

    /// Applies `--feature-gates`.
    pub fn apply_feature_gates(&mut self, gates: &FeatureGates) -> Result<(), ConfigError> {
        if let Some(on) = gates.alpha() {
            (self.metas, self.graphql) = (on, on);
        }
        for (name, on) in gates.named() {
            match name {
                METAS_GATE => self.metas = on,
                GRAPHQL_GATE => self.graphql = on,
                other => return Err(ConfigError::UnknownGate { name: other.to_owned() }),
            }
        }
        Ok(())
    }

    /// The state of every gate.
    pub fn gates(&self) -> [(&'static str, bool); 2] {
        [(METAS_GATE, self.metas), (GRAPHQL_GATE, self.graphql)]
    }
}

/// Why settings were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No duration.
    #[error("invalid value {0:?} of gc-interval, want a duration like 12h")]
    GcInterval(String),
    /// There is no gate of that name.
    #[error("unrecognized feature gate: {name}")]
    UnknownGate {
        /// The name given.
        name: String,
    },
}
