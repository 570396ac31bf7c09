//! What is generated, where we differ from upstream on purpose, and that the result is a pure function.

use olm_bundle::{BundleFiles, MEMORY_BYTES_MAX};
use olm_render::{CertificateProvider, Options, render};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::builder::{Bundle, bundle, crd, find, object, webhook};

#[test]
fn objects_come_in_upstreams_order() {
    let sample = bundle()
        .set("/spec/install/spec/clusterPermissions", json!([{"serviceAccountName": "z", "rules": []}]))
        .set("/spec/minKubeVersion", json!("1.30.0"))
        .file("manifests/a.json", object("ConfigMap", "c"))
        .webhooks(json!([
            webhook("MutatingAdmissionWebhook", "m"),
            webhook("ValidatingAdmissionWebhook", "v")
        ]));
    let rendered = sample.render().unwrap();
    let kinds: Vec<_> = rendered.objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "CustomResourceDefinition",
            "ConfigMap",
            "Deployment",
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
            "Service",
            "Issuer",
            "Certificate",
        ]
    );
    assert_eq!(rendered.min_kube_version.as_deref(), Some("1.30.0"));
    assert_eq!((rendered.name.as_str(), rendered.version.as_str()), ("sample.v1.0.0", "1.0.0"));
}

#[test]
fn role_names_are_hashes_of_the_permission_as_written() {
    let with = |permission: Value| {
        bundle()
            .set("/metadata/name", json!("wh.v1.0.0"))
            .set("/spec/install/spec/clusterPermissions", json!([permission]))
    };
    for (permission, name) in [
        (
            json!({"serviceAccountName": "", "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
            "wh.v1.0.0-default-nzvb3zwx13bo1wsnj9o549rri6w6zwgjkd9ihzcrq24",
        ),
        (
            json!({"serviceAccountName": "sa2", "rules": []}),
            "wh.v1.0.0-sa2-2g5qkfmo2nesdhrsntf2zz35tr6gcp33p313cv8lokj9",
        ),
        (json!({"serviceAccountName": "sa3"}), "wh.v1.0.0-sa3-2fbj04g25b0og1kyej6peupyqf5u6qad1ujyj7vgzirf"),
        (
            json!({"serviceAccountName": "sa1", "rules": [{"verbs": ["get"], "apiGroups": ["a"], "resources": []}, {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}),
            "wh.v1.0.0-sa1-1j3hy8lqpp1m0nhawdeximni9a2zy330bjuu6zrh3ztz",
        ),
        (
            json!({"serviceAccountName": "sa2", "rules": [{"verbs": ["get"], "apiGroups": ["x<y>&"], "resources": ["pods"]}]}),
            "wh.v1.0.0-sa2-2xtoag0l6xv0rd7623vyizma4qx0shn7xmcms1zv4b8d",
        ),
    ] {
        let rendered = with(permission).render().unwrap();
        find(&rendered, "ClusterRole", name);
        find(&rendered, "ClusterRoleBinding", name);
    }
}

#[test]
fn webhooks_without_a_port_use_443() {
    let mut conversion = webhook("ConversionWebhook", "c");
    conversion["conversionCRDs"] = json!(["samples.x.io"]);
    let mut validating = webhook("ValidatingAdmissionWebhook", "v-");
    for hook in [&mut conversion, &mut validating] {
        hook.as_object_mut().unwrap().remove("containerPort");
    }
    let rendered = bundle().webhooks(json!([conversion, validating])).render().unwrap();
    let configuration = find(&rendered, "ValidatingWebhookConfiguration", "v");
    assert_eq!(configuration["webhooks"][0]["clientConfig"]["service"]["port"], 443);
    let crd = find(&rendered, "CustomResourceDefinition", "samples.x.io");
    assert_eq!(crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    assert_eq!(crd["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], "ns/manager-service-cert");
}

#[test]
fn services_name_ports_apart() {
    let mut other = webhook("MutatingAdmissionWebhook", "m");
    other["targetPort"] = json!("https");
    let rendered =
        bundle().webhooks(json!([webhook("ValidatingAdmissionWebhook", "v"), other])).render().unwrap();
    assert_eq!(
        find(&rendered, "Service", "manager-service")["spec"]["ports"],
        json!([
            {"name": "443", "port": 443, "targetPort": "https"},
            {"name": "443-9443", "port": 443, "targetPort": 9443},
        ])
    );
}

#[test]
fn shipped_accounts_and_services_are_preferred() {
    let mut account = object("ServiceAccount", "sample");
    account["imagePullSecrets"] = json!([{"name": "pull"}]);
    let mut service = object("Service", "manager-service");
    service["spec"] = json!({"ports": [{"port": 443, "targetPort": 1}]});
    let options =
        Options { certificate_provider: CertificateProvider::OpenshiftServiceCa, ..Options::new("ns") };
    let rendered = bundle()
        .webhooks(json!([webhook("ValidatingAdmissionWebhook", "v")]))
        .file("manifests/account.json", account)
        .file("manifests/service.json", service)
        .render_with(&options)
        .unwrap();
    assert_eq!(find(&rendered, "ServiceAccount", "sample")["imagePullSecrets"], json!([{"name": "pull"}]));
    let service = find(&rendered, "Service", "manager-service");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 1);
    assert_eq!(
        service["metadata"]["annotations"],
        json!({"service.beta.openshift.io/serving-cert-secret-name": "manager-service-cert"})
    );
}

#[test]
fn certificates_replace_volumes_and_leave_init_containers_alone() {
    let path = "/tmp/k8s-webhook-server/serving-certs";
    let mounted = json!([{"name": "old", "mountPath": path, "readOnly": true}]);
    let sample = bundle()
        .webhooks(json!([webhook("ValidatingAdmissionWebhook", "v")]))
        .pod(
            "volumes",
            json!([{"name": "old", "secret": {"secretName": "x"}}, {"name": "keep", "emptyDir": {}}]),
        )
        .container("volumeMounts", mounted)
        .pod(
            "initContainers",
            json!([
                {"name": "i", "volumeMounts": [{"name": "old", "mountPath": "/x"}]},
                {"name": "j", "volumeMounts": [{"name": "keep", "mountPath": "/y"}]},
            ]),
        );
    let rendered = sample.render().unwrap();
    let pod = &find(&rendered, "Deployment", "manager")["spec"]["template"]["spec"];
    let names: Vec<_> = pod["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["keep", "webhook-cert", "apiservice-cert"]);
    let mounts = json!([
        {"name": "webhook-cert", "mountPath": path},
        {"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"},
    ]);
    assert_eq!(pod["containers"][0]["volumeMounts"], mounts);
    assert_eq!(pod["initContainers"][0]["volumeMounts"], json!([{"name": "old", "mountPath": "/x"}]));
    assert_eq!(pod["initContainers"][1]["volumeMounts"], json!([{"name": "keep", "mountPath": "/y"}]));
}

#[test]
fn long_hosts_have_no_common_name() {
    let options = Options::new("n".repeat(60));
    let rendered =
        bundle().webhooks(json!([webhook("ValidatingAdmissionWebhook", "v")])).render_with(&options).unwrap();
    let certificate = find(&rendered, "Certificate", "manager-service-cert");
    assert_eq!(certificate["spec"].get("commonName"), None);
    assert_eq!(certificate["spec"]["dnsNames"].as_array().unwrap().len(), 3);
}

#[test]
fn autoscalers_get_the_namespace_and_cluster_kinds_do_not() {
    let rendered = bundle()
        .file("manifests/v.json", object("VerticalPodAutoscaler", "v"))
        .file("manifests/p.json", object("PriorityClass", "p"))
        .render()
        .unwrap();
    assert_eq!(find(&rendered, "VerticalPodAutoscaler", "v")["metadata"]["namespace"], "ns");
    assert_eq!(find(&rendered, "PriorityClass", "p")["metadata"].get("namespace"), None);
}

#[test]
fn crds_that_keep_unknown_fields_can_not_be_converted() {
    let mut old = crd("samples.x.io");
    old["spec"]["preserveUnknownFields"] = json!(true);
    let mut conversion = webhook("ConversionWebhook", "c");
    conversion["conversionCRDs"] = json!(["samples.x.io"]);
    assert_eq!(
        bundle().webhooks(json!([conversion])).file("manifests/crd.yaml", old).refusal(),
        "custom resource definition 'samples.x.io' must have .spec.preserveUnknownFields set to false to let API Server call webhook to do the conversion"
    );
}

#[test]
fn typed_objects_lose_what_kubernetes_does_not_know() {
    let mut odd = crd("samples.x.io");
    odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object", "nonsense": 1, "minimum": 9_223_372_036_854_775_807_i64, "default": null, "enum": [null, 1],
        "properties": {"a": {"additionalProperties": false, "items": {"description": ""}}},
    });
    let rendered = bundle().file("manifests/crd.yaml", odd).render().unwrap();
    let crd = find(&rendered, "CustomResourceDefinition", "samples.x.io");
    assert_eq!(
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "type": "object", "minimum": 9_223_372_036_854_776_000_u64, "enum": [null, 1],
            "properties": {"a": {"additionalProperties": false, "items": {}}},
        })
    );
    assert_eq!(
        crd["status"],
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null})
    );
}

/// A bundle with something of everything.
fn rich() -> Bundle {
    let mut conversion = webhook("ConversionWebhook", "c");
    conversion["conversionCRDs"] = json!(["samples.x.io"]);
    bundle()
        .container("env", json!([{"name": "A", "value": "1"}]))
        .container("resources", json!({"limits": {"cpu": "1000m"}}))
        .file("manifests/z.json", object("ConfigMap", "z"))
        .file("metadata/properties.yaml", "properties: [{type: a, value: {b: 1}}]\n")
        .webhooks(json!([
            conversion,
            webhook("MutatingAdmissionWebhook", "m"),
            webhook("ValidatingAdmissionWebhook", "v")
        ]))
}

/// Replaces, removes or repeats one node of a document.
fn mutate(value: &mut Value, path: &mut impl Iterator<Item = usize>, with: &Value) {
    let step = path.next().unwrap_or(0);
    let ends_here = step.is_multiple_of(5);
    match value {
        Value::Object(map) if !map.is_empty() && !ends_here => {
            let key = map.keys().nth(step % map.len()).unwrap().clone();
            if step.is_multiple_of(7) {
                map.remove(&key);
            } else {
                mutate(&mut map[&key], path, with);
            }
        }
        Value::Array(items) if !items.is_empty() && !ends_here => {
            let index = step % items.len();
            if step.is_multiple_of(7) {
                items.push(items[index].clone());
            } else {
                mutate(&mut items[index], path, with);
            }
        }
        other => *other = with.clone(),
    }
}

proptest! {
    #[test]
    fn the_order_of_files_does_not_matter_and_twice_is_the_same(order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle()) {
        let files = rich().files();
        let all: Vec<_> = files.iter().map(|(path, content)| (path.to_owned(), content.to_vec())).collect();
        prop_assert_eq!(all.len(), order.len());
        let shuffled: BundleFiles = order.iter().map(|index| all[*index].clone()).collect();
        let text = |files: &BundleFiles| {
            let bundle = olm_bundle::Bundle::read(files, MEMORY_BYTES_MAX).unwrap();
            serde_json::to_string(&render(bundle, &Options::new("ns")).unwrap().objects).unwrap()
        };
        let once = text(&files);
        prop_assert_eq!(&text(&shuffled), &once);
        prop_assert_eq!(&text(&files), &once);
    }

    #[test]
    fn mutated_manifests_never_panic(
        paths in prop::collection::vec(prop::collection::vec(0..1000_usize, 0..14), 1..4),
        with in prop::sample::select(vec![json!(null), json!(0), json!(""), json!([]), json!({}), json!("x"), json!([null]), json!(1.5), json!({"a": null})]),
        config in prop::sample::select(vec![json!({}), json!({"deploymentConfig": {"env": [{"name": "A"}], "affinity": {"nodeAffinity": {}}}})]),
    ) {
        let mut sample = rich();
        for path in &paths {
            mutate(&mut sample.csv, &mut path.iter().copied(), &with);
        }
        let mut definition = crd("samples.x.io");
        mutate(&mut definition, &mut paths[0].iter().copied(), &with);
        let _ = sample.file("manifests/crd.yaml", definition).configured(config);
    }

    #[test]
    fn bytes_never_panic(content in "[\\[\\]{}:,&*!|>'\"%@#?\\- \na-zA-Z0-9.~<]{0,80}") {
        let sample = bundle().file("manifests/x", &content).file("metadata/properties.yaml", &content);
        let _ = sample.render();
        let _ = bundle().file("metadata/annotations.yaml", content).render();
    }
}
