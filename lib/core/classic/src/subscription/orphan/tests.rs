use serde_json::{Value, json};

use super::*;
use crate::registry_model::{self, Package, Property};

fn property(kind: &str, value: &Value) -> Property {
    Property { kind: kind.to_owned(), value: value.to_string() }
}

fn kind() -> Value {
    json!({"group": "example.com", "version": "v1", "kind": "Lamp"})
}

fn catalog() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let package = Package { name: "lamp".to_owned(), ..Package::default() };
    snapshot.push_package(&package).unwrap();
    let bundle = registry_model::Bundle {
        csv_name: "lamp.v1".to_owned(),
        package_name: "lamp".to_owned(),
        channel_name: "stable".to_owned(),
        version: "1.0.0".to_owned(),
        properties: vec![
            property("olm.package", &json!({"packageName": "lamp", "version": "1.0.0"})),
            property("olm.gvk", &kind()),
        ],
        ..registry_model::Bundle::default()
    };
    assert!(snapshot.push_bundle(&bundle).unwrap());
    snapshot
}

fn subscription(name: &str, fields: &Value) -> Subscription {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"name": "lamp", "source": "cat", "sourceNamespace": "olm"},
    });
    for (field, value) in fields.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn csv(name: &str, version: &str, package: &str, provides: bool) -> ClusterServiceVersion {
    let mut properties =
        vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
    if provides {
        properties.push(json!({"type": "olm.gvk", "value": kind()}));
    }
    let annotation = json!({ "properties": properties }).to_string();
    let object = json!({
        "metadata": {"name": name, "annotations": {"operatorframework.io/properties": annotation}},
        "spec": {"version": version, "install": {"strategy": "deployment"}, "displayName": name},
    });
    serde_json::from_value(object).unwrap()
}

fn of(fields: &Value, csvs: &[ClusterServiceVersion]) -> Adoption {
    let subscription = subscription("lamp", fields);
    adoption(&subscription, std::slice::from_ref(&subscription), csvs, &catalog())
}

#[test]
fn an_orphan_is_adopted_when_package_entry_and_content_agree() {
    let orphan = csv("lamp.v1", "1.0.0", "lamp", true);
    assert_eq!(of(&json!({}), std::slice::from_ref(&orphan)), Adoption::Adopt("lamp.v1".to_owned()));
    let mut subscription = subscription("lamp", &json!({}));
    adopt(&mut subscription, "lamp.v1");
    let status = subscription.status.as_ref().unwrap();
    assert_eq!(status.installed_csv.as_deref(), Some("lamp.v1"));
    assert_eq!(status.state.as_deref(), Some("AtLatestKnown"));
    let again = adoption(&subscription, std::slice::from_ref(&subscription), &[orphan], &catalog());
    assert_eq!(again, Adoption::None);
}

#[test]
fn what_does_not_agree_is_named() {
    let refused = |fields: Value, csvs: &[ClusterServiceVersion], text: &str| {
        let Adoption::Refused(sentence) = of(&fields, csvs) else { panic!("not refused: {text}") };
        assert!(sentence.contains(text), "{sentence}");
    };
    let good = csv("lamp.v1", "1.0.0", "lamp", true);
    refused(json!({}), &[csv("lamp.v1", "1.0.0", "torch", true)], "its package: that is \"torch\"");
    let mut unnamed = good.clone();
    unnamed.metadata.annotations = None;
    refused(json!({}), &[unnamed], "its package: it has no annotation");
    refused(json!({}), &[csv("lamp.v9", "9.0.0", "lamp", true)], "the catalog entry: CatalogSource olm/cat");
    refused(json!({"channel": "other"}), std::slice::from_ref(&good), "the catalog entry");
    refused(
        json!({"startingCSV": "lamp.v2"}),
        std::slice::from_ref(&good),
        "spec.startingCSV is \"lamp.v2\"",
    );
    refused(json!({}), &[csv("lamp.v1", "1.0.1", "lamp", true)], "its content: it has version 1.0.1");
    refused(json!({}), &[csv("lamp.v1", "1.0.0", "lamp", false)], "its content: it provides the kinds []");
    refused(json!({}), &[good, csv("lamp.v9", "9.0.0", "lamp", true)], "delete all but one");
}

#[test]
fn of_two_subscriptions_of_a_package_none_adopts() {
    let all = [subscription("lamp", &json!({})), subscription("other", &json!({}))];
    let found = adoption(&all[0], &all, &[csv("lamp.v1", "1.0.0", "lamp", true)], &catalog());
    assert!(matches!(found, Adoption::Refused(text) if text.contains("2 Subscriptions ask for it")));
}

#[test]
fn a_version_that_is_being_replaced_or_deleted_or_copied_is_no_orphan() {
    let replaced = csv("lamp.v1", "1.0.0", "lamp", true);
    let mut next = csv("lamp.v2", "2.0.0", "torch", true);
    next.spec.replaces = Some("lamp.v1".to_owned());
    assert_eq!(of(&json!({}), &[replaced.clone(), next]), Adoption::None);
    let mut copied = replaced;
    copied.metadata.labels = Some([("olm.copiedFrom".to_owned(), "other".to_owned())].into());
    assert_eq!(of(&json!({}), &[copied]), Adoption::None);
}
