//! What an extension shows, row by row: conditions with reason and text, and what its revisions are like.

pub(crate) mod refused;
pub(crate) mod written;

use olm_api::{
    ConditionType::{BundleDeprecated, ChannelDeprecated, Deprecated, PackageDeprecated},
    names::{BUNDLE_REFERENCE, BUNDLE_RELEASE, REVISION_NAME_LABEL},
};
use olm_test::prelude::*;

/// A condition and what it is to be: `Status/Reason/Message`, whole.
type Row = (ConditionType, String);

fn rows<const N: usize>(rows: [(ConditionType, &str); N]) -> Vec<Row> {
    rows.into_iter().map(|(type_, wanted)| (type_, wanted.to_owned())).collect()
}

/// Waits until an extension shows all of these at once; what it shows then.
async fn shows(scenario: &Scenario<'_>, extension: &str, wanted: &[Row]) -> Result<ClusterExtension> {
    wait::until(&format!("{extension} to show {wanted:?}"), DEADLINE, || async {
        scenario.world.operator.process().check_running()?;
        let found = scenario.extensions().get(extension).await?;
        let status = found.status.clone().unwrap_or_default();
        for (type_, wanted) in wanted {
            let condition =
                status.conditions.find(*type_).with_context(|| format!("no {type_}: {status:?}"))?;
            let shown = format!("{}/{}/{}", condition.status, condition.reason, condition.message);
            ensure!(&shown == wanted, "{type_} is {shown}");
            ensure!(
                condition.observed_generation == found.metadata.generation,
                "{type_} is of an older edit"
            );
        }
        Ok(found)
    })
    .await
}

const NOT_INSTALLED_YET: (ConditionType, &str) = (BundleDeprecated, "Unknown/Absent/no bundle installed yet");

fn active(extension: &ClusterExtension) -> Vec<(String, Vec<String>)> {
    let revisions = extension.status.clone().unwrap_or_default().active_revisions;
    let types = |conditions: &olm_api::Conditions| conditions.iter().map(|c| c.type_.clone()).collect();
    revisions.iter().map(|revision| (revision.name.clone(), types(&revision.conditions))).collect()
}

/// Whether `Ready` reports a roll-out, or already the Deployment that it waits for.
fn is_rolling_out(extension: &ClusterExtension) -> bool {
    let ready = extension.status.as_ref().and_then(|status| status.conditions.find(Ready));
    ready.is_some_and(|ready| {
        let text = ready.message.as_str();
        let is_reported = text.ends_with(" is rolling out.") || text.starts_with("Waiting for Deployment ");
        ready.status == "False" && ready.reason == "RollingOut" && is_reported
    })
}

fn bundle(extension: &ClusterExtension) -> Option<String> {
    extension.status.as_ref()?.install.as_ref().map(|install| install.bundle.name.clone())
}

/// The rows of a roll-out: under way, superseded by an edit, done, and the next under way.
#[tokio::test(flavor = "multi_thread")]
async fn roll_outs_are_told_and_an_edit_supersedes_one() -> Result<()> {
    let scenario = Scenario::shared("stages").await?;
    let package = format!("{}-op", scenario.name);
    let bundles = [
        small(&package, "1.0.0").deployment(false),
        small(&package, "1.1.0").replaces("1.0.0").deployment(true),
        small(&package, "1.2.0").replaces("1.1.0").deployment(false),
    ];
    // That of the bundle that is installed counts, not that of the one on its way.
    let deprecations = json!({"schema": "olm.deprecations", "package": package, "entries": [
        deprecation("olm.bundle", &format!("{package}.v1.0.0"), "1.0.0 goes"),
        deprecation("olm.bundle", &format!("{package}.v1.2.0"), "1.2.0 goes"),
    ]});
    scenario.offer_with(&bundles, &[deprecations]).await?;
    scenario.create_extension(&package, json!({"version": "1.0.0"})).await?;
    let name = scenario.name.as_str();
    let revision = |number: i64| format!("{name}-{number}");
    let told = ["Progressing".to_owned(), "Available".to_owned()];
    let is_told =
        |types: &[String]| types.iter().collect::<BTreeSet<_>>() == told.iter().collect::<BTreeSet<_>>();

    let under_way = rows([
        (Installed, "False/Absent/No bundle installed"),
        (Progressing, "True/RollingOut/Revision 1.0.0 is rolling out."),
        (Deprecated, "False/NotDeprecated/not deprecated"),
        (PackageDeprecated, "False/NotDeprecated/package not deprecated"),
        (ChannelDeprecated, "False/NotDeprecated/channel not deprecated"),
        NOT_INSTALLED_YET,
    ]);
    let shown = shows(&scenario, name, &under_way).await?;
    ensure!(bundle(&shown).is_none() && is_rolling_out(&shown), "{:?}", shown.status);

    // The edit does not wait for the roll-out, which would never end.
    scenario.upgrade("1.1.0").await?;
    let newest = scenario.revisions().await?.pop().context("no revision")?;
    let image = newest.annotations()[BUNDLE_REFERENCE].clone();
    let mut done = rows([
        (Progressing, "True/Succeeded/Revision 1.1.0 has rolled out."),
        (ConditionType::Available, "True/ProbesSucceeded/Objects are available and pass all probes."),
        (Ready, "True/Succeeded/Revision 1.1.0 has rolled out."),
        (BundleDeprecated, "False/NotDeprecated/bundle not deprecated"),
    ]);
    done.push((Installed, format!("True/Succeeded/Installed bundle {image} successfully")));
    let shown = shows(&scenario, name, &done).await?;
    ensure!(active(&shown) == [(revision(2), Vec::new())], "{:?}", active(&shown));
    ensure!(bundle(&shown) == Some(format!("{package}.v1.1.0")));

    scenario.set_version("1.2.0").await?;
    let mut next = rows([
        (Progressing, "True/RollingOut/Revision 1.2.0 is rolling out."),
        (BundleDeprecated, "False/NotDeprecated/bundle not deprecated"),
    ]);
    next.push((Installed, format!("True/Succeeded/Installed bundle {image} successfully")));
    let shown = shows(&scenario, name, &next).await?;
    ensure!(is_rolling_out(&shown), "{:?}", shown.status);
    wait::until("both revisions to be named", DEADLINE, || async {
        let shown = scenario.extensions().get(name).await?;
        let active = active(&shown);
        ensure!(bundle(&shown) == Some(format!("{package}.v1.1.0")));
        wait::check(
            active.len() == 2
                && active[0] == (revision(2), Vec::new())
                && active[1].0 == revision(3)
                && is_told(&active[1].1),
            || format!("{active:?}"),
        )
    })
    .await?;
    scenario.delete_extension().await
}

fn deprecation(schema: &str, name: &str, message: &str) -> Value {
    let reference =
        if name.is_empty() { json!({"schema": schema}) } else { json!({"schema": schema, "name": name}) };
    json!({"reference": reference, "message": message})
}

/// A revision that cannot go on is told by its extension, which stays installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_revision_is_told() -> Result<()> {
    let scenario = Scenario::shared("mutable").await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[small(&package, "1.0.0")]).await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let of_first = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={}-1", scenario.name));
    let kept = secrets.list(&of_first).await?.items.remove(0);
    let name = kept.name_any();
    let again = |immutable: bool| {
        let mut secret = kept.clone();
        secret.metadata.resource_version = None;
        secret.metadata.uid = None;
        secret.immutable = Some(immutable);
        secret
    };
    secrets.remove(&name).await?;
    secrets.make(&again(false)).await?;
    let maps: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), &scenario.name);
    maps.remove(&format!("{package}-data")).await?;
    let text = format!(
        "False/Blocked/the following secrets are not immutable (referenced secrets must have immutable set to true): {SYSTEM_NAMESPACE}/{name}"
    );
    let wanted =
        vec![(Progressing, text.clone()), (Stalled, text.replacen("False", "True", 1)), (Ready, text)];
    let shown = shows(&scenario, &scenario.name, &wanted).await?;
    ensure!(bundle(&shown).is_some(), "it is installed all the same");
    scenario.shows(Installed, "True/Succeeded/").await?;
    scenario.delete_extension().await
}

/// What is written for a revision, and what is changed in place.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_written_as_upstream_writes_them() -> Result<()> {
    let scenario = Scenario::shared("written").await?;
    let package = format!("{}-op", scenario.name);
    let bundle = small(&package, "1.0.0").brings(&scenario.group(), "Written").deployment(true);
    // Another version and release of the same content.
    let next = small(&package, "1.1.0+2").replaces("1.0.0").data("1.0.0");
    let next = next.brings(&scenario.group(), "Written").deployment(true);
    let nameless = small(&package, "1.2.0").named("No_Name").replaces("1.1.0-2");
    scenario.offer(&[bundle, next, nameless]).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    let set = scenario.revisions().await?.remove(0);
    let value = serde_json::to_value(&set)?;
    ensure!(set.name_any() == format!("{}-1", scenario.name));
    let uid = scenario.extensions().get(&scenario.name).await?.uid();
    let owner = &value["metadata"]["ownerReferences"];
    ensure!(
        owner
            == &json!([{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": scenario.name,
                        "uid": uid, "controller": true, "blockOwnerDeletion": true}]),
        "{owner}"
    );
    let spec = &value["spec"];
    ensure!(
        spec["lifecycleState"] == "Active"
            && spec["revision"] == 1
            && spec["collisionProtection"] == "Prevent"
    );
    let phases: Vec<&str> = set.spec.phases.iter().map(|phase| phase.name.as_str()).collect();
    ensure!(phases == ["identity", "configuration", "crds", "roles", "bindings", "deploy"], "{phases:?}");
    ensure!(spec["progressionProbes"] == probes(), "{}", spec["progressionProbes"]);

    // The deadline is changed in place, and an unchanged extension keeps its revision.
    scenario.patch_extension(json!({"spec": {"progressDeadlineMinutes": 30}})).await?;
    wait::until("the deadline to be the revision's", DEADLINE, || async {
        let now = scenario.revisions().await?;
        let found: Vec<_> = now.iter().map(|r| (r.spec.revision, r.spec.progress_deadline_minutes)).collect();
        wait::check(found == [(1, Some(30))], || format!("{found:?}"))
    })
    .await?;
    another_release_is_another_revision(&scenario).await?;
    scenario.uninstall().await
}

/// Even with the same objects; the release stands beside the version.
async fn another_release_is_another_revision(scenario: &Scenario<'_>) -> Result<()> {
    scenario.upgrade("1.1.0").await?;
    let found = async || scenario.revisions().await;
    eventually("one revision to be left", found, |found| found.iter().map(|r| r.spec.revision).eq([2]))
        .await?;
    let set = scenario.revisions().await?.remove(0);
    let annotation = |name: &str| set.annotations().get(name).map(String::as_str);
    let found = (annotation(BUNDLE_VERSION), annotation(BUNDLE_RELEASE));
    ensure!(found == (Some("1.1.0"), Some("2")), "{found:?}");
    let status = scenario.extensions().get(&scenario.name).await?.status.unwrap_or_default();
    let release = status.install.and_then(|install| install.bundle.release);
    ensure!(release.as_deref() == Some("2"), "{release:?}");

    // A name that no status can hold: the bundle is not begun.
    scenario.set_version("1.2.0").await?;
    let text = "False/Blocked/error for resolved bundle \"No_Name\" with version \"1.2.0\": the name of the bundle is not a valid DNS1123 subdomain, as status.install.bundle.name has to be: give the bundle another name in its catalog";
    shows(scenario, &scenario.name, &rows([(Progressing, text)])).await?;
    ensure!(scenario.revisions().await?.len() == 1, "a revision was made");
    scenario.shows(Installed, "True/Succeeded/").await
}

/// The probes of every revision.
fn probes() -> Value {
    let kind =
        |group: &str, kind: &str| json!({"type": "GroupKind", "groupKind": {"group": group, "kind": kind}});
    let condition =
        |type_: &str| json!({"type": "ConditionEqual", "conditionEqual": {"type": type_, "status": "True"}});
    let phase = |value: &str| json!({"type": "FieldValue", "fieldValue": {"fieldPath": "status.phase", "value": value}});
    let updated = json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "status.updatedReplicas", "fieldB": "status.replicas"}});
    json!([
        {"selector": kind("apiextensions.k8s.io", "CustomResourceDefinition"), "assertions": [condition("Established")]},
        {"selector": kind("cert-manager.io", "Certificate"), "assertions": [condition("Ready")]},
        {"selector": kind("cert-manager.io", "Issuer"), "assertions": [condition("Ready")]},
        {"selector": kind("", "Namespace"), "assertions": [phase("Active")]},
        {"selector": kind("", "PersistentVolumeClaim"), "assertions": [phase("Bound")]},
        {"selector": kind("apps", "Deployment"), "assertions": [updated, condition("Available")]},
        {"selector": kind("apps", "StatefulSet"), "assertions": [updated, condition("Available")]},
    ])
}

/// Two extensions never share an object: the second tells of the first, and takes over what is left when it goes.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_extension_of_a_package_waits_for_the_first() -> Result<()> {
    let scenario = Scenario::shared("twice").await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[small(&package, "1.0.0")]).await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let second = format!("{}-second", scenario.name);
    scenario.another(&second, &package, json!({})).await?;
    let uid = scenario.revisions().await?.remove(0).uid().unwrap_or_default();
    let owner: BTreeMap<&str, Value> = [
        ("apiVersion", json!("olm.operatorframework.io/v1")),
        ("blockOwnerDeletion", json!(true)),
        ("controller", json!(true)),
        ("kind", json!("ClusterObjectSet")),
        ("name", json!(format!("{}-1", scenario.name))),
        ("uid", json!(uid)),
    ]
    .into();
    let text = format!(
        "True/Retrying/revision object collisions in phase 0\nObject ConfigMap.v1 {}/{package}-data\nAction: \"Collision\"\nConflicting Owner: {}",
        scenario.name,
        serde_json::to_string(&owner)?
    );
    let wanted = vec![(Progressing, text), (Installed, "False/Failed/No bundle installed".to_owned())];
    shows(&scenario, &second, &wanted).await?;
    scenario.delete_extension().await?;
    shows(&scenario, &second, &rows([(Progressing, "True/Succeeded/Revision 1.0.0 has rolled out.")]))
        .await?;
    scenario.remove_extension(&second).await
}
