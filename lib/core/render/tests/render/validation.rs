//! Findings: one bundle for each check, and all of them at once.

use olm_render::{CertificateProvider, Features, Options};
use serde_json::{Value, json};

use crate::builder::{Bundle, bundle, crd, object, webhook};

const REASON: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                      and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                      validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn deployments(names: &[&str]) -> Bundle {
    let spec = bundle().csv["spec"]["install"]["spec"]["deployments"][0]["spec"].take();
    let deployments = names.iter().map(|name| json!({"name": name, "spec": spec})).collect();
    bundle().set("/spec/install/spec/deployments", Value::Array(deployments))
}

#[test]
fn each_check_has_upstreams_words() {
    let owned = |names: &[&str]| {
        let names = names.iter().map(|name| json!({"name": name})).collect();
        bundle().set("/spec/customresourcedefinitions/owned", Value::Array(names))
    };
    for (bundle, text) in [
        (deployments(&["b", "a", "a"]), "cluster service version contains duplicate strategy deployment spec 'a'".to_owned()),
        (deployments(&["A_b"]), format!("invalid cluster service version strategy deployment name 'A_b': {REASON}")),
        (
            bundle().file("manifests/again.json", crd("samples.x.io")),
            "bundle contains duplicate custom resource definition 'samples.x.io'".to_owned(),
        ),
        (
            owned(&["lost.x.io", "samples.x.io", "lost.x.io"]),
            "cluster service definition references owned custom resource definition 'lost.x.io' not found in bundle".to_owned(),
        ),
        (
            bundle().file("manifests/pod.json", object("Pod", "p")),
            "unsupported resource \"p\" with kind \"Pod\"".to_owned(),
        ),
    ] {
        assert_eq!(bundle.refusal(), text);
    }
}

#[test]
fn webhooks_are_checked() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut one = webhook("ValidatingAdmissionWebhook", "v.x.io");
        change(&mut one);
        bundle().webhooks(json!([one]))
    };
    let rule = |group: &str, resource: &str| {
        with(
            &|one| one["rules"] = json!([{"apiGroups": [group], "resources": [resource], "operations": ["*"], "apiVersions": ["*"]}]),
        )
    };
    let conversion = |name: &str, crds: Value| {
        let mut one = webhook("ConversionWebhook", name);
        one["conversionCRDs"] = crds;
        one
    };
    let forbidden = "webhook \"v.x.io\" contains forbidden rule: admission webhook rules cannot reference";
    for (bundle, text) in [
        (
            bundle().modes(&["SingleNamespace", "AllNamespaces"]).webhooks(json!([conversion("c.x.io", json!([]))])),
            "bundle contains conversion webhook \"c.x.io\" and supports install modes [AllNamespaces SingleNamespace] - \
             conversion webhooks are only supported for bundles that only support AllNamespaces install mode"
                .to_owned(),
        ),
        (
            with(&|one| one["deploymentName"] = json!("other")),
            "webhook of type 'ValidatingAdmissionWebhook' with name 'v.x.io' references non-existent deployment 'other'".to_owned(),
        ),
        (
            bundle().webhooks(json!([webhook("MutatingAdmissionWebhook", "m"), webhook("MutatingAdmissionWebhook", "m")])),
            "duplicate webhook 'm' of type 'MutatingAdmissionWebhook'".to_owned(),
        ),
        (
            with(&|one| one["generateName"] = json!("V_x")),
            format!("webhook of type 'ValidatingAdmissionWebhook' has invalid name 'V_x': {REASON}"),
        ),
        (
            bundle().webhooks(json!([conversion("d", json!(["samples.x.io"])), conversion("c", json!(["samples.x.io"]))])),
            "conversion webhooks [c,d] reference same custom resource definition 'samples.x.io'".to_owned(),
        ),
        (
            bundle().webhooks(json!([conversion("c", json!(["other.x.io"]))])),
            "conversion webhook 'c' references custom resource definition 'other.x.io' not owned bundle".to_owned(),
        ),
        (rule("*", "pods"), format!("{forbidden} API group \"*\"")),
        (rule("olm.operatorframework.io", "x"), format!("{forbidden} API group \"olm.operatorframework.io\"")),
        (
            rule("admissionregistration.k8s.io", "MutatingWebhookConfigurations"),
            format!("{forbidden} resource \"MutatingWebhookConfigurations\" for API group \"admissionregistration.k8s.io\""),
        ),
    ] {
        assert_eq!(bundle.refusal(), text);
    }
    for harmless in [
        rule("apps", "*"),
        rule("admissionregistration.k8s.io", "*/*"),
        with(&|one| one["generateName"] = json!("v.x.io-")),
    ] {
        assert!(harmless.render().is_ok());
    }
}

#[test]
fn all_findings_are_reported_at_once_in_the_order_of_the_checks() {
    let refusal = deployments(&["a", "a"])
        .file("metadata/annotations.yaml", "")
        .file("manifests/pod.json", object("Pod", "p"))
        .file("manifests/again.json", crd("samples.x.io"))
        .refusal();
    let lines: Vec<_> = refusal.lines().collect();
    assert_eq!(
        lines,
        [
            "cluster service version contains duplicate strategy deployment spec 'a'",
            "bundle contains duplicate custom resource definition 'samples.x.io'",
            "package name is empty",
            "unsupported resource \"p\" with kind \"Pod\"",
        ]
    );
}

#[test]
fn what_is_not_supported_is_said_first() {
    let api_services = bundle().set("/spec/apiservicedefinitions", json!({"owned": [{"name": "v1.x.io"}]}));
    assert_eq!(api_services.refusal(), "unsupported bundle: apiServiceDefintions are not supported");
    let hooks = bundle().webhooks(json!([webhook("MutatingAdmissionWebhook", "m")]));
    let options = Options { certificate_provider: CertificateProvider::None, ..Options::new("ns") };
    assert_eq!(
        hooks.render_with(&options).unwrap_err().to_string(),
        "unsupported bundle: webhookDefinitions are not supported"
    );
    for modes in [&[][..], &["MultiNamespace"]] {
        assert_eq!(
            bundle().modes(modes).refusal(),
            "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
        );
    }
    let features = Features { single_own_namespace_install_support: false, ..Features::default() };
    let error = bundle().modes(&["OwnNamespace"]).render_with(&Options { features, ..Options::new("ns") });
    assert_eq!(
        error.unwrap_err().to_string(),
        "unsupported bundle: bundle does not support AllNamespaces install mode"
    );
}

#[test]
fn different_objects_of_one_identity_are_reported() {
    let mut other = object("ConfigMap", "c");
    other["data"] = json!({"a": "b"});
    let twice = |second: Value| {
        bundle().file("manifests/c.json", object("ConfigMap", "c")).file("manifests/d.json", second)
    };
    assert_eq!(
        twice(other).refusal(),
        "bundle contains different objects of kind \"ConfigMap\" with name \"c\" in namespace \"ns\""
    );
    assert!(twice(object("ConfigMap", "c")).render().is_ok());
}

/// Each is a few hundred kilobytes and would become gigabytes.
#[test]
fn what_is_repeated_for_each_of_many_is_limited() {
    let names: Vec<String> = (0..2_000).map(|i| format!("d{i}")).collect();
    let many = deployments(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(many.clone().render().is_ok());
    let names: Vec<String> = (0..2_001).map(|i| format!("d{i}")).collect();
    let more = deployments(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(more.refusal(), "bundle has more than 2000 Deployments");
    let annotated = many.set("/metadata/annotations", json!({"a": "x".repeat(200_000)}));
    let error = annotated.render().unwrap_err().to_string();
    assert!(error.starts_with("bundle has more than 16777216 bytes of annotations"), "{error}");

    let mut forbidden = webhook("ValidatingAdmissionWebhook", &"w".repeat(100_000));
    let groups = vec!["admissionregistration.k8s.io"; 1_000];
    forbidden["rules"] = json!([{"apiGroups": groups, "resources": vec!["*"; 1_000]}]);
    let error = bundle().webhooks(json!([forbidden])).render().unwrap_err().to_string();
    assert_eq!(error.matches("contains forbidden rule").count(), 1);
}
