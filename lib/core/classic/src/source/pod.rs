//! The objects of a CatalogSource whose image runs in a Pod, as upstream makes them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use olm_api_classic::{
    CatalogSource, GrpcPodConfig, SecurityContextConfig,
    names::{CATALOG_SOURCE_LABEL, POD_HASH_LABEL, PRIORITY_CLASS_ANNOTATION, UNPACK_LABEL, UPDATE_LABEL},
};
use olm_bundle::binary_quantity;
use serde_json::{Map, Value, json};

use super::service::{PORT, hash, labels, owned};

/// Label of a namespace with the Pod security standard that it enforces.
pub const ENFORCE_LABEL: &str = "pod-security.kubernetes.io/enforce";
/// Container that serves the registry API.
const SERVER_CONTAINER: &str = "registry-server";
/// Container that extracts the content of the image for it.
const EXTRACT_CONTAINER: &str = "extract-content";
/// Reason of a container that waits before it starts again.
const CRASHES: &str = "CrashLoopBackOff";
/// Restarts of a container, about five minutes, after which its Pod is replaced.
const RESTARTS_MAX: i32 = 5;
/// User of restricted containers.
const USER: i64 = 1001;

/// What the cluster and the administrator say about Pods.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether the namespace enforces the restricted Pod security standard.
    pub restricted: bool,
    /// Image with the server of extracted content.
    pub opm_image: String,
    /// Image with the program that extracts content.
    pub util_image: String,
    /// Whether restricted containers run as a certain user.
    pub set_user: bool,
}

/// The ServiceAccount of the Pod.
pub fn service_account(source: &CatalogSource) -> Value {
    let secrets: Vec<Value> = source.spec.secrets.iter().map(|name| json!({"name": name})).collect();
    let metadata = controlled(source, source.metadata.name.as_deref().unwrap_or_default());
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "imagePullSecrets": secrets})
}

/// The metadata of an object whose controller the source is: a Pod without one stops the drain of its node.
fn controlled(source: &CatalogSource, name: &str) -> ObjectMeta {
    let mut metadata = owned(source, name);
    for owner in metadata.owner_references.iter_mut().flatten() {
        owner.controller = Some(true);
    }
    metadata
}

/// The NetworkPolicies of the Pod, and of Pods that unpack bundles.
pub fn network_policies(source: &CatalogSource) -> [Value; 2] {
    let name = source.metadata.name.as_deref().unwrap_or_default();
    let policy = |suffix: &str, spec: Value| {
        let mut metadata = owned(source, &format!("{name}-{suffix}"));
        metadata.labels = Some(labels(source));
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec})
    };
    let server = json!({
        "podSelector": {"matchLabels": labels(source)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
    });
    let unpacking = json!({
        "podSelector": {"matchExpressions": [
            {"key": UNPACK_LABEL, "operator": "Exists"},
            {"key": "olm.managed", "operator": "In", "values": ["true"]},
        ]},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{}, {"ports": [
            {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"},
            {"port": 5353, "protocol": "TCP"}, {"port": 5353, "protocol": "UDP"},
        ]}],
    });
    [policy("grpc-server", server), policy("unpack-bundles", unpacking)]
}

/// The Pod that serves an image.
pub fn pod(source: &CatalogSource, image: &str, settings: &Settings) -> Value {
    let name = source.metadata.name.as_deref().unwrap_or_default();
    let none = GrpcPodConfig::default();
    let config = source.spec.grpc_pod_config.as_ref().unwrap_or(&none);
    let restricted = match config.security_context_config {
        Some(wanted) => wanted == SecurityContextConfig::Restricted,
        None => settings.restricted,
    };
    let mut spec = spec(name, image, config);
    if let Some(extract) = &config.extract_content {
        extracted(&mut spec, image, &extract.catalog_dir, extract.cache_dir.as_deref(), settings);
    }
    if let Some(class) =
        source.metadata.annotations.as_ref().and_then(|all| all.get(PRIORITY_CLASS_ANNOTATION))
    {
        spec["priorityClassName"] = json!(class);
    }
    if restricted {
        restrict(&mut spec, settings.set_user);
    }
    let mut annotations: BTreeMap<String, String> = source.metadata.annotations.clone().unwrap_or_default();
    // It holds the whole object again.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert("cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(), "true".to_owned());
    let mut metadata = controlled(source, name);
    (metadata.name, metadata.generate_name) = (None, Some(format!("{name}-")));
    let mut labels = labels(source);
    labels.insert(POD_HASH_LABEL.to_owned(), hash(&spec.to_string()));
    (metadata.labels, metadata.annotations) = (Some(labels), Some(annotations));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The Pod that pulls the image of the source's Pod again: clients are not led to it until it takes over.
pub fn update_pod(source: &CatalogSource, mut pod: Pod) -> Pod {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(CATALOG_SOURCE_LABEL.to_owned(), String::new());
    labels.insert(UPDATE_LABEL.to_owned(), source.metadata.name.clone().unwrap_or_default());
    pod
}

/// The digest of the image whose content a Pod serves, as its node reports it.
pub fn image_id(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let extracting =
        status.init_container_statuses.iter().flatten().find(|one| one.name == EXTRACT_CONTAINER);
    let serving = status.container_statuses.iter().flatten().find(|one| one.name == SERVER_CONTAINER);
    let id = extracting.or(serving)?.image_id.as_str();
    (!id.is_empty()).then_some(id)
}

/// Why a Pod never becomes ready, if that is so: its phase, or that it starts again and again.
pub fn failure(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let phase = status.phase.as_deref().unwrap_or_default();
    if matches!(phase, "Failed" | "Unknown") {
        return Some(phase.to_owned());
    }
    crashing(pod).next().map(|_| CRASHES.to_owned())
}

/// Whether another Pod may do better than one that starts again and again: not before some attempts, so that Pods of an image
/// that never starts are not made without end.
pub fn is_stuck(pod: &Pod) -> bool {
    crashing(pod).any(|container| container.restart_count >= RESTARTS_MAX)
}

/// The containers that start again and again.
fn crashing(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    let containers = status.flat_map(|one| one.container_statuses.iter().chain(&one.init_container_statuses));
    containers.flatten().filter(|one| {
        let waiting = one.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some(CRASHES)
    })
}

fn spec(name: &str, image: &str, config: &GrpcPodConfig) -> Value {
    let probe = |more: Value| {
        let mut probe = json!({"grpc": {"port": PORT}, "timeoutSeconds": 5});
        merge(&mut probe, more);
        probe
    };
    let policy = if image.contains("@sha256:") { "IfNotPresent" } else { "Always" };
    let mut container = json!({
        "name": SERVER_CONTAINER,
        "image": image,
        "imagePullPolicy": policy,
        "ports": [{"name": "grpc", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": probe(json!({"initialDelaySeconds": 5})),
        "livenessProbe": probe(json!({"initialDelaySeconds": 10})),
        "startupProbe": probe(json!({"periodSeconds": 10, "failureThreshold": 15})),
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
        "securityContext": {"readOnlyRootFilesystem": false},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if let Some(Quantity(target)) = &config.memory_target {
        container["resources"]["requests"]["memory"] = json!(target);
        // Go's runtime knows no decimal suffixes.
        if let Some(limit) = binary_quantity(target) {
            container["env"] = json!([{"name": "GOMEMLIMIT", "value": format!("{limit}B")}]);
        }
    }
    let selector = config.node_selector.clone();
    let selector = selector.unwrap_or_else(|| [("kubernetes.io/os".to_owned(), "linux".to_owned())].into());
    let mut spec = json!({
        "containers": [container],
        "nodeSelector": selector,
        "serviceAccountName": name,
    });
    if let Some(tolerations) = &config.tolerations {
        spec["tolerations"] = json!(tolerations);
    }
    if let Some(affinity) = &config.affinity {
        spec["affinity"] = json!(affinity);
    }
    if let Some(class) = config.priority_class_name.as_ref() {
        spec["priorityClassName"] = json!(class);
    }
    spec
}

/// Has another server than the image's own serve the content of the image.
fn extracted(spec: &mut Value, image: &str, catalog: &str, cache: Option<&str>, settings: &Settings) {
    let mounts = json!([
        {"name": "utilities", "mountPath": "/utilities"},
        {"name": "catalog-content", "mountPath": "/extracted-catalog"},
    ]);
    let mut copy =
        vec![format!("--catalog.from={catalog}"), "--catalog.to=/extracted-catalog/catalog".to_owned()];
    let mut serve = vec!["serve".to_owned(), "/extracted-catalog/catalog".to_owned()];
    if let Some(cache) = cache {
        copy.extend([format!("--cache.from={cache}"), "--cache.to=/extracted-catalog/cache".to_owned()]);
        serve.push("--cache-dir=/extracted-catalog/cache".to_owned());
    }
    let policy = spec["containers"][0]["imagePullPolicy"].clone();
    spec["initContainers"] = json!([
        {
            "name": "extract-utilities", "image": settings.util_image, "imagePullPolicy": "IfNotPresent",
            "command": ["cp"], "args": ["/bin/copy-content", "/utilities/copy-content"],
            "volumeMounts": [mounts[0]], "terminationMessagePolicy": "FallbackToLogsOnError",
        },
        {
            "name": EXTRACT_CONTAINER, "image": image, "imagePullPolicy": policy,
            "command": ["/utilities/copy-content"], "args": copy,
            "volumeMounts": mounts, "terminationMessagePolicy": "FallbackToLogsOnError",
        },
    ]);
    let mut volumes = vec![
        json!({"name": "utilities", "emptyDir": {}}),
        json!({"name": "catalog-content", "emptyDir": {}}),
    ];
    let container = &mut spec["containers"][0];
    container["image"] = json!(settings.opm_image);
    container["command"] = json!(["/bin/opm"]);
    container["args"] = json!(serve);
    container["securityContext"] = json!({"readOnlyRootFilesystem": true});
    let mut mounted = vec![mounts[1].clone()];
    if cache.is_none() {
        volumes.push(json!({"name": "tmpdir", "emptyDir": {}}));
        mounted.push(json!({"name": "tmpdir", "mountPath": "/tmp/"}));
    }
    container["volumeMounts"] = json!(mounted);
    spec["volumes"] = json!(volumes);
}

/// Restricts a Pod as the standard of that name demands.
fn restrict(spec: &mut Value, set_user: bool) {
    let mut of_pod = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    if set_user {
        merge(&mut of_pod, json!({"runAsUser": USER, "runAsNonRoot": true}));
    }
    spec["securityContext"] = of_pod;
    for group in ["containers", "initContainers"] {
        for container in spec.get_mut(group).and_then(Value::as_array_mut).into_iter().flatten() {
            let more = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
            match container.get_mut("securityContext") {
                Some(context) => merge(context, more),
                None => container["securityContext"] = more,
            }
        }
    }
}

/// Sets the fields of an object in another one.
fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more.into_iter().collect::<Map<_, _>>());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Toleration;
    use olm_api_classic::{CatalogSourceSpec, ExtractContent};

    use super::*;

    fn source(config: GrpcPodConfig) -> CatalogSource {
        let spec = CatalogSourceSpec { grpc_pod_config: Some(config), ..CatalogSourceSpec::default() };
        let mut source = CatalogSource::new("busy", spec);
        source.metadata.uid = Some("u".to_owned());
        source
    }

    fn settings(restricted: bool) -> Settings {
        Settings { restricted, opm_image: "opm".to_owned(), util_image: "util".to_owned(), set_user: true }
    }

    #[test]
    fn a_pod_serves_the_image_by_default_as_the_namespace_demands() {
        let pod = super::pod(&source(GrpcPodConfig::default()), "r/c:1", &settings(true));
        let (container, spec) = (&pod["spec"]["containers"][0], &pod["spec"]);
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["startupProbe"]["failureThreshold"], 15);
        assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL");
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], false);
        assert_eq!(
            (&spec["nodeSelector"]["kubernetes.io/os"], &spec["serviceAccountName"]),
            (&json!("linux"), &json!("busy"))
        );
        assert_eq!(spec["securityContext"]["runAsUser"], 1001);
        assert_eq!(pod["metadata"]["generateName"], "busy-");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
        let legacy = GrpcPodConfig {
            security_context_config: Some(SecurityContextConfig::Legacy),
            ..GrpcPodConfig::default()
        };
        let pod = super::pod(&source(legacy), "r/c@sha256:1", &settings(true));
        assert_eq!(pod["spec"].get("securityContext"), None);
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
    }

    #[test]
    fn a_pod_that_polls_serves_nobody_and_says_what_its_node_pulled() {
        let source = source(GrpcPodConfig::default());
        let pod: Pod = serde_json::from_value(super::pod(&source, "r/c:1", &settings(false))).unwrap();
        let mut update = update_pod(&source, pod);
        let labels = update.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["olm.catalogSource"].as_str(), labels[UPDATE_LABEL].as_str()), ("", "busy"));
        let mut with = |status: Value| {
            update.status = Some(serde_json::from_value(status).unwrap());
            (image_id(&update).map(str::to_owned), failure(&update))
        };
        let server = |id: &str| json!({"name": "registry-server", "imageID": id, "image": "", "ready": true, "restartCount": 0});
        let extract =
            json!({"name": "extract-content", "imageID": "c", "image": "", "ready": true, "restartCount": 0});
        assert_eq!(with(json!({"containerStatuses": [server("")]})), (None, None));
        assert_eq!(with(json!({"containerStatuses": [server("a")]})), (Some("a".to_owned()), None));
        let both = json!({"containerStatuses": [server("a")], "initContainerStatuses": [extract]});
        assert_eq!(with(both).0.as_deref(), Some("c"));
        assert_eq!(with(json!({"phase": "Failed"})).1.as_deref(), Some("Failed"));
        let mut looping = server("a");
        looping["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let crashes = |count: i32| {
            let mut looping = looping.clone();
            looping["restartCount"] = json!(count);
            json!({"containerStatuses": [looping]})
        };
        assert_eq!(with(crashes(0)).1.as_deref(), Some("CrashLoopBackOff"));
        for (count, is_too_often) in [(0, false), (4, false), (5, true)] {
            let status = Some(serde_json::from_value(crashes(count)).unwrap());
            assert_eq!(is_stuck(&Pod { status, ..Pod::default() }), is_too_often, "{count}");
        }
        let often = json!({"containerStatuses": [{"name": "registry-server", "restartCount": 9, "image": "", "imageID": "", "ready": true}]});
        let status = Some(serde_json::from_value(often).unwrap());
        assert!(!is_stuck(&Pod { status, ..Pod::default() }), "it runs");
    }

    #[test]
    fn a_memory_target_is_text_or_a_number_and_limits_the_server_in_units_that_it_knows() {
        for (target, limit) in [
            (json!("1G"), json!("1000000000B")),
            (json!("2G"), json!("1953125KiB")),
            (json!("100Mi"), json!("100MiB")),
            (json!(104_857_600), json!("100MiB")),
            // No server starts with it: the API server rejects the request.
            (json!("-1"), Value::Null),
        ] {
            let config = serde_json::from_value(json!({"memoryTarget": target})).unwrap();
            let pod = super::pod(&source(config), "r/c:1", &settings(false));
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["env"][0]["value"], limit, "{target}");
            let asked = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
            assert_eq!(container["resources"]["requests"]["memory"], asked);
        }
    }

    #[test]
    fn what_is_configured_replaces_the_defaults_and_changes_the_hash() {
        let config = GrpcPodConfig {
            node_selector: Some([("a".to_owned(), "b".to_owned())].into()),
            priority_class_name: Some(String::new()),
            tolerations: Some(vec![Toleration { key: Some("infra".to_owned()), ..Toleration::default() }]),
            memory_target: Some(Quantity("100Mi".to_owned())),
            extract_content: Some(ExtractContent { catalog_dir: "/configs".to_owned(), cache_dir: None }),
            ..GrpcPodConfig::default()
        };
        let pod = super::pod(&source(config), "r/c:1", &settings(false));
        let spec = &pod["spec"];
        assert_eq!((&spec["nodeSelector"], &spec["priorityClassName"]), (&json!({"a": "b"}), &json!("")));
        assert_eq!(spec["tolerations"], json!([{"key": "infra"}]));
        let container = &spec["containers"][0];
        assert_eq!((&container["image"], &container["env"][0]["value"]), (&json!("opm"), &json!("100MiB")));
        assert_eq!(container["args"], json!(["serve", "/extracted-catalog/catalog"]));
        assert_eq!(spec["initContainers"][1]["image"], "r/c:1");
        assert_eq!(spec["volumes"][2]["name"], "tmpdir");
        let plain = super::pod(&source(GrpcPodConfig::default()), "r/c:1", &settings(false));
        assert_eq!(plain["spec"].get("securityContext"), None, "the namespace demands nothing");
        let hash = |pod: &Value| pod["metadata"]["labels"][POD_HASH_LABEL].clone();
        assert_ne!(hash(&pod), hash(&plain));
        assert_eq!(
            hash(&plain),
            hash(&super::pod(&source(GrpcPodConfig::default()), "r/c:1", &settings(false)))
        );
    }
}
