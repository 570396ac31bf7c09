use olm_api_classic::SubscriptionStatus;
use serde_json::{Value, json};

use super::*;

fn catalog(namespace: &str, name: &str, status: &Value) -> CatalogSource {
    let object = json!({
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"sourceType": "grpc"}, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn good(name: &str) -> CatalogSource {
    catalog("olm", name, &json!({}))
}

fn bad(name: &str) -> CatalogSource {
    catalog("olm", name, &json!({"reason": "SpecInvalidError"}))
}

/// The status after reconciles that see these catalogs.
fn after(reconciles: &[&[CatalogSource]]) -> SubscriptionStatus {
    let object = json!({
        "metadata": {"name": "lamp"},
        "spec": {"name": "lamp", "source": "cat", "sourceNamespace": "olm"},
    });
    let mut subscription: Subscription = serde_json::from_value(object).unwrap();
    for (number, catalogs) in (1..).zip(reconciles) {
        let catalogs: Vec<_> = catalogs.iter().collect();
        follow(&mut subscription, &catalogs, Timestamp::from_second(number).unwrap());
    }
    subscription.status.unwrap()
}

fn condition(status: &SubscriptionStatus) -> [&str; 3] {
    let one = &status.conditions[0];
    [&one.status, one.reason.as_deref().unwrap(), one.message.as_deref().unwrap()]
}

#[test]
fn a_named_catalog_that_is_missing_is_reported() {
    let status = after(&[&[good("other")], &[good("other")]]);
    let wanted = ["True", "UnhealthyCatalogSourceFound", "targeted catalogsource olm/cat missing"];
    assert_eq!(condition(&status), wanted);
}

#[test]
fn a_named_catalog_that_is_unhealthy_is_reported() {
    let status = after(&[&[bad("cat")], &[bad("cat")]]);
    let wanted = ["True", "UnhealthyCatalogSourceFound", "targeted catalogsource olm/cat unhealthy"];
    assert_eq!(condition(&status), wanted);
}

#[test]
fn another_catalog_that_is_unhealthy_is_named() {
    let catalogs = [good("cat"), bad("z"), bad("a")];
    let status = after(&[&catalogs, &catalogs]);
    let wanted = ["True", "UnhealthyCatalogSourceFound", "catalogsource olm/a, olm/z unhealthy"];
    assert_eq!(condition(&status), wanted);
}

#[test]
fn all_healthy_is_reported_one_reconcile_after_the_change() {
    let healthy = "all available catalogsources are healthy";
    let status = after(&[&[good("cat")]]);
    assert_eq!(condition(&status), ["False", "CatalogSourcesAdded", healthy]);
    let status = after(&[&[good("cat")], &[good("cat")]]);
    assert_eq!(condition(&status), ["False", "AllCatalogSourcesHealthy", healthy]);
}

#[test]
fn fewer_and_other_catalogs_are_changes() {
    let reason = |reconciles: &[&[CatalogSource]]| after(reconciles).conditions[0].reason.clone().unwrap();
    assert_eq!(reason(&[&[good("cat"), good("a")], &[good("cat")]]), "CatalogSourcesDeleted");
    assert_eq!(reason(&[&[good("cat")], &[bad("cat")]]), "CatalogSourcesUpdated");
    let mut again = good("cat");
    again.metadata.uid = Some("another".to_owned());
    assert_eq!(reason(&[&[good("cat")], &[again]]), "CatalogSourcesUpdated");
}

#[test]
fn without_catalogs_one_is_asked_for() {
    let wanted =
        ["True", "NoCatalogSourcesFound", "dependency resolution requires at least one catalogsource"];
    assert_eq!(condition(&after(&[&[]])), wanted);
}

#[test]
fn a_catalog_whose_content_is_not_there_yet_is_healthy_and_one_that_failed_is_not() {
    let ready = |reason: &str| {
        json!({"conditions": [{
            "type": "Ready", "status": "False", "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]})
    };
    let pulled = after(&[&[catalog("olm", "cat", &ready("Pending"))]]);
    assert!(pulled.catalog_health[0].healthy);
    let failed = after(&[&[catalog("olm", "cat", &ready("Failed"))]]);
    assert!(!failed.catalog_health[0].healthy);
}

#[test]
fn an_entry_keeps_its_time_and_version_while_it_says_the_same() {
    let mut newer = good("cat");
    newer.metadata.resource_version = Some("2".to_owned());
    let first = after(&[&[good("cat")]]);
    let second = after(&[&[good("cat")], &[newer.clone()]]);
    assert_eq!(first.catalog_health, second.catalog_health);
    assert_eq!(after(&[&[good("cat")], &[newer.clone()], &[newer]]), second, "nothing is written when idle");
}
