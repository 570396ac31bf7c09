//! install.yaml on a cluster that has nothing.

use olm_test::prelude::*;

use crate::rendering::{ACCOUNT, config_arg};

const DEADLINE: Duration = Duration::from_mins(2);

/// A control plane of one's own, unless tests run on a given cluster, in which nothing is installed.
pub(crate) async fn own_cluster() -> Result<Option<Cluster>> {
    if skip_on_given_cluster() {
        return Ok(None);
    }
    Ok(Some(Cluster::start(Options::default()).await?))
}

/// Whether a user may do something, as the API server's authorizers see it.
pub(crate) fn may(cluster: &Cluster, user: &str, verb: &str, resource: &str) -> bool {
    let user = format!("--as={user}");
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let subresource = format!("--subresource={subresource}");
    let told = kubectl(cluster, &["auth", "can-i", verb, resource, &subresource, &user]);
    told.is_ok_and(|told| told.lines().last() == Some("yes"))
}

/// What each write changes: the generation of objects that have one, else the resourceVersion.
fn versions(cluster: &Cluster) -> Result<Vec<(String, Value)>> {
    let list = kubectl::get(cluster, &["-f", &config_arg("install.yaml")])?;
    let items = list["items"].as_array().context("items")?;
    let version = |object: &Value| {
        let metadata = &object["metadata"];
        let generation = &metadata["generation"];
        let version = if generation.is_null() { &metadata["resourceVersion"] } else { generation };
        (format!("{} {}", object["kind"], metadata["name"]), version.clone())
    };
    Ok(items.iter().map(version).collect())
}

#[tokio::test]
async fn one_apply_installs_everything_and_a_second_one_changes_nothing() -> Result<()> {
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    let install = config_arg("install.yaml");
    kubectl(&cluster, &["apply", "--server-side", "-f", &install])?;
    // Its pods pass restricted Pod Security, which the namespace enforces.
    kubectl::deployed(&cluster, SYSTEM_NAMESPACE, "operator-controller-controller-manager", 2).await?;
    let before = versions(&cluster)?;
    kubectl(&cluster, &["apply", "--server-side", "-f", &install])?;
    assert_eq!(before, versions(&cluster)?);
    assert!(before.len() > 30, "{before:?}");

    let namespace = kubectl::get(&cluster, &["namespace", "olmv1-system"])?;
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    wait::until("the budget to let a pod go", DEADLINE, async || {
        let budget =
            kubectl::get(&cluster, &["pdb", "operator-controller-controller-manager", "-n=olmv1-system"])?;
        wait::check(budget["status"]["disruptionsAllowed"] == 1, || budget["status"].to_string())
    })
    .await?;

    catalogs_can_be_created(&cluster)?;
    people_get_roles(&cluster).await?;
    rights_are_those_of_the_table(&cluster);
    the_other_layout_goes_over_it(&cluster).await
}

/// The default catalogs, which come after the CRDs.
pub(crate) fn catalogs_can_be_created(cluster: &Cluster) -> Result<()> {
    kubectl(cluster, &["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])?;
    kubectl(cluster, &["apply", "-f", &config_arg("default-catalogs.yaml")])?;
    kubectl::get(cluster, &["clustercatalog", "operatorhubio"]).map(drop)
}

/// The cluster's own roles take ours in.
async fn people_get_roles(cluster: &Cluster) -> Result<()> {
    for (user, role) in [("vera", "view"), ("ed", "edit"), ("ada", "admin")] {
        kubectl(
            cluster,
            &[
                "create",
                "clusterrolebinding",
                user,
                &format!("--clusterrole={role}"),
                &format!("--user={user}"),
            ],
        )?;
    }
    wait::until("roles to be aggregated", DEADLINE, async || {
        wait::check(may(cluster, "ed", "create", "clusterextensions"), || {
            "edit lacks extensions".to_owned()
        })?;
        wait::check(may(cluster, "ada", "create", "clustercatalogs"), || "admin lacks catalogs".to_owned())
    })
    .await?;
    for (user, verb, resource, allowed) in [
        ("vera", "list", "clusterextensions", true),
        ("vera", "list", "clusterobjectsets", true),
        ("vera", "update", "clusterextensions", false),
        ("ed", "create", "clustercatalogs", false),
        ("ed", "update", "clusterobjectsets", false),
        ("ada", "update", "clusterobjectsets", false),
    ] {
        assert_eq!(may(cluster, user, verb, resource), allowed, "{user} {verb} {resource}");
    }
    Ok(())
}

/// Neither the wildcard nor what only cluster-admin has.
pub(crate) fn rights_are_those_of_the_table(cluster: &Cluster) {
    for (verb, resource) in
        [("*", "*"), ("create", "pods"), ("get", "nodes"), ("create", "clusterrolebindings")]
    {
        assert!(!may(cluster, ACCOUNT, verb, resource), "the program's account may {verb} {resource}");
    }
    assert!(may(cluster, ACCOUNT, "update", "clusterextensions/status"), "not even what it needs");
}

/// Two Deployments over one, and back.
async fn the_other_layout_goes_over_it(cluster: &Cluster) -> Result<()> {
    kubectl(cluster, &["apply", "--server-side", "-k", &config_arg("overlays/split")])?;
    kubectl::deployed(cluster, SYSTEM_NAMESPACE, "catalogd-controller-manager", 2).await?;
    let selector = |service: &Value| service["spec"]["selector"]["app.kubernetes.io/name"].clone();
    let service = ["service", "catalogd-service", "-n=olmv1-system"];
    assert_eq!(selector(&kubectl::get(cluster, &service)?), json!("catalogd"));
    kubectl(cluster, &["apply", "--server-side", "-f", &config_arg("install.yaml")])?;
    kubectl::deployed(cluster, SYSTEM_NAMESPACE, "catalogd-controller-manager", 0).await?;
    assert_eq!(selector(&kubectl::get(cluster, &service)?), json!("operator-controller"));
    Ok(())
}
