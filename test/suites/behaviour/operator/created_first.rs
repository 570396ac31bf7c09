//! The CRDs of a first revision are created before everything else, without a dry run: all of them, or none.

use olm_test::{bundle::crd, prelude::*};

/// An operator with two CRDs, of which the second has this rule, and `small`'s ConfigMap.
fn operator(scenario: &Scenario<'_>, version: &str, rule: &str) -> Bundle {
    let properties = json!({"colour": {"type": "string", "x-kubernetes-validations": [{"rule": rule}]}});
    small(&format!("{}-op", scenario.name), version).brings(&scenario.group(), "Beacon").brings_with(
        &scenario.group(),
        "Lamp",
        &properties,
    )
}

/// What the ServiceAccount asked to create in dry runs, to create, and to delete.
fn asked(scenario: &Scenario<'_>) -> Result<[Vec<String>; 3]> {
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    let mut asked = [Vec::new(), Vec::new(), Vec::new()];
    for event in scenario.world.cluster.audit_events()? {
        let which = match event.verb.as_str() {
            _ if event.user != account || event.group == "authorization.k8s.io" => continue,
            "create" if event.is_dry_run() => 0,
            "create" => 1,
            "delete" => 2,
            _ => continue,
        };
        asked[which].push(event.resource);
    }
    Ok(asked)
}

const CRDS: &str = "customresourcedefinitions";

#[tokio::test(flavor = "multi_thread")]
async fn crds_of_a_first_revision_are_created_before_everything_else_without_a_dry_run() -> Result<()> {
    let scenario = Scenario::shared("crdsfirst").await?;
    scenario.offer(&[operator(&scenario, "1.0.0", "self != 'none'")]).await?;
    scenario.install(&format!("{}-op", scenario.name), json!({}), "1.0.0").await?;
    let [dry, created, deleted] = asked(&scenario)?;
    ensure!(dry == ["configmaps"], "{dry:?}");
    ensure!(created == [CRDS, CRDS, "configmaps"], "{created:?}");
    ensure!(deleted.is_empty(), "{deleted:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_bindings_do_not_wait_until_crds_are_served() -> Result<()> {
    let scenario = Scenario::shared("crdswait").await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[operator(&scenario, "1.0.0", "self != 'none'").deployment(true)]).await?;
    // A CRD whose kind another one of its group has is taken, but not served.
    let lights = format!("lights.{}", scenario.group());
    let mut other = crd(&scenario.group(), "Lamp", &json!({}));
    other["metadata"]["name"] = json!(lights);
    other["spec"]["names"] = json!({"plural": "lights", "kind": "Lamp"});
    scenario.world.cluster.apply_crds(vec![serde_json::from_value(other)?]).await?;

    scenario.create_extension(&package, json!({})).await?;
    let lamps = format!("lamps.{}", scenario.group());
    scenario.reports(Ready, |text| text.contains(&lamps)).await?;
    let [_, created, _] = asked(&scenario)?;
    let wanted = [CRDS, CRDS, "serviceaccounts", "configmaps", "clusterroles", "clusterrolebindings"];
    ensure!(created == wanted, "{created:?}");
    // They are the revision's, and go with it.
    scenario.uninstall().await?;

    scenario.crds().remove(&lights).await?;
    scenario.install(&package, json!({}), "1.0.0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crd_stays_when_the_api_server_refuses_one_of_them() -> Result<()> {
    let scenario = Scenario::shared("crdsnone").await?;
    let package = format!("{}-op", scenario.name);
    let versions = [("1.0.0", "self +"), ("1.0.1", "self != 'none'")];
    scenario.offer(&versions.map(|(version, rule)| operator(&scenario, version, rule))).await?;
    scenario.create_extension(&package, json!({"version": "1.0.0"})).await?;
    let refused = format!(
        "True/Retrying/Object CustomResourceDefinition.apiextensions.k8s.io/v1 lamps.{}: ",
        scenario.group()
    );
    scenario.shows(Progressing, &refused).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(scenario.world.cluster.client().await?);
    crds.gone(&format!("beacons.{}", scenario.group())).await?;
    // Later attempts ask first.
    wait::until("other attempts", DEADLINE, || async {
        let [dry, created, deleted] = asked(&scenario)?;
        ensure!(created == [CRDS, CRDS] && deleted == [CRDS], "{created:?} {deleted:?}");
        wait::check(dry.iter().filter(|resource| *resource == CRDS).count() >= 4, || format!("{dry:?}"))
    })
    .await?;
    scenario.shows(Progressing, &refused).await?;

    scenario.upgrade("1.0.1").await
}
