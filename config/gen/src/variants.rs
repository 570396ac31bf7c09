//! What clusters with cert-manager, or of OpenShift's kind, have beside the base: objects of their own, and additions
//! to each Deployment. Kustomize gets the additions as a patch, the chart as data.

use serde_json::{Value, json};

use crate::rbac::{ACCOUNT, NAMESPACE, RBAC};

/// Where certificates are mounted.
const CERTS: &str = "/var/certs";
const CAS: &str = "/var/ca-certs";
/// The Secret that cert-manager fills.
const CERT_MANAGER_SECRET: &str = "olmv1-serving-cert";
/// The Secret that OpenShift's service CA fills.
pub(crate) const SERVICE_CA_SECRET: &str = "catalogd-service-cert";
const TRUSTED_CAS: &str = "olmv1-trusted-ca-bundle";
/// Where a JSON patch adds flags.
const ARGS: &str = "/spec/template/spec/containers/0/args/-";
const CERT_MANAGER_NAMESPACE: &str = "cert-manager";

/// A kind of cluster.
pub(crate) struct Variant {
    /// Its folder's name.
    pub(crate) name: &'static str,
    /// What it has beside the base.
    pub(crate) objects: Vec<Value>,
    /// What each Deployment gets: `args`, `env`, `volumes`, `volumeMounts`, `annotations` of pods; and
    /// `operatorControllerArgs`, flags that catalogd does not have.
    pub(crate) additions: Value,
}

/// All of them.
pub(crate) fn all() -> [Variant; 2] {
    [cert_manager(), openshift()]
}

impl Variant {
    /// The additions for every Deployment as a JSON patch.
    pub(crate) fn patch(&self) -> Value {
        let pod = "/spec/template/spec";
        let container = "/spec/template/spec/containers/0";
        let lists = [
            ("args", ARGS.to_owned()),
            ("volumeMounts", format!("{container}/volumeMounts/-")),
            ("volumes", format!("{pod}/volumes/-")),
        ];
        let mut operations: Vec<Value> = Vec::new();
        for (key, path) in &lists {
            let values = self.additions[*key].as_array().into_iter().flatten();
            operations.extend(values.map(|value| json!({"op": "add", "path": path, "value": value})));
        }
        // Deployments have no variables of their own, so there is no list to add to.
        if let Some(variables) = self.additions.get("env") {
            operations.push(json!({"op": "add", "path": format!("{container}/env"), "value": variables}));
        }
        for (key, value) in self.additions["annotations"].as_object().into_iter().flatten() {
            let key = key.replace('~', "~0").replace('/', "~1");
            let path = format!("/spec/template/metadata/annotations/{key}");
            operations.push(json!({"op": "add", "path": path, "value": value}));
        }
        Value::Array(operations)
    }

    /// What operator-controller's gets beside that.
    pub(crate) fn operator_controller_patch(&self) -> Value {
        let flags = self.additions["operatorControllerArgs"].as_array().into_iter().flatten();
        flags.map(|flag| json!({"op": "add", "path": ARGS, "value": flag})).collect()
    }
}

/// Trust in a separate catalogd, which publishes no CA while its certificate comes from elsewhere.
fn trust() -> String {
    format!("--catalogd-cas-dir={CAS}")
}

fn cert_manager() -> Variant {
    let api = "cert-manager.io/v1";
    let key = json!({"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"});
    let hosts = ["catalogd-service", "operator-controller-service"];
    let mut names = vec!["localhost".to_owned()];
    for host in hosts {
        names.push(format!("{host}.{NAMESPACE}.svc"));
        names.push(format!("{host}.{NAMESPACE}.svc.cluster.local"));
    }
    let secret = |items: Value| json!({"secretName": CERT_MANAGER_SECRET, "items": items});
    let item = |key: &str, path: &str| json!({"key": key, "path": path});
    Variant {
        name: "cert-manager",
        objects: vec![
            json!({
                "apiVersion": api, "kind": "Issuer",
                "metadata": {"name": "self-sign-issuer", "namespace": CERT_MANAGER_NAMESPACE},
                "spec": {"selfSigned": {}},
            }),
            json!({
                "apiVersion": api, "kind": "Certificate",
                "metadata": {"name": "olmv1-ca", "namespace": CERT_MANAGER_NAMESPACE},
                "spec": {
                    "isCA": true,
                    "commonName": "olmv1-ca",
                    "secretName": "olmv1-ca",
                    "privateKey": key,
                    "issuerRef": {"name": "self-sign-issuer", "kind": "Issuer", "group": "cert-manager.io"},
                },
            }),
            json!({
                "apiVersion": api, "kind": "ClusterIssuer",
                "metadata": {"name": "olmv1-ca"},
                "spec": {"ca": {"secretName": "olmv1-ca"}},
            }),
            json!({
                "apiVersion": api, "kind": "Certificate",
                "metadata": {"name": CERT_MANAGER_SECRET, "namespace": NAMESPACE},
                "spec": {
                    "secretName": CERT_MANAGER_SECRET,
                    "dnsNames": names,
                    "privateKey": key,
                    "issuerRef": {"name": "olmv1-ca", "kind": "ClusterIssuer", "group": "cert-manager.io"},
                },
            }),
        ],
        additions: json!({
            "args": [
                format!("--tls-cert={CERTS}/tls.crt"),
                format!("--tls-key={CERTS}/tls.key"),
                format!("--pull-cas-dir={CAS}"),
            ],
            "operatorControllerArgs": [trust()],
            "volumes": [
                {"name": "certs", "secret": secret(json!([item("tls.crt", "tls.crt"), item("tls.key", "tls.key")]))},
                {"name": "ca-certs", "secret": secret(json!([item("ca.crt", "olm-ca.crt")]))},
            ],
            "volumeMounts": [mount("certs", CERTS), mount("ca-certs", CAS)],
        }),
    }
}

/// The registries' configuration of the nodes is mounted, which takes a namespace that admits privileged pods.
fn openshift() -> Variant {
    let role = "operator-controller-pull-secret-reader";
    let place = "openshift-config";
    let subject = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE});
    let subjects = [subject(ACCOUNT), subject("catalogd-controller-manager")];
    let reference =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let host = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}});
    Variant {
        name: "openshift",
        objects: vec![
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": TRUSTED_CAS, "namespace": NAMESPACE,
                    "labels": {"config.openshift.io/inject-trusted-cabundle": "true"},
                },
            }),
            json!({
                "apiVersion": RBAC, "kind": "Role",
                "metadata": {"name": role, "namespace": place},
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"],
                           "resourceNames": ["pull-secret"]}],
            }),
            json!({
                "apiVersion": RBAC, "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": place},
                "roleRef": reference("Role", role), "subjects": subjects,
            }),
            json!({
                "apiVersion": RBAC, "kind": "ClusterRole",
                "metadata": {"name": "operator-controller-use-scc"},
                "rules": [{"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
                           "resourceNames": ["privileged"], "verbs": ["use"]}],
            }),
            json!({
                "apiVersion": RBAC, "kind": "ClusterRoleBinding",
                "metadata": {"name": "operator-controller-use-scc"},
                "roleRef": reference("ClusterRole", "operator-controller-use-scc"), "subjects": subjects,
            }),
        ],
        additions: json!({
            "annotations": {"openshift.io/required-scc": "privileged"},
            "args": [
                format!("--tls-cert={CERTS}/tls.crt"),
                format!("--tls-key={CERTS}/tls.key"),
                "--global-pull-secret=openshift-config/pull-secret",
            ],
            // Gates of webhooks are unknown to catalogd, which ends when it is given one.
            "operatorControllerArgs": [trust(), "--feature-gates=WebhookProviderCertManager=false"],
            "env": [{"name": "SSL_CERT_DIR", "value": CAS}],
            "volumes": [
                {"name": "certs", "secret": {"secretName": SERVICE_CA_SECRET}},
                {"name": "ca-certs", "projected": {"sources": [
                    {"configMap": {"name": TRUSTED_CAS, "items": [{"key": "ca-bundle.crt", "path": "ca-bundle.crt"}]}},
                    {"configMap": {"name": "openshift-service-ca.crt"}},
                ]}},
                host("containers", "/etc/containers"),
                host("docker", "/etc/docker"),
            ],
            "volumeMounts": [
                mount("certs", CERTS), mount("ca-certs", CAS),
                mount("containers", "/etc/containers"), mount("docker", "/etc/docker"),
            ],
        }),
    }
}

fn mount(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path, "readOnly": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_become_operations_with_escaped_keys() {
        let variant = Variant {
            name: "x",
            objects: Vec::new(),
            additions: json!({"args": ["--a"], "annotations": {"example.com/b": "c"}}),
        };
        assert_eq!(
            variant.patch(),
            json!([
                {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--a"},
                {"op": "add", "path": "/spec/template/metadata/annotations/example.com~1b", "value": "c"},
            ])
        );
    }
}
