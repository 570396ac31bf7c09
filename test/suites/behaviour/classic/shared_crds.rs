//! A CustomResourceDefinition that two operators own.

use olm_api_classic::InstallPlan;
use olm_test::prelude::*;

use crate::tenant::Tenant;

/// `Ready` of a plan, as `status/reason message`.
fn ready(plan: &InstallPlan) -> String {
    let conditions = plan.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|one| one.type_.as_deref() == Some("Ready"));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    found.map_or_else(String::new, |one| {
        format!("{}/{} {}", text(&one.status), text(&one.reason), text(&one.message))
    })
}

/// Waits until `Ready` of the plan for a version begins so; answers all of it.
async fn planned(tenant: &Tenant, package: &str, csv: &str, wanted: &str) -> Result<String> {
    wait::until(&format!("the plan for {csv} to be {wanted}"), DEADLINE, async || {
        let status = tenant.status(package).await?;
        wait::check(status.current_csv.as_deref() == Some(csv), || format!("{:?}", status.conditions))?;
        let found = ready(&tenant.plan(package).await?);
        wait::check(found.starts_with(wanted), || format!("it is {found:?}"))?;
        Ok(found)
    })
    .await
}

/// Each in its namespace, and for that alone: two operators may provide one API.
async fn tenant(base: &str) -> Result<Tenant> {
    let tenant = Tenant::without_group(base).await?;
    tenant.group("group", json!({"targetNamespaces": [tenant.namespace]})).await?;
    Ok(tenant)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_two_operators_is_replaced_only_while_the_objects_of_both_stay_valid() -> Result<()> {
    let (one, two) = (tenant("one").await?, tenant("two").await?);
    let group = format!("{}.example.com", one.namespace);
    let size = |most: u32| json!({"size": {"type": "integer", "maximum": most}});
    let lamp = small("lamp", "1.0.0").brings_with(&group, "Lamp", &size(9));
    let source = one.offer(std::slice::from_ref(&lamp)).await?;
    two.offer(&[small("torch", "1.0.0").brings_with(&group, "Lamp", &size(9))]).await?;
    for (tenant, package) in [(&one, "lamp"), (&two, "torch")] {
        tenant.subscribe(package, json!({})).await?;
        planned(tenant, package, &format!("{package}.v1.0.0"), "True/Complete").await?;
    }
    let name = format!("lamps.{group}");
    let crds: Api<CustomResourceDefinition> = Api::all(one.client.clone());
    let most = async || -> Result<Value> {
        let crd = json!(crds.get(&name).await?);
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum";
        Ok(crd.pointer(schema).cloned().unwrap_or_default())
    };
    let owners = crds.get(&name).await?.annotations().clone();
    let owners: BTreeSet<&str> = owners
        .iter()
        .filter(|(key, _)| key.starts_with("operatorframework.io/installed-alongside-"))
        .filter_map(|(_, owner)| owner.split_once('/').map(|(_, csv)| csv))
        .collect();
    ensure!(owners == BTreeSet::from(["lamp.v1.0.0", "torch.v1.0.0"]), "{owners:?}");
    // An object of the other operator, which the new version of the first one would make invalid.
    let kind =
        ApiResource::from_gvk_with_plural(&kube::api::GroupVersionKind::gvk(&group, "v1", "Lamp"), "lamps");
    let lamps: Api<DynamicObject> = Api::namespaced_with(two.client.clone(), &two.namespace, &kind);
    let bright = DynamicObject::new("bright", &kind).data(json!({"spec": {"size": 5}}));
    lamps.create(&PostParams::default(), &bright).await?;
    let narrow = small("lamp", "1.1.0").brings_with(&group, "Lamp", &size(3)).replaces("1.0.0");
    let image = one.catalog(&[lamp, narrow], "v2").await?;
    source.patch(json!({"spec": {"image": image}})).await?;
    let refused = planned(&one, "lamp", "lamp.v1.1.0", "False/").await?;
    ensure!(refused.contains(&format!("\"{}/bright\"", two.namespace)), "{refused}");
    ensure!(most().await?.as_f64() == Some(9.0), "the definition was replaced: {}", most().await?);
    let fixed = Patch::Merge(json!({"spec": {"size": 2}}));
    lamps.patch("bright", &PatchParams::default(), &fixed).await?;
    planned(&one, "lamp", "lamp.v1.1.0", "True/Complete").await?;
    ensure!(most().await?.as_f64() == Some(3.0), "{}", most().await?);
    Ok(())
}
