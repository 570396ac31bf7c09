//! The Deployments. Names, labels and selectors are upstream's, because a Deployment's selector cannot be changed and
//! tools find the programs by them.

use serde_json::{Value, json};

use crate::rbac;

/// The prefix of image names before they are pushed: `make image` writes them under this name.
const IMAGES: &str = "localhost/olmv1";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The server of catalogs drains for 30 seconds; leases are given back after that.
const GRACE_SECONDS: u32 = 40;
/// Catalogs and bundles. The largest known catalog takes 0.3 GB with its compressed segments.
const CACHE_LIMIT: &str = "4Gi";
/// Idle with 20 extensions: 20 MB; 64 MB while a catalog of 132 MB is taken in.
const MEMORY_REQUEST: &str = "64Mi";
/// Against a leak, four times the peak that was measured; pages of the cache count too and are given back first.
const MEMORY_LIMIT: &str = "256Mi";

/// A program and the arguments of its Pods.
pub(crate) struct Program {
    /// Name of binary, image and label.
    pub(crate) name: &'static str,
    /// Name of Deployment, account, PodDisruptionBudget and NetworkPolicy, and the label `control-plane`.
    pub(crate) deployment: &'static str,
    /// Its flags.
    pub(crate) args: &'static [&'static str],
    /// Feature gates that are named, for those who read them from the flags.
    pub(crate) gates: &'static [&'static str],
    /// Where catalogs are served.
    pub(crate) catalogs_port: u16,
    /// Where metrics are served.
    pub(crate) metrics_port: u16,
}

/// operator-controller, which has catalogd inside.
pub(crate) const OPERATOR_CONTROLLER: Program = Program {
    name: "operator-controller",
    deployment: rbac::ACCOUNT,
    args: &[
        "--leader-elect",
        "--health-probe-bind-address=:8081",
        "--metrics-bind-address=:8443",
        "--catalogs-server-addr=:8444",
        "--external-address=catalogd-service.olmv1-system.svc",
    ],
    gates: &["BoxcutterRuntime=true"],
    catalogs_port: 8444,
    metrics_port: 8443,
};

/// catalogd on its own.
pub(crate) const CATALOGD: Program = Program {
    name: "catalogd",
    deployment: "catalogd-controller-manager",
    args: &[
        "--leader-elect",
        "--health-probe-bind-address=:8081",
        "--metrics-bind-address=:7443",
        "--catalogs-server-addr=:8443",
        "--external-address=catalogd-service.olmv1-system.svc",
    ],
    gates: &["APIV1MetasHandler=true"],
    catalogs_port: 8443,
    metrics_port: 7443,
};

impl Program {
    /// The label that selects its pods.
    pub(crate) fn selector(&self) -> Value {
        json!({"control-plane": self.deployment})
    }

    fn image(&self) -> String {
        format!("{IMAGES}/{}:{VERSION}", self.name)
    }

    /// Its Deployment.
    pub(crate) fn deployment(&self, replicas: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": self.deployment, "namespace": rbac::NAMESPACE,
                "labels": {"app.kubernetes.io/name": self.name},
                "annotations": {"kubectl.kubernetes.io/default-logs-container": "manager"},
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": self.selector()},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "minReadySeconds": 5,
                "template": {
                    "metadata": {
                        "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                        "labels": {
                            "app.kubernetes.io/name": self.name,
                            "app.kubernetes.io/part-of": "olm",
                            "control-plane": self.deployment,
                        },
                    },
                    "spec": self.pod(),
                },
            },
        })
    }

    fn pod(&self) -> Value {
        let gone = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120});
        json!({
            "serviceAccountName": self.deployment,
            "priorityClassName": "system-cluster-critical",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [
                {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
                gone("node.kubernetes.io/unreachable"),
                gone("node.kubernetes.io/not-ready"),
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": self.selector()},
            }],
            "containers": [self.container()],
            "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": CACHE_LIMIT}}],
        })
    }

    fn container(&self) -> Value {
        let gates = self.gates.iter().map(|gate| format!("--feature-gates={gate}"));
        let args: Vec<String> = self.args.iter().map(|&arg| arg.to_owned()).chain(gates).collect();
        let probe = |path: &str, delay: u32, period: u32| {
            json!({
                "httpGet": {"path": path, "port": 8081, "scheme": "HTTP"},
                "initialDelaySeconds": delay, "periodSeconds": period, "timeoutSeconds": 5,
            })
        };
        json!({
            "name": "manager",
            "image": self.image(),
            "imagePullPolicy": "IfNotPresent",
            "command": [format!("/{}", self.name)],
            "args": args,
            "ports": [
                {"name": "catalogs", "containerPort": self.catalogs_port, "protocol": "TCP"},
                {"name": "metrics", "containerPort": self.metrics_port, "protocol": "TCP"},
            ],
            "livenessProbe": probe("/healthz", 15, 20),
            "readinessProbe": probe("/readyz", 1, 5),
            "resources": {
                "requests": {"cpu": "20m", "memory": MEMORY_REQUEST},
                "limits": {"memory": MEMORY_LIMIT},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "cache", "mountPath": "/var/cache"}],
        })
    }
}
