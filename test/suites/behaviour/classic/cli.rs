//! What `olm` says of CatalogSources and Subscriptions.

use olm_api_classic::InstallPlan;
use olm_test::{bundle, classic::Source, cli::olm, prelude::*};

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
    let host = tenant.world.images.host();
    let why = ["explain", "sub", "lamp", "-n", namespace, "--candidates", "--insecure-registry", host];
    let parts = [
        "Candidates\n  - lamp.v2.0.0 in channel stable: outside the annotation olm.classic/version-range",
        "  + lamp.v1.0.0 in channel stable: chosen",
    ];
    olm(&kubeconfig, &why).await?.ensure(0, &parts)?;
    let absent = olm(&kubeconfig, &["explain", "sub", "none", "-n", namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no Subscription"), "{}", absent.errors);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn olm_shows_what_an_install_plan_would_do() -> Result<()> {
    let tenant = Tenant::new("diff").await?;
    let group = format!("{}.example.com", tenant.namespace);
    let size = |most: u32| json!({"size": {"type": "integer", "maximum": most}});
    let secret = |text: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lamp"}, "stringData": {"text": text}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "old"}, "spec": {"ports": [{"port": 80}]}});
    let lamp = |version: &str, most: u32, image: &str| {
        let workload = bundle::deployment("lamp", image);
        small("lamp", version)
            .brings_with(&group, "Lamp", &size(most))
            .workload(workload)
            .ships(secret(version))
    };
    let first = lamp("1.0.0", 9, "registry.example.com/lamp:1").ships(service);
    let second = lamp("1.1.0", 7, "registry.example.com/lamp:2").replaces("1.0.0");
    let source = tenant.offer(std::slice::from_ref(&first)).await?;
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    tenant.shows("lamp", "Ready", "False/RequiresApproval").await?;
    let kubeconfig = tenant.world.cluster.kubeconfig_admin();
    let host = tenant.world.images.host().to_owned();
    let diff = ["diff", "sub", "lamp", "-n", &tenant.namespace, "--insecure-registry", &host];
    let crd = format!("+ CustomResourceDefinition.apiextensions.k8s.io/v1 lamps.{group}");
    let own = |kind: &str, name: &str| format!("{kind} {}/{name}", tenant.namespace);
    let parts = [
        "would install lamp.v1.0.0",
        &crd,
        &own("+ ConfigMap.v1", "lamp-data"),
        &own("+ Secret.v1", "lamp"),
        &own("+ Deployment.apps/v1", "lamp"),
        "(none) -> registry.example.com/lamp:1",
    ];
    olm(&kubeconfig, &diff).await?.ensure(2, &parts)?;
    ensure!(tenant.api::<ConfigMap>().get_opt("lamp-data").await?.is_none(), "it was written");

    let approve = Patch::Merge(json!({"spec": {"approved": true}}));
    let params = PatchParams::default();
    let name = tenant.plan("lamp").await?.name_any();
    tenant.api::<InstallPlan>().patch(&name, &params, &approve).await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.0.0", "lamp.v1.0.0"]).await?;
    wait::until("nothing to be pending", DEADLINE, async || {
        olm(&kubeconfig, &diff).await?.ensure(0, &["no difference: no InstallPlan is pending"])
    })
    .await?;
    source.patch(json!({"spec": {"image": tenant.catalog(&[first, second], "v2").await?}})).await?;
    tenant.is("lamp", ["UpgradePending", "lamp.v1.1.0", "lamp.v1.0.0"]).await?;
    let parts = [
        "would install lamp.v1.1.0",
        "spec.versions[v1].schema.openAPIV3Schema.properties.spec.properties.size.maximum: 9 -> 7",
        &own("~ ConfigMap.v1", "lamp-data"),
        "data.data: \"1.0.0\" -> \"1.1.0\"",
        &own("+ ClusterServiceVersion.operators.coreos.com/v1alpha1", "lamp.v1.1.0"),
        &own("- ClusterServiceVersion.operators.coreos.com/v1alpha1", "lamp.v1.0.0"),
        &own("- Service.v1", "old"),
        "registry.example.com/lamp:1 -> registry.example.com/lamp:2",
    ];
    let shown = olm(&kubeconfig, &diff).await?;
    shown.ensure(2, &parts)?;
    // Data of Secrets are shown as hashes.
    ensure!(!shown.text.contains("MS4xLjA"), "{}", shown.text);
    let json = olm(&kubeconfig, &[&diff[..], &["-o", "json"]].concat()).await?.json()?;
    ensure!(json["difference"] == true && json["installs"] == json!(["lamp.v1.1.0"]), "{json}");
    let absent = olm(&kubeconfig, &["diff", "sub", "none", "-n", &tenant.namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no Subscription"), "{}", absent.errors);
    Ok(())
}
