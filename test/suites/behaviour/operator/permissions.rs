//! Nothing is applied that the ServiceAccount may not apply, and what is missing is said.

use olm_test::prelude::*;

const PACKAGE: &str = "lighthouse-operator";

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
