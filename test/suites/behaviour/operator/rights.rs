//! Nothing is applied that the ServiceAccount may not apply, and what is missing is said.

use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_account_and_missing_rights_are_told_and_heal() -> Result<()> {
    let scenario = Scenario::shared("rights").await?;
    let bundles = [("1.0.0", lighthouse("1.0.0"))];
    scenario.publish(PACKAGE, &bundles).await?;
    scenario.create_extension(PACKAGE, json!({})).await?;

    let text = format!(
        "operation cannot proceed due to the following validation error(s): service account {ACCOUNT:?} not found in namespace {:?}",
        scenario.name
    );
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    scenario.shows(Installed, &format!("Unknown/Failed/{text}")).await?;

    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let text = "True/Retrying/error for resolved bundle \"lighthouse-operator.v1.0.0\" with version \"1.0.0\": \
                creating new Revision: pre-authorization failed: service account requires the following permissions \
                to manage cluster extension:\n  Namespace:\"\"";
    scenario.shows(Progressing, text).await?;
    let told = scenario.shown().await?.condition(Progressing);
    let group = scenario.group();
    for line in [
        format!(
            "  Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[beacons.{group}] Verbs:[delete,get,patch,update]"
        ),
        format!("  Namespace:{:?} APIGroups:[apps] Resources:[deployments] Verbs:[create]", scenario.name),
        format!(
            "  Namespace:\"\" APIGroups:[{group}] Resources:[beacons/status] Verbs:[get,list,patch,update,watch]"
        ),
    ] {
        ensure!(told.contains(&line), "not told: {line}\nin: {told}");
    }
    let owned = scenario.owned().await?;
    ensure!(owned.is_empty(), "half applied: {owned:?}");

    scenario.grant(&bundles).await?;
    scenario.installed("1.0.0").await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_granted_are_exactly_what_is_needed() -> Result<()> {
    let scenario = Scenario::shared("exact").await?;
    let bundles = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];
    scenario.prepare(PACKAGE, &bundles).await?;
    let mark = scenario.world.cluster.audit_mark()?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.upgrade("1.1.0").await?;
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    let refused: Vec<_> = scenario
        .world
        .cluster
        .audit_events_since(mark)?
        .into_iter()
        .filter(|e| e.user == account && e.code == 403)
        .collect();
    ensure!(refused.is_empty(), "refused after a preflight that passed: {refused:?}");
    scenario.uninstall().await
}
