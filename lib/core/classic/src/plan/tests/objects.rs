//! The objects of steps, and the rules about CRDs.

use olm_api_classic::{Step, StepResource};
use serde_json::{Value, json};

use crate::plan::{
    crds,
    object::{Place, is_supported, prepared, updated},
    texts,
};

fn step(group: &str, kind: &str) -> Step {
    let resource = StepResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: "n".to_owned(),
        ..StepResource::default()
    };
    Step { resolving: "a.v1".to_owned(), resource, ..Step::default() }
}

const PLACE: Place<'_> =
    Place { plan: "install-a", namespace: "ns", is_namespaced: true, csv_uid: Some("u") };

#[test]
fn only_supported_kinds_are_carried_out() {
    assert!(is_supported(&step("", texts::BUNDLE_SECRET)));
    assert!(is_supported(&step("console.openshift.io", "ConsolePlugin")));
    for kind in ["Secret", "Deployment", "ValidatingWebhookConfiguration", "PodMonitor", ""] {
        assert!(!is_supported(&step("", kind)), "{kind}");
    }
}

#[test]
fn what_a_manifest_claims_of_itself_is_dropped() {
    let manifest = json!({
        "apiVersion": "v9", "kind": "Other", "status": {"x": 1}, "data": {"k": "v"},
        "metadata": {
            "name": "n", "namespace": "kube-system", "uid": "x", "resourceVersion": "1", "finalizers": ["f"],
            "ownerReferences": [{"uid": "kubelet"}], "labels": {"l": "1"},
        },
    });
    let object = prepared(&step("", "ConfigMap"), &manifest, PLACE);
    let owner = json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a.v1",
        "uid": "u", "controller": false, "blockOwnerDeletion": false,
    }]);
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
        "metadata": {
            "name": "n", "namespace": "ns", "labels": {"l": "1", "olm.managed": "true"},
            "ownerReferences": owner,
        },
    });
    assert_eq!(object, expected);
}

#[test]
fn objects_of_the_cluster_have_owner_labels() {
    let place = Place { is_namespaced: false, ..PLACE };
    let object = prepared(&step("rbac.authorization.k8s.io", "ClusterRole"), &json!({}), place);
    let labels = json!({
        "olm.managed": "true", "olm.owner": "a.v1", "olm.owner.namespace": "ns",
        "olm.owner.kind": "ClusterServiceVersion",
    });
    assert_eq!(object["metadata"], json!({"name": "n", "labels": labels}));
    assert_eq!(object["apiVersion"], "rbac.authorization.k8s.io/v1");
}

#[test]
fn generated_subscriptions_name_the_plan_and_have_no_owner() {
    let object = prepared(&step("operators.coreos.com", "Subscription"), &json!({}), PLACE);
    assert_eq!(object["metadata"]["annotations"], json!({"olm.generated-by": "install-a"}));
    assert_eq!(object["metadata"]["ownerReferences"], Value::Null);
}

#[test]
fn a_secret_of_a_bundle_is_a_secret() {
    let shipped = json!({"type": "Opaque", "data": {"a": "MQ=="}, "spec": {"region": "north"}});
    for group in ["", "example.com"] {
        let object = prepared(&step(group, texts::BUNDLE_SECRET), &shipped, PLACE);
        let fields = [&object["apiVersion"], &object["kind"], &object["type"], &object["data"]["a"]];
        assert_eq!(fields, ["v1", "Secret", "Opaque", "MQ=="], "{object}");
        assert!(object.get("spec").is_none(), "{object}");
    }
}

#[test]
fn what_others_have_set_stays() {
    let owner = |name: &str, uid: &str| json!({"kind": "ClusterServiceVersion", "name": name, "uid": uid});
    let live = json!({
        "kind": "ServiceAccount", "secrets": [{"name": "token"}],
        "metadata": {
            "name": "n", "resourceVersion": "7", "labels": {"theirs": "1"}, "annotations": {"a": "1", "b": "1"},
            "ownerReferences": [owner("other", "o"), owner("a.v1", "gone")],
        },
    });
    let wanted = json!({
        "kind": "ServiceAccount", "imagePullSecrets": [{"name": "pull"}],
        "metadata": {"name": "n", "annotations": {"a": "2"}, "ownerReferences": [owner("a.v1", "u")]},
    });
    let after = updated(&live, &wanted).unwrap();
    assert_eq!(after["secrets"], live["secrets"]);
    assert_eq!(after["imagePullSecrets"], wanted["imagePullSecrets"]);
    assert_eq!(after["metadata"]["annotations"], json!({"a": "2", "b": "1"}));
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner("other", "o"), owner("a.v1", "u")]));
    assert_eq!(updated(&after, &wanted), None, "nothing is left to write");
}

#[test]
fn a_service_keeps_its_address_and_a_role_loses_other_rules() {
    let live = json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}});
    let wanted = json!({"kind": "Service", "spec": {"ports": [{"port": 2}]}});
    let after = updated(&live, &wanted).unwrap();
    assert_eq!(after["spec"], json!({"clusterIP": "10.0.0.1", "ports": [{"port": 2}]}));
    let live = json!({"kind": "Role", "rules": [{"verbs": ["*"]}]});
    assert_eq!(updated(&live, &json!({"kind": "Role", "rules": []})).unwrap()["rules"], json!([]));
}

fn crd(versions: &[&str], stored: &[&str]) -> Value {
    let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name, "served": true})).collect();
    json!({
        "metadata": {"name": "lamps.x"}, "spec": {"versions": versions}, "status": {"storedVersions": stored},
    })
}

#[test]
fn stored_versions_must_stay() {
    let live = crd(&["v1", "v2"], &["v1", "v2"]);
    assert_eq!(crds::keeps_stored_versions(&live, &crd(&["v1", "v2", "v3"], &[])), Ok(()));
    let text = "risk of data loss updating \"lamps.x\": new CRD removes version v1 that is listed as a stored version on the existing CRD";
    assert_eq!(crds::keeps_stored_versions(&live, &crd(&["v2"], &[])), Err(text.to_owned()));
    let text = "checking CRD for potential data loss updating \"lamps.x\": could not find any versions in the new CRD";
    assert_eq!(crds::keeps_stored_versions(&live, &crd(&[], &[])), Err(text.to_owned()));
}

#[test]
fn annotations_of_clusterserviceversions_that_are_gone_go() {
    let note = |csv: &str| {
        let (key, value) = crds::alongside("ns", csv);
        (key, Value::from(value))
    };
    let mut live = crd(&["v1"], &["v1"]);
    let notes: serde_json::Map<_, _> =
        [note("a.v1"), note("b.v1"), ("x".to_owned(), "y".into())].into_iter().collect();
    live["metadata"]["annotations"] = notes.into();
    live["spec"]["conversion"] = json!({"strategy": "Webhook"});
    let mut new = crd(&["v1", "v2"], &[]);
    new["metadata"]["annotations"] = [note("a.v2")].into_iter().collect::<serde_json::Map<_, _>>().into();
    let after = crds::replaced(&live, &new, |_, name| name == "a.v1").unwrap();
    let kept: serde_json::Map<_, _> =
        [note("a.v1"), note("a.v2"), ("x".to_owned(), "y".into())].into_iter().collect();
    assert_eq!(after["metadata"]["annotations"], Value::from(kept));
    assert_eq!(after["spec"]["conversion"], live["spec"]["conversion"], "objects stay readable");
    assert_eq!(crds::named_alongside(&after).len(), 2);
}

#[test]
fn a_definition_is_served_when_both_conditions_say_so() {
    let with = |kinds: &[&str]| {
        let conditions: Vec<Value> =
            kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        json!({"status": {"conditions": conditions}})
    };
    assert!(crds::is_served(&with(&["NamesAccepted", "Established"])));
    assert!(!crds::is_served(&with(&["Established"])));
}

#[test]
fn texts_are_upstreams() {
    assert_eq!(
        texts::not_served("Foo", "f", ("g", "v1", "Foo")),
        "api-server resource not found installing Foo f: GroupVersionKind g/v1, Kind=Foo not found on the cluster. This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information."
    );
    assert_eq!(
        texts::warnings(1, "a.v1", "Foo", "f", "old"),
        "1 warning(s) generated during installation of operator \"a.v1\" (Foo \"f\"): old"
    );
    assert_eq!(
        texts::warnings(1, "", "Foo", "f", "old"),
        "1 warning(s) generated during operator installation (Foo \"f\"): old"
    );
}
