//! What `olm` says of CatalogSources and Subscriptions.

use olm_test::{classic::Source, cli::olm, prelude::*};

use crate::{
    sources::{config_map, data},
    tenant::Tenant,
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn olm_lists_and_explains_catalog_sources() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("cli").await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client().await?, &namespace);
    maps.create(&PostParams::default(), &config_map(&namespace, "content", &data("lamp", "1.0.0"))?).await?;
    let spec = json!({"sourceType": "internal", "configMap": "content"});
    let source = Source::create(&world.cluster, &namespace, "maps", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    let kubeconfig = world.cluster.kubeconfig_admin();
    let counted = "0 Subscriptions and 0 ClusterServiceVersions of OLM Classic";
    let ready = format!("CatalogSource {namespace}/maps is READY");
    let parts = [ready.as_str(), counted];
    // The other kinds are served a moment after this one.
    wait::until("olm status", DEADLINE, || async {
        olm(&kubeconfig, &["status", "-n", &namespace]).await?.ensure(0, &parts)
    })
    .await?;
    let shown = olm(&kubeconfig, &["status", "-n", &namespace, "-o", "json"]).await?.json()?;
    ensure!(shown["classic"]["catalogSources"][0]["state"] == "READY", "{shown}");
    let explained = olm(&kubeconfig, &["explain", "catsrc", "maps", "-n", &namespace]).await?;
    let address = format!("maps.{namespace}.svc:50051");
    let parts = ["internal", "content", "READY", &address, "Serving the content of ConfigMap content."];
    explained.ensure(0, &parts)?;
    let absent = olm(&kubeconfig, &["explain", "catalogsource", "none", "-n", &namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no CatalogSource"), "{}", absent.errors);
    let wrong = olm(&kubeconfig, &["explain", "lamp", "maps"]).await?;
    wrong.ensure(1, &[])?;
    ensure!(
        wrong.errors.contains("or subscription, installplan or catalogsource and a name"),
        "{}",
        wrong.errors
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn olm_explains_subscriptions() -> Result<()> {
    let tenant = Tenant::new("explain").await?;
    let shown = |version| small("lamp", version).property("olm.csv.metadata", json!({"displayName": "lamp"}));
    tenant.offer(&[shown("1.0.0"), shown("2.0.0").replaces("1.0.0")]).await?;
    let range = json!({"olm.classic/version-range": "<2.0.0"});
    tenant.subscribe_with("lamp", json!({"installPlanApproval": "Manual"}), range).await?;
    tenant.subscribe("lampe", json!({})).await?;
    tenant.shows("lamp", "Ready", "False/RequiresApproval").await?;
    tenant.shows("lampe", "Ready", "False/ConstraintsNotSatisfiable").await?;
    let (kubeconfig, namespace) = (tenant.world.cluster.kubeconfig_admin(), &tenant.namespace);
    let plan = tenant.plan("lamp").await?.name_any();
    let parts = [
        "UpgradePending",
        "set its spec.approved to true",
        &plan,
        "lamp.v2.0.0 in channel stable: head of the channel, not chosen: outside the annotation",
    ];
    // The packages are shown a moment after the catalog is read.
    wait::until("olm explain", DEADLINE, || async {
        olm(&kubeconfig, &["explain", "sub", "lamp", "-n", namespace]).await?.ensure(0, &parts)
    })
    .await?;
    let failed = olm(&kubeconfig, &["explain", "subscription", "lampe", "-n", namespace]).await?;
    failed.ensure(0, &["ResolutionFailed is True (ConstraintsNotSatisfiable)", "Did you mean", "lamp"])?;
    let absent = olm(&kubeconfig, &["explain", "sub", "none", "-n", namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no Subscription"), "{}", absent.errors);
    Ok(())
}
