//! Upstream's regression fixtures: two bundles, seven cases, no certificate provider.

use std::{collections::BTreeMap, fs, path::Path};

use olm_render::{CertificateProvider, Options, render};
use serde_json::{Value, json};

use super::{bundle_files, digest, sort_key};
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
            target_namespaces: Some(targets),
            config: config.map(|config| json!({"deploymentConfig": config})),
            ..Options::new(namespace)
        };
        let files = bundle_files(&folder.join("bundles").join(bundle));
        let expected = expected(&folder.join("expected-manifests").join(bundle).join(case));
        match render(&files, &options) {
            Ok(rendered) if names(&rendered.objects) != expected.keys().cloned().collect::<Vec<_>>() => {
                counts.different(format_args!("{case}: other names: {:?}", names(&rendered.objects)));
            }
            Ok(rendered)
                if digest(&rendered.objects) != digest(&expected.into_values().collect::<Vec<_>>()) =>
            {
                counts.different(format_args!("{case}: other objects"));
            }
            Ok(_) => counts.equal(),
            Err(error) => counts.different(format_args!("{case}: {error}")),
        }
    }
}

/// The file names upstream gives the objects.
fn names(objects: &[Value]) -> Vec<String> {
    let mut keys: Vec<_> = objects.iter().map(sort_key).collect();
    keys.sort();
    keys.into_iter()
        .enumerate()
        .map(|(index, (kind, _, name))| format!("{index:02}_{}_{name}.yaml", kind.to_lowercase()))
        .collect()
}

fn expected(folder: &Path) -> BTreeMap<String, Value> {
    fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let text = fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), olm_yaml::one(&text).unwrap())
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
