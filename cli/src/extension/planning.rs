//! Plans of revisions before a command asks for them.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use kube::Config;
use olm_api::v1::{ClusterExtension, ClusterExtensionConfig};
use operator_controller::{
    Gates,
    plan::{NewRevision, Planner, Surroundings},
};
use tempfile::TempDir;

use crate::{
    catalogs::Access,
    cluster::catalogs::ClusterCatalogs,
    output::refusal,
    sources::{Registries, read_limited},
};

/// Largest configuration in bytes; the API server takes no larger object.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// What a plan is made with.
#[derive(Debug, Clone, Args)]
pub(crate) struct Planning {
    /// Feature gates of the controller, if they differ from the defaults
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", value_parser = gates)]
    feature_gates: Gates,
    #[command(flatten)]
    access: Access,
}

fn gates(text: &str) -> Result<Gates, String> {
    let mut gates = Gates::default();
    // Those of catalogd change nothing about a plan.
    let asked = olm_runtime::FeatureGates::parse(&[text]).map_err(|e| e.to_string())?;
    gates.apply(&asked, &mut catalogd::Config::default()).map_err(|e| e.to_string())?;
    Ok(gates)
}

/// A planner, with the folder that its bundles are in.
pub(crate) struct Plans {
    pub(crate) planner: Planner,
    pub(crate) catalogs: Arc<ClusterCatalogs>,
    _folder: TempDir,
}

impl Planning {
    /// How registries are reached.
    pub(crate) fn registries(&self) -> &Registries {
        &self.access.registries
    }

    /// A planner for the cluster. `checks_dependencies`: without what a bundle requires there is no plan.
    pub(crate) async fn plans(&self, cluster: &Config, checks_dependencies: bool) -> anyhow::Result<Plans> {
        let folder = tempfile::tempdir().context("creating a folder for bundles")?;
        let catalogs = Arc::new(ClusterCatalogs::of(cluster, &self.access).await?);
        let planner = Planner::new(Surroundings {
            cluster: cluster.clone(),
            puller: self.access.registries.puller_or_offline()?,
            catalogs: catalogs.clone(),
            folder: folder.path().to_owned(),
            system_namespace: self.access.system_namespace.clone(),
            gates: self.feature_gates,
            checks_dependencies,
        })?;
        Ok(Plans { planner, catalogs, _folder: folder })
    }
}

/// Fails with what blocks a plan, which has been shown.
pub(crate) fn check_blocked(name: &str, blocked: &[String]) -> anyhow::Result<()> {
    if blocked.is_empty() {
        return Ok(());
    }
    Err(refusal(format!("{name}: nothing was changed, because the plan is blocked: {}", blocked.join("; "))))
}

/// The configuration in a file.
pub(crate) fn inline(path: &Path) -> anyhow::Result<ClusterExtensionConfig> {
    let bytes = read_limited(path, CONFIG_BYTES_MAX)?;
    let config =
        olm_yaml::text(&bytes).and_then(olm_yaml::one).with_context(|| path.display().to_string())?;
    Ok(ClusterExtensionConfig { inline: Some(config), ..ClusterExtensionConfig::default() })
}

/// The version range of an extension.
pub(crate) fn version_of(extension: &ClusterExtension) -> Option<&str> {
    extension.spec.source.catalog.as_ref()?.version.as_deref()
}

/// The name of the bundle that a revision installs.
pub(crate) fn bundle_of(revision: &NewRevision) -> String {
    revision.plan.resolution.known().map_or_else(String::new, |chosen| chosen.bundle.clone())
}
