//! Who may approve a plan, and who may write one.

use olm_api::{
    names::{APPROVED_PLAN_ANNOTATION, EXTENSIONS_PREFIX},
    v1alpha1::ExtensionPlan,
};
use olm_test::prelude::*;

use super::{extension, objection, objection_to_patch, wants};

const GROUP: &str = "olm.operatorframework.io";
const NOT_APPROVER: &str = "may not approve plans of ClusterExtension";
const NOT_ACCOUNT: &str = "may not act as the service account";

fn digest(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

fn approval(value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({"metadata": {"annotations": {APPROVED_PLAN_ANNOTATION: value}}})
}

/// A rule on extensions, of these names if there are any.
fn on_extensions(verbs: &[&str], names: &[&str]) -> Value {
    json!({"apiGroups": [GROUP], "resources": ["clusterextensions"], "verbs": verbs, "resourceNames": names})
}

fn use_of_accounts() -> Value {
    json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]})
}

/// A user, and what is said to their approval; nothing if they may.
type Row = (&'static str, Vec<Value>, Option<&'static str>);

fn table(name: &str) -> Vec<Row> {
    const EDIT: [&str; 3] = ["get", "patch", "update"];
    vec![
        ("editor", vec![on_extensions(&EDIT, &[])], Some(NOT_APPROVER)),
        ("owner", vec![on_extensions(&EDIT, &[]), use_of_accounts()], Some(NOT_APPROVER)),
        (
            "elsewhere",
            vec![on_extensions(&EDIT, &[]), on_extensions(&["approve"], &["other"])],
            Some(NOT_APPROVER),
        ),
        ("alone", vec![on_extensions(&["approve", "get"], &[])], Some("cannot patch resource")),
        ("approver", vec![on_extensions(&["approve", "get", "patch"], &[])], None),
        ("named", vec![on_extensions(&["get", "patch"], &[]), on_extensions(&["approve"], &[name])], None),
        ("all", vec![on_extensions(&["*"], &[])], None),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn approving_takes_the_verb_approve_and_no_account() -> Result<()> {
    let scenario = Scenario::shared("approvals").await?;
    scenario.offer(&[small("approvals", "1.0.0")]).await?;
    scenario.install("approvals", json!({}), "1.0.0").await?;
    let name = &scenario.name;
    let mut clients = BTreeMap::new();
    for (user, rules, wanted) in table(name) {
        let (_, client) = scenario.user(user, json!(rules)).await?;
        // The authorizer learns of new roles by a watch.
        olm_test::wait::until(&format!("the answer to {user}"), DEADLINE, async || {
            let told = objection_to_patch(&client, name, &approval(digest("a"))).await?;
            match wanted {
                Some(wanted) => wants(told.as_deref(), wanted),
                None => olm_test::wait::check(told.is_none(), || format!("{told:?}")),
            }
        })
        .await
        .with_context(|| user.to_owned())?;
        // To take it back takes nothing but an edit.
        let told = objection_to_patch(&client, name, &approval(Value::Null)).await?;
        ensure!(told.is_none() || user == "alone", "{user}: {told:?}");
        clients.insert(user, client);
    }
    ensure!(objection_to_patch(&clients["approver"], name, &approval(digest("a"))).await?.is_none());
    let told = objection_to_patch(&clients["editor"], name, &approval(digest("b"))).await?;
    wants(told.as_deref(), NOT_APPROVER)?;
    let told =
        objection_to_patch(&clients["editor"], name, &json!({"metadata": {"labels": {"team": "a"}}})).await?;
    ensure!(told.is_none(), "what is approved is not in the way of other edits: {told:?}");
    for wrong in ["true", &digest("a")[..20], &digest("g"), ""] {
        let told = objection_to_patch(&clients["approver"], name, &approval(wrong)).await?;
        wants(told.as_deref(), "cannot be").with_context(|| wrong.to_owned())?;
    }
    // An approval brings nothing else through.
    let paused = format!("{EXTENSIONS_PREFIX}paused");
    let mut both = approval(digest("c"));
    both["metadata"]["annotations"][&paused] = "true".into();
    wants(objection_to_patch(&clients["approver"], name, &both).await?.as_deref(), NOT_ACCOUNT)?;
    let mut both = approval(digest("c"));
    both["spec"] = json!({"source": {"catalog": {"version": "1.x"}}});
    wants(objection_to_patch(&clients["approver"], name, &both).await?.as_deref(), NOT_ACCOUNT)?;
    approved_from_the_beginning(&scenario).await?;
    only_the_controller_writes_plans(&scenario).await?;
    scenario.uninstall().await
}

/// An extension that is created with an approval.
async fn approved_from_the_beginning(scenario: &Scenario<'_>) -> Result<()> {
    let rules = json!([on_extensions(&["create", "get"], &[]), use_of_accounts()]);
    let (_, creator) = scenario.user("creator", rules).await?;
    let mut new = extension(scenario, Some(ACCOUNT));
    let objected = async || objection::<ClusterExtension>(&creator, &new).await;
    eventually("the creator's permissions to count", objected, Option::is_none).await?;
    new["metadata"]["annotations"] = json!({APPROVED_PLAN_ANNOTATION: digest("a")});
    wants(objection::<ClusterExtension>(&creator, &new).await?.as_deref(), NOT_APPROVER)
}

async fn only_the_controller_writes_plans(scenario: &Scenario<'_>) -> Result<()> {
    let rules = json!([{"apiGroups": [format!("extensions.{GROUP}")], "resources": ["*"], "verbs": ["*"]},
                       on_extensions(&["*"], &[])]);
    let (_, writer) = scenario.user("writer", rules).await?;
    let bundle = json!({"version": "1", "bundle": "b", "image": "i"});
    let plan = json!({
        "apiVersion": format!("extensions.{GROUP}/v1alpha1"), "kind": "ExtensionPlan",
        "metadata": {"name": scenario.name},
        "spec": {"extension": {"name": scenario.name, "uid": "u"}, "digest": digest("a"), "to": bundle,
                 "firstPossible": "2026-01-01T00:00:00Z",
                 "counts": {"created": 0, "changed": 0, "deleted": 0, "kept": 0}},
    });
    olm_test::wait::until("the answer to who writes a plan", DEADLINE, async || {
        let told = objection::<ExtensionPlan>(&writer, &plan).await?;
        wants(told.as_deref(), "only the controller writes plans")
    })
    .await?;
    // The administrator of this control plane may do everything, also what the controller may.
    let plans: Api<ExtensionPlan> = Api::all(scenario.client.clone());
    plans.create(&PostParams::default(), &serde_json::from_value(plan)?).await?;
    let other = json!({"spec": {"digest": digest("b")}});
    match plans.patch(&scenario.name, &PatchParams::default(), &Patch::Merge(&other)).await {
        Err(kube::Error::Api(status)) => wants(Some(&status.message), "a plan is immutable")?,
        answer => bail!("a plan was changed: {answer:?}"),
    }
    // Who may delete plans may remove one: it is written again while it is needed.
    Api::<ExtensionPlan>::all(writer).delete(&scenario.name, &DeleteParams::default()).await?;
    Ok(())
}
