//! Documents for catalogs of tests, each a line of JSON.

use serde_json::{Value, json};

pub(super) fn package(name: &str, default_channel: &str) -> String {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default_channel}).to_string()
}

/// Entries from their JSON.
pub(super) fn entries(entries: &[&str]) -> Vec<Value> {
    entries.iter().map(|entry| serde_json::from_str(entry).expect("JSON")).collect()
}

pub(super) fn channel(package: &str, name: &str, list: &[&str]) -> String {
    channel_of(package, name, &Value::Array(entries(list)))
}

pub(super) fn channel_of(package: &str, name: &str, entries: &Value) -> String {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries}).to_string()
}

pub(super) fn bundle(package: &str, name: &str, version: &str, image: &str) -> String {
    with_properties(
        package,
        name,
        image,
        &json!([{"type": "olm.package", "value": {"packageName": package, "version": version}}]),
    )
}

pub(super) fn with_properties(package: &str, name: &str, image: &str, properties: &Value) -> String {
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": properties})
        .to_string()
}

/// One package, one channel, two bundles.
pub(super) fn valid() -> String {
    [
        package("p", "ch"),
        channel("p", "ch", &[r#"{"name":"p.v2.0.0","replaces":"p.v1.0.0"}"#, r#"{"name":"p.v1.0.0"}"#]),
        bundle("p", "p.v1.0.0", "1.0.0", "quay.io/p:1"),
        bundle("p", "p.v2.0.0", "2.0.0", "quay.io/p:2"),
    ]
    .concat()
}
