//! The user's `deploymentConfig`, row by row, and its interplay with certificates.

use serde_json::{Value, json};

use crate::builder::{Bundle, bundle, find, webhook};

fn deployment(bundle: &Bundle, config: impl Into<Value>) -> Value {
    let rendered = bundle.configured(json!({"deploymentConfig": config.into()})).unwrap();
    find(&rendered, "Deployment", "manager").clone()
}

fn pod(bundle: &Bundle, config: Value) -> Value {
    deployment(bundle, config)["spec"]["template"]["spec"].take()
}

fn container(bundle: &Bundle, config: Value) -> Value {
    pod(bundle, config)["containers"][0].take()
}

#[test]
fn env_is_replaced_by_name_and_appended() {
    let sample = bundle().container(
        "env",
        json!([{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
    );
    let env = container(
        &sample,
        json!({"env": [{"name": "B", "value": "2"}, {"name": "C"}, {"name": "C", "value": "3"}]}),
    );
    assert_eq!(
        env["env"],
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C"}, {"name": "C", "value": "3"}])
    );
}

#[test]
fn equal_entries_are_not_repeated() {
    let source = json!({"configMapRef": {"name": "m"}});
    let sample = bundle().container("envFrom", json!([source])).pod("tolerations", json!([{"key": "k"}]));
    let config = json!({
        "envFrom": [source, {"secretRef": {"name": "s"}}, {"secretRef": {"name": "s"}}],
        "tolerations": [{"key": "k"}, {"key": "k", "operator": "Exists"}],
    });
    assert_eq!(container(&sample, config.clone())["envFrom"], json!([source, {"secretRef": {"name": "s"}}]));
    assert_eq!(
        pod(&sample, config)["tolerations"],
        json!([{"key": "k"}, {"key": "k", "operator": "Exists"}])
    );
}

#[test]
fn volumes_and_mounts_are_replaced_by_name() {
    let sample = bundle().pod("volumes", json!([{"name": "a", "emptyDir": {}}])).container(
        "volumeMounts",
        json!([{"name": "a", "mountPath": "/1"}, {"name": "a", "mountPath": "/2"}]),
    );
    let config = json!({
        "volumes": [{"name": "a", "configMap": {"name": "m"}}, {"name": "b", "emptyDir": {}}],
        "volumeMounts": [{"name": "a", "mountPath": "/3"}, {"name": "b", "mountPath": "/4"}],
    });
    let pod = pod(&sample, config);
    assert_eq!(
        pod["volumes"],
        json!([{"name": "a", "configMap": {"name": "m"}}, {"name": "b", "emptyDir": {}}])
    );
    assert_eq!(
        pod["containers"][0]["volumeMounts"],
        json!([{"name": "a", "mountPath": "/1"}, {"name": "a", "mountPath": "/3"}, {"name": "b", "mountPath": "/4"}])
    );
}

#[test]
fn resources_and_node_selector_are_replaced_wholly() {
    let sample = bundle()
        .container("resources", json!({"limits": {"cpu": "1"}}))
        .pod("nodeSelector", json!({"a": "b"}));
    let config = json!({"resources": {"requests": {"cpu": "1000m"}}, "nodeSelector": {"c": "d"}});
    assert_eq!(container(&sample, config.clone())["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(pod(&sample, config)["nodeSelector"], json!({"c": "d"}));
    let erased = json!({"resources": {}, "nodeSelector": {}});
    assert_eq!(container(&sample, erased.clone())["resources"], json!({}));
    assert_eq!(pod(&sample, erased).get("nodeSelector"), None);
}

#[test]
fn affinity_is_merged_by_member() {
    let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "k", "operator": "Exists"}]}]}});
    let term = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]});
    let empty_terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}});
    for (shipped, given, wanted) in [
        (json!({"nodeAffinity": node, "podAffinity": term}), json!({}), None),
        (
            json!({"nodeAffinity": node, "podAffinity": term}),
            json!({"nodeAffinity": {}}),
            Some(json!({"podAffinity": term})),
        ),
        (
            json!({"nodeAffinity": node, "podAffinity": term}),
            json!({"nodeAffinity": empty_terms}),
            Some(json!({"podAffinity": term})),
        ),
        (
            json!({"nodeAffinity": node, "podAntiAffinity": term}),
            json!({"podAffinity": term}),
            Some(json!({"nodeAffinity": node, "podAffinity": term, "podAntiAffinity": term})),
        ),
        (json!({"nodeAffinity": node}), json!({"nodeAffinity": {}}), None),
        (json!(null), json!({"nodeAffinity": {}}), None),
    ] {
        let pod = pod(&bundle().pod("affinity", shipped.clone()), json!({"affinity": given}));
        assert_eq!(pod.get("affinity"), wanted.as_ref(), "{shipped} {given}");
    }
}

#[test]
fn annotations_of_the_bundle_win() {
    let config =
        json!({"annotations": {"capabilities": "mine", "olm.targetNamespaces": "mine", "new": "yes"}});
    let deployment = deployment(&bundle(), config);
    assert_eq!(deployment["metadata"]["annotations"]["capabilities"], "mine");
    let template = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        *template,
        json!({
            "capabilities": "Basic", "new": "yes", "olm.operatorNamespace": "ns", "olm.targetNamespaces": "",
        })
    );
}

#[test]
fn every_container_but_no_init_container_is_reached() {
    let sample = bundle()
        .pod("containers", json!([{"name": "a"}, {"name": "b"}]))
        .pod("initContainers", json!([{"name": "i"}]));
    let pod = pod(&sample, json!({"env": [{"name": "A"}], "resources": {"limits": {"cpu": "2"}}}));
    for index in 0..2 {
        assert_eq!(pod["containers"][index]["env"], json!([{"name": "A"}]));
    }
    assert_eq!(pod["initContainers"], json!([{"name": "i", "resources": {}}]));
}

#[test]
fn even_certificate_volumes_can_be_replaced() {
    let sample = bundle().webhooks(json!([webhook("MutatingAdmissionWebhook", "m")]));
    let pod = pod(&sample, json!({"volumes": [{"name": "webhook-cert", "emptyDir": {}}]}));
    assert_eq!(pod["volumes"][0], json!({"name": "webhook-cert", "emptyDir": {}}));
    assert_eq!(pod["volumes"][1]["name"], "apiservice-cert");
}

#[test]
fn null_and_empty_configurations_change_nothing() {
    let plain = bundle().render().unwrap();
    for config in [json!({"deploymentConfig": null}), json!({"deploymentConfig": {}})] {
        assert_eq!(bundle().configured(config).unwrap(), plain);
    }
}

#[test]
fn a_bad_quantity_is_the_configurations_fault() {
    let error = bundle()
        .configured(json!({"deploymentConfig": {"resources": {"limits": {"cpu": "x"}}}}))
        .unwrap_err();
    assert_eq!(error.reason().as_str(), "InvalidConfiguration");
    let prefix = "invalid deploymentConfig: failed to unmarshal deploymentConfig: ";
    assert!(error.to_string().starts_with(prefix), "{error}");
}
