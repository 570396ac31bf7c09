//! OLM Classic: namespace, ServiceAccount, permissions, Deployment, network objects, and the registration of its API.
//! Names are upstream's, because scripts and consoles find the programs by them.

use operator_controller::{CATALOGD_PERMISSIONS, CLASSIC_PERMISSIONS, Scope};
use serde_json::{Value, json};

use crate::{
    pods::Program,
    rbac::{self, RBAC, rules},
};

/// Name of binary, image and label.
pub(crate) const NAME: &str = "olm-classic";
const NAMESPACE: &str = "olm";
const ACCOUNT: &str = "olm-operator-serviceaccount";
const DEPLOYMENT: &str = "olm-operator";
const ROLE: &str = "olm-classic";
/// One leads, both serve packages and catalogs.
const REPLICAS: u32 = 2;
/// The registry API.
const REGISTRY_PORT: u16 = 50051;
/// The API of PackageManifests.
const PACKAGES_PORT: u16 = 5443;
const PACKAGES_PORT_NAME: &str = "packages";
const PACKAGES_SERVICE: &str = "packageserver-service";
const PACKAGES_GROUP: &str = "packages.operators.coreos.com";
const PACKAGES_VERSION: &str = "v1";

/// The content of ClusterCatalogs, in the variant that serves them.
const CATALOGS_PORT: u16 = 8444;
const CATALOGS_PORT_NAME: &str = "catalogs";
/// Secret and ConfigMap of the certificate of that content.
const CATALOGS_CERTIFICATE: &str = "catalogd-serving-cert";

const PROGRAM: Program = Program {
    name: NAME,
    deployment: DEPLOYMENT,
    args: &[
        "--leader-elect",
        "--health-probe-bind-address=:8081",
        "--metrics-bind-address=:8443",
        "--registry-bind-address=:50051",
        "--packages-bind-address=:5443",
        "--catalogs-server-addr=:8444",
    ],
    gates: &[],
    catalogs_port: REGISTRY_PORT,
    metrics_port: 8443,
};

/// Everything but the CRDs, in the order it can be applied.
pub(crate) fn objects() -> Vec<Value> {
    let mut objects = vec![namespace()];
    objects.extend(rbac());
    objects.extend(people());
    objects.extend([
        service("catalog-operator", "grpc", REGISTRY_PORT),
        service(PACKAGES_SERVICE, PACKAGES_PORT_NAME, PACKAGES_PORT),
        service("olm-operator-metrics", "metrics", PROGRAM.metrics_port),
        network_policy(),
        deployment(),
        api_service(),
    ]);
    objects
}

/// What the variant adds in which this program serves ClusterCatalogs too: the permissions of catalogd, the Service of their
/// content, and permission for operator-controller to read whom it is to trust there.
pub(crate) fn cluster_catalogs() -> Vec<Value> {
    const CATALOGS_ROLE: &str = "olm-classic-cluster-catalogs";
    const TRUST_ROLE: &str = "catalogd-authority";
    let reference =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let account = |name: &str, namespace: &str| json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    vec![
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": CATALOGS_ROLE},
            "rules": rules(CATALOGD_PERMISSIONS.iter(), Scope::Cluster),
        }),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": CATALOGS_ROLE},
            "roleRef": reference("ClusterRole", CATALOGS_ROLE), "subjects": account(ACCOUNT, NAMESPACE),
        }),
        json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": {"name": TRUST_ROLE, "namespace": NAMESPACE},
            "rules": [{
                "apiGroups": [""], "resources": ["configmaps"],
                "resourceNames": [CATALOGS_CERTIFICATE], "verbs": ["get"],
            }],
        }),
        json!({
            "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": TRUST_ROLE, "namespace": NAMESPACE},
            "roleRef": reference("Role", TRUST_ROLE), "subjects": account(rbac::ACCOUNT, rbac::NAMESPACE),
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "catalogd-service", "namespace": NAMESPACE},
            "spec": {
                "selector": PROGRAM.selector(),
                "ports": [
                    {"name": "https", "port": 443, "protocol": "TCP", "targetPort": CATALOGS_PORT_NAME},
                ],
            },
        }),
    ]
}

/// Only pods that the strictest of the Pod Security Standards admits.
fn namespace() -> Value {
    let mut labels = json!({});
    for mode in ["audit", "enforce", "warn"] {
        labels[format!("pod-security.kubernetes.io/{mode}")] = json!("restricted");
        labels[format!("pod-security.kubernetes.io/{mode}-version")] = json!("latest");
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
}

fn rbac() -> Vec<Value> {
    let subject = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let reference = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ROLE});
    let namespaced = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": namespaced(ACCOUNT)}),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": ROLE},
            "rules": rules(CLASSIC_PERMISSIONS.iter(), Scope::Cluster),
        }),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": reference("ClusterRole"), "subjects": subject,
        }),
        json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": namespaced(ROLE),
            "rules": rules(CLASSIC_PERMISSIONS.iter(), Scope::SystemNamespace),
        }),
        json!({
            "apiVersion": RBAC, "kind": "RoleBinding", "metadata": namespaced(ROLE),
            "roleRef": reference("Role"), "subjects": subject,
        }),
    ]
}

/// Who may do what in a namespace may read its packages. The API has nothing that can be written.
fn people() -> Vec<Value> {
    let role = |into: &&str| {
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole",
            "metadata": {
                "name": format!("packagemanifests-{PACKAGES_VERSION}-{into}"),
                "labels": {format!("rbac.authorization.k8s.io/aggregate-to-{into}"): "true"},
            },
            "rules": [{
                "apiGroups": [PACKAGES_GROUP],
                "resources": ["packagemanifests", "packagemanifests/icon"],
                "verbs": ["get", "list", "watch"],
            }],
        })
    };
    ["admin", "edit", "view"].iter().map(role).collect()
}

/// Has kube-apiserver forward requests for PackageManifests. The program writes whom to trust, and nothing else. What is
/// removed with the manifests must be all of it: an APIService without a server breaks discovery. Priorities are
/// upstream's.
fn api_service() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {
            "name": format!("{PACKAGES_VERSION}.{PACKAGES_GROUP}"), "labels": {"olm.managed": "true"},
        },
        "spec": {
            "group": PACKAGES_GROUP,
            "version": PACKAGES_VERSION,
            "groupPriorityMinimum": 2000,
            "versionPriority": 15,
            "service": {"name": PACKAGES_SERVICE, "namespace": NAMESPACE, "port": PACKAGES_PORT},
        },
    })
}

fn service(name: &str, port_name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": PROGRAM.selector(),
            "ports": [{"name": port_name, "port": port, "protocol": "TCP", "targetPort": port}],
        },
    })
}

/// In: what is served. Out: everything, because registries may be anywhere, and so may be the API server and DNS.
fn network_policy() -> Value {
    let ports = [REGISTRY_PORT, PACKAGES_PORT, PROGRAM.metrics_port, CATALOGS_PORT]
        .map(|port| json!({"port": port, "protocol": "TCP"}));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": DEPLOYMENT, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": PROGRAM.selector()},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": ports}],
            "egress": [{}],
        },
    })
}

fn deployment() -> Value {
    let mut deployment = PROGRAM.deployment(REPLICAS);
    deployment["metadata"]["namespace"] = json!(NAMESPACE);
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["serviceAccountName"] = json!(ACCOUNT);
    let container = &mut pod["containers"][0];
    container["ports"][0]["name"] = json!("grpc");
    if let Some(ports) = container["ports"].as_array_mut() {
        for (name, port) in [(PACKAGES_PORT_NAME, PACKAGES_PORT), (CATALOGS_PORT_NAME, CATALOGS_PORT)] {
            ports.push(json!({"name": name, "containerPort": port, "protocol": "TCP"}));
        }
    }
    container["env"] = json!([{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    deployment
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has the program has the cluster: page 62 says what it does with that for users of a namespace.
    #[test]
    fn the_permissions_that_are_a_way_to_more_are_these() {
        let mut found = Vec::new();
        for rule in rules(CLASSIC_PERMISSIONS.iter(), Scope::Cluster) {
            let has = |field: &str, value: &str| {
                rule[field].as_array().into_iter().flatten().any(|one| one == value)
            };
            // Custom resources of any kind are listed before their definition is replaced, and nothing else is done with them.
            let lists = has("resources", "*") && rule["verbs"] == json!(["list"]);
            assert!(!has("verbs", "*") && (lists || !has("resources", "*")), "{rule}");
            assert!(!has("verbs", "impersonate"), "{rule}");
            let writes = ["create", "update", "patch"].iter().any(|verb| has("verbs", verb));
            let powers = [
                "secrets",
                "serviceaccounts/token",
                "clusterroles",
                "clusterrolebindings",
                "apiservices",
                "validatingwebhookconfigurations",
                "deployments",
            ];
            found.extend(powers.into_iter().filter(|power| writes && has("resources", power)));
        }
        found.sort_unstable();
        let wanted = [
            "apiservices",
            "clusterrolebindings",
            "clusterroles",
            "deployments",
            "secrets",
            "serviceaccounts/token",
            "validatingwebhookconfigurations",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_pods_know_their_address() {
        let deployment = deployment();
        let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
        assert!(env.as_array().unwrap().iter().any(|one| one["name"] == "POD_IP"), "{env}");
    }
}
