//! catalogd on its own, run against a cluster as an administrator would.

use crate::{
    instance::{Instance, Settings},
    kubectl::kubectl_with,
    operator::{GROUPS, install},
    prelude::*,
};

/// The user that a catalogd on its own is known as in the cluster.
pub const USER: &str = "system:serviceaccount:olmv1-system:catalogd-controller-manager";

/// A kubeconfig of its own account, with the permissions it has when installed on its own.
pub fn kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    cluster.kubeconfig_for(USER, &GROUPS)
}

/// Applies the permissions of its account, without its Pods.
pub(crate) fn install_permissions(cluster: &Cluster) -> Result<()> {
    let manifests = kubectl::config("catalogd/catalogd.yaml");
    let text = std::fs::read_to_string(&manifests).with_context(|| manifests.display().to_string())?;
    let objects = olm_yaml::documents(&text).collect::<Result<Vec<_>, _>>()?;
    let is_permission = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        kind == "ServiceAccount" || kind.ends_with("Role") || kind.ends_with("RoleBinding")
    };
    let permissions: Vec<Value> = objects.into_iter().filter(is_permission).collect();
    ensure!(
        permissions.len() == 5,
        "account, roles and bindings in {}: {permissions:?}",
        manifests.display()
    );
    let list = json!({"apiVersion": "v1", "kind": "List", "items": permissions}).to_string();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    kubectl_with(cluster, &apply, list.as_bytes()).map(drop)
}

impl Catalogd {
    /// Installs CRDs and permissions, then starts the program with exactly these.
    pub async fn start(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        install(cluster)?;
        Self::start_installed(cluster, settings).await
    }

    /// Starts the program where CRDs and permissions are installed already.
    pub async fn start_installed(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        let this = Self::begin(cluster, settings)?;
        this.ready().await?;
        Ok(this)
    }

    /// The same, without waiting for it to be ready.
    pub fn begin(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        let flags = |cache: &Path| vec![format!("--cache-dir={}", cache.display())];
        Instance::begin("catalogd", (&kubeconfig(cluster)?, SYSTEM_NAMESPACE), settings, flags).map(Self)
    }
}
