//! Who may create object sets makes none of them a revision of somebody else's extension: not by a claim, which
//! admission refuses, and not by one that is there already, which is reported and left alone.

use olm_api::names::{
    BUNDLE_NAME, CONTENT_DIGEST_ANNOTATION, INPUTS_DIGEST_ANNOTATION, MIGRATED_FROM_HELM_LABEL, PACKAGE_NAME,
    PLAN_DIGEST_ANNOTATION, PROPERTIES_ANNOTATION, RENDERED_DIGEST_ANNOTATION, REVISION_OF_ANNOTATION,
    ROLLED_BACK_TO_ANNOTATION, SERVICE_ACCOUNT_UID_ANNOTATION, TAKEN_OVER_ANNOTATION,
    WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
};
use olm_test::{extension::object_set, prelude::*};

use super::{objection, objection_to_change, wants};

/// The API group and version of extensions.
const OURS: &str = "olm.operatorframework.io/v1";
/// What is said to who makes a claim.
const REFUSED: &str = "only the controller makes revisions of a ClusterExtension";
/// The account of whoever attacks, which may do nothing but write ConfigMaps.
const WEAK: &str = "weak";

/// A user with every verb on extensions and object sets who may use an account of the scenario's namespace.
async fn attacker(scenario: &Scenario<'_>) -> Result<Client> {
    let rules = json!([
        {"apiGroups": ["olm.operatorframework.io"], "verbs": ["*"],
         "resources": ["clusterextensions", "clusterobjectsets"]},
        {"apiGroups": [""], "verbs": ["impersonate"], "resources": ["serviceaccounts"], "resourceNames": [WEAK]},
    ]);
    Ok(scenario.user("attacker", rules).await?.1)
}

/// An object set of one ConfigMap that acts as the weak account.
fn set(scenario: &Scenario<'_>, suffix: &str, number: i64) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                     "metadata": {"name": format!("loot-{suffix}"), "namespace": scenario.name}});
    let annotations =
        json!({SERVICE_ACCOUNT_NAME_ANNOTATION: WEAK, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: scenario.name});
    let metadata = json!({"name": format!("{}-{suffix}", scenario.name), "annotations": annotations});
    object_set(&metadata, number, &json!([{"object": map}]))
}

fn owned(mut set: Value, api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
    set
}

fn annotated(mut set: Value, name: &str, value: &str) -> Value {
    set["metadata"]["annotations"][name] = value.into();
    set
}

fn labelled(mut set: Value, name: &str, value: &str) -> Value {
    set["metadata"]["labels"][name] = value.into();
    set
}

/// Claims of each form for the extension with this UID, none of them by the controller.
fn claims(scenario: &Scenario<'_>, uid: &str) -> Vec<(&'static str, Value)> {
    let (victim, kind) = (scenario.name.as_str(), "ClusterExtension");
    let plain = |number| set(scenario, "claim", number);
    let mut silent = owned(plain(9), OURS, kind, victim, uid);
    silent["metadata"]["ownerReferences"][0]["controller"] = Value::Null;
    let mut claims = vec![
        (
            "by everything but the mark",
            labelled(owned(plain(99), OURS, kind, victim, uid), OWNER_NAME_LABEL, victim),
        ),
        ("without being its controller", silent),
        ("by a later version of the API", owned(plain(9), "olm.operatorframework.io/v9", kind, victim, uid)),
        ("under another name", owned(plain(1000), OURS, kind, "mine", uid)),
        ("by another kind", owned(plain(9), OURS, "ClusterCatalog", victim, uid)),
        ("by a foreign kind that controls it", owned(plain(9), "v1", "Namespace", victim, uid)),
        ("by the label for the name", labelled(plain(9), OWNER_NAME_LABEL, victim)),
        ("by the label for the kind", labelled(plain(9), OWNER_KIND_LABEL, kind)),
        ("by the mark", annotated(plain(9), REVISION_OF_ANNOTATION, uid)),
    ];
    // Above, below and at the number of the extension's own revision.
    claims
        .extend([1000, 2, 1].map(|n| ("of a foreign API", owned(plain(n), "not.olm/v1", kind, victim, uid))));
    claims
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_controller_makes_revisions() -> Result<()> {
    let scenario = Scenario::shared("owner").await?;
    scenario.offer(&[small("owner", "1.0.0")]).await?;
    scenario.install("owner", json!({}), "1.0.0").await?;
    scenario.account_for(WEAK, &[""], &["configmaps"]).await?;
    let attacker = attacker(&scenario).await?;
    let uid = scenario.extensions().get(&scenario.name).await?.uid().context("no UID")?;

    // The authorizer learns of new roles by a watch.
    let objected = async || objection::<ClusterObjectSet>(&attacker, &set(&scenario, "plain", 9)).await;
    eventually("a set without a claim to be accepted", objected, Option::is_none).await?;
    for (how, claim) in claims(&scenario, &uid) {
        let told = objection::<ClusterObjectSet>(&attacker, &claim).await?;
        wants(told.as_deref(), REFUSED).with_context(|| how.to_owned())?;
        let told = objection::<ClusterObjectSet>(&scenario.client, &claim).await?;
        ensure!(told.is_none(), "{how}: an administrator may own: {told:?}");
    }
    nothing_of_a_revision_is_changed(&scenario, &attacker).await?;
    a_set_does_not_become_a_revision(&scenario, &attacker, &uid).await?;
    names_of_accounts_are_names(&scenario, &attacker).await?;
    // Nor is the takeover begun anew.
    for value in [json!(null), json!("x")] {
        let patch = json!({"metadata": {"annotations": {TAKEN_OVER_ANNOTATION: value}}});
        let told = objection_to_change::<ClusterExtension>(&attacker, &scenario.name, &patch).await?;
        wants(told.as_deref(), "only the controller writes")?;
    }
    scenario.delete_extension().await
}

/// What a revision says about itself is what the controller acts upon.
async fn nothing_of_a_revision_is_changed(scenario: &Scenario<'_>, attacker: &Client) -> Result<()> {
    let revision = format!("{}-1", scenario.name);
    let before = scenario.sets().get(&revision).await?;
    let names = [
        REVISION_OF_ANNOTATION,
        INPUTS_DIGEST_ANNOTATION,
        CONTENT_DIGEST_ANNOTATION,
        PLAN_DIGEST_ANNOTATION,
        BUNDLE_NAME,
        BUNDLE_VERSION,
        PACKAGE_NAME,
        ROLLED_BACK_TO_ANNOTATION,
        PROPERTIES_ANNOTATION,
        WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
        "extensions.olm.operatorframework.io/anything",
    ];
    for name in names {
        let patch = json!({"metadata": {"annotations": {name: "9.9.9"}}});
        let told = objection_to_change::<ClusterObjectSet>(attacker, &revision, &patch).await?;
        wants(told.as_deref(), REFUSED).with_context(|| name.to_owned())?;
        if before.annotations().contains_key(name) {
            let patch = json!({"metadata": {"annotations": {name: null}}});
            let told = objection_to_change::<ClusterObjectSet>(attacker, &revision, &patch).await?;
            wants(told.as_deref(), REFUSED).with_context(|| format!("{name} taken away"))?;
        }
    }
    for (name, value) in [
        (MIGRATED_FROM_HELM_LABEL, json!("true")),
        (OWNER_NAME_LABEL, json!("mine")),
        (OWNER_NAME_LABEL, json!(null)),
    ] {
        let patch = json!({"metadata": {"labels": {name: value}}});
        let told = objection_to_change::<ClusterObjectSet>(attacker, &revision, &patch).await?;
        wants(told.as_deref(), "'clusterobjectset-owner.").with_context(|| format!("{name}: {value}"))?;
    }
    let harmless =
        json!({"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/note": "mine"}}});
    let told = objection_to_change::<ClusterObjectSet>(attacker, &revision, &harmless).await?;
    ensure!(told.is_none(), "what is not ours is not guarded: {told:?}");
    Ok(())
}

/// A set of the attacker's own is not turned into a revision later, not even while it is being deleted.
async fn a_set_does_not_become_a_revision(
    scenario: &Scenario<'_>,
    attacker: &Client,
    uid: &str,
) -> Result<()> {
    let own: Api<ClusterObjectSet> = Api::all(attacker.clone());
    let mut mine = set(scenario, "mine", 7);
    mine["metadata"]["finalizers"] = json!(["example.com/held"]);
    // A foreign reference that controls nothing is no claim.
    mine["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u"}]);
    let name = own.make(mine).await?.name_any();
    let reference = |api_version: &str, controller: bool| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": "ClusterExtension",
               "name": scenario.name, "uid": uid, "controller": controller}]}})
    };
    let patches = [
        reference(OURS, true),
        reference(OURS, false),
        reference("not.olm/v1", true),
        json!({"metadata": {"labels": {OWNER_NAME_LABEL: scenario.name}}}),
        json!({"metadata": {"annotations": {REVISION_OF_ANNOTATION: uid}}}),
    ];
    for dying in [false, true] {
        if dying {
            own.remove(&name).await?;
        }
        for patch in &patches {
            let told = objection_to_change::<ClusterObjectSet>(attacker, &name, patch).await?;
            wants(told.as_deref(), REFUSED)
                .with_context(|| format!("{patch}, while it is being deleted: {dying}"))?;
        }
    }
    let free = json!({"metadata": {"finalizers": null}});
    let told = objection_to_change::<ClusterObjectSet>(attacker, &name, &free).await?;
    ensure!(told.is_none(), "finalizers claim nothing: {told:?}");
    Ok(())
}

async fn names_of_accounts_are_names(scenario: &Scenario<'_>, attacker: &Client) -> Result<()> {
    for name in ["../../vic/serviceaccounts/installer", "installer/token?x=", "a%2fb", "-a", "A"] {
        for client in [attacker, &scenario.client] {
            let set = annotated(set(scenario, "odd", 9), SERVICE_ACCOUNT_NAME_ANNOTATION, name);
            let told = objection::<ClusterObjectSet>(client, &set).await?;
            wants(told.as_deref(), "is not the name of a service account")
                .with_context(|| name.to_owned())?;
        }
    }
    let set = annotated(set(scenario, "odd", 9), SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, "../kube-system");
    let told = objection::<ClusterObjectSet>(&scenario.client, &set).await?;
    wants(told.as_deref(), "is not the name of a service account")
}

/// Creates sets that claim the extension of this UID: with the next revision's name, with everything of the latest revision
/// but mark and account, of a foreign API, and under the name of another extension.
async fn plant(scenario: &Scenario<'_>, mine: &str, uid: &str) -> Result<Vec<Value>> {
    let first = scenario.sets().get(&format!("{}-1", scenario.name)).await?;

    let kind = "ClusterExtension";
    let mut copy = labelled(
        owned(set(scenario, "99", 99), OURS, kind, &scenario.name, uid),
        OWNER_NAME_LABEL,
        &scenario.name,
    );
    for (name, value) in first.annotations() {
        let is_own = [
            REVISION_OF_ANNOTATION,
            SERVICE_ACCOUNT_NAME_ANNOTATION,
            SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
            SERVICE_ACCOUNT_UID_ANNOTATION,
            // With these it would not even be carried out: its content is another one.
            RENDERED_DIGEST_ANNOTATION,
            CONTENT_DIGEST_ANNOTATION,
        ];
        if !is_own.contains(&name.as_str()) {
            copy["metadata"]["annotations"][name] = value.as_str().into();
        }
    }
    let planted = vec![
        set(scenario, "2", 2),
        copy,
        owned(set(scenario, "above", 1000), "not.olm/v1", kind, &scenario.name, uid),
        owned(set(scenario, "below", 1), "not.olm/v1", kind, &scenario.name, uid),
        owned(set(scenario, "named", 1000), OURS, kind, mine, uid),
    ];
    for set in &planted {
        scenario.sets().make(set.clone()).await?;
    }
    Ok(planted)
}

/// Sets that claim an extension and are there all the same, from before the policies or by an administrator's hand.
#[tokio::test(flavor = "multi_thread")]
async fn sets_that_only_claim_an_extension_are_reported_and_left_alone() -> Result<()> {
    let scenario = Scenario::shared("foreign").await?;
    let group = scenario.group();
    let bundles = [
        small("foreign", "1.0.0").brings(&group, "Jewel"),
        small("foreign", "1.1.0").brings(&group, "Jewel").replaces("1.0.0"),
    ];
    scenario.offer(&bundles).await?;
    scenario.install("foreign", json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.account_for(WEAK, &[""], &["configmaps"]).await?;
    let uid = scenario.extensions().get(&scenario.name).await?.uid().context("no UID")?;
    let mine = format!("{}-mine", scenario.name);
    scenario.another(&mine, "no-such-package", json!({})).await?;
    let planted = plant(&scenario, &mine, &uid).await?;
    let named = |suffix: &str| format!("{}-{suffix}", scenario.name);
    // Their own account carries them out, which it may.
    for suffix in ["2", "99"] {
        scenario.set_succeeds(&named(suffix)).await?;
    }
    wait::until("foreign sets to be reported", DEADLINE, async || {
        for suffix in ["2", "99"] {
            let account = scenario.sets().get(&named(suffix)).await?;
            let account = account.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION).cloned();
            if account.as_deref() != Some(WEAK) {
                return Err(wait::Final(format!("{suffix} acts as {account:?}")).into());
            }
        }
        let told = scenario.shown().await?.condition(Ready);
        ensure!(told.starts_with("True/Succeeded/") && told.contains("and they are ignored: "), "{told}");
        // The garbage collector removes what has an owner of another name and the UID of this one.
        for suffix in ["2", "99"] {
            ensure!(told.contains(&format!("{:?}", named(suffix))), "{suffix}: {told}");
        }
        Ok(())
    })
    .await?;

    // None of them is the latest revision, and none gets the extension's account.
    scenario.upgrade("1.1.0").await?;
    wait::until("the revision before to be archived", DEADLINE, || async {
        let revisions = scenario.revisions().await?.into_iter();
        let ours = revisions.filter(|set| set.annotations().contains_key(REVISION_OF_ANNOTATION));
        let numbers: Vec<i64> = ours.map(|set| set.spec.revision).collect();
        wait::check(numbers == [3], || format!("the name of 2 is taken: {numbers:?}"))
    })
    .await?;
    for suffix in ["2", "99"] {
        let set = scenario.sets().get(&named(suffix)).await?;
        let account = set.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION);
        ensure!(account.map(String::as_str) == Some(WEAK), "{suffix} acts as {account:?}");
        ensure!(set.spec.lifecycle_state == LifecycleState::Active, "{suffix} was archived");
        let others = set.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
        ensure!(
            others.clone().all(|manager| !manager.contains("clusterextension-controller")),
            "{suffix}: {:?}",
            others.collect::<Vec<_>>()
        );
    }
    ensure!(scenario.shown().await?.condition(Ready).contains(&named("2")), "still reported");
    for set in &planted {
        let name = set["metadata"]["name"].as_str().unwrap_or_default();
        // Some are gone by the garbage collector.
        let _ = scenario.sets().delete(name, &DeleteParams::default()).await;
    }
    scenario.delete_extension().await
}

/// The mark alone says which extension is meant, and that one reports it at once, even while it cannot be worked on.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_has_only_the_uid_of_an_extension_is_reported_by_it() -> Result<()> {
    let scenario = Scenario::shared("meant").await?;
    scenario.offer(&[small("meant", "1.0.0")]).await?;
    scenario.install("meant", json!({}), "1.0.0").await?;
    scenario.account_for(WEAK, &[""], &["configmaps"]).await?;
    let uid = scenario.extensions().get(&scenario.name).await?.uid().context("no UID")?;
    let marked = annotated(set(&scenario, "other", 1), REVISION_OF_ANNOTATION, &uid);
    let marked = scenario.sets().make(marked).await?;
    let reported = async |state: &str| {
        let named = format!("and they are ignored: {:?}. Delete them.", marked.name_any());
        scenario.reports(Ready, |ready| ready.starts_with(state) && ready.contains(&named)).await
    };
    reported("True/Succeeded/").await?;

    scenario.accounts().remove(ACCOUNT).await?;
    reported("False/Blocked/operation cannot proceed").await?;
    scenario.sets().remove(&marked.name_any()).await?;
    scenario.delete_extension().await
}

/// A mark that was written while the policies were missing is believed afterwards, and brings no account all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_marked_set_of_other_content_gets_no_account() -> Result<()> {
    let scenario = Scenario::shared("marked").await?;
    let bundles = [small("marked", "1.0.0"), small("marked", "1.1.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    scenario.install("marked", json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.account_for(WEAK, &[""], &["configmaps"]).await?;
    let uid = scenario.extensions().get(&scenario.name).await?.uid().context("no UID")?;
    let first = scenario.sets().get(&format!("{}-1", scenario.name)).await?;
    let mut forged = labelled(
        owned(set(&scenario, "99", 99), OURS, "ClusterExtension", &scenario.name, &uid),
        OWNER_NAME_LABEL,
        &scenario.name,
    );
    for (name, value) in first.annotations() {
        let is_account = [
            SERVICE_ACCOUNT_NAME_ANNOTATION,
            SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
            SERVICE_ACCOUNT_UID_ANNOTATION,
        ];
        if !is_account.contains(&name.as_str()) {
            forged["metadata"]["annotations"][name] = value.as_str().into();
        }
    }
    scenario.sets().make(forged).await?;
    let name = format!("{}-99", scenario.name);
    let acts_as = async || -> Result<Option<String>> {
        let set = scenario.sets().get(&name).await?;
        Ok(set.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION).cloned())
    };
    // The next revision of the extension itself comes after it, with its own content and account.
    wait::until("a revision of the extension's own", DEADLINE, async || {
        ensure!(acts_as().await?.as_deref() == Some(WEAK), "it acts as {:?}", acts_as().await?);
        let next = scenario.sets().get(&format!("{}-100", scenario.name)).await?;
        let account = next.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION);
        ensure!(account.map(String::as_str) == Some(ACCOUNT), "{account:?}");
        Ok(())
    })
    .await?;
    scenario.upgrade("1.1.0").await?;
    let gone = scenario.sets().get_opt(&name).await?.is_none();
    ensure!(gone || acts_as().await?.as_deref() == Some(WEAK), "it got an account");
    scenario.delete_extension().await
}

/// The sets of a foreign API do not live long: nobody knows their owner. They must do no harm as long as they do.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_a_foreign_api_archives_nothing() -> Result<()> {
    // A world of its own, whose garbage collector is stopped.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "newer").await?;
    scenario.offer(&[small("newer", "1.0.0")]).await?;
    scenario.install("newer", json!({}), "1.0.0").await?;
    scenario.account_for(WEAK, &[""], &["configmaps"]).await?;
    let collector = world.cluster.processes().iter().find(|p| p.name() == "kube-controller-manager");
    collector.context("no controller manager")?.kill()?;
    let uid = scenario.extensions().get(&scenario.name).await?.uid().context("no UID")?;
    let kind = "ClusterExtension";
    for (suffix, set) in [
        ("above", owned(set(&scenario, "above", 1000), "not.olm/v1", kind, &scenario.name, &uid)),
        ("named", owned(set(&scenario, "named", 1001), OURS, kind, "mine", &uid)),
    ] {
        scenario.sets().make(set).await?;
        let name = format!("{}-{suffix}", scenario.name);
        scenario.set_succeeds(&name).await?;
        // Its next pass is the one that archives what it supersedes.
        let patch = json!({"metadata": {"labels": {"team": "a"}}});
        scenario.sets().merge(&name, &patch).await?;
        let told = format!("{name:?}");
        wait::until("the set to be reported", DEADLINE, async || {
            let first = scenario.sets().get(&format!("{}-1", scenario.name)).await?;
            if first.spec.lifecycle_state != LifecycleState::Active {
                return Err(wait::Final("the extension's revision was archived".to_owned()).into());
            }
            let ready = scenario.shown().await?.condition(Ready);
            ensure!(ready.starts_with("True/Succeeded/") && ready.contains(&told), "{ready}");
            Ok(())
        })
        .await?;
    }
    let first = scenario.sets().get(&format!("{}-1", scenario.name)).await?;
    ensure!(first.spec.lifecycle_state == LifecycleState::Active, "the extension's revision was archived");
    let account = first.annotations().get(SERVICE_ACCOUNT_NAME_ANNOTATION).map(String::as_str);
    ensure!(account == Some(ACCOUNT), "{account:?}");
    Ok(())
}
