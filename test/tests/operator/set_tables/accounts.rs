//! Whom a revision acts as.

use anyhow::{Result, ensure};
use olm_test::wait;
use serde_json::json;

use super::{create_like, idle_extension, inline, map, owned_by, rolled_out, scenario, spec};
use crate::world::{ACCOUNT, DEADLINE, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_without_an_account_acts_as_its_extension() -> Result<()> {
    let world = World::shared().await?;
    let scenario = scenario(world, "borrowed").await?;
    let uid = idle_extension(&scenario).await?;
    let mark = world.cluster.audit_mark()?;
    let metadata = json!({
        "annotations": {"olm.operatorframework.io/bundle-version": "7.0.0"},
        "ownerReferences": owned_by(&scenario.name, &uid),
    });
    let content = spec(&[("one", inline(&[map(&scenario, "borrowed")]))]);
    let set = create_like(&scenario, "set", metadata, content).await?;
    rolled_out(&scenario, &set).await?;
    let by = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    wait::until("the audit log to name the account", DEADLINE, || async {
        let events = world.cluster.audit_events_since(mark)?;
        let created = |e: &&olm_test::cluster::AuditEvent| {
            (e.verb.as_str(), e.resource.as_str()) == ("create", "configmaps")
                && (e.namespace.as_str(), e.name.as_str()) == (scenario.name.as_str(), "borrowed")
        };
        let users: Vec<&str> = events.iter().filter(created).map(|e| e.user.as_str()).collect();
        ensure!(users == [by.as_str()], "{users:?}");
        Ok(())
    })
    .await?;
    scenario.delete_extension().await
}
