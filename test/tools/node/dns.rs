//! The cluster's DNS: CoreDNS as a Deployment, which answers for the cluster and for nobody else.

use serde_json::{Value, json};

use super::images::DNS;

/// The Service's address, which every pod has in its `resolv.conf`.
pub(super) const ADDRESS: &str = "10.96.0.10";
/// Where and as what it runs.
pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const DEPLOYMENT: &str = "coredns";
/// Above the ports that only root may have.
const PORT: u16 = 5353;

/// Two servers: in one the answer for unknown names would hide the cluster's. No question leaves the machine.
fn settings() -> String {
    format!(
        "cluster.local:{PORT} in-addr.arpa:{PORT} ip6.arpa:{PORT} {{\n errors\n kubernetes {{\n  pods insecure\n  ttl 5\n }}\n \
         cache 5\n}}\n.:{PORT} {{\n errors\n ready :8181\n template ANY ANY . {{\n  rcode NXDOMAIN\n }}\n}}\n"
    )
}

/// Every object of it.
pub(super) fn objects() -> Vec<Value> {
    let labels = json!({"k8s-app": "kube-dns"});
    let metadata = json!({"name": "coredns", "namespace": NAMESPACE});
    let rbac = "rbac.authorization.k8s.io";
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "targetPort": PORT, "protocol": protocol});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": NAMESPACE}],
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"Corefile": settings()}}),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": NAMESPACE},
            "spec": {"clusterIP": ADDRESS, "selector": labels, "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": DEPLOYMENT, "namespace": NAMESPACE},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod()},
            },
        }),
    ]
}

fn pod() -> Value {
    json!({
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "containers": [{
            "name": "coredns", "image": DNS, "imagePullPolicy": "Never",
            "args": ["-conf", "/etc/coredns/Corefile"],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/coredns"}],
        }],
        "volumes": [{"name": "settings", "configMap": {"name": "coredns"}}],
    })
}
