//! Services whose program runs on this machine instead of in a Pod.

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Cluster;

const LOCALHOST: &str = "127.0.0.1";

impl Cluster {
    /// Creates a Service whose port 443 the API server's proxy finds at this port of 127.0.0.1.
    ///
    /// The API server only sends requests to addresses of Pods, and takes no Endpoints on the loopback network from clients:
    /// they are written where it stores them.
    pub async fn serve_from_here(&self, namespace: &str, name: &str, port: u16) -> Result<()> {
        let client = self.client().await?;
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        }))?;
        let services: Api<Service> = Api::namespaced(client.clone(), namespace);
        services.create(&PostParams::default(), &service).await.context("creating a Service")?;
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"schedulerName": "none", "automountServiceAccountToken": false,
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "c", "image": "nowhere.example.com/none", "securityContext":
                    {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]},
        }))?;
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        pods.create(&PostParams::default(), &pod).await.context("creating a Pod")?;
        let status = json!({"status": {"podIP": LOCALHOST, "podIPs": [{"ip": LOCALHOST}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        let address = json!({"ip": LOCALHOST,
            "targetRef": {"kind": "Pod", "namespace": namespace, "name": name}});
        let endpoints = json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name, "namespace": namespace},
            "subsets": [{"addresses": [address], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        });
        self.store(&format!("/registry/services/endpoints/{namespace}/{name}"), &endpoints).await
    }

    /// Writes an object where the API server stores it.
    async fn store(&self, key: &str, object: &Value) -> Result<()> {
        let pair = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(object.to_string())});
        self.ask_etcd("kv/put", &pair).await.map(drop)
    }
}
