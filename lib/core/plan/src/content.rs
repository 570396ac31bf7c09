//! The difference between the contents of two bundles, without a cluster.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::ObjectKey;
use olm_objectset::phase_of;
use serde::Serialize;
use serde_json::Value;

use crate::{
    fields::stated,
    images::{ImageChange, image_changes},
    objects::ObjectPlan,
    permissions::{ServiceAccountPermissions, operator_permissions},
};

/// The difference between the objects of two bundles, in the parts of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentDifference {
    /// The objects of both.
    pub objects: Vec<ObjectPlan>,
    /// Images of workloads, those that stay included.
    pub images: Vec<ImageChange>,
    /// Permissions that the operator's ServiceAccounts gain.
    pub gained_permissions: Vec<ServiceAccountPermissions>,
    /// Permissions that they lose.
    pub lost_permissions: Vec<ServiceAccountPermissions>,
}

/// Compares the objects of two bundles.
pub fn content_difference(before: &[Value], after: &[Value]) -> ContentDifference {
    let [old, new] = [before, after].map(by_key);
    let keys: BTreeSet<&ObjectKey> = old.keys().chain(new.keys()).collect();
    let plan = |key: &ObjectKey| {
        ObjectPlan::new(key.clone(), phase_of(&key.group, &key.kind), old.get(key), new.get(key))
    };
    ContentDifference {
        objects: keys.into_iter().map(plan).collect(),
        images: image_changes(before, after),
        gained_permissions: operator_permissions(before, after).increase,
        lost_permissions: operator_permissions(after, before).increase,
    }
}

fn by_key(objects: &[Value]) -> BTreeMap<ObjectKey, Value> {
    objects.iter().map(|object| (ObjectKey::of(object), stated(object))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(role: &str, rules: &Value) -> Vec<Value> {
        vec![
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": role}, "rules": rules}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]}),
        ]
    }

    fn permissions_of(difference: &ContentDifference) -> String {
        let text = difference.to_text();
        text.split_once("New permissions of the operator").unwrap().1.to_owned()
    }

    #[test]
    fn objects_and_images_are_compared() {
        let deployment = |name: &str, image: &str| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "n"},
                "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
        };
        let before = [deployment("a", "x:1"), deployment("gone", "y"), deployment("same", "z")];
        let after = [deployment("a", "x:2"), deployment("new", "n"), deployment("same", "z")];
        assert_eq!(
            content_difference(&before, &after).to_text(),
            "Objects\n  ~ Deployment.apps/v1 n/a\n      \
             spec.template.spec.containers[c].image: \"x:1\" -> \"x:2\"\n  - Deployment.apps/v1 n/gone\n  \
             + Deployment.apps/v1 n/new\n    1 more that stay as they are\n\
             Images\n  Deployment n/a [c]: x:1 -> x:2\n  Deployment n/gone [c]: y -> (none)\n  \
             Deployment n/new [c]: (none) -> n\n\
             New permissions of the operator: none\nPermissions that the operator loses: none\n"
        );
    }

    #[test]
    fn permissions_are_compared_by_the_service_account_that_holds_them() {
        let pods = json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]}]);
        let split = json!([
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        ]);
        let old = objects("a", &pods);
        let same = content_difference(&old, &objects("b", &split));
        assert_eq!((same.gained_permissions, same.lost_permissions), (Vec::new(), Vec::new()));
        let other = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
        assert_eq!(
            permissions_of(&content_difference(&old, &objects("c", &other))),
            "\n  ns/sa\n    + /metrics: get in the whole cluster\nPermissions that the operator loses\n  ns/sa\n    \
             - pods: get in the whole cluster\n    - secrets: get in the whole cluster\n    ! may read Secrets of every namespace\n"
        );
    }

    #[test]
    fn an_aggregated_role_grants_everything() {
        let old = objects("a", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        let mut new = objects("a", &json!([]));
        new[0]["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        let permissions = permissions_of(&content_difference(&old, &new));
        assert!(
            permissions.starts_with(
                "\n  ns/sa\n    + *: * in the whole cluster\n    + */*: * in the whole cluster\n"
            )
        );
    }

    #[test]
    fn service_accounts_of_equal_names_in_two_namespaces_are_two() {
        let old = objects("a", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        let mut new = old.clone();
        new[1]["subjects"][0]["namespace"] = json!("other");
        assert_eq!(
            permissions_of(&content_difference(&old, &new)),
            "\n  other/sa\n    + pods: get in the whole cluster\nPermissions that the operator loses\n  ns/sa\n    \
             - pods: get in the whole cluster\n"
        );
    }
}
