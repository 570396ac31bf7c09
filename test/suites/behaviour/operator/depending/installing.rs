//! Extensions that are created for what a bundle requires, and removed when nothing needs them any more.

use olm_api::{
    names::{
        APPROVED_PLAN_ANNOTATION, DEPENDENCIES_ANNOTATION, PLAN_DIGEST_ANNOTATION, REQUIRED_BY_ANNOTATION,
    },
    v1alpha1::{ExtensionPlan, UpdatePolicy},
};
use olm_test::cli;

use super::*;

/// A bundle that needs the package `base`, which is also the name of the extension that is created.
async fn offer(scenario: &Scenario<'_>, base: &str) -> Result<()> {
    let needs = |bundle: Bundle| bundle.property("olm.package.required", package(base, ">=1.0.0 <2.0.0"));
    let bundles = [
        small(base, "1.0.0"),
        small(base, "1.2.0").replaces("1.0.0"),
        small(base, "2.0.0").replaces("1.2.0"),
        needs(small("needy", "1.0.0")),
        needs(small("second", "1.0.0")),
    ];
    scenario.offer(&bundles).await
}

async fn get(scenario: &Scenario<'_>, name: &str) -> Result<Option<ClusterExtension>> {
    Ok(scenario.extensions().get_opt(name).await?)
}

/// Waits for a reconcile of the extension that begins now, and checks that it is not being removed.
async fn stays(scenario: &Scenario<'_>, name: &str, minutes: i32) -> Result<()> {
    scenario.extensions().merge(name, &json!({"spec": {"progressDeadlineMinutes": minutes}})).await?;
    let set = async || Ok(scenario.sets().get(&format!("{name}-1")).await?.spec.progress_deadline_minutes);
    eventually("the extension to be reconciled", set, |found| *found == Some(minutes)).await?;
    let found = get(scenario, name).await?.context("it was removed")?;
    ensure!(found.metadata.deletion_timestamp.is_none(), "it is being removed");
    Ok(())
}

async fn gone(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    eventually(&format!("{name} to be gone"), async || get(scenario, name).await, Option::is_none).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_installed_for_who_asks_and_goes_with_the_last_who_needs_it() -> Result<()> {
    let scenario = Scenario::shared("asking").await?;
    let base = format!("{}-base", scenario.name);
    offer(&scenario, &base).await?;
    scenario.create_extension("needy", json!({})).await?;
    scenario.shows(Stalled, "True/Blocked/bundle \"needy.v1.0.0\" requires what is not installed").await?;
    ensure!(get(&scenario, &base).await?.is_none(), "without the annotation nothing is created");
    ensure!(!scenario.shown().await?.condition(Ready).contains("is created for it"));

    scenario.annotate("dependencies", json!("InstallAndRemove")).await?;
    scenario.installed("1.0.0").await?;
    wait_installed(&scenario, &base, "1.2.0").await?;
    let (needy, created) =
        (scenario.extensions().get(&scenario.name).await?, get(&scenario, &base).await?.context("created")?);
    let origin = format!("{}/{}", scenario.name, needy.uid().unwrap_or_default());
    ensure!(created.annotations().get(REQUIRED_BY_ANNOTATION) == Some(&origin), "{created:?}");
    ensure!(
        (&created.spec.namespace, &created.spec.service_account)
            == (&needy.spec.namespace, &needy.spec.service_account),
        "{created:?}"
    );
    ensure!(created.owner_references().is_empty(), "{created:?}");
    let shown =
        created.status.as_ref().map(|status| condition_text(&status.conditions, Ready)).unwrap_or_default();
    ensure!(shown.contains("Created because the bundle of ClusterExtension"), "{shown}");
    println!("[created]\n{shown}\n");

    // Only the controller says why an extension was created, and everyone who may edit it may take that back.
    let rules = json!([
        {"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
    ]);
    let (_, client) = scenario.user("editor", rules).await?;
    let theirs: Api<ClusterExtension> = Api::all(client);
    let claim = json!({"metadata": {"annotations": {REQUIRED_BY_ANNOTATION: "other/u-1"}}});
    wait::until("the claim to be refused", DEADLINE, async || {
        let answer = theirs.patch(&scenario.name, &PatchParams::default(), &Patch::Merge(&claim)).await;
        let text = answer.map(drop).err().map(|error| error.to_string()).unwrap_or_default();
        wait::check(text.contains("only the controller writes"), || text)
    })
    .await?;

    let second = format!("{}-second", scenario.name);
    scenario.another(&second, "second", json!({})).await?;
    wait_installed(&scenario, &second, "1.0.0").await?;
    scenario.uninstall().await?;
    stays(&scenario, &base, 11).await?;
    scenario.remove_extension(&second).await?;
    gone(&scenario, &base).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_installed_stays_unless_it_is_to_be_removed() -> Result<()> {
    let scenario = Scenario::shared("keeping").await?;
    let base = format!("{}-base", scenario.name);
    offer(&scenario, &base).await?;
    let mut extension = scenario.extension_object("needy");
    extension["metadata"]["annotations"] = json!({DEPENDENCIES_ANNOTATION: "Install"});
    scenario.extensions().make(extension).await?;
    scenario.installed("1.0.0").await?;
    scenario.uninstall().await?;
    stays(&scenario, &base, 12).await?;
    // With the annotation it goes, and without the record of why it was created it would not.
    let annotate = async |key: &str, value: Value| {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        scenario.extensions().merge(&base, &patch).await.map(drop)
    };
    let origin =
        get(&scenario, &base).await?.context("it stays")?.annotations()[REQUIRED_BY_ANNOTATION].clone();
    annotate(REQUIRED_BY_ANNOTATION, Value::Null).await?;
    annotate(DEPENDENCIES_ANNOTATION, json!("InstallAndRemove")).await?;
    stays(&scenario, &base, 13).await?;
    annotate(REQUIRED_BY_ANNOTATION, json!(origin)).await?;
    gone(&scenario, &base).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_created_before_the_plan_is_approved() -> Result<()> {
    let scenario = Scenario::shared("planned").await?;
    let base = format!("{}-base", scenario.name);
    offer(&scenario, &base).await?;
    let policy = json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": scenario.name},
        "spec": {"selector": {"matchLabels": {"policy": scenario.name}}, "approval": "Manual", "installs": true},
    });
    scenario.all::<UpdatePolicy>().create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let mut extension = scenario.extension_object("needy");
    extension["metadata"]["labels"] = json!({"policy": scenario.name});
    extension["metadata"]["annotations"] = json!({
        DEPENDENCIES_ANNOTATION: "Install", "extensions.olm.operatorframework.io/paused": "true",
    });
    scenario.extensions().make(extension).await?;
    scenario.shows(Progressing, "False/Blocked/paused by the annotation").await?;
    ensure!(get(&scenario, &base).await?.is_none(), "it is paused");
    let line = format!("ClusterExtension {base}: package {base}, version >=1.0.0 <2.0.0");
    let kubeconfig = scenario.world.cluster.kubeconfig_admin();
    let registries = scenario.world.images.registries_conf().display().to_string();
    let diff = ["diff", &scenario.name, "--registries-conf", &registries];
    let answer = cli::olm(&kubeconfig, &diff).await?;
    let listed = format!("Extensions that are created first\n  {line}");
    ensure!(answer.text.contains(&listed), "{}\n{}", answer.text, answer.errors);

    scenario.annotate("paused", Value::Null).await?;
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    let plans = async || Ok(scenario.all::<ExtensionPlan>().list(&mine).await?.items);
    eventually("the plan to wait", plans, |plans| plans.len() == 1).await?;
    let plan = plans().await?.remove(0).spec;
    ensure!(plan.dependencies == [line.clone()], "{:?}", plan.dependencies);
    let listed = format!("Extensions that are created first:\n  {line}");
    cli::olm(&kubeconfig, &["plan", &scenario.name]).await?.ensure(0, &[&listed])?;
    scenario.shows(Stalled, "True/ApprovalRequired/1.0.0 waits for the approval of plan").await?;
    ensure!(get(&scenario, &base).await?.is_none(), "it is not approved");

    let approved = json!({"metadata": {"annotations": {APPROVED_PLAN_ANNOTATION: plan.digest}}});
    scenario.patch_extension(approved).await?;
    scenario.installed("1.0.0").await?;
    wait_installed(&scenario, &base, "1.2.0").await?;
    let revision = scenario.sets().get(&format!("{}-1", scenario.name)).await?;
    ensure!(
        revision.annotations().get(PLAN_DIGEST_ANNOTATION) == Some(&plan.digest),
        "one approval is for both"
    );
    eventually("the plan to be gone", plans, Vec::is_empty).await?;
    scenario.all::<UpdatePolicy>().remove(&scenario.name).await?;
    scenario.uninstall().await?;
    scenario.remove_extension(&base).await
}
