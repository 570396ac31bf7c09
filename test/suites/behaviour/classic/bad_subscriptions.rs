//! Subscriptions that cannot be followed: each says why and what helps, and none stops another one.

use k8s_openapi::api::core::v1::Event;
use olm_api_classic::{CatalogSource, OperatorGroup, Subscription};
use olm_test::{catalog, classic::Source, prelude::*};

use crate::tenant::{CATALOG, Tenant};

/// A Subscription, its spec, a part of upstream's message, and a part of the sentence beside it.
type Fault = (&'static str, Value, &'static str, &'static str);

fn faults() -> [Fault; 7] {
    [
        (
            "no-package",
            json!({"name": "lampe"}),
            "no operators found in package lampe in the catalog referenced by subscription no-package",
            "correct spec.name. Did you mean",
        ),
        (
            "no-channel",
            json!({"name": "lamp", "channel": "fast"}),
            "no operators found in channel fast of package lamp in the catalog referenced by subscription no-channel",
            "set spec.channel to \"stable\"",
        ),
        (
            "no-catalog",
            json!({"name": "lamp", "source": "other"}),
            "no operators found from catalog other in namespace",
            "correct spec.source and spec.sourceNamespace",
        ),
        (
            "no-version",
            json!({"name": "lamp", "startingCSV": "lamp.v9.9.9"}),
            "no operators found with name lamp.v9.9.9 in channel  of package lamp",
            "correct or remove spec.startingCSV",
        ),
        (
            "needy",
            json!({}),
            "bundle needy.v1.0.0 requires an operator providing an API with group: none.example.com",
            "add a catalog that offers what is required",
        ),
        ("plug", json!({}), "provide Plug (plug.example.com/v1)", "remove one of the Subscriptions"),
        ("socket", json!({}), "provide Plug (plug.example.com/v1)", "remove one of the Subscriptions"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_upstreams_condition_and_a_sentence_and_stops_no_other_subscription() -> Result<()> {
    let tenant = Tenant::new("faults").await?;
    let group = "plug.example.com";
    let needs = json!({"group": "none.example.com", "version": "v1", "kind": "Nothing"});
    tenant
        .offer(&[
            small("lamp", "1.0.0"),
            small("needy", "1.0.0").property("olm.gvk.required", needs),
            small("plug", "1.0.0").brings(group, "Plug"),
            small("socket", "1.0.0").brings(group, "Plug"),
        ])
        .await?;
    let faults = faults();
    for (name, spec, ..) in &faults {
        tenant.subscribe(name, spec.clone()).await?;
    }
    for (name, _, message, sentence) in &faults {
        let failed = tenant.shows(name, "ResolutionFailed", "True/ConstraintsNotSatisfiable").await?;
        ensure!(failed.contains(message), "{name}: {failed}");
        let ready = tenant.shows(name, "Ready", "False/ConstraintsNotSatisfiable").await?;
        ensure!(ready.contains(sentence), "{name}: {ready}");
        tenant.shows(name, "Stalled", "True/").await?;
    }
    tenant.shows("no-catalog", "CatalogSourcesUnhealthy", "True/UnhealthyCatalogSourceFound").await?;
    // Not in the way: of another package.
    let patch = Patch::Merge(json!({"spec": {"name": "lamp"}}));
    for (name, ..) in &faults[1..4] {
        tenant.api::<Subscription>().delete(name, &DeleteParams::default()).await?;
    }
    tenant.api::<Subscription>().patch("no-package", &PatchParams::default(), &patch).await?;
    tenant.install("no-package", "lamp.v1.0.0").await?;
    ensure!(tenant.condition("no-package", "ResolutionFailed").await?.is_none());
    tenant.shows("needy", "ResolutionFailed", "True/").await?;
    tenant.api::<Subscription>().delete("socket", &DeleteParams::default()).await?;
    tenant.install("plug", "plug.v1.0.0").await?;
    let events: Api<Event> = Api::all(tenant.client.clone());
    wait::until("an Event on the namespace", DEADLINE, async || {
        let all = events.list(&ListParams::default()).await?.items;
        let about = |event: &Event| {
            event.involved_object.name.as_ref() == Some(&tenant.namespace)
                && event.reason.as_deref() == Some("ResolutionFailed")
                && event.message.as_ref().is_some_and(|note| note.contains("Did you mean"))
        };
        wait::check(all.iter().any(about), || format!("{} Events", all.len()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_needs_one_operator_group() -> Result<()> {
    let tenant = Tenant::without_group("groups").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let none = "True/ErrorPreventedResolution found 0 operatorGroups, expected 1";
    tenant.shows("lamp", "ResolutionFailed", none).await?;
    let ready = tenant.shows("lamp", "Ready", "False/ErrorPreventedResolution").await?;
    ensure!(ready.contains("has no OperatorGroup: create one"), "{ready}");
    for name in ["one", "two"] {
        tenant.group(name, json!({})).await?;
    }
    let two = "True/ErrorPreventedResolution found 2 operatorGroups, expected 1";
    tenant.shows("lamp", "ResolutionFailed", two).await?;
    tenant.api::<OperatorGroup>().delete("two", &DeleteParams::default()).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_is_down_stops_those_that_need_it() -> Result<()> {
    let tenant = Tenant::new("down").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    let image = tenant.world.tagged(&format!("{}-absent:v1", tenant.namespace));
    let spec = json!({"sourceType": "grpc", "image": image});
    let down = Source::create(&tenant.world.cluster, &tenant.namespace, "down", json!({}), spec).await?;
    down.shows("TRANSIENT_FAILURE", "", "False/Failed").await?;
    tenant.subscribe("torch", json!({"source": "down"})).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let message = tenant.shows("torch", "ResolutionFailed", "True/ErrorPreventedResolution").await?;
    ensure!(message.contains(&format!("error using catalogsource {}/down: ", tenant.namespace)), "{message}");
    let ready = tenant.shows("torch", "Ready", "False/ErrorPreventedResolution").await?;
    let remedy =
        format!("correct CatalogSource {}/down, whose status says more, or delete it", tenant.namespace);
    ensure!(ready.contains(&remedy), "{ready}");
    tenant.install("lamp", "lamp.v1.0.0").await?;
    let unhealthy =
        tenant.shows("torch", "CatalogSourcesUnhealthy", "True/UnhealthyCatalogSourceFound").await?;
    ensure!(unhealthy.contains("targeted catalogsource"), "{unhealthy}");
    // When it is there, what needs it continues.
    let bundle = small("torch", "1.0.0");
    let pushed = tenant.world.images.push_made(&bundle, &format!("{}-torch:v1", tenant.namespace)).await?;
    let text = catalog::text(&[(bundle.entry.clone(), pushed)]);
    let image = tenant.world.images.push_catalog(&text, &format!("{}-late:v1", tenant.namespace)).await?;
    down.patch(json!({"spec": {"image": image}})).await?;
    tenant.install("torch", "torch.v1.0.0").await?;
    Ok(())
}

/// What the other catalog could offer instead is not known until it is read, or gone.
#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_an_unhealthy_catalog_restores_operations() -> Result<()> {
    let tenant = Tenant::new("unhealthy").await?;
    let (images, cluster) = (&tenant.world.images, &tenant.world.cluster);
    let group = format!("{}.example.com", tenant.namespace);
    let plug = json!({"group": group, "version": "v1", "kind": "Plug"});
    tenant.offer(&[small("lamp", "1.0.0").property("olm.gvk.required", plug)]).await?;
    let bundle = small("plug", "1.0.0").brings(&group, "Plug");
    let pushed = images.push_made(&bundle, &format!("{}-plug:v1", tenant.namespace)).await?;
    let text = catalog::text(&[(bundle.entry.clone(), pushed)]);
    let image = images.push_catalog(&text, &format!("{}-plugs:v1", tenant.namespace)).await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    Source::create(cluster, &tenant.namespace, "plugs", json!({}), spec)
        .await?
        .shows("READY", "", "True/Serving")
        .await?;
    let image = tenant.world.tagged(&format!("{}-absent:v1", tenant.namespace));
    let spec = json!({"sourceType": "grpc", "image": image});
    let down = Source::create(cluster, &tenant.namespace, "down", json!({}), spec).await?;
    down.shows("TRANSIENT_FAILURE", "", "False/Failed").await?;
    tenant.subscribe("lamp", json!({})).await?;
    let failed = tenant.shows("lamp", "ResolutionFailed", "True/ErrorPreventedResolution").await?;
    ensure!(failed.contains(&format!("error using catalogsource {}/down: ", tenant.namespace)), "{failed}");
    let unhealthy =
        tenant.shows("lamp", "CatalogSourcesUnhealthy", "True/UnhealthyCatalogSourceFound").await?;
    ensure!(unhealthy.contains(&format!("{}/down", tenant.namespace)), "{unhealthy}");
    let ready = tenant.shows("lamp", "Ready", "False/ErrorPreventedResolution").await?;
    ensure!(ready.contains("or delete it if nothing needs it"), "{ready}");
    let sources: Api<CatalogSource> = tenant.api();
    sources.delete("down", &DeleteParams::default()).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    tenant.shows("lamp", "CatalogSourcesUnhealthy", "False/").await?;
    ensure!(tenant.condition("lamp", "ResolutionFailed").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_cannot_be_pulled_is_reported_and_pulled_again() -> Result<()> {
    let tenant = Tenant::new("unpack").await?;
    let bundle = small("lamp", "1.0.0");
    let name = format!("{}-missing:v1", tenant.namespace);
    let text = catalog::text(&[(bundle.entry.clone(), tenant.world.tagged(&name))]);
    let image = tenant.world.images.push_catalog(&text, &format!("{}-catalog:v1", tenant.namespace)).await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    Source::create(&tenant.world.cluster, &tenant.namespace, CATALOG, json!({}), spec).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let failed = tenant.shows("lamp", "BundleUnpackFailed", "True/BundleUnpackFailed").await?;
    ensure!(failed.contains("Bundle unpacking failed - PullFailed: ") && failed.contains(&name), "{failed}");
    let ready = tenant.shows("lamp", "Ready", "False/BundleUnpackFailed").await?;
    ensure!(ready.contains("Bundle lamp.v1.0.0 cannot be pulled"), "{ready}");
    ensure!(tenant.condition("lamp", "BundleUnpacking").await?.is_none());
    tenant.world.images.push_made(&bundle, &name).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    ensure!(tenant.condition("lamp", "BundleUnpackFailed").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_cannot_be_used_is_reported() -> Result<()> {
    let tenant = Tenant::new("unusable").await?;
    let bundle = small("lamp", "1.0.0").named("lamp.v1.0.0");
    let mut entry = bundle.entry.clone();
    entry.name = "another.v1.0.0".to_owned();
    let pushed = tenant.world.images.push_made(&bundle, &format!("{}-lamp:v1", tenant.namespace)).await?;
    let text = catalog::text(&[(entry, pushed)]);
    let image = tenant.world.images.push_catalog(&text, &format!("{}-catalog:v1", tenant.namespace)).await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    Source::create(&tenant.world.cluster, &tenant.namespace, CATALOG, json!({}), spec).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.shows("lamp", "BundleUnpackFailed", "True/ErrorPreventedUnpacking").await?;
    tenant.shows("lamp", "Stalled", "True/ErrorPreventedUnpacking").await?;
    ensure!(tenant.plans().await?.is_empty(), "a plan was made");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_installed_without_a_subscription_is_taken_over_or_explained() -> Result<()> {
    let tenant = Tenant::new("orphans").await?;
    let lamps = [small("lamp", "1.0.0"), small("lamp", "2.0.0").replaces("1.0.0"), small("torch", "1.0.0")];
    tenant.offer(&lamps).await?;
    let properties = |package: &str, version: &str| {
        let property = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        json!({"properties": [property]}).to_string()
    };
    tenant.csv("lamp.v1.0.0", "", Some(&properties("lamp", "1.0.0"))).await?;
    tenant.csv("torch.v9.0.0", "", Some(&properties("torch", "9.0.0"))).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.subscribe("torch", json!({})).await?;
    let plan = tenant.install("lamp", "lamp.v2.0.0").await?;
    let lookups = plan.status.map(|status| status.bundle_lookups).unwrap_or_default();
    ensure!(lookups[0].replaces == "lamp.v1.0.0", "{lookups:?}");
    let failed = tenant.shows("torch", "ResolutionFailed", "True/ConstraintsNotSatisfiable").await?;
    ensure!(failed.contains("torch.v9.0.0 exists and is not referenced by a subscription"), "{failed}");
    let ready = tenant.shows("torch", "Ready", "False/").await?;
    ensure!(ready.contains("is not taken over because of the catalog entry"), "{ready}");
    Ok(())
}
