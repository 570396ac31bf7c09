//! `--resolution=Namespace`: all Subscriptions of a namespace are resolved together, as upstream does.

use olm_api_classic::Subscription;
use olm_test::prelude::*;

use crate::{tenant::Tenant, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_resolved_together_by_request() -> Result<()> {
    let world = World::begin(&["--resolution=Namespace"]).await?;
    let tenant = Tenant::of(world, "together").await?;
    tenant.group("group", json!({})).await?;
    tenant.offer(&[small("lamp", "1.0.0"), small("torch", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.subscribe("broken", json!({})).await?;
    let failed = "True/ConstraintsNotSatisfiable";
    tenant.shows("broken", "ResolutionFailed", failed).await?;
    tenant.subscribe("torch", json!({"installPlanApproval": "Manual"})).await?;
    wait::until("both to report the same", DEADLINE, async || {
        let [of_broken, of_torch] = [
            tenant.shows("broken", "ResolutionFailed", failed).await?,
            tenant.shows("torch", "ResolutionFailed", failed).await?,
        ];
        wait::check(of_broken == of_torch, || format!("{of_broken} and {of_torch}"))
    })
    .await?;
    tenant.api::<Subscription>().delete("broken", &DeleteParams::default()).await?;
    tenant.is("torch", ["UpgradePending", "torch.v1.0.0", ""]).await?;
    let plan = tenant.plan("torch").await?;
    ensure!(plan.spec.approval == "Manual" && plan.owner_references().len() >= 2, "{plan:?}");
    Ok(())
}
