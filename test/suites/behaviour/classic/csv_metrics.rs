//! Metrics and Events of operators.

use k8s_openapi::api::events::v1::Event;
use olm_test::{
    prelude::*,
    scrape::{Scraper, count},
};

use crate::operators::Operators;

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_events_of_operators_have_upstreams_names() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("metrics").await?;
    let scraper = Scraper::new(&place.client, &place.namespace).await?;
    let read = async || scraper.read(&world.classic.metrics_url()).await;
    let namespace = format!("namespace=\"{}\"", place.namespace);
    place.operator("a.v1", json!({"version": "1.0.0"})).await?;
    place.shows("a.v1", "Failed/NoOperatorGroup").await?;
    let labels = [
        namespace.as_str(),
        "name=\"a.v1\"",
        "version=\"1.0.0\"",
        "phase=\"Failed\"",
        "reason=\"NoOperatorGroup\"",
    ];
    wait::until("the failed operator", DEADLINE, || async {
        let text = read().await?;
        let is_abnormal = count(&text, "csv_abnormal", &labels) == 1;
        wait::check(is_abnormal && count(&text, "csv_succeeded", &labels[..3]) == 0, || text.clone())
    })
    .await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    wait::until("the operator that runs", DEADLINE, || async {
        let text = read().await?;
        let runs = count(&text, "csv_succeeded", &labels[..3]) == 1 && count(&text, "csv_count", &[]) >= 1;
        wait::check(runs && count(&text, "csv_abnormal", &labels[..2]) == 0, || text.clone())
    })
    .await?;
    let before = count(&read().await?, "csv_upgrade_count", &[]);
    place.operator("a.v2", json!({"version": "2.0.0", "replaces": "a.v1"})).await?;
    place.shows("a.v2", "Succeeded/InstallSucceeded").await?;
    place.gone("a.v1").await?;
    wait::until("the upgrade", DEADLINE, || async {
        let text = read().await?;
        let of_old = |line: &str| labels[..2].iter().all(|label| line.contains(label));
        let is_left = text.lines().any(|line| line.starts_with("csv_") && of_old(line));
        wait::check(count(&text, "csv_upgrade_count", &[]) > before && !is_left, || text.clone())
    })
    .await?;
    let events: Api<Event> = Api::namespaced(place.client.clone(), &place.namespace);
    let wanted =
        [("Warning", "NoOperatorGroup"), ("Normal", "AllRequirementsMet"), ("Normal", "InstallSucceeded")];
    wait::until("an Event of each phase", DEADLINE, || async {
        let found = events.list(&ListParams::default()).await?.items;
        let has = |(type_, reason): &(&str, &str)| {
            found.iter().any(|one| {
                one.type_.as_deref() == Some(type_)
                    && one.reason.as_deref() == Some(reason)
                    && one.regarding.as_ref().is_some_and(|about| about.name.as_deref() == Some("a.v1"))
            })
        };
        wait::check(wanted.iter().all(has), || format!("{found:?}"))
    })
    .await
}
