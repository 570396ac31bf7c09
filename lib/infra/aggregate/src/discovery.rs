//! Discovery: the group, its version and resources, as two generations of clients ask for them.

use serde_json::{Value, json};

use crate::Names;

const VERBS: [&str; 3] = ["get", "list", "watch"];

/// `/apis`.
pub(crate) fn groups(names: &Names) -> Value {
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [described(names)] })
}

/// `/apis/<group>`.
pub(crate) fn group(names: &Names) -> Value {
    let mut group = described(names);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn described(names: &Names) -> Value {
    let version = json!({ "groupVersion": names.api_version(), "version": names.version });
    json!({ "name": names.group, "versions": [version], "preferredVersion": version })
}

/// `/apis/<group>/<version>`.
pub(crate) fn resources(names: &Names) -> Value {
    let mut resources = vec![json!({
        "name": names.plural, "singularName": names.singular, "namespaced": true, "kind": names.kind,
        "verbs": VERBS,
    })];
    resources.extend(names.subresources.iter().map(|subresource| {
        json!({
            "name": format!("{}/{subresource}", names.plural), "singularName": "", "namespaced": true,
            "kind": names.kind, "verbs": ["get"],
        })
    }));
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": names.api_version(),
        "resources": resources,
    })
}

/// `/apis` in one document, of this version of the group apidiscovery.k8s.io.
pub(crate) fn aggregated(names: &Names, version: &str) -> Value {
    let kind = json!({ "group": names.group, "version": names.version, "kind": names.kind });
    let subresource = |name: &&str| json!({ "subresource": name, "responseKind": kind, "verbs": ["get"] });
    let subresources: Vec<_> = names.subresources.iter().map(subresource).collect();
    let resource = json!({
        "resource": names.plural, "responseKind": kind, "scope": "Namespaced",
        "singularResource": names.singular, "verbs": VERBS, "subresources": subresources,
    });
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": [{
            "metadata": { "name": names.group, "creationTimestamp": null },
            "versions": [{ "version": names.version, "resources": [resource], "freshness": "Current" }],
        }],
    })
}
