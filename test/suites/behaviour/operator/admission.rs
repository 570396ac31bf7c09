//! Whoever may write extensions or revisions may use no account by it that he could not use without.
//!
//! A control plane of their own: policies and settings are everybody's.

mod approvals;
mod attempts;
mod defaults;
mod policies;
mod revisions;

use kube::Resource;
use olm_api::names::{EXTENSIONS_PREFIX, IDENTITY_ANNOTATION};
use olm_test::{images::bundle_files, permissions, prelude::*};
use serde::de::DeserializeOwned;

use crate::starts::reconciled;

const PACKAGE: &str = "lighthouse-operator";
const TENANT: &str = "tenant";
/// The account that comes after [`ACCOUNT`].
const SUCCESSOR: &str = "successor";
/// An account that nobody creates.
const MISSING: &str = "missing";
/// A ConfigMap of the sample operator.
const SETTINGS: &str = "lighthouse-operator-settings";

/// A user with every verb on extensions and revisions, and nothing else.
async fn tenant(scenario: &Scenario<'_>) -> Result<Client> {
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "verbs": ["*"],
                        "resources": ["clusterextensions", "clusterobjectsets"]}]);
    let tenant = scenario.user(TENANT, rules).await?.1;
    // The authorizer learns of new roles by a watch.
    olm_test::wait::until("the tenant's permissions to count", DEADLINE, async || {
        Api::<ClusterExtension>::all(tenant.clone()).list(&ListParams::default().limit(1)).await?;
        Ok(())
    })
    .await?;
    Ok(tenant)
}

/// Gives the tenant one right over the scenario's account.
async fn allow(scenario: &Scenario<'_>, resource: &str, verb: &str) -> Result<()> {
    let name = format!("{verb}-{}", resource.replace('/', "-"));
    let rules =
        json!([{"apiGroups": [""], "resources": [resource], "resourceNames": [ACCOUNT], "verbs": [verb]}]);
    let tenant = permissions::user(&format!("{}-{TENANT}", scenario.name));
    permissions::allow(&scenario.client, &scenario.name, &name, &rules, &tenant).await
}

/// Tries to create an object without storing it; what the API server says against it, or nothing.
async fn objection<K>(client: &Client, object: &Value) -> Result<Option<String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&params, &serde_json::from_value(object.clone())?).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error).context("asking the API server"),
    }
}

async fn objection_to_patch(client: &Client, name: &str, patch: &Value) -> Result<Option<String>> {
    objection_to_change::<ClusterExtension>(client, name, patch).await
}

async fn objection_to_change<K>(client: &Client, name: &str, patch: &Value) -> Result<Option<String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error).context("asking the API server"),
    }
}

fn extension(scenario: &Scenario<'_>, account: Option<&str>) -> Value {
    let mut extension = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": format!("{}-second", scenario.name)},
        "spec": {"namespace": scenario.name,
                 "source": {"sourceType": "Catalog", "catalog": {"packageName": PACKAGE}}},
    });
    if let Some(account) = account {
        extension["spec"]["serviceAccount"] = json!({"name": account});
    }
    extension
}

/// A revision with one ConfigMap, with these annotations and labels.
fn object_set(scenario: &Scenario<'_>, annotations: &Value, labels: &Value) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                     "metadata": {"name": "loot", "namespace": scenario.name}});
    let name = format!("{}-9", scenario.name);
    let metadata = json!({"name": name, "annotations": annotations, "labels": labels});
    olm_test::extension::object_set(&metadata, 9, &json!([{"object": map}]))
}

/// What is said to the tenant about the default account.
fn not_the_default(scenario: &Scenario<'_>) -> String {
    format!("(not set; the default account applies): {}-{TENANT} may not act as", scenario.name)
}

fn wants(objection: Option<&str>, wanted: &str) -> Result<()> {
    ensure!(objection.is_some_and(|text| text.contains(wanted)), "wanted {wanted:?}, got {objection:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_used_only_by_who_may_use_them() -> Result<()> {
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "guard").await?;
    let bundles = ["1.0.0", "1.1.0"].map(|version| (version, lighthouse(version)));
    scenario.prepare(PACKAGE, &bundles).await?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    let tenant = tenant(&scenario).await?;

    refused_by_spec_and_annotation(&scenario, &tenant).await?;
    refused_by_revision(&scenario, &tenant).await?;
    refused_by_changing_a_revision(&scenario, &tenant).await?;
    the_default_account_is_guarded_too(&scenario, &tenant).await?;
    another_default_account_moves_nothing(&scenario, &tenant, &bundles).await?;

    allow(&scenario, "serviceaccounts", "impersonate").await?;
    let named = extension(&scenario, Some(ACCOUNT));
    // The authorizer learns of new roles by a watch.
    let objected = async || objection::<ClusterExtension>(&tenant, &named).await;
    eventually("the right to impersonate to be enough", objected, Option::is_none).await?;
    let annotations = json!({SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: scenario.name});
    let set = object_set(&scenario, &annotations, &json!({}));
    ensure!(objection::<ClusterObjectSet>(&tenant, &set).await?.is_none(), "and so for revisions");

    // The controller's own writes pass: a new revision, the older one archived, finalizers.
    scenario.upgrade("1.1.0").await?;
    olm_test::wait::until("the older revision to be archived", DEADLINE, async || {
        let state = scenario.sets().get(&format!("{}-1", scenario.name)).await?.spec.lifecycle_state;
        ensure!(state == olm_api::v1::LifecycleState::Archived, "{state:?}");
        Ok(())
    })
    .await?;
    // The tenant may delete, and the controller's finalizers go although nobody asks for rights.
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    ensure!(objection_to_patch(&scenario.client, &scenario.name, &held).await?.is_none());
    Api::<ClusterExtension>::all(tenant.clone()).remove(&scenario.name).await?;
    a_held_deletion_keeps_its_spec(&scenario, &tenant).await?;
    scenario.nothing_left().await?;
    let events = world.cluster.audit_events()?;
    let refused: Vec<_> = events
        .iter()
        .filter(|e| e.code == 403)
        .filter(|e| e.user == olm_test::operator::USER || e.user.contains("garbage-collector"))
        .filter(|e| e.group == "olm.operatorframework.io")
        .collect();
    ensure!(refused.is_empty(), "a policy was in the way: {refused:?}");
    Ok(())
}

/// What is left to do before an extension goes is done as the account that its spec names: that stays guarded, and
/// nothing else stands in the way.
async fn a_held_deletion_keeps_its_spec(scenario: &Scenario<'_>, tenant: &Client) -> Result<()> {
    let other = json!({"spec": {"serviceAccount": {"name": SUCCESSOR}}});
    let told = objection_to_patch(tenant, &scenario.name, &other).await?;
    wants(told.as_deref(), "may not act as the service account \"successor\"")?;
    let cleared = json!({"spec": {"serviceAccount": null, "source": {"catalog": {"version": "1.0.0"}}}});
    let told = objection_to_patch(tenant, &scenario.name, &cleared).await?;
    wants(told.as_deref(), &not_the_default(scenario))?;
    let labels = json!({"metadata": {"labels": {"team": "b"}}});
    let told = objection_to_patch(tenant, &scenario.name, &labels).await?;
    ensure!(told.is_none(), "labels are not guarded: {told:?}");
    // What was recorded of the account stays until the end, whoever asks.
    let identity = |value: Value| json!({"metadata": {"annotations": {IDENTITY_ANNOTATION: value}}});
    let recorded =
        scenario.extensions().get(&scenario.name).await?.annotations()[IDENTITY_ANNOTATION].clone();
    let other = recorded.replace(&format!("/{SUCCESSOR} "), &format!("/{ACCOUNT} "));
    ensure!(other != recorded, "{recorded} does not name {SUCCESSOR}");
    for client in [tenant, &scenario.client] {
        for value in [Value::Null, other.as_str().into()] {
            let told = objection_to_patch(client, &scenario.name, &identity(value)).await?;
            wants(told.as_deref(), "stays as it is until the extension is gone")?;
        }
    }
    // Another deletion policy comes too late: that nothing is left shows that it was not followed.
    let looked_at = || reconciled(&scenario.world.operator, &scenario.name);
    let before = looked_at();
    let orphaned =
        json!({"metadata": {"annotations": {format!("{EXTENSIONS_PREFIX}deletion-policy"): "Orphan"}}});
    let told = objection_to_patch(tenant, &scenario.name, &orphaned).await?;
    ensure!(told.is_none(), "it has no effect: {told:?}");
    olm_test::wait::until("the extension to be reconciled", DEADLINE, async || {
        olm_test::wait::check(looked_at() > before, || "not yet".to_owned())
    })
    .await?;
    let free = json!({"metadata": {"finalizers": null}});
    let told = objection_to_patch(tenant, &scenario.name, &free).await?;
    ensure!(told.is_none(), "finalizers go: {told:?}");
    Ok(())
}

/// What is there already may not be turned to another account, owner or content.
async fn refused_by_changing_a_revision(scenario: &Scenario<'_>, tenant: &Client) -> Result<()> {
    let revision = format!("{}-1", scenario.name);
    let owner = |name: &str, uid: &str| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "name": name,
               "kind": "ClusterExtension", "uid": uid, "controller": true}]}})
    };
    let other = format!("{}-other", scenario.name);
    for (patch, wanted) in [
        (json!({"spec": {"lifecycleState": "Archived"}}), "may not act as the service account \"installer\""),
        (
            // Two policies are against it.
            json!({"metadata": {"annotations": {SERVICE_ACCOUNT_NAME_ANNOTATION: "default",
                                                SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: "kube-system"}}}),
            "tenant may not",
        ),
        (
            json!({"metadata": {"annotations": {SERVICE_ACCOUNT_NAME_ANNOTATION: null,
                                                SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: null}}}),
            "tenant may not make or change one of",
        ),
        (json!({"metadata": {"labels": {OWNER_NAME_LABEL: other}}}), "name different ClusterExtensions"),
        (owner(&other, "u"), "name different ClusterExtensions"),
        (owner(&scenario.name, "u"), "tenant may not make or change one of"),
    ] {
        let told = objection_to_change::<ClusterObjectSet>(tenant, &revision, &patch).await?;
        wants(told.as_deref(), wanted).with_context(|| patch.to_string())?;
    }
    let harmless = json!({"metadata": {"labels": {"team": "a"}}});
    let told = objection_to_change::<ClusterObjectSet>(tenant, &revision, &harmless).await?;
    ensure!(told.is_none(), "other labels are not guarded: {told:?}");
    // An extension is not turned to the default account either.
    let cleared = json!({"spec": {"serviceAccount": null}});
    let told = objection_to_patch(tenant, &scenario.name, &cleared).await?;
    wants(told.as_deref(), "not set, and the cluster has no default account")
}

async fn refused_by_spec_and_annotation(scenario: &Scenario<'_>, tenant: &Client) -> Result<()> {
    let named = extension(scenario, Some(ACCOUNT));
    let told = objection::<ClusterExtension>(tenant, &named).await?;
    wants(
        told.as_deref(),
        &format!(
            "spec.serviceAccount.name: {}-{TENANT} may not act as the service account \"installer\"",
            scenario.name
        ),
    )?;
    let spec = json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}});
    wants(objection_to_patch(tenant, &scenario.name, &spec).await?.as_deref(), "may not act as")?;
    let annotation = json!({"metadata": {"annotations": {format!("{EXTENSIONS_PREFIX}paused"): "true"}}});
    wants(objection_to_patch(tenant, &scenario.name, &annotation).await?.as_deref(), "may not act as")?;
    let harmless = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "mine"}}});
    let told = objection_to_patch(tenant, &scenario.name, &harmless).await?;
    ensure!(told.is_none(), "labels are not guarded: {told:?}");
    Ok(())
}

async fn refused_by_revision(scenario: &Scenario<'_>, tenant: &Client) -> Result<()> {
    let account = json!({SERVICE_ACCOUNT_NAME_ANNOTATION: ACCOUNT, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: scenario.name});
    let claim = json!({OWNER_KIND_LABEL: "ClusterExtension", OWNER_NAME_LABEL: scenario.name});
    for (annotations, labels, wanted) in [
        (&account, &json!({}), "may not act as the service account \"installer\""),
        (&json!({}), &claim, "tenant may not make or change one of"),
        (&json!({}), &json!({}), "name the service account of this ClusterObjectSet"),
    ] {
        let told = objection::<ClusterObjectSet>(tenant, &object_set(scenario, annotations, labels)).await?;
        wants(told.as_deref(), wanted)?;
    }
    // A revision for an extension that its writer may not update, and one of two masters.
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "verbs": ["*"], "resources": ["clusterobjectsets"]},
                       {"apiGroups": [""], "verbs": ["create"], "resources": ["serviceaccounts/token"]}]);
    let (_, stranger) = scenario.user("stranger", rules).await?;
    let told = objection::<ClusterObjectSet>(&stranger, &object_set(scenario, &account, &claim)).await?;
    wants(told.as_deref(), "stranger may not")?;
    let mut owned = object_set(scenario, &account, &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension", "name": scenario.name, "uid": "u", "controller": true}]);
    let told = objection::<ClusterObjectSet>(&stranger, &owned).await?;
    wants(told.as_deref(), "stranger may not")?;
    let mut two = object_set(scenario, &account, &claim);
    two["metadata"]["ownerReferences"] = json!([{"apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension", "name": "another", "uid": "u"}]);
    let told = objection::<ClusterObjectSet>(&scenario.client, &two).await?;
    wants(told.as_deref(), "name different ClusterExtensions")
}

async fn the_default_account_is_guarded_too(scenario: &Scenario<'_>, tenant: &Client) -> Result<()> {
    let unnamed = extension(scenario, None);
    let told = objection::<ClusterExtension>(&scenario.client, &unnamed).await?;
    wants(told.as_deref(), "not set, and the cluster has no default account")?;
    set_default(scenario, ACCOUNT).await?;
    // The API server's policies learn of the settings by a watch of their own.
    olm_test::wait::until("the default account to count", DEADLINE, async || {
        let told = objection::<ClusterExtension>(tenant, &unnamed).await?;
        wants(told.as_deref(), &not_the_default(scenario))
    })
    .await?;
    let told = objection::<ClusterExtension>(&scenario.client, &unnamed).await?;
    ensure!(told.is_none(), "the administrator may use it: {told:?}");
    // The controller takes it from there.
    let extensions = scenario.extensions();
    extensions.make(unnamed).await?;
    let second = format!("{}-second", scenario.name);
    olm_test::wait::until("the second extension to be worked on", DEADLINE, async || {
        let status = extensions.get(&second).await?.status.unwrap_or_default();
        let told = status.conditions.find(Progressing).map(|c| c.message.clone()).unwrap_or_default();
        // Two extensions of one package collide; what counts is that there is an account to collide with.
        ensure!(!told.is_empty() && !told.contains("no default account"), "{told}");
        Ok(())
    })
    .await?;
    scenario.remove_extension(&second).await
}

/// Sets the default account to one in the scenario's namespace.
async fn set_default(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    let settings: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let patch = json!({"data": {"default-service-account": format!("{}/{name}", scenario.name)}});
    settings.merge("olmv1-settings", &patch).await?;
    Ok(())
}

async fn says(scenario: &Scenario<'_>, name: &str, type_: ConditionType, wanted: &str) -> Result<()> {
    olm_test::wait::until(&format!("{type_} of {name} to say {wanted:?}"), DEADLINE, async || {
        let status = scenario.extensions().get(name).await?.status.unwrap_or_default();
        let told = status.conditions.find(type_).map(|c| c.message.clone()).unwrap_or_default();
        ensure!(told.contains(wanted), "{told}");
        Ok(())
    })
    .await
}

/// The accounts that the extension's revisions name.
async fn revisions_act_as(scenario: &Scenario<'_>, wanted: &str) -> Result<()> {
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    let found = scenario.sets().list(&mine).await?.items;
    let accounts: Vec<_> =
        found.iter().map(|set| set.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION)).collect();
    ensure!(accounts == [Some(&wanted.to_owned())], "{accounts:?}");
    Ok(())
}

/// Extensions that are installed, or that wait, go on with the default account they began with. Another one is used when
/// somebody who may use it asks for that: no new revision, but the one that exists acts as the other account.
async fn another_default_account_moves_nothing(
    scenario: &Scenario<'_>,
    tenant: &Client,
    bundles: &[(&str, PathBuf)],
) -> Result<()> {
    let recorded = async |extension: &str, account: &str| {
        olm_test::wait::until("the account to be recorded", DEADLINE, async || {
            let found = scenario.extensions().get(extension).await?;
            let told = found.annotations().get(IDENTITY_ANNOTATION).cloned().unwrap_or_default();
            let wanted = format!("{}/{account} ", scenario.name);
            ensure!(told.starts_with(&wanted) && told.ends_with(" from=default"), "{told}");
            Ok(())
        })
        .await
    };
    scenario.patch_extension(json!({"spec": {"serviceAccount": null}})).await?;
    recorded(&scenario.name, ACCOUNT).await?;
    set_default(scenario, MISSING).await?;
    let waiting = format!("{}-second", scenario.name);
    scenario.extensions().make(extension(scenario, None)).await?;
    recorded(&waiting, MISSING).await?;

    create_account(&scenario.client, &scenario.name, SUCCESSOR).await?;
    let files: Vec<_> =
        bundles.iter().map(|(_, folder)| bundle_files(&scenario.own(folder)?)).collect::<Result<_>>()?;
    grant(&scenario.client, &scenario.name, SUCCESSOR, &rules_for(&files, &scenario.name)?).await?;
    set_default(scenario, SUCCESSOR).await?;
    for (name, first) in [(&waiting, MISSING), (&scenario.name, ACCOUNT)] {
        let note = format!(
            "The default ServiceAccount is {}/{SUCCESSOR} now; this extension continues with {}/{first}, which it used first.",
            scenario.name, scenario.name
        );
        says(scenario, name, Ready, &note).await?;
    }
    says(scenario, &waiting, Progressing, &format!("service account {MISSING:?} not found")).await?;
    revisions_act_as(scenario, ACCOUNT).await?;
    // Who writes it needs the account that it uses, not the one that is the default now.
    let spec = json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}});
    let removed = json!({"metadata": {"annotations": {IDENTITY_ANNOTATION: null}}});
    for (patch, account) in [(&spec, ACCOUNT), (&removed, SUCCESSOR)] {
        let told = objection_to_patch(tenant, &scenario.name, patch).await?;
        wants(told.as_deref(), &format!("may not act as the service account {account:?}"))?;
    }
    scenario.extensions().remove(&waiting).await?;

    scenario.patch_extension(removed).await?;
    olm_test::wait::until("the revision to name the other account", DEADLINE, async || {
        revisions_act_as(scenario, SUCCESSOR).await
    })
    .await?;
    scenario.accounts().remove(ACCOUNT).await?;
    let cluster = &scenario.world.cluster;
    let mark = cluster.audit_mark()?;
    scenario.maps().remove(SETTINGS).await?;
    olm_test::wait::until("the object to be back", DEADLINE, async || {
        scenario.maps().get(SETTINGS).await.map(drop).map_err(Into::into)
    })
    .await?;
    let by = format!("system:serviceaccount:{}:{SUCCESSOR}", scenario.name);
    olm_test::wait::until("the audit log to name the other account", DEADLINE, async || {
        let events = cluster.audit_events_since(mark)?;
        let writes = events.iter().filter(|e| e.name == SETTINGS && e.verb != "get");
        let users: BTreeSet<String> = writes.map(|e| format!("{} {}", e.verb, e.user)).collect();
        ensure!(users.contains(&format!("create {by}")), "{users:?}");
        Ok(())
    })
    .await?;
    scenario.accounts().make(json!({"metadata": {"name": ACCOUNT}})).await?;
    Ok(())
}
