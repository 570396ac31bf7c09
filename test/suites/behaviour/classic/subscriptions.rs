//! Subscriptions that can be followed: installation with what is required, approval, upgrades.

use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{WatchEvent, WatchParams};
use olm_api_classic::{ClusterServiceVersion, InstallPlan, Subscription, SubscriptionStatus};
use olm_test::{catalog, prelude::*, scrape::Scraper};

use crate::tenant::Tenant;

fn requires(bundle: Bundle, group: &str, kind: &str) -> Bundle {
    bundle.property("olm.gvk.required", json!({"group": group, "version": "v1", "kind": kind}))
}

/// A package and the one that it requires.
fn with_dependency(tenant: &Tenant) -> [Bundle; 2] {
    // Two operators for all namespaces must not provide one API.
    let group = format!("{}.example.com", tenant.namespace);
    [requires(small("lamp", "1.0.0"), &group, "Cord"), small("cord", "1.0.0").brings(&group, "Cord")]
}

/// State, current and installed version, each where it became another one.
type States = Vec<[String; 3]>;

/// What a Subscription shows from now on, up to the first status that is the last.
async fn shown(
    tenant: &Tenant,
    name: &str,
    is_last: impl Fn(&SubscriptionStatus) -> bool + 'static,
) -> Result<impl Future<Output = Result<Vec<SubscriptionStatus>>>> {
    let api = tenant.api::<Subscription>();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&params, "0").await?.boxed();
    Ok(async move {
        let mut all = Vec::new();
        while let Some(event) = events.try_next().await? {
            let (WatchEvent::Added(one) | WatchEvent::Modified(one)) = event else { continue };
            all.push(one.status.unwrap_or_default());
            if all.last().is_some_and(&is_last) {
                return Ok(all);
            }
        }
        bail!("the watch ended after {all:?}")
    })
}

/// The states in statuses.
fn states(all: Vec<SubscriptionStatus>) -> States {
    let text = |text: Option<String>| text.unwrap_or_else(|| "None".to_owned());
    let state = |one: SubscriptionStatus| [text(one.state), text(one.current_csv), text(one.installed_csv)];
    let mut states: States = all.into_iter().map(state).collect();
    states.dedup();
    states
}

/// The same as upstream had them.
fn recorded(trace: &str, name: &str) -> States {
    let mut states = States::new();
    for line in trace.lines() {
        let Some((_, state)) = line.split_once(&format!(" subscriptions/{name}: ")) else { continue };
        let mut words = state.split(' ').map(|word| word.rsplit('=').next().unwrap_or_default().to_owned());
        let state = [(); 3].map(|()| words.next().unwrap_or_default());
        let is_installed = state[0] == "AtLatestKnown";
        if states.last() != Some(&state) {
            states.push(state);
        }
        if is_installed {
            break;
        }
    }
    states
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_has_the_states_that_upstream_gave_it() -> Result<()> {
    let Some(folder) = olm_test::data::find("classic") else { return Ok(()) };
    let trace = fs::read_to_string(folder.join("happy.trace"))?;
    let tenant = Tenant::new("trace").await?;
    let group = "olm.test.io";
    let named = |package: &str| small(package, "1.0.0").channels(&["stable", "alpha"]);
    let bundles =
        [requires(named("busybox"), group, "Foo"), named("busybox-dependency").brings(group, "Foo")];
    tenant.offer(&bundles).await?;
    let seen = shown(&tenant, "busybox", |one| one.state.as_deref() == Some("AtLatestKnown")).await?;
    tenant.subscribe("busybox", json!({"channel": "alpha"})).await?;
    tenant.install("busybox", "busybox.v1.0.0").await?;
    let (seen, wanted) = (states(seen.await?), recorded(&trace, "busybox"));
    ensure!(wanted.len() == 3 && seen == wanted, "upstream had {wanted:?}, ours has {seen:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_is_installed_with_what_it_requires() -> Result<()> {
    let tenant = Tenant::new("happy").await?;
    tenant.offer(&with_dependency(&tenant)).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let plan = tenant.install("lamp", "lamp.v1.0.0").await?;
    let generation = tenant.status("lamp").await?.install_plan_generation;
    ensure!(generation == Some(1), "{generation:?}");
    ensure!(plan.spec.cluster_service_version_names == ["cord.v1.0.0", "lamp.v1.0.0"], "{:?}", plan.spec);
    ensure!(plan.spec.approved && plan.spec.approval == "Automatic", "{:?}", plan.spec);
    ensure!(plan.owner_references().iter().map(|one| one.name.as_str()).eq(["lamp"]), "owners");
    let made = plan.status.clone().context("no status")?;
    let lookups: Vec<_> = made.bundle_lookups.iter().map(|one| one.identifier.as_str()).collect();
    ensure!(lookups == ["cord.v1.0.0", "lamp.v1.0.0"], "{lookups:?}");
    let first = &made.plan[0].resource;
    let generated = format!("cord-stable-cat-{}", tenant.namespace);
    ensure!((&first.kind, &first.name) == (&"Subscription".to_owned(), &generated), "{first:?}");
    tenant.is(&generated, ["AtLatestKnown", "cord.v1.0.0", "cord.v1.0.0"]).await?;
    for name in ["lamp", &generated] {
        tenant.shows(name, "Ready", "True/Installed").await?;
        tenant.shows(name, "CatalogSourcesUnhealthy", "False/AllCatalogSourcesHealthy").await?;
        let left: Vec<_> = tenant.status(name).await?.conditions.into_iter().map(|one| one.type_).collect();
        ensure!(left.len() == 2, "{left:?}");
        let health = tenant.status(name).await?.catalog_health;
        ensure!(health.iter().any(|one| one.healthy), "{health:?}");
    }
    ensure!(tenant.plans().await?.len() == 1, "one plan is enough");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_is_not_written() -> Result<()> {
    let tenant = Tenant::new("idle").await?;
    let source = tenant.offer(&with_dependency(&tenant)).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    let generated = format!("cord-stable-cat-{}", tenant.namespace);
    for name in ["lamp", &generated] {
        tenant.shows(name, "Ready", "True/Installed").await?;
        tenant.shows(name, "CatalogSourcesUnhealthy", "False/AllCatalogSourcesHealthy").await?;
    }
    let scraper = Scraper::new(&tenant.client, "olm").await?;
    let reconciles = async || -> Result<u64> {
        let text = scraper.read(&tenant.world.classic.metrics_url()).await?;
        Ok(olm_test::scrape::count(
            &text,
            "controller_runtime_reconcile_total",
            &["controller=\"subscription\""],
        ))
    };
    let versions = async || -> Result<Vec<Option<String>>> {
        let subscriptions = tenant.api::<Subscription>().list(&ListParams::default()).await?.items;
        let plans = tenant.plans().await?;
        Ok(subscriptions
            .iter()
            .map(ResourceExt::resource_version)
            .chain(plans.iter().map(ResourceExt::resource_version))
            .collect())
    };
    let before = versions().await?;
    for number in 0..3 {
        // Something that is read, and says nothing new.
        let count = reconciles().await?;
        let label = Patch::Merge(json!({"metadata": {"labels": {"example.com/number": number.to_string()}}}));
        tenant.api::<ClusterServiceVersion>().patch("lamp.v1.0.0", &PatchParams::default(), &label).await?;
        eventually("another reconcile", async || reconciles().await, |now| *now > count).await?;
    }
    source.patch(json!({"spec": {"displayName": "Another name"}})).await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.0.0", "lamp.v1.0.0"]).await?;
    let after = versions().await?;
    ensure!(after == before, "{before:?} {after:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_approves_the_plan_of_a_manual_subscription_and_of_no_other() -> Result<()> {
    let tenant = Tenant::new("manual").await?;
    tenant.offer(&[small("lamp", "1.0.0"), small("torch", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    tenant.subscribe("torch", json!({})).await?;
    let ready = tenant.shows("lamp", "Ready", "False/RequiresApproval").await?;
    ensure!(ready.contains("set its spec.approved to true"), "{ready}");
    tenant.shows("lamp", "InstallPlanPending", "True/RequiresApproval").await?;
    let plan = tenant.plan("lamp").await?;
    ensure!(!plan.spec.approved && plan.spec.approval == "Manual", "{:?}", plan.spec);
    ensure!(plan.status.is_some_and(|status| status.phase == "RequiresApproval"));
    let other = tenant.install("torch", "torch.v1.0.0").await?;
    ensure!(
        other.spec.approved && other.spec.cluster_service_version_names == ["torch.v1.0.0"],
        "{:?}",
        other.spec
    );
    ensure!(plan.spec.generation != other.spec.generation, "each plan has a number of its own");
    tenant.is("lamp", ["UpgradePending", "lamp.v1.0.0", ""]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_replaced_by_the_next_and_nothing_is_reported_meanwhile() -> Result<()> {
    let tenant = Tenant::new("upgrade").await?;
    let chain = [
        small("lamp", "1.0.0"),
        small("lamp", "2.0.0").replaces("1.0.0"),
        small("lamp", "3.0.0").replaces("2.0.0"),
    ];
    tenant.offer(&chain).await?;
    let is_newest = |one: &SubscriptionStatus| {
        one.conditions.iter().any(|one| one.message.as_deref() == Some("lamp.v3.0.0 is installed."))
    };
    let seen = shown(&tenant, "lamp", is_newest).await?;
    tenant.subscribe("lamp", json!({"startingCSV": "lamp.v1.0.0"})).await?;
    let seen: BTreeSet<_> =
        seen.await?.into_iter().flat_map(|one| one.conditions).map(|one| one.type_).collect();
    ensure!(!seen.contains("ResolutionFailed"), "an upgrade is no conflict: {seen:?}");
    let mut replaced: Vec<_> = tenant.plans().await?.into_iter().filter_map(|plan| plan.status).collect();
    replaced.sort_by_key(|status| status.bundle_lookups[0].identifier.clone());
    let replaced: Vec<_> = replaced.iter().map(|status| status.bundle_lookups[0].replaces.as_str()).collect();
    ensure!(replaced == ["", "lamp.v1.0.0", "lamp.v2.0.0"], "{replaced:?}");
    wait::until("the earlier versions to go", DEADLINE, async || {
        let csvs = tenant.api::<ClusterServiceVersion>().list(&ListParams::default()).await?.items;
        let names: Vec<_> = csvs.iter().map(ResourceExt::name_any).collect();
        wait::check(names == ["lamp.v3.0.0"], || format!("{names:?}"))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_gone_is_made_again_and_one_that_is_there_is_not_made_twice() -> Result<()> {
    let tenant = Tenant::new("plans").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    // Nothing carries it out, so that it stays.
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    tenant.is("lamp", ["UpgradePending", "lamp.v1.0.0", ""]).await?;
    let first = tenant.plan("lamp").await?;
    tenant.api::<InstallPlan>().delete(&first.name_any(), &DeleteParams::default()).await?;
    let second = wait::until("another plan", DEADLINE, async || {
        let plan = tenant.plan("lamp").await?;
        wait::check(plan.uid() != first.uid(), || "it is the first".to_owned())?;
        Ok(plan)
    })
    .await?;
    // As after an end of the process between the two writes: the plan is there, and no Subscription names it.
    let none = Patch::Merge(json!({"status": {
        "installPlanRef": null, "installplan": null, "installPlanGeneration": null, "currentCSV": null, "state": null,
    }}));
    tenant.api::<Subscription>().patch_status("lamp", &PatchParams::default(), &none).await?;
    tenant.is("lamp", ["UpgradePending", "lamp.v1.0.0", ""]).await?;
    ensure!(tenant.plan("lamp").await?.uid() == second.uid(), "it is made a second time");
    ensure!(tenant.plans().await?.len() == 1, "a plan is left over");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_required_is_proposed_or_demanded_by_request() -> Result<()> {
    let tenant = Tenant::new("propose").await?;
    tenant.offer(&with_dependency(&tenant)).await?;
    tenant.subscribe_with("lamp", json!({}), json!({"olm.classic/dependencies": "Propose"})).await?;
    let text = tenant.shows("lamp", "Ready", "False/DependenciesProposed").await?;
    ensure!(text.contains("package \"cord\", channel \"stable\""), "{text}");
    ensure!(tenant.plans().await?.is_empty(), "a plan was made");
    let annotate = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"olm.classic/dependencies": value}}}));
        tenant.api::<Subscription>().patch("lamp", &PatchParams::default(), &patch).await
    };
    annotate(json!("Check")).await?;
    tenant.shows("lamp", "Ready", "False/DependenciesNotInstalled").await?;
    annotate(json!("maybe")).await?;
    tenant.shows("lamp", "Ready", "False/InvalidAnnotation").await?;
    // By a person's Subscription there is nothing left to propose.
    annotate(json!("Propose")).await?;
    tenant.subscribe("cord", json!({})).await?;
    tenant.install("cord", "cord.v1.0.0").await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    ensure!(tenant.api::<Subscription>().list(&ListParams::default()).await?.items.len() == 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_versions_holds_upgrades_back() -> Result<()> {
    let tenant = Tenant::new("range").await?;
    tenant.offer(&[small("lamp", "1.0.0"), small("lamp", "2.0.0").replaces("1.0.0")]).await?;
    tenant.subscribe_with("lamp", json!({}), json!({"olm.classic/version-range": "<2.0.0"})).await?;
    tenant.install("lamp", "lamp.v1.0.0").await?;
    tenant.shows("lamp", "Ready", "True/Installed").await?;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"olm.classic/version-range": null}}}));
    tenant.api::<Subscription>().patch("lamp", &PatchParams::default(), &patch).await?;
    tenant.install("lamp", "lamp.v2.0.0").await?;
    Ok(())
}

/// A version whose plan fails, and the one after it, which skips it. Only a namespace that fails forward gets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_fails_forward_gets_the_version_after_a_failed_one() -> Result<()> {
    for (strategy, state, current) in [
        ("TechPreviewUnsafeFailForward", "AtLatestKnown", "lamp.v1.2.0"),
        ("Default", "UpgradePending", "lamp.v1.1.0"),
    ] {
        let tenant = Tenant::without_group("forward").await?;
        tenant.group("group", json!({"upgradeStrategy": strategy})).await?;
        let limits = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "lamp"},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]},
        });
        let skips = json!({"replaces": "lamp.v1.0.0", "skips": ["lamp.v1.1.0"]});
        let bundles = [
            small("lamp", "1.0.0"),
            small("lamp", "1.1.0").replaces("1.0.0").ships(limits),
            small("lamp", "1.2.0").edges(skips),
            small("torch", "1.0.0"),
        ];
        let source = tenant.offer(&bundles[..1]).await?;
        tenant.subscribe("lamp", json!({})).await?;
        tenant.shows("lamp", "Ready", "True/Installed").await?;
        source.patch(json!({"spec": {"image": tenant.catalog(&bundles[..2], "v2").await?}})).await?;
        let failed = tenant.shows("lamp", "InstallPlanFailed", "True/").await?;
        ensure!(failed.contains("the InstallPlan contains invalid data"), "{failed}");
        source.patch(json!({"spec": {"image": tenant.catalog(&bundles, "v3").await?}})).await?;
        // The new content is read when this is installed.
        tenant.subscribe("torch", json!({})).await?;
        tenant.install("torch", "torch.v1.0.0").await?;
        let installed = if state == "AtLatestKnown" { current } else { "lamp.v1.0.0" };
        tenant.is("lamp", [state, current, installed]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_catalog_says_is_deprecated_is_in_conditions() -> Result<()> {
    let tenant = Tenant::new("deprecated").await?;
    let bundles = [small("lamp", "1.0.0"), small("lamp", "1.1.0").replaces("1.0.0")];
    let source = tenant.offer(&bundles[..1]).await?;
    tenant.subscribe("lamp", json!({"channel": "stable"})).await?;
    tenant.shows("lamp", "Ready", "True/Installed").await?;
    ensure!(tenant.condition("lamp", "Deprecated").await?.is_none(), "it is not deprecated yet");
    let deprecations = json!({"schema": "olm.deprecations", "package": "lamp", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "use torch"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "use fast"},
        {"reference": {"schema": "olm.bundle", "name": "lamp.v1.0.0"}, "message": "has a bug"},
    ]});
    let offer = async |bundles: &[Bundle], tag: &str| {
        let mut entries = Vec::new();
        for bundle in bundles {
            let name = format!("{}-{}:d", tenant.namespace, bundle.entry.name);
            entries.push((bundle.entry.clone(), tenant.world.images.push_made(bundle, &name).await?));
        }
        let text = format!("{}\n{deprecations}\n", catalog::text(&entries));
        let name = format!("{}-catalog:{tag}", tenant.namespace);
        let image = tenant.world.images.push_catalog(&text, &name).await?;
        source.patch(json!({"spec": {"image": image}})).await
    };
    offer(&bundles[..1], "deprecated").await?;
    for (type_, wanted) in [
        ("PackageDeprecated", "True/ olm.package/lamp: use torch"),
        ("ChannelDeprecated", "True/ olm.channel/stable: use fast"),
        ("BundleDeprecated", "True/ olm.bundle/lamp.v1.0.0: has a bug"),
        (
            "Deprecated",
            "True/ olm.package/lamp: use torch; olm.channel/stable: use fast; olm.bundle/lamp.v1.0.0: has a bug",
        ),
    ] {
        tenant.shows("lamp", type_, wanted).await?;
    }
    // With the next version that of the bundle goes, the others stay.
    offer(&bundles, "next").await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.1.0", "lamp.v1.1.0"]).await?;
    let found = async || tenant.condition("lamp", "BundleDeprecated").await;
    eventually("the bundle's deprecation to go", found, Option::is_none).await?;
    let both = "True/ olm.package/lamp: use torch; olm.channel/stable: use fast";
    let all = tenant.shows("lamp", "Deprecated", both).await?;
    ensure!(all == both, "{all}");
    Ok(())
}
