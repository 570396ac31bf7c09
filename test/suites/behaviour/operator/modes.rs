//! Install modes and configuration, from the extension's spec to what runs.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use olm_test::{
    bundle::{IMAGE, deployment, reads_config_maps},
    prelude::*,
};

/// An operator with rules in the namespaces that it watches.
fn bundle(name: &str, modes: &[&str]) -> Bundle {
    let mut deployment = deployment(name, IMAGE);
    deployment["spec"]["template"]["spec"]["serviceAccountName"] = name.into();
    Bundle::new(name, "1.0.0")
        .modes(modes)
        .rules("permissions", &name.into(), &reads_config_maps())
        .workload(deployment)
}

/// A catalog with a bundle of these modes, and an account that may do everything.
async fn scenario(base: &str, modes: &[&str]) -> Result<Scenario<'static>> {
    let scenario = Scenario::shared(base).await?;
    let folder = tempfile::tempdir()?;
    bundle(&scenario.name, modes).write(folder.path())?;
    let reference = scenario.push(&scenario.name, &[("1.0.0", folder.path().to_owned())], "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.allow_everything().await?;
    scenario.catalog_serves().await?;
    scenario.create_extension(&scenario.name, json!({})).await?;
    Ok(scenario)
}

async fn configure(scenario: &Scenario<'_>, inline: Value) -> Result<()> {
    let config = json!({"configType": "Inline", "inline": inline});
    scenario.patch_extension(json!({"spec": {"config": Value::Null}})).await?;
    scenario.patch_extension(json!({"spec": {"config": config}})).await
}

/// Waits until the Deployment is told these namespaces.
async fn watches(scenario: &Scenario<'_>, namespaces: &str) -> Result<Deployment> {
    let api: Api<Deployment> = Api::namespaced(scenario.client.clone(), &scenario.name);
    wait::until(&format!("the operator to watch {namespaces:?}"), DEADLINE, || async {
        let found = api.get(&scenario.name).await?;
        let template = found.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        let told = template.and_then(|m| m.annotations.as_ref()).and_then(|a| a.get("olm.targetNamespaces"));
        ensure!(told.map(String::as_str) == Some(namespaces), "it watches {told:?}");
        Ok(found)
    })
    .await
}

/// The namespaces in which the operator has a Role, and whether it has a ClusterRole.
async fn roles(scenario: &Scenario<'_>) -> Result<(Vec<String>, bool)> {
    let mine =
        ListParams::default().labels(&format!("olm.operatorframework.io/owner-name={}", scenario.name));
    let roles: Api<Role> = Api::all(scenario.client.clone());
    let cluster: Api<ClusterRole> = Api::all(scenario.client.clone());
    let namespaces = roles.list(&mine).await?.items.iter().filter_map(ResourceExt::namespace).collect();
    Ok((namespaces, !cluster.list(&mine).await?.items.is_empty()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_goes_through_all_install_modes() -> Result<()> {
    let scenario = scenario("modes", &["AllNamespaces", "OwnNamespace", "SingleNamespace"]).await?;
    scenario.installed("1.0.0").await?;
    watches(&scenario, "").await?;
    assert_eq!(roles(&scenario).await?, (vec![], true));

    let other = format!("{}-watched", scenario.name);
    scenario.world.cluster.create_namespace(&other).await?;
    for namespace in [&scenario.name, &other] {
        let env = json!([{"name": "FROM", "value": namespace}]);
        configure(&scenario, json!({"watchNamespace": namespace, "deploymentConfig": {"env": env}})).await?;
        let deployment = watches(&scenario, namespace).await?;
        let containers = &serde_json::to_value(&deployment)?["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["env"], env);
        let found = async || roles(&scenario).await;
        eventually("the roles to follow", found, |found| *found == (vec![namespace.clone()], false)).await?;
        scenario.installed("1.0.0").await?;
    }
    scenario.delete_extension().await
}
