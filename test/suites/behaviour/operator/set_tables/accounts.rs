//! Whom a revision acts as.

use olm_test::prelude::*;

use super::{begins, create_like, idle_extension, inline, map, owned_by, scenario, spec};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_gives_no_account() -> Result<()> {
    let world = World::shared().await?;
    let scenario = scenario(world, "borrowed").await?;
    let uid = idle_extension(&scenario).await?;
    let annotations = json!({"olm.operatorframework.io/bundle-version": "7.0.0"});
    let by_reference = json!({"annotations": annotations, "ownerReferences": owned_by(&scenario.name, &uid)});
    let by_label = json!({"annotations": annotations, "labels": {OWNER_NAME_LABEL: scenario.name}});
    for (suffix, metadata) in [("reference", by_reference), ("label", by_label)] {
        let content = spec(&[("one", inline(&[map(&scenario, suffix)]))]);
        let set = create_like(&scenario, suffix, metadata, content).await?;
        let text = format!(
            "False/Blocked/revision {set:?} is missing required annotations: only the controller may write them for ClusterExtension {:?}",
            scenario.name
        );
        begins(&scenario, &set, Progressing, &text).await?;
        ensure!(scenario.maps().get_opt(suffix).await?.is_none(), "{suffix}: it borrowed an account");
    }
    scenario.delete_extension().await
}
