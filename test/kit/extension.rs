//! ClusterExtensions as tests create them.

use olm_api::names::CATALOG_NAME_LABEL;
use serde_json::{Value, json};

/// The ServiceAccount that installs, in the namespace of each test.
pub const ACCOUNT: &str = "installer";

/// A ClusterExtension of a package from one catalog, with further fields of `spec.source.catalog`.
pub fn extension(name: &str, namespace: &str, package: &str, catalog: &str, filter: &Value) -> Value {
    let mut source =
        json!({"packageName": package, "selector": {"matchLabels": {CATALOG_NAME_LABEL: catalog}}});
    for (field, value) in filter.as_object().into_iter().flatten() {
        source[field] = value.clone();
    }
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {
            "namespace": namespace, "serviceAccount": {"name": ACCOUNT},
            "source": {"sourceType": "Catalog", "catalog": source},
        },
    })
}
