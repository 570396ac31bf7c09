//! A revision that misses its deadline under an update policy with `onFailure: Return`, on a real API server: what was
//! installed before takes its place, object by object, unless stored objects would be in danger.

use olm_api::{
    names::{RETRY_ANNOTATION, ROLLBACK_TO_ANNOTATION},
    v1alpha1::UpdatePolicy,
};
use olm_test::{
    bundle::{config_map, crd_with_versions},
    extension::allow_deadline,
    prelude::*,
};

const PACKAGE: &str = "lamps";
/// Another package, because roles of bundles of one name collide.
const STORED: &str = "stores";
/// Longer than the shortest deadline that there is.
const MISSED: Duration = Duration::from_mins(4);

/// The first version, installed with a deadline of a minute.
async fn installed(scenario: &Scenario<'_>, package: &str, bundles: &[Bundle]) -> Result<()> {
    scenario.offer(bundles).await?;
    scenario.create_extension(package, json!({"version": "1.0.0"})).await?;
    wait::until("the short deadline to be accepted", DEADLINE, || {
        scenario.patch_extension(json!({"spec": {"progressDeadlineMinutes": 1}}))
    })
    .await?;
    scenario.installed("1.0.0").await
}

/// What the extension has made, as it is, without what counts revisions.
async fn made(scenario: &Scenario<'_>) -> Result<BTreeMap<String, Value>> {
    const KINDS: [(&str, &str, &str); 6] = [
        ("v1", "ConfigMap", "configmaps"),
        ("v1", "ServiceAccount", "serviceaccounts"),
        ("apps/v1", "Deployment", "deployments"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ];
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    let mut made = BTreeMap::new();
    for (api_version, kind, plural) in KINDS {
        let resource = resource(api_version, kind, plural);
        let api: Api<DynamicObject> = Api::all_with(scenario.client.clone(), &resource);
        for mut object in api.list(&mine).await?.items {
            let metadata = &mut object.metadata;
            (metadata.resource_version, metadata.generation) = (None, None);
            (metadata.managed_fields, metadata.owner_references) = (None, None);
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.retain(|name, _| !name.ends_with("/revision"));
            object.data["status"] = Value::Null;
            made.insert(format!("{kind} {}", object.name_any()), serde_json::to_value(&object)?);
        }
    }
    ensure!(made.len() >= 6, "{made:?}");
    Ok(made)
}

async fn is_as(scenario: &Scenario<'_>, before: &BTreeMap<String, Value>) -> Result<()> {
    wait::until("the state to be that before", DEADLINE, async || {
        let now = made(scenario).await?;
        let names = || before.keys().chain(now.keys()).collect::<BTreeSet<_>>();
        let other: Vec<_> = names().into_iter().filter(|name| before.get(*name) != now.get(*name)).collect();
        wait::check(other.is_empty(), || {
            let shown = other.iter().map(|name| (before.get(*name), now.get(*name))).collect::<Vec<_>>();
            format!("{other:?}: {shown:#?}")
        })
    })
    .await
}

/// Waits until these revisions are active, for longer than a deadline.
async fn missed(scenario: &Scenario<'_>, wanted: &[i64]) -> Result<()> {
    let found =
        async || Ok(scenario.revisions().await?.iter().map(|set| set.spec.revision).collect::<Vec<_>>());
    eventually_within(MISSED, &format!("the revisions {wanted:?}"), found, |found| found == wanted).await
}

/// The second version has a field more in its CRD, an object more, and a Deployment that runs or never does.
fn second(scenario: &Scenario<'_>, runs: bool) -> Bundle {
    let fields = json!({"colour": {"type": "string"}, "interval": {"type": "string"}});
    small(PACKAGE, "1.1.0")
        .replaces("1.0.0")
        .brings_with(&scenario.group(), "Beacon", &fields)
        .contains(config_map("only-second", &json!({"runs": runs.to_string()})))
        .rules("clusterPermissions", &json!(PACKAGE), &reads(scenario, "beacons"))
        .deployment(runs)
}

/// What the operator may read, and so its installer.
fn reads(scenario: &Scenario<'_>, plural: &str) -> Value {
    json!([{"apiGroups": [scenario.group()], "resources": [plural], "verbs": ["get", "list", "watch"]}])
}

async fn what_fails_is_replaced_and_not_tried_again(world: &World) -> Result<()> {
    let scenario = Scenario::new(world, "returned").await?;
    let first = small(PACKAGE, "1.0.0")
        .brings_with(&scenario.group(), "Beacon", &json!({"colour": {"type": "string"}}))
        .rules("clusterPermissions", &json!(PACKAGE), &reads(&scenario, "beacons"))
        .deployment(true);
    installed(&scenario, PACKAGE, &[first.clone(), second(&scenario, false)]).await?;
    let before = made(&scenario).await?;

    scenario.set_version("1.1.0").await?;
    scenario.active(&[1, 2]).await?;
    scenario.shows(Progressing, "True/RollingOut/Revision 1.1.0 is rolling out.").await?;
    missed(&scenario, &[3]).await?;
    scenario.installed("1.0.0").await?;
    is_as(&scenario, &before).await?;
    let told = "1.1.0 missed its deadline as revision 2 and is replaced by the revision before: it is tried again when";
    scenario.shows(Ready, &format!("True/Succeeded/{told}")).await?;
    scenario.shows(Stalled, &format!("True/ProgressDeadlineExceeded/{told}")).await?;

    // Another process that looks at it knows it from the objects, and another policy changes nothing about it.
    world.operator.process().kill()?;
    world.operator.process().restart()?;
    world.operator.ready().await?;
    scenario.annotate("same-catalog", json!("Required")).await?;
    let is_seen = |text: &str| {
        text.starts_with(&format!("True/Succeeded/{told}")) && text.contains("same-catalog: Required")
    };
    scenario.reports(Ready, is_seen).await?;
    scenario.active(&[3]).await?;

    scenario.patch_extension(json!({"metadata": {"annotations": {RETRY_ANNOTATION: "1"}}})).await?;
    scenario.active(&[3, 4]).await?;
    missed(&scenario, &[5]).await?;
    scenario.installed("1.0.0").await?;
    is_as(&scenario, &before).await?;

    // The catalog has another image for the version.
    let reference = scenario.push_made(&[first, second(&scenario, true)], &[], "corrected").await?;
    scenario
        .patch_catalog(&scenario.name, json!({"spec": {"source": {"image": {"ref": reference}}}}))
        .await?;
    scenario.installed("1.1.0").await?;
    scenario.active(&[6]).await?;
    ensure!(!scenario.shown().await?.condition(Ready).contains("missed its deadline"));
    scenario.uninstall().await
}

/// An operator whose second version stores its objects at another version of their kind, and does not roll out.
async fn another_storage_version(world: &World) -> Result<Scenario<'_>> {
    let scenario = Scenario::new(world, "storage").await?;
    let schema = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = |versions: [&str; 2]| {
        crd_with_versions(&scenario.group(), "Beacon", &versions.map(|version| (version, schema())))
    };
    let bundles = [
        small(STORED, "1.0.0").contains(definition(["v1", "v2"])),
        small(STORED, "1.1.0").replaces("1.0.0").contains(definition(["v2", "v1"])).deployment(false),
    ];
    installed(&scenario, STORED, &bundles).await?;
    scenario.set_version("1.1.0").await?;
    scenario.active(&[1, 2]).await?;
    Ok(scenario)
}

async fn what_fails_stays(scenario: &Scenario<'_>) -> Result<()> {
    let wanted = format!(
        "Update policy prod lets revision 1 (1.0.0) take the place of revision 2 (1.1.0), which missed its deadline, but stored objects would be in danger: CRD \"beacons.{}\": the storage version changes from v2 to v1. Correct what",
        scenario.group()
    );
    let found = async || Ok(scenario.shown().await?.condition(Ready));
    let says = |text: &String| text.starts_with("False/ProgressDeadlineExceeded/") && text.contains(&wanted);
    eventually_within(MISSED, "the reason to be reported", found, says).await?;
    scenario.active(&[1, 2]).await?;
    // The way that the sentence names.
    scenario.patch_extension(json!({"metadata": {"annotations": {ROLLBACK_TO_ANNOTATION: "1"}}})).await?;
    scenario.active(&[3]).await?;
    scenario.installed("1.0.0").await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_installed_takes_the_place_of_what_misses_its_deadline() -> Result<()> {
    if !olm_test::long::wanted() {
        return Ok(());
    }
    // A world of its own: deadlines are short, and the program is killed.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "policy").await?;
    allow_deadline(&scenario.client, 1).await?;
    let policy = json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": "prod"}, "spec": {"selector": {}, "onFailure": "Return"},
    });
    scenario.all::<UpdatePolicy>().make(policy).await?;
    // Its deadline passes meanwhile.
    let storage = another_storage_version(&world).await?;
    what_fails_is_replaced_and_not_tried_again(&world).await?;
    what_fails_stays(&storage).await
}
