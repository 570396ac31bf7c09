//! What an extension shows, row by row: conditions with reason and text, and what its revisions are like.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    core::v1::Secret,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use olm_api::{
    ConditionType::{
        self, BundleDeprecated, ChannelDeprecated, Deprecated, Installed, PackageDeprecated, Progressing,
        Ready, Stalled,
    },
    names::{
        BUNDLE_NAME, BUNDLE_REFERENCE, BUNDLE_VERSION, OBJECT_DATA_SECRET_TYPE, OWNER_KIND_LABEL,
        OWNER_NAME_LABEL, PACKAGE_NAME, REVISION_NAME_LABEL, SERVICE_ACCOUNT_NAME_ANNOTATION,
        SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
    },
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_test::{
    operator::{SYSTEM_NAMESPACE, USER},
    rights::create_account,
    wait,
};
use serde_json::{Value, json};

use crate::{
    small::{self, annotate, another, patch_catalog, prepare, remove, revisions, small},
    world::{ACCOUNT, DEADLINE, Scenario, World},
};

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

const UNAVAILABLE: &str =
    "Unknown/DeprecationStatusUnknown/deprecation status unknown: catalog data unavailable";
const NOT_INSTALLED_YET: (ConditionType, &str) = (BundleDeprecated, "Unknown/Absent/no bundle installed yet");

fn active(extension: &ClusterExtension) -> Vec<(String, Vec<String>)> {
    let revisions = extension.status.clone().unwrap_or_default().active_revisions;
    let types = |conditions: &olm_api::Conditions| conditions.iter().map(|c| c.type_.clone()).collect();
    revisions.iter().map(|revision| (revision.name.clone(), types(&revision.conditions))).collect()
}

fn bundle(extension: &ClusterExtension) -> Option<String> {
    extension.status.as_ref()?.install.as_ref().map(|install| install.bundle.name.clone())
}

/// The rows of a roll-out: under way, superseded by an edit, done, and the next under way.
#[tokio::test(flavor = "multi_thread")]
async fn roll_outs_are_told_and_an_edit_supersedes_one() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "stages").await?;
    let package = format!("{}-op", scenario.name);
    let bundles = [
        small(&package, "1.0.0").deployment(false),
        small(&package, "1.1.0").replaces("1.0.0").deployment(true),
        small(&package, "1.2.0").replaces("1.1.0").deployment(false),
    ];
    prepare(&scenario, &bundles, &[]).await?;
    scenario.create_extension(&package, json!({"version": "1.0.0"})).await?;
    let name = scenario.name.as_str();
    let revision = |number: i64| format!("{name}-{number}");
    let told = vec!["Progressing".to_owned(), "Available".to_owned()];
    let is_told =
        |types: &[String]| types.iter().collect::<BTreeSet<_>>() == told.iter().collect::<BTreeSet<_>>();

    let under_way = rows([
        (Installed, "False/Absent/No bundle installed"),
        (Progressing, "True/RollingOut/Revision 1.0.0 is rolling out."),
        (Ready, "False/RollingOut/Revision 1.0.0 is rolling out."),
        (Deprecated, "False/NotDeprecated/not deprecated"),
        (PackageDeprecated, "False/NotDeprecated/package not deprecated"),
        (ChannelDeprecated, "False/NotDeprecated/channel not deprecated"),
        NOT_INSTALLED_YET,
    ]);
    let shown = shows(&scenario, name, &under_way).await?;
    ensure!(bundle(&shown).is_none());

    // The edit does not wait for the roll-out, which would never end.
    scenario.set_version("1.1.0").await?;
    scenario.installed("1.1.0").await?;
    let image = revisions(&scenario).await?.remove(0).annotations()[BUNDLE_REFERENCE].clone();
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
        (Ready, "False/RollingOut/Revision 1.2.0 is rolling out."),
    ]);
    next.push((Installed, format!("True/Succeeded/Installed bundle {image} successfully")));
    shows(&scenario, name, &next).await?;
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

/// A package with two versions in channels `stable` and `old`.
fn deprecated(package: &str, entries: &[Value]) -> (Vec<small::Small>, Value) {
    let bundles =
        vec![small(package, "1.0.0").channels(&["stable", "old"]), small(package, "2.0.0").replaces("1.0.0")];
    (bundles, json!({"schema": "olm.deprecations", "package": package, "entries": entries}))
}

#[tokio::test(flavor = "multi_thread")]
async fn deprecations_by_what_is_known() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "deprecated").await?;
    let full = |package: &str| {
        vec![
            deprecation("olm.package", "", "the package goes"),
            deprecation("olm.channel", "old", "old goes"),
            deprecation("olm.channel", "stable", "stable goes"),
            deprecation("olm.bundle", &format!("{package}.v1.0.0"), "1.0.0 goes"),
            deprecation("olm.bundle", &format!("{package}.v2.0.0"), "2.0.0 goes"),
        ]
    };
    let name = |base: &str| format!("{}-{base}", scenario.name);
    let (named, any, other) = (name("named"), name("any"), name("other"));
    let mut other_entries = full(&other);
    other_entries.retain(|e| e["reference"]["name"] == "old" || e["message"] == "2.0.0 goes");
    let packages = [
        deprecated(&named, &full(&named)),
        deprecated(&any, &full(&any)),
        deprecated(&other, &other_entries),
    ];
    let bundles: Vec<_> = packages.iter().flat_map(|(bundles, _)| bundles.clone()).collect();
    let blobs: Vec<Value> = packages.iter().map(|(_, blob)| blob.clone()).collect();
    prepare(&scenario, &bundles, &blobs).await?;
    let cases: [(&str, Value, Vec<Row>); 3] = [
        // Messages are joined in the order package, channel, bundle; only what the extension names counts.
        (
            &named,
            json!({"version": "1.0.0", "channels": ["old"]}),
            rows([
                (Deprecated, "True/Deprecated/the package goes\nold goes\n1.0.0 goes"),
                (PackageDeprecated, "True/Deprecated/the package goes"),
                (ChannelDeprecated, "True/Deprecated/old goes"),
                (BundleDeprecated, "True/Deprecated/1.0.0 goes"),
            ]),
        ),
        // Without channels every one counts.
        (
            &any,
            json!({"version": "1.0.0"}),
            rows([
                (Deprecated, "True/Deprecated/the package goes\nold goes\nstable goes\n1.0.0 goes"),
                (PackageDeprecated, "True/Deprecated/the package goes"),
                (ChannelDeprecated, "True/Deprecated/old goes\nstable goes"),
                (BundleDeprecated, "True/Deprecated/1.0.0 goes"),
            ]),
        ),
        // Another channel's and another bundle's do not.
        (
            &other,
            json!({"version": "1.0.0", "channels": ["stable"]}),
            rows([
                (Deprecated, "False/NotDeprecated/not deprecated"),
                (PackageDeprecated, "False/NotDeprecated/package not deprecated"),
                (ChannelDeprecated, "False/NotDeprecated/channel not deprecated"),
                (BundleDeprecated, "False/NotDeprecated/bundle not deprecated"),
            ]),
        ),
    ];
    for (extension, filter, _) in &cases {
        another(&scenario, extension, extension, filter.clone()).await?;
    }
    for (extension, _, wanted) in &cases {
        shows(&scenario, extension, wanted).await?;
    }
    let nowhere = name("nowhere");
    another(&scenario, &nowhere, "no-such-package", json!({})).await?;
    let no_data =
        [(Deprecated, UNAVAILABLE), (PackageDeprecated, UNAVAILABLE), (ChannelDeprecated, UNAVAILABLE)];
    let [a, b, c] = no_data;
    let text = "no bundles found for package \"no-such-package\"";
    let mut wanted = rows([a, b, c, NOT_INSTALLED_YET, (Installed, "False/Failed/No bundle installed")]);
    wanted.push((Progressing, format!("True/Retrying/{text}")));
    shows(&scenario, &nowhere, &wanted).await?;
    remove(&scenario, &nowhere).await?;
    patch_catalog(&scenario, &scenario.name, json!({"spec": {"availabilityMode": "Unavailable"}})).await?;
    let [a, b, c] = no_data;
    shows(&scenario, &named, &rows([a, b, c, (BundleDeprecated, UNAVAILABLE)])).await?;
    for (extension, ..) in &cases {
        remove(&scenario, extension).await?;
    }
    Ok(())
}

/// A revision that cannot go on is told by its extension, which stays installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_revision_is_told() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "mutable").await?;
    let package = format!("{}-op", scenario.name);
    prepare(&scenario, &[small(&package, "1.0.0")], &[]).await?;
    scenario.create_extension(&package, json!({})).await?;
    scenario.installed("1.0.0").await?;
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
    secrets.delete(&name, &DeleteParams::default()).await?;
    secrets.create(&PostParams::default(), &again(false)).await?;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(scenario.client.clone(), &scenario.name);
    maps.delete(&format!("{package}-data"), &DeleteParams::default()).await?;
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
    let scenario = Scenario::new(World::shared().await?, "written").await?;
    let package = format!("{}-op", scenario.name);
    let bundle = small(&package, "1.0.0").brings(&scenario.group(), "Written").deployment(true);
    prepare(&scenario, &[bundle], &[]).await?;
    scenario.create_extension(&package, json!({})).await?;
    scenario.installed("1.0.0").await?;
    let set = revisions(&scenario).await?.remove(0);
    let value = serde_json::to_value(&set)?;
    ensure!(set.name_any() == format!("{}-1", scenario.name));
    for (name, wanted) in [
        (BUNDLE_NAME, format!("{package}.v1.0.0")),
        (PACKAGE_NAME, package.clone()),
        (BUNDLE_VERSION, "1.0.0".to_owned()),
        (SERVICE_ACCOUNT_NAME_ANNOTATION, ACCOUNT.to_owned()),
        (SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, scenario.name.clone()),
    ] {
        ensure!(set.annotations().get(name) == Some(&wanted), "{name}: {:?}", set.annotations());
    }
    ensure!(set.annotations().contains_key(BUNDLE_REFERENCE));
    ensure!(set.labels().get(OWNER_KIND_LABEL).map(String::as_str) == Some("ClusterExtension"));
    ensure!(set.labels().get(OWNER_NAME_LABEL) == Some(&scenario.name));
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
    secrets_are_written(&scenario, &set).await?;

    // The deadline is changed in place, and an unchanged extension keeps its revision.
    scenario.patch_extension(json!({"spec": {"progressDeadlineMinutes": 30}})).await?;
    wait::until("the deadline to be the revision's", DEADLINE, || async {
        let now = revisions(&scenario).await?;
        let found: Vec<_> = now.iter().map(|r| (r.spec.revision, r.spec.progress_deadline_minutes)).collect();
        wait::check(found == [(1, Some(30))], || format!("{found:?}"))
    })
    .await?;
    scenario.delete_extension().await?;
    scenario.nothing_left().await
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

async fn secrets_are_written(scenario: &Scenario<'_>, set: &ClusterObjectSet) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let objects: Vec<_> = set.spec.phases.iter().flat_map(|p| &p.objects).collect();
    ensure!(objects.iter().all(|o| o.object.is_none()), "only references");
    for reference in objects.iter().filter_map(|o| o.ref_.as_ref()) {
        ensure!(reference.namespace == SYSTEM_NAMESPACE, "{reference:?}");
        let secret = secrets.get(&reference.name).await?;
        ensure!(secret.immutable == Some(true) && secret.type_.as_deref() == Some(OBJECT_DATA_SECRET_TYPE));
        ensure!(secret.labels().get(REVISION_NAME_LABEL) == Some(&set.name_any()));
        ensure!(secret.labels().get(OWNER_NAME_LABEL) == Some(&scenario.name));
        let owners: Vec<_> = secret.owner_references().iter().map(|r| (Some(&r.uid), r.controller)).collect();
        ensure!(owners == [(set.metadata.uid.as_ref(), Some(true))], "{owners:?}");
        let tail = reference.name.strip_prefix(&format!("{}-", set.name_any())).context("its name")?;
        ensure!(tail.len() == 16 && tail.bytes().all(|b| b.is_ascii_hexdigit()), "{tail}");
        ensure!(secret.data.unwrap_or_default().contains_key(&reference.key) && reference.key.len() == 43);
    }
    Ok(())
}

/// The program's roles, as they are to be again.
struct Rights {
    cluster: ClusterRole,
    system: Role,
}

const ROLE: &str = "operator-controller-manager-role";

fn cluster_roles(scenario: &Scenario<'_>) -> Api<ClusterRole> {
    Api::all(scenario.client.clone())
}

fn system_roles(scenario: &Scenario<'_>) -> Api<Role> {
    Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE)
}

/// Takes a right from the program, and waits until the API server knows.
async fn take(scenario: &Scenario<'_>, (group, resource, verb): (&str, &str, &str)) -> Result<Rights> {
    let (cluster, system) =
        (cluster_roles(scenario).get(ROLE).await?, system_roles(scenario).get(ROLE).await?);
    let without = |rules: Option<Vec<PolicyRule>>| {
        let keeps = |mut rule: PolicyRule| {
            let names = rule.resources.clone().unwrap_or_default();
            if names.iter().any(|name| name == resource || name == "*") {
                rule.verbs.retain(|v| v != verb);
            }
            rule
        };
        let rules = rules.unwrap_or_default().into_iter().map(keeps);
        rules.filter(|rule| !rule.verbs.is_empty()).collect::<Vec<_>>()
    };
    let patch = |rules: Vec<PolicyRule>| Patch::Merge(json!({"rules": rules}));
    let params = PatchParams::default();
    cluster_roles(scenario).patch(ROLE, &params, &patch(without(cluster.rules.clone()))).await?;
    system_roles(scenario).patch(ROLE, &params, &patch(without(system.rules.clone()))).await?;
    allowed(scenario, (group, resource, verb), false).await?;
    Ok(Rights { cluster, system })
}

async fn give_back(scenario: &Scenario<'_>, rights: Rights, right: (&str, &str, &str)) -> Result<()> {
    let params = PatchParams::default();
    let patch = |rules: Option<Vec<PolicyRule>>| Patch::Merge(json!({"rules": rules}));
    cluster_roles(scenario).patch(ROLE, &params, &patch(rights.cluster.rules)).await?;
    system_roles(scenario).patch(ROLE, &params, &patch(rights.system.rules)).await?;
    allowed(scenario, right, true).await
}

async fn allowed(
    scenario: &Scenario<'_>,
    (group, resource, verb): (&str, &str, &str),
    wanted: bool,
) -> Result<()> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {"user": USER, "groups": ["system:authenticated"], "resourceAttributes": {
            "group": group, "resource": resource, "subresource": subresource, "verb": verb,
            "namespace": if group.is_empty() { SYSTEM_NAMESPACE } else { "" },
        }},
    }))?;
    let reviews: Api<SubjectAccessReview> = Api::all(scenario.client.clone());
    wait::until(&format!("{verb} {resource} to be allowed: {wanted}"), DEADLINE, || async {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let found = answer.status.is_some_and(|status| status.allowed);
        wait::check(found == wanted, || format!("it is {found}"))
    })
    .await
}

const OLM: &str = "olm.operatorframework.io";

/// What the API server refuses to the controller itself is told with the step, and heals.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_controller_may_not_do_is_told_with_the_step() -> Result<()> {
    // A world of its own: the rights are the program's.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "steps").await?;
    let package = format!("{}-op", scenario.name);
    let late = format!("{}-late", scenario.name);
    prepare(&scenario, &[small(&package, "1.0.0"), small(&late, "1.0.0").deployment(false)], &[]).await?;
    create_late(&scenario, &late).await?;
    scenario.create_extension(&package, json!({})).await?;
    scenario.installed("1.0.0").await?;
    // Archived revisions are kept, five beside the one that came before the latest.
    for number in 2..=8 {
        annotate(&scenario, "reinstall", json!(format!("{number}"))).await?;
        wait::until(&format!("revision {number} to be installed"), DEADLINE, || async {
            let active: Vec<i64> = revisions(&scenario).await?.iter().map(|r| r.spec.revision).collect();
            wait::check(active == [number], || format!("{active:?}"))
        })
        .await?;
    }
    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    wait::until("the oldest revision to be gone", DEADLINE, || async {
        let found: BTreeSet<i64> = sets.list(&mine).await?.iter().map(|set| set.spec.revision).collect();
        wait::check(found == (2..=8).collect(), || format!("{found:?}"))
    })
    .await?;

    let wrapped =
        format!("True/Retrying/error for resolved bundle \"{package}.v1.0.0\" with version \"1.0.0\": ");
    for (right, text) in [
        ((OLM, "clusterobjectsets", "delete"), "garbage collecting old revisions: "),
        (("", "secrets", "create"), "creating ref Secret \""),
        (
            (OLM, "clusterobjectsets", "patch"),
            "creating new Revision: clusterobjectsets.olm.operatorframework.io ",
        ),
    ] {
        let before = revisions(&scenario).await?.remove(0).spec.revision;
        let taken = take(&scenario, right).await?;
        annotate(&scenario, "reinstall", json!(text)).await?;
        scenario.shows(Progressing, &format!("{wrapped}{text}")).await?;
        scenario.shows(Installed, "True/Succeeded/").await?;
        give_back(&scenario, taken, right).await?;
        wait::until(&format!("a revision after {before}"), DEADLINE, || async {
            let found: Vec<i64> = revisions(&scenario).await?.iter().map(|r| r.spec.revision).collect();
            wait::check(found == [before + 1], || format!("{found:?}"))
        })
        .await?;
    }
    secrets_without_an_owner(&scenario).await?;
    an_account_that_cannot_be_asked_for(&scenario).await?;
    revisions_that_cannot_be_read(&scenario).await?;
    let wanted = rows([
        (
            Progressing,
            "False/ProgressDeadlineExceeded/Revision has not rolled out for 1 minute(s). Last status: Revision 1.0.0 is rolling out.",
        ),
        (Installed, "False/Absent/No bundle installed"),
        (
            Stalled,
            "True/ProgressDeadlineExceeded/Revision has not rolled out for 1 minute(s). Last status: Revision 1.0.0 is rolling out.",
        ),
    ]);
    shows(&scenario, &late, &wanted).await.map(drop)
}

/// An extension with a deadline of one minute, which the API allows only after its schema has been changed.
async fn create_late(scenario: &Scenario<'_>, package: &str) -> Result<()> {
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(scenario.client.clone());
    for plural in ["clusterextensions", "clusterobjectsets"] {
        let name = format!("{plural}.{OLM}");
        let mut crd = serde_json::to_value(crds.get(&name).await?)?;
        let minimum = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
        *crd.pointer_mut(minimum).context("the deadline has no minimum")? = json!(1);
        let patch = json!({"spec": {"versions": crd["spec"]["versions"]}});
        crds.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    wait::until("the schemas to be in force", DEADLINE, || async {
        let mut extension = serde_json::to_value(small::extension(scenario, package)?)?;
        extension["metadata"]["name"] = package.into();
        extension["spec"]["progressDeadlineMinutes"] = 1.into();
        let created =
            scenario.extensions().create(&PostParams::default(), &serde_json::from_value(extension)?).await;
        created.map(drop).map_err(Into::into)
    })
    .await
}

/// Secrets that got no owner get it later, although their revision has rolled out meanwhile.
async fn secrets_without_an_owner(scenario: &Scenario<'_>) -> Result<()> {
    let right = ("", "secrets", "patch");
    let number = revisions(scenario).await?.remove(0).spec.revision + 1;
    let taken = take(scenario, right).await?;
    annotate(scenario, "reinstall", json!("without an owner")).await?;
    scenario.shows(Progressing, "True/Retrying/ensuring ownerReferences on ref Secrets: ").await?;
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let mine = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={}-{number}", scenario.name));
    let owned = async || -> Result<Vec<bool>> {
        let found = secrets.list(&mine).await?;
        Ok(found.iter().map(|secret| !secret.owner_references().is_empty()).collect())
    };
    ensure!(owned().await? == [false]);
    give_back(scenario, taken, right).await?;
    wait::until("the Secret to have an owner", DEADLINE, || async {
        let found = owned().await?;
        wait::check(found == [true], || format!("{found:?}"))
    })
    .await?;
    scenario.installed("1.0.0").await
}

async fn an_account_that_cannot_be_asked_for(scenario: &Scenario<'_>) -> Result<()> {
    let right = ("", "serviceaccounts/token", "create");
    create_account(&scenario.client, &scenario.name, "second").await?;
    let taken = take(scenario, right).await?;
    let name = format!("{}-second", scenario.name);
    let mut extension = serde_json::to_value(small::extension(scenario, "no-such-package")?)?;
    extension["metadata"]["name"] = name.as_str().into();
    extension["spec"]["serviceAccount"]["name"] = "second".into();
    scenario.extensions().create(&PostParams::default(), &serde_json::from_value(extension)?).await?;
    let text =
        "operation cannot proceed due to the following validation error(s): error getting service account: ";
    wait::until("both conditions to tell of the account", DEADLINE, || async {
        let status = scenario.extensions().get(&name).await?.status.unwrap_or_default();
        for (type_, wanted) in [(Progressing, "True/Retrying/"), (Installed, "Unknown/Failed/")] {
            let condition = status.conditions.find(type_).with_context(|| format!("no {type_}"))?;
            let shown = format!("{}/{}/{}", condition.status, condition.reason, condition.message);
            ensure!(shown.starts_with(&format!("{wanted}{text}")), "{type_} is {shown}");
        }
        Ok(())
    })
    .await?;
    give_back(scenario, taken, right).await?;
    let text = "True/Retrying/no bundles found for package \"no-such-package\"";
    shows(scenario, &name, &rows([(Progressing, text)])).await.map(drop)
}

async fn revisions_that_cannot_be_read(scenario: &Scenario<'_>) -> Result<()> {
    let right = (OLM, "clusterobjectsets", "list");
    let taken = take(scenario, right).await?;
    annotate(scenario, "reinstall", json!("unread")).await?;
    scenario
        .shows(Installed, "Unknown/Failed/clusterobjectsets.olm.operatorframework.io is forbidden: ")
        .await?;
    let wanted = rows([(Progressing, "True/Retrying/retrying to get installed bundle")]);
    let shown = shows(scenario, &scenario.name, &wanted).await?;
    ensure!(bundle(&shown).is_none(), "what is installed is not known");
    give_back(scenario, taken, right).await?;
    scenario.installed("1.0.0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_before_the_first_pass() -> Result<()> {
    // A world of its own, because its program is stopped.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "unseen").await?;
    world.operator.process().kill()?;
    scenario.create_extension("anything", json!({})).await?;
    let shown = scenario.extensions().get(&scenario.name).await?;
    ensure!(shown.status.unwrap_or_default().conditions.iter().next().is_none());
    world.operator.process().restart()?;
    scenario.shows(Progressing, "True/Retrying/").await
}

/// Two extensions never share an object: the second tells of the first, and takes over what is left when it goes.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_extension_of_a_package_waits_for_the_first() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "twice").await?;
    let package = format!("{}-op", scenario.name);
    prepare(&scenario, &[small(&package, "1.0.0")], &[]).await?;
    scenario.create_extension(&package, json!({})).await?;
    scenario.installed("1.0.0").await?;
    let second = format!("{}-second", scenario.name);
    another(&scenario, &second, &package, json!({})).await?;
    let uid = revisions(&scenario).await?.remove(0).uid().unwrap_or_default();
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
    remove(&scenario, &second).await
}
