//! The chart as a release: installed, upgraded, uninstalled.

use olm_test::{helm::helm, prelude::*};

use crate::installed::{catalogs_can_be_created, own_cluster};
use crate::rendering::{config_arg, run};

const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Helm's own files, none of which shall be the user's.
    home: tempfile::TempDir,
}

impl Helm {
    /// Helm as the administrator of a cluster.
    pub(crate) fn of(cluster: &Cluster) -> Result<Self> {
        Ok(Self { program: helm()?, kubeconfig: cluster.kubeconfig_admin(), home: tempfile::tempdir()? })
    }

    pub(crate) fn run(&self, args: &[&str]) -> Result<String> {
        let home = self.home.path();
        let folder = |name: &str| -> PathBuf { Path::join(home, name) };
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig).env("HELM_CACHE_HOME", folder("cache"));
        command.env("HELM_CONFIG_HOME", folder("config")).env("HELM_DATA_HOME", folder("data"));
        run(command.args(args))
    }
}

#[tokio::test]
async fn a_release_is_upgraded_and_leaves_extensions_in_place_when_uninstalled() -> Result<()> {
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    let helm = Helm::of(&cluster)?;
    let chart = config_arg("helm/olmv1");
    helm.run(&["install", "olmv1", &chart, "--namespace=default"])?;
    kubectl::deployed(&cluster, SYSTEM_NAMESPACE, "operator-controller-controller-manager", 2).await?;
    catalogs_can_be_created(&cluster)?;
    let uid = kubectl::get(&cluster, &["clustercatalog", "operatorhubio"])?["metadata"]["uid"].clone();

    let replicas = "--set=options.operatorController.deployment.replicas=1";
    helm.run(&["upgrade", "olmv1", &chart, "--namespace=default", replicas])?;
    kubectl::deployed(&cluster, SYSTEM_NAMESPACE, "operator-controller-controller-manager", 1).await?;
    // A node with the only pod can be drained.
    wait::until("the budget to let the only pod go", DEADLINE, async || {
        let budget =
            kubectl::get(&cluster, &["pdb", "operator-controller-controller-manager", "-n=olmv1-system"])?;
        let status = &budget["status"];
        wait::check(status["disruptionsAllowed"] == 1 && status["expectedPods"] == 1, || status.to_string())
    })
    .await?;

    helm.run(&["uninstall", "olmv1", "--namespace=default", "--wait"])?;
    let catalog = kubectl::get(&cluster, &["clustercatalog", "operatorhubio"])?;
    assert_eq!(catalog["metadata"]["uid"], uid);
    assert!(catalog["metadata"]["deletionTimestamp"].is_null());
    let namespace = kubectl::get(&cluster, &["namespace", "olmv1-system"])?;
    assert!(namespace["metadata"]["deletionTimestamp"].is_null(), "the content of revisions lies there");
    let left = kubectl(&cluster, &["get", "deployments", "-n=olmv1-system", "-o=name"])?;
    assert_eq!(left, "", "the programs are gone");

    // What was kept is taken up again.
    helm.run(&["install", "olmv1", &chart, "--namespace=default"])?;
    kubectl::deployed(&cluster, SYSTEM_NAMESPACE, "operator-controller-controller-manager", 2).await?;

    // docs/migrate.md: without its record the release is nobody's, and the objects stay until a chart takes them.
    kubectl(&cluster, &["delete", "secrets", "-n=default", "-l=owner=helm,name=olmv1"])?;
    assert!(helm.run(&["uninstall", "olmv1", "--namespace=default"]).is_err(), "helm knows the release");
    kubectl::deployed(&cluster, SYSTEM_NAMESPACE, "operator-controller-controller-manager", 2).await?;
    helm.run(&["install", "another", &chart, "--namespace=default", "--take-ownership"])?;
    let catalog = kubectl::get(&cluster, &["clustercatalog", "operatorhubio"])?;
    assert_eq!(catalog["metadata"]["uid"], uid);
    Ok(())
}
