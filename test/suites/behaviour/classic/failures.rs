//! What goes wrong on the way from a Subscription to its objects: each is reported with what helps, and what helps is enough.

use std::io::Write as _;

use k8s_openapi::api::core::v1::Event;
use olm_api_classic::{OperatorGroup, Subscription};
use olm_test::{
    catalog::{self, Entry},
    classic::Source,
    faults::{Fault, FaultyRegistry},
    prelude::*,
    scrape::{Scraper, count},
};

use crate::tenant::{CATALOG, Tenant};

/// Bundles of the package that requires itself in circles.
const CIRCLE: usize = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_no_plan_may_hold_is_named_and_nothing_is_made() -> Result<()> {
    let tenant = Tenant::new("kinds").await?;
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "lamp"},
        "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]},
    });
    tenant.offer(&[small("lamp", "1.0.0").ships(limits)]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.is("lamp", ["UpgradePending", "lamp.v1.0.0", ""]).await?;
    let plan = wait::until("the plan to have failed", DEADLINE, async || {
        let plan = tenant.plan("lamp").await?;
        let status = plan.status.clone().unwrap_or_default();
        wait::check(status.phase == "Failed", || format!("{:?}", status.conditions))?;
        Ok(status)
    })
    .await?;
    ensure!(plan.message.as_deref() == Some("the InstallPlan contains invalid data"), "{:?}", plan.message);
    let step = plan.plan.iter().find(|step| step.resource.kind == "LimitRange").context("no step")?;
    ensure!(step.status == "UnsupportedResource", "{step:?}");
    ensure!(plan.plan.iter().all(|step| step.status != "Created"), "{:?}", plan.plan);
    let ready = tenant.shows("lamp", "Ready", "False/InstallPlanFailed").await?;
    ensure!(ready.contains("the InstallPlan contains invalid data"), "{ready}");
    let conditions = plan.conditions;
    let text = conditions.iter().find(|one| one.type_.as_deref() == Some("Ready"));
    let text = text.and_then(|one| one.message.clone()).unwrap_or_default();
    ensure!(
        text.contains(
            "InstallPlans may not hold LimitRange lamp: the publisher of the bundle has to remove it"
        ),
        "{text}"
    );
    let maps = tenant.api::<ConfigMap>();
    ensure!(maps.get_opt("lamp-data").await?.is_none(), "half applied");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_of_the_api_server_are_published_and_counted() -> Result<()> {
    let tenant = Tenant::new("warnings").await?;
    let group = format!("{}.example.com", tenant.namespace);
    // The API server takes a format that it does not know, and warns.
    let properties = json!({"size": {"type": "string", "format": "unheard-of"}});
    tenant.offer(&[small("lamp", "1.0.0").brings_with(&group, "Lamp", &properties)]).await?;
    let scraper = Scraper::new(&tenant.client, "olm").await?;
    let url = tenant.world.classic.metrics_url();
    let warned =
        async || -> Result<u64> { Ok(count(&scraper.read(&url).await?, "installplan_warnings_total", &[])) };
    let before = warned().await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    let plan = tenant.plan("lamp").await?;
    let event = wait::until("the Event", DEADLINE, async || {
        let events = tenant.api::<Event>().list(&ListParams::default()).await?.items;
        let found = events.into_iter().find(|event| event.reason.as_deref() == Some("AppliedWithWarnings"));
        found.context("none")
    })
    .await?;
    ensure!(warned().await? > before, "no warning is counted");
    let about = &event.involved_object;
    ensure!(about.name == Some(plan.name_any()), "{about:?}");
    ensure!(about.field_path.as_ref().is_some_and(|path| path.starts_with("status.plan[")), "{about:?}");
    let note = event.message.unwrap_or_default();
    for wanted in [
        "1 warning(s) generated during installation of operator \"lamp.v1.0.0\"",
        "(CustomResourceDefinition \"lamps.",
        "unheard-of",
    ] {
        ensure!(note.contains(wanted), "{wanted}: {note}");
    }
    Ok(())
}

/// Versions of a package that all require each other's package, and one that does not exist.
fn circle() -> Vec<(Entry, String)> {
    let requires = |package: &str| json!({"type": "olm.package.required", "value": {"packageName": package, "versionRange": ">=0.0.0"}});
    let entry = |at: usize| {
        let (package, other) = if at.is_multiple_of(2) { ("left", "right") } else { ("right", "left") };
        let mut entry = Entry::new(package, &format!("{}.0.0", at / 2));
        entry.properties = vec![requires(other), requires("nowhere")];
        entry.properties.push(json!({"type": "olm.csv.metadata", "value": {}}));
        if at >= 2 {
            entry.edges = json!({"replaces": format!("{package}.v{}.0.0", at / 2 - 1)});
        }
        (entry, "registry.example.com/none:v1".to_owned())
    };
    (0..CIRCLE).map(entry).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_catalog_takes_nothing_from_other_subscriptions() -> Result<()> {
    let tenant = Tenant::new("hostile").await?;
    let images = &tenant.world.images;
    let tag = format!("{}-circle:v1", tenant.namespace);
    let image = images.push_catalog(&catalog::text(&circle()), &tag).await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let hostile =
        Source::create(&tenant.world.cluster, &tenant.namespace, "hostile", json!({}), spec).await?;
    hostile.shows("READY", "", "True/Serving").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    for name in ["left", "right"] {
        tenant.subscribe(name, json!({"source": "hostile"})).await?;
    }
    tenant.subscribe("lamp", json!({})).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    for name in ["left", "right"] {
        let failed = tenant.shows(name, "ResolutionFailed", "True/").await?;
        ensure!(failed.len() < 40_000, "a message of {} bytes", failed.len());
        let ready = tenant.shows(name, "Ready", "False/").await?;
        ensure!(ready.contains("nowhere") && ready.len() < 2_000, "{ready}");
    }
    Ok(())
}

/// Offers a bundle that a registry with this fault has: the registry, and the repository.
async fn offer_by(tenant: &Tenant, bundle: &Bundle, fault: Fault) -> Result<(FaultyRegistry, String)> {
    let images = &tenant.world.images;
    let repository = format!("{}-lamp", tenant.namespace);
    images.push_made(bundle, &format!("{repository}:v1")).await?;
    let registry = FaultyRegistry::start(&tenant.world.registry.url(), None)?;
    registry.set(&repository, Some(fault));
    let conf = format!("[[registry]]\nlocation = {:?}\ninsecure = true\n", registry.address());
    fs::OpenOptions::new().append(true).open(images.registries_conf())?.write_all(conf.as_bytes())?;
    let image = format!("{}/{repository}:v1", registry.address());
    let text = catalog::text(&[(bundle.entry.clone(), image)]);
    let catalog = images.push_catalog(&text, &format!("{}-catalog:v1", tenant.namespace)).await?;
    let spec = json!({"sourceType": "grpc", "image": catalog});
    Source::create(&tenant.world.cluster, &tenant.namespace, CATALOG, json!({}), spec).await?;
    Ok((registry, repository))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_under_way_says_how_far_it_is() -> Result<()> {
    let tenant = Tenant::new("far").await?;
    let slow = Fault::Slow(120, Duration::from_secs(1));
    // Small blobs come at once; what is random stays large when it is compressed.
    let noise: String = std::iter::repeat_with(fastrand::alphanumeric).take(50_000).collect();
    let (registry, repository) = offer_by(&tenant, &small("lamp", "1.0.0").data(&noise), slow).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let pulling = format!("True/UnpackingInProgress pulling {}/{repository}:v1: ", registry.address());
    let found = tenant.shows("lamp", "BundleUnpacking", &pulling).await?;
    ensure!(found.contains(" MB, 0 of ") && found.ends_with(" layers"), "{found}");
    let ready = tenant.shows("lamp", "Ready", "False/Unpacking pulling ").await?;
    ensure!(ready.ends_with(" layers."), "{ready}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_takes_too_long_is_ended_and_made_again() -> Result<()> {
    let tenant = Tenant::new("late").await?;
    let annotate = async |timeout: &str| {
        let annotations = json!({
            "operatorframework.io/bundle-unpack-timeout": timeout,
            "operatorframework.io/bundle-unpack-min-retry-interval": "1s",
        });
        let change = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        tenant.api::<OperatorGroup>().patch("group", &PatchParams::default(), &change).await
    };
    annotate("2s").await?;
    let (slow, repository) = offer_by(&tenant, &small("lamp", "1.0.0"), Fault::Hang).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let failed = tenant.shows("lamp", "BundleUnpackFailed", "True/BundleUnpackFailed").await?;
    ensure!(failed.contains("Bundle unpacking failed - DeadlineExceeded: "), "{failed}");
    ensure!(failed.contains("the pull was not over after 2 s"), "{failed}");
    let ready = tenant.shows("lamp", "Ready", "False/BundleUnpackFailed").await?;
    ensure!(ready.contains("operatorframework.io/bundle-unpack-timeout of the OperatorGroup"), "{ready}");
    eventually("another attempt", async || Ok(slow.seen(&repository).len()), |attempts| *attempts >= 2)
        .await?;
    slow.set(&repository, None);
    tenant.install("lamp", "lamp.v1.0.0").await?;
    ensure!(tenant.condition("lamp", "BundleUnpackFailed").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_plans_and_resolutions_are_counted_under_upstreams_names() -> Result<()> {
    let tenant = Tenant::new("counted").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({"channel": "stable", "installPlanApproval": "Automatic"})).await?;
    tenant.subscribe("nothing", json!({})).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    tenant.shows("nothing", "ResolutionFailed", "True/").await?;
    let scraper = Scraper::new(&tenant.client, "olm").await?;
    let read = async || scraper.read(&tenant.world.classic.metrics_url()).await;
    let labels = [
        "name=\"lamp\"",
        "installed=\"lamp.v1.0.0\"",
        "channel=\"stable\"",
        "package=\"lamp\"",
        "approval=\"Automatic\"",
    ];
    wait::until("the counts", DEADLINE, async || {
        let text = read().await?;
        for outcome in ["succeeded", "failed"] {
            let label = format!("outcome=\"{outcome}\"");
            let resolved = count(&text, "olm_resolution_duration_seconds_count", &[&label]);
            ensure!(resolved > 0, "no resolution has {outcome}");
        }
        ensure!(count(&text, "subscription_sync_total", &labels) > 0, "no sync");
        ensure!(count(&text, "subscription_count", &[]) >= 2, "no Subscriptions");
        ensure!(count(&text, "install_plan_count", &[]) >= 1, "no InstallPlans");
        let source = ["name=\"cat\"", &format!("namespace=\"{}\"", tenant.namespace)];
        ensure!(count(&text, "catalog_source_snapshots_total", &source) >= 1, "no snapshot");
        Ok(())
    })
    .await?;
    tenant.api::<Subscription>().delete("lamp", &DeleteParams::default()).await?;
    Ok(())
}
