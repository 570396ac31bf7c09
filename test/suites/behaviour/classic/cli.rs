//! What `olm` says of CatalogSources and Subscriptions.

use olm_api_classic::{ClusterServiceVersion, InstallPlan};
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
    let counted = "0 Subscriptions, 0 ClusterServiceVersions, 0 complete InstallPlans of OLM Classic";
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
    let kinds = "or clustercatalog, subscription, installplan, csv or catalogsource and a name";
    ensure!(wrong.errors.contains(kinds), "{}", wrong.errors);
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
    // Resolved together with the other Subscription, as olm-classic does with the same flag, it has no solution.
    let together = [&why[..], &["--resolution=namespace"]].concat();
    let together = olm(&kubeconfig, &together).await?;
    together.ensure(0, &["Candidates"])?;
    ensure!(!together.text.contains("lamp.v1.0.0 in channel stable: chosen"), "{}", together.text);
    let absent = olm(&kubeconfig, &["explain", "sub", "none", "-n", namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no Subscription"), "{}", absent.errors);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn olm_shows_what_runs_and_explains_operators_that_do_not() -> Result<()> {
    let tenant = Tenant::new("csvs").await?;
    let crd = json!({"required": [{"name": "bulbs.example.com", "version": "v1", "kind": "Bulb"}]});
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.subscribe("lampe", json!({})).await?;
    tenant.shows("lampe", "Ready", "False/ConstraintsNotSatisfiable").await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.0.0", "lamp.v1.0.0"]).await?;
    let csvs = tenant.api::<ClusterServiceVersion>();
    let mut needy = csvs.get("lamp.v1.0.0").await?;
    needy.metadata = serde_json::from_value(json!({"name": "needy", "namespace": tenant.namespace}))?;
    needy.status = None;
    needy.spec.customresourcedefinitions = Some(serde_json::from_value(crd)?);
    csvs.create(&PostParams::default(), &needy).await?;
    let (kubeconfig, namespace) = (tenant.world.cluster.kubeconfig_admin(), &tenant.namespace);
    let explain = ["explain", "csv", "needy", "-n", namespace];
    let parts = [
        "RequirementsNotMet",
        "What to do",
        "install the operator that provides a missing kind",
        "- CustomResourceDefinition bulbs.example.com is NotPresent: CRD is not present",
    ];
    wait::until("the explanation", DEADLINE, || async {
        olm(&kubeconfig, &explain).await?.ensure(0, &parts)
    })
    .await?;
    let json = olm(&kubeconfig, &[&explain[..], &["-o", "json"]].concat()).await?.json()?;
    ensure!(json["phase"] == "Pending" && json["requirements"][0]["isMet"] == false, "{json}");
    let subscription = format!("Subscription {namespace}/lamp is AtLatestKnown, lamp.v1.0.0 installed");
    let other = format!("ClusterServiceVersion {namespace}/lamp.v1.0.0 is ");
    let pending =
        format!("ClusterServiceVersion {namespace}/needy is Pending\n  RequirementsNotMet: one or more");
    let parts = [
        &subscription,
        "Did you mean",
        &other,
        &pending,
        "2 Subscriptions, 2 ClusterServiceVersions, 1 complete InstallPlan of OLM Classic",
    ];
    olm(&kubeconfig, &["status", "-n", namespace]).await?.ensure(0, &parts)?;
    olm(&kubeconfig, &["explain", "csv", "lamp.v1.0.0", "-n", namespace])
        .await?
        .ensure(0, &["for Subscriptions", "phase"])?;
    let absent = olm(&kubeconfig, &["explain", "csv", "none", "-n", namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no ClusterServiceVersion"), "{}", absent.errors);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn olm_explains_install_plans() -> Result<()> {
    let tenant = Tenant::new("explain-ip").await?;
    let group = format!("{}.example.com", tenant.namespace);
    let lamp = |version: &str, most: u32| {
        let size = json!({"size": {"type": "integer", "maximum": most}});
        small("lamp", version).brings_with(&group, "Lamp", &size)
    };
    let bundles = [lamp("1.0.0", 9), lamp("1.1.0", 3).replaces("1.0.0")];
    tenant.offer(&bundles).await?;
    let spec = json!({"installPlanApproval": "Manual", "startingCSV": "lamp.v1.0.0"});
    tenant.subscribe("lamp", spec).await?;
    let (kubeconfig, namespace) = (tenant.world.cluster.kubeconfig_admin(), tenant.namespace.as_str());
    let explained = async |plan: &str, parts: &[&str]| {
        wait::until("olm explain", DEADLINE, async || {
            olm(&kubeconfig, &["explain", "ip", plan, "-n", namespace]).await?.ensure(0, parts)
        })
        .await
    };
    let approve = async |plan: &str| {
        let approved = Patch::Merge(json!({"spec": {"approved": true}}));
        tenant.api::<InstallPlan>().patch(plan, &PatchParams::default(), &approved).await
    };
    tenant.shows("lamp", "Ready", "False/RequiresApproval").await?;
    let first = tenant.plan("lamp").await?.name_any();
    let crd = format!("CustomResourceDefinition lamps.{group} of lamp.v1.0.0: Unknown");
    let waits =
        ["lamp.v1.0.0", "RequiresApproval", "Manual, not approved", &crd, "Waits for approval", "sha256:"];
    explained(&first, &waits).await?;
    approve(&first).await?;
    explained(&first, &["Complete", "Manual, approved", "Everything is installed."]).await?;

    let kind = kube::api::ApiResource::from_gvk_with_plural(
        &kube::api::GroupVersionKind::gvk(&group, "v1", "Lamp"),
        "lamps",
    );
    let lamps: Api<DynamicObject> = Api::namespaced_with(tenant.client.clone(), namespace, &kind);
    let bright = DynamicObject::new("bright", &kind).data(json!({"spec": {"size": 5}}));
    lamps.create(&PostParams::default(), &bright).await?;
    tenant.is("lamp", ["UpgradePending", "lamp.v1.1.0", "lamp.v1.0.0"]).await?;
    let second = tenant.plan("lamp").await?.name_any();
    approve(&second).await?;
    let failed = [
        "Failed",
        &format!("CustomResourceDefinition lamps.{group} of lamp.v1.1.0: Unknown"),
        "Installed is False InstallComponentFailed: ",
        &format!("Change Lamp {namespace}/bright so that it is valid under the new definition."),
    ];
    explained(&second, &failed).await?;
    let absent = olm(&kubeconfig, &["explain", "ip", "none", "-n", namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no InstallPlan"), "{}", absent.errors);
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
    // The Deployment of the first version is made after its InstallPlan is complete.
    let shown = wait::until("the difference", DEADLINE, async || {
        let shown = olm(&kubeconfig, &diff).await?;
        shown.ensure(2, &parts)?;
        Ok(shown)
    })
    .await?;
    // Data of Secrets are shown as hashes.
    ensure!(!shown.text.contains("MS4xLjA"), "{}", shown.text);
    let json = olm(&kubeconfig, &[&diff[..], &["-o", "json"]].concat()).await?.json()?;
    ensure!(json["difference"] == true && json["installs"] == json!(["lamp.v1.1.0"]), "{json}");
    let absent = olm(&kubeconfig, &["diff", "sub", "none", "-n", &tenant.namespace]).await?;
    absent.ensure(1, &[])?;
    ensure!(absent.errors.contains("there is no Subscription"), "{}", absent.errors);
    Ok(())
}
