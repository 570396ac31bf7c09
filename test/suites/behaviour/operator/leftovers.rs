//! What an upstream installation left behind, and what the program says at its start where it may not look for it.
//!
//! Control planes of their own: leases and permissions are everybody's.

use k8s_openapi::api::{
    coordination::v1::Lease,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use olm_test::{
    operator::{GRACE, install},
    prelude::*,
};

const CATALOGS_LEASE: &str = "catalogd-operator-lock";
/// Upstream's name for it, and ours.
const CATALOGD: &str = "catalogd-controller-manager";
const LEFT_BEHIND: &str = "left behind by an earlier installation";
const TERMS: [&str; 2] = ["--leader-elect", "--leader-elect-retry-period=1s"];

async fn logged(operator: &Operator, parts: &[&str]) -> Result<()> {
    wait::until(&format!("a line of the log with {parts:?}"), DEADLINE, async || {
        operator.process().check_running()?;
        let log = operator.process().log();
        let says = |line: &str| parts.iter().all(|part| line.contains(part));
        wait::check(log.lines().any(says), || operator.process().log_tail())
    })
    .await
}

/// The permissions of some manifests that are not ours: one of the kinds may not be looked at.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_looked_for_is_said_with_the_remedy() -> Result<()> {
    const KIND: &str = "mutatingwebhookconfigurations";
    let site = Site::start().await?;
    install(&site.cluster)?;
    let client = site.cluster.client().await?;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let mut withheld = 0;
    for mut role in roles.all().await? {
        let is_ours = role.name_any().starts_with("operator-controller");
        for rule in role.rules.iter_mut().flatten().filter(|_| is_ours) {
            let before = rule.resources.clone();
            rule.resources.iter_mut().for_each(|all| all.retain(|resource| resource != KIND));
            withheld += usize::from(rule.resources != before);
        }
        if is_ours {
            roles.replace(&role.name_any(), &PostParams::default(), &role).await?;
        }
    }
    ensure!(withheld > 0, "no role of ours names {KIND}");
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "operator-controller-cluster-admin-rolebinding"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}],
    }))?;
    Api::all(client).create(&PostParams::default(), &binding).await?;

    let operator = Operator::start_installed(&site, &[]).await?;
    let remedy = "this program runs without the permissions of its manifests: apply config/install.yaml";
    let unknown = "could not check for leftovers of an earlier installation";
    logged(&operator, &[unknown, remedy, KIND, "cannot list resource"]).await?;
    // What may be looked for is found all the same.
    logged(&operator, &[LEFT_BEHIND, "operator-controller-cluster-admin-rolebinding"]).await
}

async fn holder(leases: &Api<Lease>) -> Result<String> {
    let spec = leases.get_opt(CATALOGS_LEASE).await?.and_then(|lease| lease.spec);
    Ok(spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
}

/// Whoever only swaps the image of operator-controller keeps upstream's separate catalogd, which runs and holds its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_separate_catalogd_that_runs_is_named_and_its_lease_is_waited_for() -> Result<()> {
    let site = Site::start().await?;
    install(&site.cluster)?;
    let client = site.cluster.client().await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let labels = json!({"control-plane": CATALOGD});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": CATALOGD},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "localhost/olmv1/catalogd:0.1.0"}]},
        }},
    }))?;
    let deployments: Api<Deployment> = Api::namespaced(client, SYSTEM_NAMESPACE);
    deployments.make(&deployment).await?;
    let other = Catalogd::start_installed(&site.cluster, &site.images.settings(&TERMS[..1])).await?;
    let theirs = wait::until("the separate catalogd to lead", DEADLINE, async || {
        let holder = holder(&leases).await?;
        wait::check(!holder.is_empty(), || "nobody holds the lease".into())?;
        Ok(holder)
    })
    .await?;

    let world = World { operator: Operator::start_installed(&site, &TERMS).await?, proxy: None, site };
    let remedy = "which scales it to 0 replicas";
    logged(&world.operator, &[LEFT_BEHIND, CATALOGD, "apply config/install.yaml", remedy]).await?;
    // Its catalogs are theirs, and extensions are worked on here.
    let scenario = Scenario::new(&world, "separate").await?;
    scenario.offer(&[small("lamp", "1.0.0")]).await?;
    scenario.install("lamp", json!({}), "1.0.0").await?;
    ensure!(holder(&leases).await? == theirs, "the lease was taken from a process that runs");
    other.process().check_running()?;

    // What the manifests do: it ends, and the catalogs are looked after here.
    deployments.remove(CATALOGD).await?;
    other.process().terminate(GRACE).await.context("ending the other catalogd")?;
    wait::until("the lease to be taken", DEADLINE, async || {
        world.operator.process().check_running()?;
        let holder = holder(&leases).await?;
        wait::check(!holder.is_empty() && holder != theirs, || holder)
    })
    .await?;
    scenario.remove_extension(&scenario.name).await
}
