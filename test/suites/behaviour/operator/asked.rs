//! What administrators ask for by annotation: back to an earlier revision, and a pause.

use jiff::Timestamp;
use kube::api::GroupVersionKind;
use olm_api::names::{BUNDLE_REFERENCE, EXTENSIONS_PREFIX, ROLLED_BACK_TO_ANNOTATION};
use olm_test::prelude::*;

const KIND: &str = "Beacon";

/// An operator whose kind got a field more with 1.1.0, installed at 1.0.0.
async fn beacons_operator(
    base: &str,
    next: impl FnOnce(Bundle) -> Bundle,
) -> Result<(Scenario<'static>, String)> {
    let scenario = Scenario::shared(base).await?;
    let package = format!("{}-op", scenario.name);
    let first =
        small(&package, "1.0.0").brings_with(&scenario.group(), KIND, &json!({"colour": {"type": "string"}}));
    let second = small(&package, "1.1.0").replaces("1.0.0");
    let fields = json!({"colour": {"type": "string"}, "interval": {"type": "string"}});
    let second = next(second.brings_with(&scenario.group(), KIND, &fields));
    scenario.offer(&[first, second]).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    Ok((scenario, package))
}

fn beacons(scenario: &Scenario<'_>) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(&scenario.group(), "v1", KIND);
    let resource = ApiResource::from_gvk_with_plural(&gvk, "beacons");
    Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource)
}

/// Creates the user's object once the API server serves the newer form: until then it drops the newer field.
async fn create_beacon(scenario: &Scenario<'_>) -> Result<DynamicObject> {
    let object = json!({
        "apiVersion": format!("{}/v1", scenario.group()), "kind": KIND,
        "metadata": {"name": "north"}, "spec": {"colour": "red", "interval": "5s"},
    });
    let asked: DynamicObject = serde_json::from_value(object.clone())?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let answer = async || Ok(beacons(scenario).create(&dry_run, &asked).await?);
    eventually("the newer form to be served", answer, |answer| answer.data["spec"] == object["spec"]).await?;
    beacons(scenario).make(object).await
}

/// The CRD has the newer form.
async fn crd_is_newer(scenario: &Scenario<'_>) -> Result<()> {
    let crd = scenario.crds().get(&format!("beacons.{}", scenario.group())).await?;
    let schema = serde_json::to_string(&crd.spec.versions)?;
    ensure!(schema.contains("interval"), "the CRD is the older one: {schema}");
    ensure!(crd.annotations().get(BUNDLE_VERSION).map(String::as_str) == Some("1.1.0"), "{:?}", crd.metadata);
    ensure!(crd.metadata.deletion_timestamp.is_none());
    Ok(())
}

/// The CRD and the user's object are as they were, in the newer form.
async fn kept(scenario: &Scenario<'_>, beacon: &DynamicObject) -> Result<()> {
    crd_is_newer(scenario).await?;
    let found = beacons(scenario).get("north").await?;
    ensure!(found.uid() == beacon.uid(), "the user's object is another one");
    ensure!(found.data["spec"] == json!({"colour": "red", "interval": "5s"}), "{}", found.data);
    Ok(())
}

async fn data(scenario: &Scenario<'_>, package: &str) -> Result<String> {
    let map = scenario.maps().get(&format!("{package}-data")).await?;
    map.data.and_then(|data| data.get("data").cloned()).context("no data in the ConfigMap")
}

async fn sets_annotation(scenario: &Scenario<'_>, number: i64, name: &str) -> Result<Option<String>> {
    let set = scenario.sets().get(&format!("{}-{number}", scenario.name)).await?;
    Ok(set.annotations().get(name).cloned())
}

/// Waits until the conditions have all of this generation in them: the last edit has been dealt with.
async fn seen(scenario: &Scenario<'_>) -> Result<()> {
    eventually("the edit to be seen", async || scenario.shown().await, |shown| shown.generation_seen).await
}

async fn says(scenario: &Scenario<'_>, type_: olm_api::ConditionType, wanted: &[&str]) -> Result<()> {
    scenario.reports(type_, |found| wanted.iter().all(|wanted| found.contains(wanted))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_revision_comes_back_once_and_crds_stay() -> Result<()> {
    let (scenario, package) = beacons_operator("back", |next| next).await?;
    scenario.upgrade("1.1.0").await?;
    let beacon = create_beacon(&scenario).await?;

    scenario.annotate("rollback-to", json!("1")).await?;
    scenario.installed("1.0.0").await?;
    scenario.active(&[3]).await?;
    ensure!(data(&scenario, &package).await? == "1.0.0");
    kept(&scenario, &beacon).await?;
    let revision = scenario.revisions().await?.remove(0);
    let recorded = revision.annotations().get(ROLLED_BACK_TO_ANNOTATION).cloned();
    ensure!(recorded.as_deref() == Some("1"), "{recorded:?}");
    says(
        &scenario,
        Ready,
        &["True/Succeeded/", "Rolled back to revision 1, as ", "revision 3 was created for it"],
    )
    .await?;
    let image = revision.annotations().get(BUNDLE_REFERENCE).context("the bundle is not recorded")?;
    ensure!(sets_annotation(&scenario, 1, BUNDLE_REFERENCE).await?.as_ref() == Some(image));
    scenario.shows(Installed, &format!("True/Succeeded/Installed bundle {image} successfully")).await?;

    // Nothing is resolved while the annotation stands, and the request is not carried out again.
    scenario.set_version("1.1.x").await?;
    seen(&scenario).await?;
    scenario.installed("1.0.0").await?;
    scenario.active(&[3]).await?;

    // Without the annotation the resolution goes on, from the bundle that came back.
    scenario.annotate("rollback-to", Value::Null).await?;
    scenario.installed("1.1.0").await?;
    scenario.active(&[4]).await?;
    kept(&scenario, &beacon).await?;

    // The same request again is a new one. The spec may then ask for the same bundle without another revision.
    scenario.annotate("rollback-to", json!("1")).await?;
    scenario.installed("1.0.0").await?;
    scenario.active(&[5]).await?;
    scenario.set_version("1.0.0").await?;
    scenario.annotate("rollback-to", Value::Null).await?;
    scenario.reports(Ready, |ready| ready.starts_with("True/") && !ready.contains("Rolled back")).await?;
    scenario.active(&[5]).await?;
    kept(&scenario, &beacon).await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_revisions_with_content_come_back() -> Result<()> {
    let (scenario, package) = beacons_operator("choice", |next| next).await?;
    let annotation = format!("annotation \"{EXTENSIONS_PREFIX}rollback-to\": revision");
    let refused = |text: String| {
        format!(
            "False/Blocked/operation cannot proceed due to the following validation error(s): {annotation} {text}"
        )
    };
    scenario.annotate("rollback-to", json!("9")).await?;
    let text =
        "9 is not a revision of this extension; no other revision can be restored: remove the annotation";
    scenario.shows(Progressing, &refused(text.to_owned())).await?;
    says(&scenario, Stalled, &["True/Blocked/", &annotation]).await?;
    ensure!(scenario.shown().await?.condition(Installed).starts_with("True/Succeeded/"));

    scenario.annotate("rollback-to", json!("1")).await?;
    says(&scenario, Ready, &["True/", "rollback-to has no effect because revision 1 is the latest."]).await?;

    scenario.annotate("rollback-to", Value::Null).await?;
    scenario.upgrade("1.1.0").await?;
    scenario.annotate("rollback-to", json!("7")).await?;
    let one = format!("set it to one of 1 (bundle \"{package}.v1.0.0\"), or remove it");
    scenario.shows(Progressing, &refused(format!("7 is not a revision of this extension; {one}"))).await?;

    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let of_first = format!("olm.operatorframework.io/revision-name={}-1", scenario.name);
    secrets.delete_collection(&DeleteParams::default(), &ListParams::default().labels(&of_first)).await?;
    scenario.annotate("rollback-to", json!("1")).await?;
    scenario
        .shows(Progressing, &refused("1 cannot be restored because its content is missing (".into()))
        .await?;
    says(&scenario, Progressing, &["; no other revision can be restored: remove the annotation"]).await?;
    scenario.annotate("rollback-to", Value::Null).await?;
    scenario.installed("1.1.0").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_installed_comes_back_when_the_next_does_not_roll_out() -> Result<()> {
    let (scenario, package) = beacons_operator("stuck", |next| next.deployment(false)).await?;
    scenario.set_version("1.1.0").await?;
    scenario.active(&[1, 2]).await?;
    scenario.shows(Progressing, "True/RollingOut/Revision 1.1.0 is rolling out.").await?;
    let version = async || data(&scenario, &package).await;
    eventually("the ConfigMap to be handed over", version, |version| *version == "1.1.0").await?;
    let beacon = create_beacon(&scenario).await?;

    scenario.annotate("rollback-to", json!("1")).await?;
    scenario.active(&[3]).await?;
    scenario.installed("1.0.0").await?;
    ensure!(data(&scenario, &package).await? == "1.0.0");
    kept(&scenario, &beacon).await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_needs_the_rights_for_it() -> Result<()> {
    let scenario = Scenario::shared("backrights").await?;
    let package = format!("{}-op", scenario.name);
    let bundles = [small(&package, "1.0.0"), small(&package, "2.0.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.upgrade("2.0.0").await?;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(scenario.client.clone(), &scenario.name);
    let name = format!("{}-{}", scenario.name, ACCOUNT);
    let mut binding = bindings.get(&name).await?;
    bindings.remove(&name).await?;
    scenario.annotate("rollback-to", json!("1")).await?;
    let text = format!(
        "True/Retrying/error for resolved bundle \"{package}.v1.0.0\" with version \"1.0.0\": creating new Revision: pre-authorization failed: service account requires the following permissions to manage cluster extension:"
    );
    scenario.shows(Progressing, &text).await?;
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    bindings.make(&binding).await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await
}

async fn annotate_pause(scenario: &Scenario<'_>, value: Value) -> Result<()> {
    scenario.annotate("paused", value).await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_paused_nothing_new_comes_and_drift_is_repaired() -> Result<()> {
    let scenario = Scenario::shared("paused").await?;
    let package = format!("{}-op", scenario.name);
    let bundles = [small(&package, "1.0.0"), small(&package, "2.0.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;

    annotate_pause(&scenario, json!("true")).await?;
    let paused = format!(
        "Paused by the annotation {EXTENSIONS_PREFIX}paused until it is removed: upgrades stop, what is installed is still repaired."
    );
    says(&scenario, Ready, &["True/Succeeded/Revision 1.0.0 has rolled out.", &paused]).await?;
    scenario.set_version("2.0.0").await?;
    let waits =
        format!("Waiting for the end of the pause: bundle \"{package}.v2.0.0\" with version \"2.0.0\".");
    says(&scenario, Ready, &["True/Succeeded/", &paused, &waits]).await?;
    scenario.active(&[1]).await?;
    drift_is_repaired(&scenario, &package).await?;
    scenario.set_version("9.9.9").await?;
    says(
        &scenario,
        Ready,
        &["True/Succeeded/", "At the end of the pause this error will stop the roll-out: "],
    )
    .await?;
    scenario.set_version("2.0.0").await?;

    // A time ends the pause by itself.
    let end = Timestamp::now() + Duration::from_secs(30);
    annotate_pause(&scenario, json!(format!("{end:.0}"))).await?;
    says(&scenario, Ready, &["True/", &format!("{EXTENSIONS_PREFIX}paused until {end:.0}: upgrades stop")])
        .await?;
    scenario.installed("2.0.0").await?;
    scenario.active(&[2]).await?;
    let made = scenario.revisions().await?.remove(0).metadata.creation_timestamp.context("no time")?.0;
    ensure!(made.as_second() >= end.as_second(), "made at {made}, paused until {end}");
    let ready = scenario.shown().await?.condition(Ready);
    ensure!(!ready.contains("Paused"), "{ready}");

    // A way back waits as well.
    annotate_pause(&scenario, json!("true")).await?;
    scenario.annotate("rollback-to", json!("1")).await?;
    let waits = format!(
        "Waiting for the end of the pause: rollback to revision 1, as {EXTENSIONS_PREFIX}rollback-to asks."
    );
    says(&scenario, Ready, &["True/", &waits]).await?;
    scenario.active(&[2]).await?;
    annotate_pause(&scenario, Value::Null).await?;
    scenario.installed("1.0.0").await?;

    annotate_pause(&scenario, json!("true")).await?;
    says(&scenario, Ready, &["Paused by the annotation"]).await?;
    scenario.uninstall().await
}

async fn drift_is_repaired(scenario: &Scenario<'_>, package: &str) -> Result<()> {
    let name = format!("{package}-data");
    let before = scenario.maps().get(&name).await?.uid();
    scenario.maps().remove(&name).await?;
    wait::until("the ConfigMap to be back", DEADLINE, || async {
        let found = scenario.maps().get_opt(&name).await?;
        wait::check(found.is_some_and(|map| map.uid() != before), || "it is not".into())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_out_in_flight_goes_on_while_paused() -> Result<()> {
    let scenario = Scenario::shared("pausedflight").await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[small(&package, "1.0.0")]).await?;
    // Nothing is begun while paused.
    let paused = json!({"metadata": {"annotations": {format!("{EXTENSIONS_PREFIX}paused"): "true"}}});
    let mut extension: Value = scenario.extension_object(&package);
    extension["metadata"]["annotations"] = paused["metadata"]["annotations"].clone();
    scenario.extensions().make(extension).await?;
    let text = format!(
        "False/Blocked/paused by the annotation {EXTENSIONS_PREFIX}paused: nothing is installed before the pause ends"
    );
    scenario.shows(Progressing, &text).await?;
    scenario.shows(Installed, "False/Failed/No bundle installed").await?;
    says(&scenario, Ready, &["False/Blocked/", "Waiting for the end of the pause: bundle"]).await?;
    ensure!(scenario.revisions().await?.is_empty());

    // An object of somebody else stands in the way of the roll-out, until the pause has begun.
    let name = format!("{package}-data");
    let foreign = json!({"metadata": {"name": name}, "data": {"owner": "somebody"}});
    scenario.maps().make(foreign).await?;
    // Nothing is installed whose deadline or repair would wake the extension when the time has come.
    let end = Timestamp::now() + Duration::from_secs(5);
    annotate_pause(&scenario, json!(format!("{end:.0}"))).await?;
    says(&scenario, Progressing, &["True/Retrying/revision object collisions in phase"]).await?;
    annotate_pause(&scenario, json!("true")).await?;
    says(&scenario, Ready, &["False/", "Paused by the annotation"]).await?;
    scenario.maps().remove(&name).await?;
    scenario.installed("1.0.0").await?;
    scenario.active(&[1]).await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_are_checked_before_they_are_stored() -> Result<()> {
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "notes").await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[small(&package, "1.0.0")]).await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let cases = [
        ("pause", "true", "is not supported by this version: remove it"),
        (
            "paused",
            "yes",
            "cannot be \"yes\": set it to \"true\" or a time such as \"2030-01-31T08:00:00Z\", or remove it",
        ),
        ("paused", "2030-01-31", "cannot be \"2030-01-31\": set it to \"true\" or a time"),
        ("rollback-to", "0", "cannot be \"0\": set it to the number of a revision, or remove it"),
        ("rollback-to", "notes-1", "cannot be \"notes-1\": set it to the number"),
        ("major-updates", "block", "cannot be \"block\": set it to \"Block\", or remove it"),
        (
            "dependencies",
            "",
            "cannot be \"\": set it to \"Refuse\" or \"Install\" or \"InstallAndRemove\", or remove it",
        ),
        ("same-catalog", "required", "cannot be \"required\": set it to \"Required\", or remove it"),
    ];
    // The API server takes a moment until it asks a new policy.
    wait::until("the policy to be asked", DEADLINE, async || {
        let told = scenario.annotate("pause", json!("true")).await;
        scenario.annotate("pause", Value::Null).await?;
        wait::check(told.is_err(), || "an unknown annotation was accepted".to_owned())
    })
    .await?;
    for (name, value, wanted) in cases {
        let told = scenario.annotate(name, json!(value)).await.err().map(|e| format!("{e:#}"));
        let wanted = format!("annotation \"{EXTENSIONS_PREFIX}{name}\" {wanted}");
        ensure!(told.as_ref().is_some_and(|told| told.contains(&wanted)), "wanted {wanted:?}, got {told:?}");
    }
    for (name, value) in
        [("paused", "2020-01-31T08:00:00.5+02:00"), ("major-updates", "Block"), ("reinstall", "a")]
    {
        scenario.annotate(name, json!(value)).await.with_context(|| format!("{name}: {value}"))?;
        scenario.annotate(name, Value::Null).await?;
    }
    old_values_pass(&scenario).await
}

/// What got in before the policy stays changeable and deletable, and is told where it stands.
async fn old_values_pass(scenario: &Scenario<'_>) -> Result<()> {
    let name = "clusterextension-annotations.olm.operatorframework.io";
    let bindings: Api<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding> =
        Api::all(scenario.client.clone());
    let mut binding = bindings.get(name).await?;
    bindings.remove(name).await?;
    wait::until("the policy to be off", DEADLINE, || async {
        scenario.annotate("paused", json!("sometimes")).await
    })
    .await?;
    let absent = format!(
        "ValidatingAdmissionPolicyBinding {name:?} is absent: until the manifests are applied again, annotations of ClusterExtensions are not checked before they are stored."
    );
    says(scenario, Ready, &["False/", &absent]).await?;
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    bindings.make(&binding).await?;
    wait::until("the policy to be on", DEADLINE, || async {
        let told = scenario.annotate("rollback-to", json!("x")).await.err().map(|e| format!("{e:#}"));
        scenario.annotate("rollback-to", Value::Null).await?;
        ensure!(told.as_ref().is_some_and(|told| told.contains("cannot be")), "{told:?}");
        Ok(())
    })
    .await?;
    let blocked = format!(
        "False/Blocked/operation cannot proceed due to the following validation error(s): annotation \"{EXTENSIONS_PREFIX}paused\" cannot be \"sometimes\": set it to"
    );
    scenario.shows(Progressing, &blocked).await?;
    // Another edit passes with the old value in place, and so does the controller's finalizer.
    scenario.set_version("1.0.0").await?;
    scenario.annotate("major-updates", json!("Block")).await?;
    scenario.uninstall().await
}
