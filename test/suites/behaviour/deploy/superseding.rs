//! install.yaml over what upstream left, however that was applied.

use olm_test::{
    prelude::*,
    upstream::{dump, list_file, objects},
};

use crate::installed::{catalogs_can_be_created, own_cluster, rights_are_those_of_the_table};
use crate::rendering::{ACCOUNT, config_arg};

#[tokio::test]
async fn what_upstream_leaves_behind_does_no_harm() -> Result<()> {
    let Some(dump) = dump() else { return Ok(()) };
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    let upstream = objects(&dump)?;
    let list = list_file(&upstream)?;
    let upstream_list = list.path().display().to_string();
    // CRDs and the namespace stay between two rounds: deleting them takes minutes and shows nothing.
    let without_namespace = list_file(&upstream[1..])?;
    let leftovers = without_namespace.path().display().to_string();
    let install = config_arg("install.yaml");
    let (client_side, server_side) =
        (&["apply", "-f"][..], &["apply", "--server-side", "--force-conflicts", "-f"][..]);
    let helm = &["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f"][..];
    for theirs in [client_side, server_side, helm] {
        for ours in [client_side, server_side] {
            println!("upstream by {theirs:?}, ours by {ours:?}");
            kubectl(&cluster, &[theirs, &[&upstream_list]].concat())?;
            kubectl(&cluster, &[ours, &[&install]].concat())?;
            nothing_of_upstreams_is_in_force(&cluster).await?;
            for manifest in [&config_arg("default-catalogs.yaml"), &leftovers] {
                kubectl(&cluster, &["delete", "--ignore-not-found", "--timeout=120s", "-f", manifest])?;
            }
        }
    }
    Ok(())
}

async fn nothing_of_upstreams_is_in_force(cluster: &Cluster) -> Result<()> {
    // Upstream's webhook fails closed and nobody answers there.
    catalogs_can_be_created(cluster)?;
    rights_are_those_of_the_table(cluster);
    let bindings = kubectl::get(cluster, &["clusterrolebindings,rolebindings", "-A"])?;
    let ours: Vec<&Value> = bindings["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|binding| {
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            subjects
                .into_iter()
                .any(|subject| ACCOUNT.ends_with(&format!(":{}", subject["name"].as_str().unwrap_or("?"))))
        })
        .map(|binding| &binding["metadata"]["name"])
        .collect();
    assert_eq!(ours, ["operator-controller-manager-rolebinding"; 2], "no right but those of the table");
    let warning = kubectl::get(
        cluster,
        &["validatingadmissionpolicybinding", "clusterextension-serviceaccount-deprecated"],
    )?;
    assert_eq!(warning["spec"]["policyName"], "none.olm.operatorframework.io");
    kubectl::deployed(cluster, SYSTEM_NAMESPACE, "catalogd-controller-manager", 0).await?;
    kubectl::deployed(cluster, SYSTEM_NAMESPACE, "operator-controller-controller-manager", 2).await
}
