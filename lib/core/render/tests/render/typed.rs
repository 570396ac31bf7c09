//! What passing through Kubernetes' types does to what a bundle ships, rule by rule.

use serde_json::{Value, json};

use crate::builder::{Bundle, bundle, crd, find, object};

/// The rendered CRD after a change of the shipped one.
fn definition(change: impl Fn(&mut Value)) -> Value {
    let mut shipped = crd("samples.x.io");
    change(&mut shipped);
    let rendered = bundle().file("manifests/crd.yaml", shipped).render().unwrap();
    find(&rendered, "CustomResourceDefinition", "samples.x.io").clone()
}

/// The rendered schema of a CRD.
fn schema(shipped: &Value) -> Value {
    let mut definition =
        definition(|crd| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = shipped.clone());
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

fn deployment(bundle: &Bundle) -> Value {
    find(&bundle.render().unwrap(), "Deployment", "manager")["spec"].clone()
}

/// The rendered container with a field set.
fn container(field: &str, value: Value) -> Value {
    deployment(&bundle().container(field, value))["template"]["spec"]["containers"][0].take()
}

fn spec(field: &str, value: Value) -> Bundle {
    bundle().set(&format!("/spec/install/spec/deployments/0/spec/{field}"), value)
}

#[test]
fn unknown_fields_go_at_every_depth_and_names_are_exact() {
    assert_eq!(container("Image", json!("x")).get("Image"), None);
    assert_eq!(container("ports", json!([{"containerport": 1}]))["ports"], json!([{"containerPort": 0}]));
    assert_eq!(
        schema(&json!({"type": "object", "x-mine": 1, "properties": {"a": {"y": 1}}})),
        json!({
            "type": "object", "properties": {"a": {}},
        })
    );
    // Below `items` and the like another decoder is at work, with the same rules.
    assert_eq!(
        schema(&json!({"items": {"Type": "string", "maxlength": 1, "minLength": 0}}))["items"],
        json!({"minLength": 0})
    );
}

#[test]
fn optional_zero_values_go_and_pointers_stay() {
    assert_eq!(container("image", json!(""))["name"], "manager");
    assert_eq!(container("image", json!("")).get("image"), None);
    assert_eq!(container("args", json!([])).get("args"), None);
    assert_eq!(container("tty", json!(false)).get("tty"), None);
    assert_eq!(container("securityContext", json!({}))["securityContext"], json!({}));
    assert_eq!(container("securityContext", json!(null)).get("securityContext"), None);
    assert_eq!(
        container("securityContext", json!({"runAsUser": 0, "privileged": false, "seccompProfile": {}}))["securityContext"],
        json!({"runAsUser": 0, "privileged": false, "seccompProfile": {"type": ""}})
    );
    assert_eq!(deployment(&spec("replicas", json!(0)))["replicas"], 0);
    assert_eq!(deployment(&spec("paused", json!(false))).get("paused"), None);
    let volumes =
        deployment(&bundle().pod("volumes", json!([{"name": "a", "emptyDir": {}}, {"secret": null}])));
    assert_eq!(volumes["template"]["spec"]["volumes"], json!([{"name": "a", "emptyDir": {}}, {"name": ""}]));
}

#[test]
fn some_fields_are_always_written() {
    let bare = deployment(&bundle().set("/spec/install/spec/deployments/0/spec", json!({})));
    let annotations = bare["template"]["metadata"]["annotations"].clone();
    assert_eq!(
        bare,
        json!({
            "revisionHistoryLimit": 1, "selector": null, "strategy": {},
            "template": {"metadata": {"annotations": annotations}, "spec": {"containers": null}},
        })
    );
    let probe = json!({"httpGet": {"httpHeaders": [{}]}, "grpc": {}});
    assert_eq!(
        container("livenessProbe", probe)["livenessProbe"],
        json!({"httpGet": {"port": 0, "httpHeaders": [{"name": "", "value": ""}]}, "grpc": {"port": 0, "service": null}})
    );
    let env = json!([{"valueFrom": {"resourceFieldRef": {}, "fieldRef": {}, "secretKeyRef": {}}}]);
    assert_eq!(
        container("env", env)["env"],
        json!([{"name": "", "valueFrom": {
            "resourceFieldRef": {"resource": "", "divisor": "0"}, "fieldRef": {"fieldPath": ""}, "secretKeyRef": {"key": ""},
        }}])
    );
    let empty = definition(|crd| {
        crd["spec"]["versions"][0] =
            json!({"additionalPrinterColumns": [{}], "subresources": {"scale": {}, "status": {}}});
    });
    assert_eq!(
        empty["spec"]["versions"][0],
        json!({
            "name": "", "served": false, "storage": false,
            "additionalPrinterColumns": [{"name": "", "type": "", "jsonPath": ""}],
            "subresources": {"scale": {"specReplicasPath": "", "statusReplicasPath": ""}, "status": {}},
        })
    );
    assert_eq!(
        empty["status"],
        json!({"conditions": null, "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": null})
    );
}

#[test]
fn affinity_and_volumes_write_what_identifies_them() {
    let affinity = json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {},
            "preferredDuringSchedulingIgnoredDuringExecution": [{}],
        },
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]},
    });
    let pod = deployment(
        &bundle()
            .pod("affinity", affinity)
            .pod(
                "volumes",
                json!([
                    {"name": "a", "projected": {}}, {"name": "b", "hostPath": {}}, {"name": "c", "nfs": {}},
                    {"name": "d", "iscsi": {}}, {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                ]),
            )
            .pod("topologySpreadConstraints", json!([{}])),
    )["template"]["spec"]
        .take();
    assert_eq!(
        pod["affinity"],
        json!({
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": null},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}],
            },
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "podAffinityTerm": {"topologyKey": ""}},
            ]},
        })
    );
    assert_eq!(
        pod["volumes"],
        json!([
            {"name": "a", "projected": {"sources": null}}, {"name": "b", "hostPath": {"path": ""}},
            {"name": "c", "nfs": {"server": "", "path": ""}},
            {"name": "d", "iscsi": {"targetPortal": "", "iqn": "", "lun": 0}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {}}}}},
        ])
    );
    assert_eq!(
        pod["topologySpreadConstraints"],
        json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": ""}])
    );
}

#[test]
fn times_of_typed_metadata_are_canonical_and_others_stay() {
    for (shipped, wanted) in
        [(json!(null), None), (json!("2021-11-25T12:00:00.5+02:00"), Some("2021-11-25T10:00:00Z"))]
    {
        let crd = definition(|crd| crd["metadata"]["creationTimestamp"] = shipped.clone());
        assert_eq!(crd["metadata"].get("creationTimestamp").and_then(Value::as_str), wanted);
    }
    let mut other = object("ConfigMap", "c");
    other["metadata"]["creationTimestamp"] = Value::Null;
    other["metadata"]["labels"] = Value::Null;
    other["status"] = json!({});
    let rendered = bundle().file("manifests/c.json", &other).render().unwrap();
    other["metadata"]["namespace"] = json!("ns");
    assert_eq!(find(&rendered, "ConfigMap", "c"), &other);
    let mut late = crd("samples.x.io");
    late["metadata"]["creationTimestamp"] = json!("yesterday");
    let refusal = bundle().file("manifests/crd.yaml", late).refusal();
    assert!(refusal.contains("cannot parse as a time"), "{refusal}");
}

#[test]
fn numbers_fit_as_reflection_makes_them_fit() {
    // Integral floats are integers, integers of too many bits lose the upper ones.
    assert_eq!(deployment(&spec("replicas", json!(2.0)))["replicas"], 2);
    assert_eq!(deployment(&spec("replicas", json!(4_294_967_299_i64)))["replicas"], 3);
    assert_eq!(schema(&json!({"maxLength": 18_446_744_073_709_551_615_u64}))["maxLength"], i64::MIN);
    let refusal = spec("replicas", json!(1.5)).refusal();
    assert!(refusal.contains("cannot convert float64 to int32"), "{refusal}");
    // Ports are checked: a number of them has 32 bits.
    for port in [json!(4_294_967_299_i64), json!(1.5), json!(true)] {
        let refusal = bundle().container("livenessProbe", json!({"tcpSocket": {"port": port}})).refusal();
        assert!(refusal.contains("livenessProbe.tcpSocket.port"), "{refusal}");
    }
    for port in [json!("http"), json!(""), json!(80)] {
        let probe = container("livenessProbe", json!({"tcpSocket": {"port": port}}));
        assert_eq!(probe["livenessProbe"]["tcpSocket"]["port"], port);
    }
    let shipped = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "n": 18_446_744_073_709_551_615_u64});
    let rendered = bundle().file("manifests/c.json", shipped).render().unwrap();
    assert_eq!(find(&rendered, "ConfigMap", "c")["n"], json!(18_446_744_073_709_551_615_f64));
}

#[test]
fn quantities_are_canonical_wherever_they_stand() {
    let limits = json!({"cpu": "1000m", "memory": "1024Mi", "a": 0.5, "b": null});
    assert_eq!(
        container("resources", json!({"limits": limits}))["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi", "a": "500m", "b": "0"}})
    );
    let pod =
        deployment(&bundle().pod("volumes", json!([{"name": "a", "emptyDir": {"sizeLimit": "0.5Gi"}}])));
    assert_eq!(pod["template"]["spec"]["volumes"][0]["emptyDir"]["sizeLimit"], "512Mi");
}

#[test]
fn members_of_schemas_have_their_own_readers() {
    for (shipped, wanted) in [
        (json!({"additionalProperties": true}), json!({"additionalProperties": true})),
        (json!({"additionalProperties": false}), json!({"additionalProperties": false})),
        (json!({"additionalProperties": {"nullable": false}}), json!({"additionalProperties": {}})),
        (json!({"items": []}), json!({"items": null})),
        (json!({"items": true}), json!({"items": null})),
        (json!({"items": null}), json!({})),
        (json!({"items": [{"type": "string"}, null]}), json!({"items": [{"type": "string"}, {}]})),
        (
            json!({"dependencies": {"a": ["b"], "c": [], "d": "x"}}),
            json!({"dependencies": {"a": ["b"], "c": null, "d": null}}),
        ),
        (
            json!({"properties": {"a": null}, "allOf": [null]}),
            json!({"properties": {"a": {}}, "allOf": [{}]}),
        ),
        (json!({"default": null, "enum": [null, 1.0]}), json!({"enum": [null, 1]})),
        (json!({"default": {"b": 1, "a": []}}), json!({"default": {"a": [], "b": 1}})),
        (
            json!({"maximum": 9_223_372_036_854_775_807_i64}),
            json!({"maximum": 9_223_372_036_854_776_000_u64}),
        ),
        (json!({"minimum": 0, "maxItems": 0, "required": []}), json!({"minimum": 0, "maxItems": 0})),
        (json!({"externalDocs": {}, "not": {}}), json!({"externalDocs": {}, "not": {}})),
    ] {
        assert_eq!(schema(&shipped), wanted, "{shipped}");
    }
    let mut wrong = crd("samples.x.io");
    wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"additionalProperties": "yes"});
    let refusal = bundle().file("manifests/crd.yaml", wrong).refusal();
    assert!(refusal.contains("boolean or JSON schema expected"), "{refusal}");
}

#[test]
fn shipped_ca_bundles_are_read_as_bytes() {
    let conversion =
        |bundle: &str| json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": bundle}}});
    for (shipped, wanted) in
        [("Cg==", json!("Cg==")), ("C\ng==\n", json!("Cg==")), ("Ch==", json!("Cg==")), ("", json!(null))]
    {
        let crd = definition(|crd| crd["spec"]["conversion"] = conversion(shipped));
        assert_eq!(
            crd["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle").unwrap_or(&Value::Null),
            &wanted
        );
    }
    let mut wrong = crd("samples.x.io");
    wrong["spec"]["conversion"] = conversion("Cg=");
    let refusal = bundle().file("manifests/crd.yaml", wrong).refusal();
    assert!(
        refusal.contains("illegal base64 data at spec.conversion.webhook.clientConfig.caBundle"),
        "{refusal}"
    );
}

#[test]
fn descriptions_know_their_own_fields_and_a_status_is_checked() {
    let owned = |more: Value| {
        let mut one = json!({"name": "samples.x.io", "version": "v1", "kind": "Sample"});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bundle().set("/spec/customresourcedefinitions", json!({"owned": [one]}))
    };
    assert!(owned(json!({"containerPort": "http", "group": 5})).render().is_ok());
    assert!(owned(json!({"description": 5})).refusal().contains("cannot convert int64 to string"));
    assert!(bundle().set("/status", json!({"phase": "Succeeded", "conditions": []})).render().is_ok());
    assert!(bundle().set("/status", json!({"phase": 1})).refusal().contains("at status.phase"));
}

#[test]
fn crd_metadata_is_kept_and_empty_maps_go() {
    let crd = definition(|crd| {
        crd["metadata"] = json!({
            "name": "samples.x.io", "namespace": "stray", "labels": {"a": ""}, "annotations": {}, "clusterName": "x",
        });
    });
    assert_eq!(crd["metadata"], json!({"name": "samples.x.io", "namespace": "stray", "labels": {"a": ""}}));
}

#[test]
fn metadata_that_are_null_get_no_namespace() {
    for (document, wanted) in [
        (json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": null}), json!(null)),
        (json!({"kind": "ConfigMap", "apiVersion": "v1"}), json!({"namespace": "ns"})),
    ] {
        let rendered = bundle().file("manifests/x.json", document).render().unwrap();
        let found = rendered.objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        assert_eq!(found["metadata"], wanted);
    }
}

#[test]
fn lists_of_objects_follow_the_cluster_tools() {
    let with = |document: Value| bundle().file("manifests/list.json", document);
    let config_map = object("ConfigMap", "c");
    for (document, wanted) in [
        (json!({"kind": "List", "apiVersion": "v1", "items": [config_map]}), Ok(1)),
        (json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [{"metadata": {"name": "c"}}]}), Ok(1)),
        (json!({"kind": "List", "items": null}), Ok(0)),
        (json!({"kind": "List", "items": {}}), Err("items is not a list")),
        (json!({"kind": "List", "items": [1]}), Err("an item is not a map")),
        (json!({"kind": "List", "items": [{"metadata": {}}]}), Err("Object 'Kind' is missing")),
        // Who says his version must say his kind.
        (json!({"kind": "ConfigMapList", "items": [{"apiVersion": "v1"}]}), Err("Object 'Kind' is missing")),
        (json!({"kind": "ConfigMap", "apiVersion": 1}), Err("apiVersion is not text")),
        (json!({"kind": "ConfigMap", "metadata": "x"}), Err("metadata: cannot restore struct from: string")),
        (
            json!({"kind": "ConfigMap", "metadata": {"name": 5}}),
            Err("cannot convert int64 to string at name"),
        ),
        (json!({"kind": "ConfigMap", "metadata": {"labels": {"a": 5}}}), Err("at labels[\"a\"]")),
        (json!({"kind": "List", "metadata": [], "items": []}), Err("metadata: cannot restore struct")),
        // Of objects in lists upstream does not look at them.
        (json!({"kind": "List", "items": [{"kind": "ConfigMap", "metadata": {"name": 5}}]}), Ok(1)),
        (
            json!({"kind": "List", "items": [{"kind": "List", "items": []}]}),
            Err("unsupported resource \"\" with kind \"List\""),
        ),
    ] {
        let rendered = with(document.clone()).render();
        match (rendered, wanted) {
            (Ok(rendered), Ok(count)) => {
                let found = rendered.objects.iter().filter(|object| object["kind"] == "ConfigMap").count();
                assert_eq!(found, count, "{document}");
            }
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{document}: {error}"),
            (rendered, _) => panic!("{document}: {rendered:?}"),
        }
    }
}
