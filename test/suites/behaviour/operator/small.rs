//! Catalogs of bundles made for a scenario, and further extensions, revisions and Events of it.

use olm_test::{catalog, prelude::*, rights};

/// Gives the account `installer` the rights for a bundle alone.
pub(crate) async fn grant(scenario: &Scenario<'_>, bundle: &Bundle) -> Result<()> {
    let rules = rights::rules_for(&[bundle.permitted_files()], &scenario.name)?;
    rights::grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await
}

/// Pushes the bundles and a catalog of them with further blobs; the account `installer` gets the rights for them.
pub(crate) async fn push(
    scenario: &Scenario<'_>,
    bundles: &[Bundle],
    more: &[Value],
    tag: &str,
) -> Result<String> {
    let mut listed = Vec::new();
    for bundle in bundles {
        let (package, version) = (&bundle.entry.package, bundle.entry.version.replace('+', "-"));
        let name = format!("{}/{package}:{tag}-{version}", scenario.name);
        listed.push((bundle.entry.clone(), scenario.world.images.push_made(bundle, &name).await?));
    }
    rights::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let files: Vec<_> = bundles.iter().map(Bundle::permitted_files).collect();
    let rules = rights::rules_for(&files, &scenario.name)?;
    rights::grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await?;
    scenario.push_catalog(&(catalog::text(&listed) + &catalog::lines(more)), tag).await
}

/// A catalog of the bundles under the scenario's name, serving.
pub(crate) async fn prepare(scenario: &Scenario<'_>, bundles: &[Bundle], more: &[Value]) -> Result<()> {
    let reference = push(scenario, bundles, more, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await
}

/// A further catalog, `<scenario>-<suffix>`, with the label `scenario`. It need not come to serve.
pub(crate) async fn further_catalog(
    scenario: &Scenario<'_>,
    suffix: &str,
    priority: i32,
    reference: &str,
) -> Result<String> {
    let name = format!("{}-{suffix}", scenario.name);
    let mut catalog = catalog::cluster_catalog(&name, &json!({"ref": reference}));
    catalog.spec.priority = priority;
    catalog.metadata.labels = Some([("scenario".to_owned(), scenario.name.clone())].into());
    catalogs(scenario).make(&catalog).await?;
    Ok(name)
}

pub(crate) fn catalogs(scenario: &Scenario<'_>) -> Api<ClusterCatalog> {
    Api::all(scenario.client.clone())
}

pub(crate) async fn serves(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    catalog::serves(&scenario.client, name, DEADLINE).await
}

pub(crate) async fn patch_catalog(scenario: &Scenario<'_>, name: &str, patch: Value) -> Result<()> {
    catalogs(scenario).merge(name, &patch).await?;
    Ok(())
}

/// All catalogs that [`further_catalog`] made.
pub(crate) fn of_scenario(scenario: &Scenario<'_>) -> Value {
    json!({"selector": {"matchLabels": {"scenario": scenario.name}}})
}

/// A second extension of the scenario, in its namespace and with its account.
pub(crate) async fn another(scenario: &Scenario<'_>, name: &str, package: &str, filter: Value) -> Result<()> {
    let extension = olm_test::extension::extension(name, &scenario.name, package, &scenario.name, &filter);
    let extension: ClusterExtension = serde_json::from_value(extension)?;
    scenario.extensions().make(&extension).await?;
    Ok(())
}

/// The scenario's extension, to be created with something more.
pub(crate) fn extension(scenario: &Scenario<'_>, package: &str) -> Value {
    let name = &scenario.name;
    olm_test::extension::extension(name, name, package, name, &Value::Null)
}

/// Removes an extension made by [`another`], and waits until it is gone.
pub(crate) async fn remove(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    scenario.extensions().remove(name).await?;
    scenario.extensions().gone(name).await
}

pub(crate) async fn annotate(scenario: &Scenario<'_>, annotation: &str, value: Value) -> Result<()> {
    let key = format!("extensions.olm.operatorframework.io/{annotation}");
    scenario.patch_extension(json!({"metadata": {"annotations": {key: value}}})).await
}

/// The scenario's active revisions, in ascending order.
pub(crate) async fn revisions(scenario: &Scenario<'_>) -> Result<Vec<ClusterObjectSet>> {
    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    let label = format!("olm.operatorframework.io/owner-name={}", scenario.name);
    let mut all = sets.list(&kube::api::ListParams::default().labels(&label)).await?.items;
    all.retain(|set| set.spec.lifecycle_state == olm_api::v1::LifecycleState::Active);
    all.sort_by_key(|set| set.spec.revision);
    Ok(all)
}

/// Notes of the Events about an extension, by reason.
pub(crate) async fn events(scenario: &Scenario<'_>, extension: &str) -> Result<Vec<(String, String)>> {
    let api: Api<k8s_openapi::api::events::v1::Event> = Api::all(scenario.client.clone());
    let all = api.list(&kube::api::ListParams::default()).await?.items;
    let about = all.into_iter().filter(|event| {
        event.regarding.as_ref().is_some_and(|r| {
            r.kind.as_deref() == Some("ClusterExtension") && r.name.as_deref() == Some(extension)
        })
    });
    Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
}

/// Waits for an Event of this reason whose note begins as given.
pub(crate) async fn event(scenario: &Scenario<'_>, reason: &str, note: &str) -> Result<()> {
    wait::until(&format!("an Event {reason}"), DEADLINE, || async {
        let all = events(scenario, &scenario.name).await?;
        wait::check(all.iter().any(|(r, n)| r == reason && n.starts_with(note)), || format!("{all:?}"))
    })
    .await
}
