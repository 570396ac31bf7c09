//! Update policies on a real API server: between approval and roll-out every input changes in turn, and nothing but the
//! approved plan is ever rolled out.

use olm_api::{
    names::{ALLOW_CRD_CHANGES_ANNOTATION, APPROVED_PLAN_ANNOTATION, PLAN_DIGEST_ANNOTATION},
    v1alpha1::{ExtensionPlan, PlannedChange, UpdatePolicy},
};
use olm_test::{
    bundle::{IMAGE, config_map, deployment},
    cli,
    prelude::*,
};

const PACKAGE: &str = "approved";
const EXTRA: &str = "approved-extra";

fn versions(scenario: &Scenario<'_>) -> [Bundle; 3] {
    let group = scenario.group();
    let size = |named: &str| json!({named: {"type": "integer"}});
    let reads_secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    let second = |version: &str| small(PACKAGE, version).contains(config_map(EXTRA, &json!({"a": "b"})));
    [
        small(PACKAGE, "1.0.0").brings_with(&group, "Widget", &size("size")),
        second("1.1.0").replaces("1.0.0").brings_with(&group, "Widget", &size("size")),
        second("1.2.0")
            .replaces("1.1.0")
            .edges(json!({"replaces": format!("{PACKAGE}.v1.1.0"), "skips": [format!("{PACKAGE}.v1.0.0")]}))
            .brings_with(&group, "Widget", &size("size"))
            .operator(deployment(PACKAGE, IMAGE), &reads_secrets),
    ]
}

/// A policy for the scenario's extension alone.
async fn create_policy(scenario: &Scenario<'_>, spec: Value) -> Result<()> {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"policy": scenario.name}});
    let policy = json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": scenario.name}, "spec": spec,
    });
    scenario.all::<UpdatePolicy>().make(policy).await?;
    scenario.patch_extension(json!({"metadata": {"labels": {"policy": scenario.name}}})).await?;
    let selected = async || Ok(scenario.all::<UpdatePolicy>().get(&scenario.name).await?.status);
    eventually("the policy to be in force", selected, |status| {
        status.as_ref().is_some_and(|status| status.selected == Some(1))
    })
    .await
}

async fn plans(scenario: &Scenario<'_>) -> Result<Vec<ExtensionPlan>> {
    let mine = format!("{OWNER_NAME_LABEL}={}", scenario.name);
    scenario.all::<ExtensionPlan>().labelled(&mine).await
}

/// Waits until one plan is kept, and another one than `before`.
async fn plan_after(scenario: &Scenario<'_>, before: Option<&str>) -> Result<ExtensionPlan> {
    let is_other = |plans: &Vec<ExtensionPlan>| {
        plans.len() == 1 && plans.iter().all(|plan| Some(plan.spec.digest.as_str()) != before)
    };
    eventually(&format!("another plan than {before:?}"), async || plans(scenario).await, is_other).await?;
    plans(scenario).await?.pop().context("the plan is gone")
}

async fn approve(scenario: &Scenario<'_>, digest: &str) -> Result<()> {
    let approved = json!({"metadata": {"annotations": {APPROVED_PLAN_ANNOTATION: digest}}});
    scenario.patch_extension(approved).await
}

/// The plan that was read is approved after its input has changed: it waits for another approval, and says why.
async fn refused_after(scenario: &Scenario<'_>, read: &str, differs: &str) -> Result<String> {
    approve(scenario, read).await?;
    let plan = plan_after(scenario, Some(read)).await?;
    let known = plan.spec.supersedes.context("it takes the place of another")?;
    ensure!(
        known.digest == read && known.differences.iter().any(|one| one.contains(differs)),
        "wanted {differs:?}: {known:?}"
    );
    scenario
        .reports(Ready, |text| {
            text.contains("which is another plan") && text.contains("Since then: ") && text.contains(differs)
        })
        .await?;
    ensure!(scenario.revisions().await?.len() == 1, "something was rolled out");
    Ok(plan.spec.digest)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_the_approved_plan_is_rolled_out_whatever_changes() -> Result<()> {
    let scenario = Scenario::shared("approved").await?;
    let [first, second, third] = versions(&scenario);
    scenario.offer(&[first.clone(), second.clone()]).await?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    create_policy(&scenario, json!({"approval": "Manual"})).await?;
    let mark = scenario.world.cluster.audit_mark()?;
    scenario.set_version("1.x").await?;
    let plan = plan_after(&scenario, None).await?;
    ensure!(plan.spec.to.version == "1.1.0" && plan.spec.from.as_ref().is_some_and(|b| b.version == "1.0.0"));
    let is_extra = |change| {
        move |object: &olm_api::v1alpha1::PlannedObject| object.name == EXTRA && object.change == change
    };
    ensure!(plan.spec.objects.iter().any(is_extra(PlannedChange::Create)), "{:?}", plan.spec.objects);
    scenario
        .reports(Ready, |text| text.starts_with("True/Succeeded/1.1.0 waits for the approval of plan "))
        .await?;
    scenario.shows(Stalled, "True/ApprovalRequired/1.1.0 waits for").await?;

    // An object that another user makes.
    scenario.maps().make(config_map(EXTRA, &json!({"a": "mine"}))).await?;
    // Nothing announces it: the next look at the extension finds it.
    let digest = refused_after(&scenario, &plan.spec.digest, EXTRA).await?;
    // The spec.
    scenario.annotate("reinstall", json!("again")).await?;
    let digest = refused_after(&scenario, &digest, "another configuration").await?;
    // The catalog, and with it the operator's permissions.
    let reference = scenario.push_made(&[first, second, third], &[], "more").await?;
    let source = json!({"spec": {"source": {"image": {"ref": reference}}}});
    scenario.patch_catalog(&scenario.name, source).await?;
    // Until the catalog is served, the plan that is approved is the one that waits.
    plan_after(&scenario, Some(&digest)).await?;
    let digest = refused_after(&scenario, &digest, "1.2.0 instead of 1.1.0").await?;
    let gained = plans(&scenario).await?.remove(0).spec.permissions;
    ensure!(gained[0].danger.as_deref().is_some_and(|danger| danger.contains("Secrets")), "{gained:?}");
    // The CRD: a field that the new version does not know is accepted to go.
    let digest = a_changed_crd_is_another_plan(&scenario, &digest).await?;
    // The object is no longer in the way.
    scenario.maps().remove(EXTRA).await?;
    let last = refused_after(&scenario, &digest, EXTRA).await?;
    let objects = plans(&scenario).await?.remove(0).spec.objects;
    ensure!(objects.iter().any(is_extra(PlannedChange::Create)), "{objects:?}");
    approved_by_command(&scenario, &last).await?;
    scenario.installed("1.2.0").await?;
    let revisions = scenario.revisions().await?;
    let of = revisions.last().and_then(|set| set.annotations().get(PLAN_DIGEST_ANNOTATION).cloned());
    ensure!(of.as_ref() == Some(&last), "{of:?} instead of {last}");
    eventually("the plan to be gone", async || plans(&scenario).await, Vec::is_empty).await?;
    let events = scenario.world.cluster.audit_events_since(mark)?;
    let made: Vec<_> = events
        .iter()
        .filter(|event| event.resource == "clusterobjectsets" && event.verb == "create" && event.code < 300)
        .filter(|event| event.name.starts_with(&format!("{}-", scenario.name)))
        .collect();
    ensure!(made.len() == 1, "revisions without approval: {made:?}");
    scenario.all::<UpdatePolicy>().remove(&scenario.name).await?;
    scenario.uninstall().await
}

/// A finding on the CRD is in the way first, and another plan when it is accepted; its digest.
async fn a_changed_crd_is_another_plan(scenario: &Scenario<'_>, read: &str) -> Result<String> {
    let name = format!("widgets.{}", scenario.group());
    let mut crd = serde_json::to_value(scenario.crds().get(&name).await?)?;
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["color"] = json!({"type": "string"});
    scenario.crds().replace(&name, &PostParams::default(), &serde_json::from_value(crd)?).await?;
    approve(scenario, read).await?;
    scenario.annotate("reinstall", json!("look")).await?;
    scenario.reports(Progressing, |text| text.contains("validating upgrade for CRD")).await?;
    ensure!(scenario.revisions().await?.len() == 1, "something was rolled out");
    let shown = scenario.shown().await?.condition(Ready);
    let entries = shown.split(&format!("set the annotation {ALLOW_CRD_CHANGES_ANNOTATION}: ")).nth(1);
    let entry = entries.and_then(|rest| rest.lines().next()).with_context(|| shown.clone())?.to_owned();
    scenario
        .patch_extension(json!({"metadata": {"annotations": {ALLOW_CRD_CHANGES_ANNOTATION: entry}}}))
        .await?;
    // The changed CRD alone makes another plan, before its finding is accepted.
    let has_finding = |plans: &Vec<ExtensionPlan>| {
        let of_crd = |plan: &ExtensionPlan| plan.spec.crds.iter().any(|crd| crd.name == name);
        plans.len() == 1 && plans.iter().all(|plan| plan.spec.digest != read && of_crd(plan))
    };
    eventually("a plan with the finding on the CRD", async || plans(scenario).await, has_finding).await?;
    scenario.reports(Ready, |text| text.contains("CRD changes accepted by ")).await?;
    ensure!(scenario.revisions().await?.len() == 1, "something was rolled out");
    Ok(plans(scenario).await?.pop().context("the plan is gone")?.spec.digest)
}

/// Approves what waits with `olm approve`, after `olm plan` has shown it.
async fn approved_by_command(scenario: &Scenario<'_>, digest: &str) -> Result<()> {
    let kubeconfig = scenario.world.cluster.kubeconfig_admin();
    let wrong = format!("sha256:{}", "0".repeat(64));
    let stale = ["approve", &scenario.name, "--yes", "--digest", &wrong];
    let answer = cli::olm(&kubeconfig, &stale).await?;
    ensure!(answer.code == Some(1) && answer.errors.contains(&format!("not {wrong}")), "{}", answer.errors);
    let shown = cli::olm(&kubeconfig, &["plan", &scenario.name]).await?;
    shown.ensure(0, &["Plan of ", "to:    1.2.0", "which may read Secrets of every namespace"])?;
    let approve = ["approve", &scenario.name, "--yes", "--digest", digest];
    cli::olm(&kubeconfig, &approve).await?.ensure(0, &["is approved"])
}
