//! Flags and environment, with upstream's names where upstream has them.

use std::{net::IpAddr, path::PathBuf};

use catalogd::ServingFlags;
use clap::{Parser, ValueEnum};
use jiff::SignedDuration;
use olm_classic_core::{
    resolve::Scope,
    source::{pod::Settings, target::PodPolicy},
};
use olm_registry::Proxy;
use olm_runtime::{FeatureGates, FlagError, Process, ProcessFlags, log_gates};
use tokio_util::sync::CancellationToken;

use crate::{Classic, ClassicError, Role, Roles, program::Config, sources};

/// The default address of metrics.
const METRICS_ADDRESS: &str = ":8443";
/// The default address of the content of ClusterCatalogs.
const CATALOGS_ADDRESS: &str = ":8444";

/// Serves the APIs of OLM Classic.
#[derive(Debug, Clone, Parser)]
#[command(name = "olm-classic", version, disable_version_flag = true, args_override_self = true)]
pub struct Command {
    /// Flags that every program has.
    #[command(flatten)]
    pub process: ProcessFlags,
    /// The part that this process is [default: all].
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Namespace of the catalogs that every namespace sees.
    #[arg(long, alias = "global-namespace", env = "GLOBAL_CATALOG_NAMESPACE", default_value = "olm")]
    namespace: String,
    /// Folder for the content of catalogs.
    #[arg(long, default_value = "/var/cache/olm-classic")]
    cache_dir: PathBuf,
    /// Address of this Pod, which Services of catalogs lead to; without it they have no endpoints.
    #[arg(long, env = "POD_IP")]
    registry_advertise_address: Option<IpAddr>,
    /// HTTP proxy to registry servers, for all hosts but those of the variable NO_PROXY; it resolves their names.
    #[arg(long, env = "GRPC_PROXY")]
    grpc_proxy: Option<String>,
    /// When the image of a catalog runs in a Pod although its content can be read: annotated (when the annotation
    /// olm.classic/serve is Pod), configured (also when grpcPodConfig says how it runs) or always.
    #[arg(long, value_enum, default_value = "annotated")]
    catalog_pods: CatalogPods,
    /// Image with the server of extracted catalog content, for Pods with extractContent.
    #[arg(long, alias = "opmImage", default_value = "quay.io/operator-framework/opm:latest")]
    opm_image: String,
    /// Image with the program that extracts catalog content, for Pods with extractContent.
    #[arg(long, alias = "util-image", default_value = "quay.io/operator-framework/olm:latest")]
    extract_image: String,
    /// Run restricted Pods of catalogs as user 1001.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    set_workload_user_id: bool,
    /// What is resolved together: related (Subscriptions that share a candidate, a package or a kind) or namespace (all
    /// Subscriptions of a namespace, as upstream does).
    #[arg(long, value_enum, default_value = "related", ignore_case = true)]
    resolution: Resolution,
    /// How long a bundle may take to be pulled (0s: any time), unless the annotation operatorframework.io/bundle-unpack-timeout
    /// of its OperatorGroup says otherwise.
    #[arg(long, default_value = "10m", value_parser = duration)]
    bundle_unpack_timeout: SignedDuration,
    /// How long errors of an InstallPlan are tried again before it has failed; it is tried later all the same, less often.
    #[arg(long, default_value = "1m", value_parser = duration)]
    install_plan_retry_timeout: SignedDuration,
    /// Address of the API of PackageManifests, which kube-apiserver forwards requests to.
    #[arg(long, default_value = ":5443")]
    packages_bind_address: String,
    /// Address of the registry API (gRPC) of all catalogs that are served without a Pod.
    #[arg(long, default_value = ":50051")]
    registry_bind_address: String,
    /// Most MiB of memory for the content of the catalogs of one namespace. Those of --namespace are not limited.
    #[arg(long, default_value_t = 32)]
    namespace_memory_limit: u32,
    /// Serve ClusterCatalogs too, in place of catalogd: content that catalogs of both kinds have is pulled and kept once.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    cluster_catalogs: bool,
    /// For --cluster-catalogs.
    #[command(flatten)]
    serving: ServingFlags,
}

/// When the image of a catalog runs in a Pod although its content can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CatalogPods {
    Annotated,
    Configured,
    Always,
}

impl From<CatalogPods> for PodPolicy {
    fn from(pods: CatalogPods) -> Self {
        match pods {
            CatalogPods::Annotated => Self::Annotated,
            CatalogPods::Configured => Self::Configured,
            CatalogPods::Always => Self::Always,
        }
    }
}

/// What is resolved together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Resolution {
    Related,
    Namespace,
}

impl From<Resolution> for Scope {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Related => Self::Related,
            Resolution::Namespace => Self::Namespace,
        }
    }
}

impl Command {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ClassicError> {
        let (spool, cluster_catalogs) = (self.cache_dir.join("spool"), self.cluster_catalogs()?);
        let proxy = proxy(self.grpc_proxy.as_deref())?;
        let roles = Roles::new(self.role);
        let settings = self.process.settings("olm-classic", METRICS_ADDRESS, spool).await?;
        let process = Process::new(settings, &shutdown)?;
        let config = Config {
            roles,
            global_namespace: self.namespace,
            cache_dir: self.cache_dir,
            advertised: self.registry_advertise_address,
            sources: sources::Options {
                // The port is known when the server listens.
                advertised: None,
                pods: self.catalog_pods.into(),
                proxy,
                system_namespace: process.namespace().to_owned(),
                beside_cluster_catalogs: cluster_catalogs.is_some(),
                pod_settings: Settings {
                    opm_image: self.opm_image,
                    util_image: self.extract_image,
                    set_user: self.set_workload_user_id,
                    restricted: false,
                },
            },
            scope: self.resolution.into(),
            unpack_timeout: self.bundle_unpack_timeout,
            plan_retry_timeout: self.install_plan_retry_timeout,
            packages_address: self.packages_bind_address,
            registry_address: self.registry_bind_address,
            namespace_memory: (self.namespace_memory_limit as usize) << 20,
            cluster_catalogs,
        };
        Box::pin(Classic::new(config, process)?.run()).await
    }

    /// The settings of catalogd in this process, and the address of its content.
    fn cluster_catalogs(&self) -> Result<Option<(catalogd::Config, String)>, FlagError> {
        if !self.cluster_catalogs {
            return Ok(None);
        }
        if !Roles::new(self.role).has(Role::Catalog) {
            return Err(FlagError::of("--cluster-catalogs needs the role catalog, or all of them"));
        }
        let mut config = self.serving.config(self.cache_dir.clone()).map_err(FlagError::of)?;
        let gates = FeatureGates::parse(&self.process.feature_gates).map_err(FlagError::of)?;
        config.apply_feature_gates(&gates).map_err(FlagError::of)?;
        log_gates(config.gates());
        Ok(Some((config, self.serving.address(CATALOGS_ADDRESS).to_owned())))
    }
}

/// A length of time.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let parsed = text.parse::<SignedDuration>().ok().filter(|parsed| !parsed.is_negative());
    parsed.ok_or_else(|| format!("{text:?} is not a duration: write for instance 90s, 15m or 12h"))
}

/// The proxy at an address, if there is one.
fn proxy(address: Option<&str>) -> Result<Option<Proxy>, FlagError> {
    let Some(address) = address.filter(|address| !address.is_empty()) else { return Ok(None) };
    let no = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| std::env::var(name).ok());
    match Proxy::new(address, &no.unwrap_or_default()) {
        Some(proxy) => Ok(Some(proxy)),
        // It may hold a password.
        None => Err(FlagError::of("--grpc-proxy (GRPC_PROXY) is not the address of a proxy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_one_of_three() {
        let parsed = |flags: &[&str]| Command::try_parse_from(["olm-classic"].iter().chain(flags));
        assert_eq!(parsed(&[]).unwrap().role, None);
        assert_eq!(parsed(&["--role=packages"]).unwrap().role, Some(Role::Packages));
        assert!(parsed(&["--role=catalogd"]).is_err());
        assert_eq!(parsed(&["--namespace=catalogs"]).unwrap().namespace, "catalogs");
    }
}
