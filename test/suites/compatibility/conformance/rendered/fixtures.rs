//! Upstream's regression fixtures: two bundles, seven cases, no certificate provider; compared as bytes.

use olm_bundle::{Bundle, MEMORY_BYTES_MAX};
use olm_render::{CertificateProvider, Options, RenderError, render_for};
use olm_test::prelude::*;

use super::{bundle_files, go_yaml, sort_key};
use crate::data::Counts;

pub(super) fn check(folder: &Path, counts: &mut Counts) {
    let argocd = "argocd-operator.v0.6.0";
    let watch = |namespace: &str| vec![namespace.to_owned()];
    for (bundle, case, namespace, targets, config) in [
        (argocd, "all-namespaces", "argocd-system", watch(""), None),
        (argocd, "single-namespace", "argocd-system", watch("argocd-watch"), None),
        (argocd, "own-namespace", "argocd-system", watch("argocd-system"), None),
        ("webhook-operator.v0.0.5", "all-webhook-types", "webhook-system", watch(""), None),
        (argocd, "with-deploymentconfig-options", "argocd-system", watch(""), Some(every_option())),
        (argocd, "with-empty-affinity", "argocd-system", watch(""), Some(json!({"affinity": {}}))),
        (
            argocd,
            "with-empty-affinity-subtype",
            "argocd-system",
            watch(""),
            Some(json!({"affinity": {"nodeAffinity": {}}})),
        ),
    ] {
        let options = Options {
            certificate_provider: CertificateProvider::None,
            config: config.map(|config| json!({"deploymentConfig": config})),
            ..Options::new(namespace)
        };
        let files = bundle_files(&folder.join("bundles").join(bundle));
        let expected = expected(&folder.join("expected-manifests").join(bundle).join(case));
        let read = Bundle::read(&files, MEMORY_BYTES_MAX).map_err(RenderError::from);
        match read.and_then(|bundle| render_for(bundle, &options, &targets)) {
            Ok(rendered) => match first_difference(&rendered.objects, &expected) {
                None => counts.equal(),
                Some(difference) => counts.different(format_args!("{case}: {difference}")),
            },
            Err(error) => counts.different(format_args!("{case}: {error}")),
        }
    }
}

/// What each provider adds to the fixtures, and that it adds nothing where there is no webhook.
pub(super) fn check_providers(folder: &Path, counts: &mut Counts) {
    let rendered = |bundle: &str, provider: CertificateProvider| {
        let options = Options { certificate_provider: provider, ..Options::new("webhook-system") };
        let files = bundle_files(&folder.join("bundles").join(bundle));
        let bundle = Bundle::read(&files, MEMORY_BYTES_MAX).unwrap();
        render_for(bundle, &options, &[String::new()]).unwrap().objects
    };
    for provider in [
        CertificateProvider::CertManager,
        CertificateProvider::OpenshiftServiceCa,
        CertificateProvider::BuiltIn,
    ] {
        let without = "argocd-operator.v0.6.0";
        if rendered(without, provider) == rendered(without, CertificateProvider::None) {
            counts.equal();
        } else {
            counts.different(format_args!("{provider:?} changes a bundle without webhooks"));
        }
        let with = "webhook-operator.v0.0.5";
        match provider_difference(
            &rendered(with, CertificateProvider::None),
            rendered(with, provider),
            provider,
        ) {
            None => counts.equal(),
            Some(difference) => counts.different(format_args!("{provider:?}: {difference}")),
        }
    }
}

/// Takes back what the provider is known to add; whatever differs then is a difference.
fn provider_difference(
    bare: &[Value],
    mut objects: Vec<Value>,
    provider: CertificateProvider,
) -> Option<String> {
    let secret = "webhook-operator-controller-manager-service-cert";
    let (annotation, value, annotated) = match provider {
        CertificateProvider::CertManager => {
            ("cert-manager.io/inject-ca-from", format!("webhook-system/{secret}"), 3)
        }
        CertificateProvider::OpenshiftServiceCa => {
            ("service.beta.openshift.io/inject-cabundle", "true".to_owned(), 3)
        }
        _ => ("none", String::new(), 0),
    };
    let own = objects.iter().filter(|object| object["apiVersion"] == "cert-manager.io/v1").count();
    if own != if provider == CertificateProvider::CertManager { 2 } else { 0 } {
        return Some(format!("{own} objects of cert-manager"));
    }
    objects.retain(|object| object["apiVersion"] != "cert-manager.io/v1");
    let mut found = 0;
    for (object, bare) in objects.iter_mut().zip(bare) {
        if object["metadata"]["annotations"][annotation] == value.as_str() {
            found += 1;
        }
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if kind == "Service" && provider == CertificateProvider::OpenshiftServiceCa {
            let name =
                &object["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
            if name != secret {
                return Some(format!("the Service's Secret is {name}"));
            }
        }
        if kind == "Deployment" {
            let pod = &mut object["spec"]["template"]["spec"];
            let volumes = serde_json::to_string(&pod["volumes"]).unwrap();
            let mounts = serde_json::to_string(&pod["containers"][0]["volumeMounts"]).unwrap();
            let gone = volumes.contains("webhook-certs") || mounts.contains("readOnly");
            if gone || volumes.matches(secret).count() != 2 || mounts.matches("mountPath").count() != 2 {
                return Some(format!("volumes {volumes}, mounts {mounts}"));
            }
            pod["volumes"] = bare["spec"]["template"]["spec"]["volumes"].clone();
            pod["containers"][0]["volumeMounts"] =
                bare["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].clone();
        }
        object["metadata"] = bare["metadata"].clone();
    }
    if found != annotated {
        return Some(format!("{found} objects are annotated"));
    }
    (objects != bare).then(|| "other objects".to_owned())
}

/// The first file that has another name or other bytes than upstream's.
fn first_difference(objects: &[Value], expected: &BTreeMap<String, String>) -> Option<String> {
    let files = files(objects);
    if !files.keys().eq(expected.keys()) {
        return Some(format!("other names: {:?}", files.keys()));
    }
    files.iter().zip(expected.values()).find(|((_, ours), theirs)| ours != theirs).map(
        |((name, ours), theirs)| {
            let line = ours.lines().zip(theirs.lines()).position(|(ours, theirs)| ours != theirs);
            let at = line.unwrap_or_default();
            let near = |text: &str| text.lines().skip(at).take(2).collect::<Vec<_>>().join("\n    ");
            format!("{name}, line {}:\n  ours\n    {}\n  wanted\n    {}", at + 1, near(ours), near(theirs))
        },
    )
}

/// The files upstream writes the objects to: names and bytes.
fn files(objects: &[Value]) -> BTreeMap<String, String> {
    let mut sorted: Vec<_> = objects.iter().map(|object| (sort_key(object), object)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted
        .into_iter()
        .enumerate()
        .map(|(index, ((kind, _, name), object))| {
            (format!("{index:02}_{}_{name}.yaml", kind.to_lowercase()), go_yaml::document(object))
        })
        .collect()
}

fn expected(folder: &Path) -> BTreeMap<String, String> {
    fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

fn every_option() -> Value {
    let term = |app: &str| json!({"labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}}});
    let mut pod_term = term("test-app");
    pod_term["topologyKey"] = json!("topKey");
    pod_term["namespaces"] = json!(["test", "test2"]);
    let mut anti_term = term("test-app-2");
    anti_term["topologyKey"] = json!("topKey2");
    json!({
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [
            {"key": "some/key", "operator": "Equal", "effect": "NoSchedule"},
            {"key": "someother/key", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
        "env": [{"name": "CUSTOM_ENV_VAR", "value": "custom-value"}, {"name": "LOG_LEVEL", "value": "debug"}],
        "envFrom": [
            {"prefix": "test"},
            {"configMapRef": {"name": "configmapForTest"}},
            {"secretRef": {"name": "secretForTest"}},
        ],
        "volumes": [
            {"name": "test-configmap-volume", "configMap": {"name": "testVolumeConfigMap"}},
            {"name": "test-emptydir-volume", "emptyDir": {}},
        ],
        "volumeMounts": [{"name": "test-configmap-volume", "mountPath": "/test-volume-mount", "readOnly": true}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
                "matchFields": [{"key": "key", "operator": "In", "values": ["val1", "val2"]}],
            }]}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pod_term]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": anti_term},
            ]},
        },
        "annotations": {"foo": "bar", "testkey": "testval"},
    })
}
