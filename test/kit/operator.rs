//! Our program, run against a cluster as an administrator would: CRDs and permissions applied, then started.

use crate::{
    catalogd,
    instance::{Instance, Settings},
    kubectl::config,
    prelude::*,
};

/// The user that the program is known as in the cluster.
pub const USER: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";
/// What a kubelet gives the program to end: `terminationGracePeriodSeconds` of its Deployment.
pub const GRACE: Duration = Duration::from_secs(40);
/// The namespace of its Secrets and leases.
pub const SYSTEM_NAMESPACE: &str = "olmv1-system";
/// Groups of that user.
pub const GROUPS: [&str; 3] =
    ["system:serviceaccounts", "system:serviceaccounts:olmv1-system", "system:authenticated"];

impl Operator {
    /// Installs CRDs and permissions, then starts the program with exactly these.
    pub async fn start(site: &Site, flags: &[&str]) -> Result<Self> {
        Self::start_as(site, &kubeconfig(&site.cluster)?, flags).await
    }

    /// The same, with a kubeconfig that leads to the cluster in some other way, through a proxy for instance.
    pub async fn start_as(site: &Site, kubeconfig: &Path, flags: &[&str]) -> Result<Self> {
        install(&site.cluster)?;
        Self::start_with(kubeconfig, &site.images.settings(flags)).await
    }

    /// Starts the program where CRDs and permissions are installed already.
    pub async fn start_installed(site: &Site, flags: &[&str]) -> Result<Self> {
        Self::start_installed_with(&site.cluster, &site.images.settings(flags)).await
    }

    /// The same, with variables of its environment; one of them names the registries configuration.
    pub async fn start_installed_with(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        Self::start_with(&kubeconfig(cluster)?, settings).await
    }

    async fn start_with(kubeconfig: &Path, settings: &Settings) -> Result<Self> {
        let flags = |cache: &Path| {
            let folder = |name: &str| cache.join(name).display().to_string();
            vec![format!("--cache-path={}", folder("bundles")), format!("--cache-dir={}", folder("catalogs"))]
        };
        let this =
            Self(Instance::begin("operator-controller", (kubeconfig, SYSTEM_NAMESPACE), settings, flags)?);
        this.ready().await?;
        Ok(this)
    }
}

/// A kubeconfig of the program's own account, with the permissions it has when installed.
pub fn kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    cluster.kubeconfig_for(USER, &GROUPS)
}

/// Applies the generated CRDs, permissions and admission policies with kubectl, as an administrator does.
pub fn install(cluster: &Cluster) -> Result<()> {
    for part in ["crd", "rbac", "admission"] {
        let folder = config(part).display().to_string();
        kubectl(cluster, &["apply", "--server-side", "--force-conflicts", "-k", &folder])?;
    }
    catalogd::install_permissions(cluster)?;
    kubectl(cluster, &["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])?;
    cluster.show_kinds_to_collector()
}

/// Replaces the permissions with those of an overlay of `config/overlays`.
pub fn overlay(cluster: &Cluster, name: &str) -> Result<()> {
    let role = config("overlays").join(name).join("cluster-role.patch.yaml");
    kubectl(cluster, &["apply", "--server-side", "--force-conflicts", "-f", &role.display().to_string()])?;
    Ok(())
}
