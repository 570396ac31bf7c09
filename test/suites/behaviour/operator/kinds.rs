//! Objects of kinds that the cluster does not serve.

use kube::core::GroupVersionKind;
use olm_test::{bundle::open_crd, prelude::*};

const LEFT_OUT: &str = "extensions.olm.operatorframework.io/left-out";

fn object(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "mine"}, "spec": {"selector": {}}})
}

fn objects(scenario: &Scenario<'_>, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource)
}

/// Grants everything about one more resource in the scenario's namespace.
async fn grant(scenario: &Scenario<'_>, group: &str, resource: &str) -> Result<()> {
    let account = "monitors";
    scenario.account_for(account, &[group], &[resource]).await?;
    // The same role, bound to the account that installs.
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(scenario.client.clone(), &scenario.name);
    let name = format!("{}-{account}", scenario.name);
    let subjects =
        json!({"subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": scenario.name}]});
    bindings.merge(&name, &subjects).await?;
    Ok(())
}

async fn set(scenario: &Scenario<'_>) -> Result<ClusterObjectSet> {
    scenario.revisions().await?.pop().context("no revision")
}

/// Waits until the object is there, or is not.
async fn appears(api: &Api<DynamicObject>, there: bool) -> Result<()> {
    let found = async || Ok(api.get_opt("mine").await?.is_some());
    eventually("the object of the kind that came", found, |found| *found == there).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_an_optional_kind_is_left_out_and_applied_when_its_kind_arrives() -> Result<()> {
    let scenario = Scenario::shared("monitor").await?;
    let (group, kind) = ("monitoring.rhobs", "ServiceMonitor");
    let bundle = small("watched", "1.0.0").ships(object("monitoring.rhobs/v1", kind));
    scenario.offer(&[bundle]).await?;
    grant(&scenario, group, "servicemonitors").await?;
    scenario.install("watched", json!({}), "1.0.0").await?;
    let told = format!(
        "Left out because the cluster does not serve their kinds, and applied once it does: ServiceMonitor.{group}/v1 {}/mine.",
        scenario.name
    );
    let ready_tells = async |wanted: bool| {
        scenario.reports(Ready, |ready| ready.contains(&told) == wanted && ready.starts_with("True/")).await
    };
    ready_tells(true).await?;
    let before = set(&scenario).await?;
    let recorded = format!("[\"ServiceMonitor.{group}/v1 {}/mine\"]", scenario.name);
    ensure!(before.annotations().get(LEFT_OUT) == Some(&recorded), "{:?}", before.annotations());
    let content: usize = before.spec.phases.iter().map(|phase| phase.objects.len()).sum();
    ensure!(content == 2, "the content holds both objects: {:?}", before.spec.phases);

    let pid = scenario.world.operator.process().pid();
    let name = scenario.crds().make(&open_crd(group, kind)).await?.name_any();
    let monitors = objects(&scenario, group, kind);
    appears(&monitors, true).await?;
    ready_tells(false).await?;
    let after = set(&scenario).await?;
    ensure!(after.uid() == before.uid() && after.spec.revision == 1, "another revision was made");
    ensure!(!after.annotations().contains_key(LEFT_OUT), "{:?}", after.annotations());
    ensure!(scenario.world.operator.process().pid() == pid, "the program was started again");
    // It is repaired like everything else.
    monitors.remove("mine").await?;
    appears(&monitors, true).await?;

    // The kind goes again: that is no failure either.
    scenario.crds().remove(&name).await?;
    ready_tells(true).await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_for_what_was_left_out_are_checked_when_its_kind_arrives() -> Result<()> {
    let scenario = Scenario::shared("monitor-rights").await?;
    let (group, kind) = ("monitoring.rhobs", "PodMonitor");
    let bundle = small("watched", "1.0.0").ships(object("monitoring.rhobs/v1", kind));
    scenario.offer(&[bundle]).await?;
    scenario.install("watched", json!({}), "1.0.0").await?;
    let name = scenario.crds().make(&open_crd(group, kind)).await?.name_any();
    scenario
        .shows(
            Progressing,
            "True/Retrying/pre-authorization failed: service account requires the following permissions",
        )
        .await?;
    let told = scenario.shown().await?.condition(Progressing);
    ensure!(told.contains("Resources:[podmonitors]"), "{told}");
    ensure!(scenario.shown().await?.condition(Installed).starts_with("True/"), "no longer installed");
    grant(&scenario, group, "podmonitors").await?;
    appears(&objects(&scenario, group, kind), true).await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await?;
    scenario.crds().remove(&name).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_unknown_kind_blocks_and_names_who_brings_it() -> Result<()> {
    let scenario = Scenario::shared("lacking").await?;
    let group = scenario.group();
    let version = format!("{group}/v1");
    let bundles = [
        small("needy", "1.0.0").ships(object(&version, "PodMonitor")),
        small("bringer", "2.0.0").brings(&group, "PodMonitor"),
    ];
    scenario.offer(&bundles).await?;
    grant(&scenario, &group, "podmonitors").await?;
    scenario.create_extension("needy", json!({})).await?;
    let text = format!(
        "True/Retrying/error for resolved bundle \"needy.v1.0.0\" with version \"1.0.0\": creating new Revision: \
         Object PodMonitor.{version} {}/mine: no matches for kind \"PodMonitor\" in version \"{version}\"",
        scenario.name
    );
    scenario.shows(Progressing, &text).await?;
    let wanted = format!("It would be met by package bringer 2.0.0 (catalog {})", scenario.name);
    scenario.reports(Stalled, |stalled| stalled.contains(&wanted)).await?;
    let name = scenario.crds().make(&open_crd(&group, "PodMonitor")).await?.name_any();
    scenario.installed("1.0.0").await?;
    ensure!(objects(&scenario, &group, "PodMonitor").get_opt("mine").await?.is_some(), "not applied");
    scenario.delete_extension().await?;
    scenario.crds().remove(&name).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_definition_is_in_the_same_phase_is_waited_for() -> Result<()> {
    let scenario = Scenario::shared("same-phase").await?;
    let group = scenario.group();
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.permit(&small("none", "1.0.0").brings(&group, "Beacon")).await?;
    grant(&scenario, &group, "beacons").await?;
    let mut beacon = object(&format!("{group}/v1"), "Beacon");
    beacon["metadata"]["namespace"] = scenario.name.as_str().into();
    scenario.make_set(&json!([{"object": beacon}, {"object": open_crd(&group, "Beacon")}])).await?;
    scenario.set_succeeds(&scenario.name).await?;
    let archived = json!({"spec": {"lifecycleState": LifecycleState::Archived}});
    scenario.sets().merge(&scenario.name, &archived).await?;
    scenario.crds().gone(&format!("beacons.{group}")).await?;
    scenario.sets().remove(&scenario.name).await?;
    Ok(())
}
