//! Services whose program runs on this machine instead of in a Pod.

use std::net::UdpSocket;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
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

    /// Makes a Service of the cluster lead to a port of [`own_address`].
    pub async fn lead_here(&self, namespace: &str, service: &str, port: u16) -> Result<()> {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {
                "name": format!("{service}-here"),
                "labels": {
                    "kubernetes.io/service-name": service,
                    "endpointslice.kubernetes.io/managed-by": "olm-test",
                },
            },
            "addressType": "IPv4",
            "ports": [{"name": "443", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [own_address()?], "conditions": {"ready": true}}],
        }))?;
        let slices: Api<EndpointSlice> = Api::namespaced(self.client().await?, namespace);
        slices.create(&PostParams::default(), &slice).await.context("creating an EndpointSlice")?;
        Ok(())
    }

    /// Has a port of a Service lead to this port of 127.0.0.1 too, as a ready Pod there would: the API server's aggregator
    /// finds it.
    ///
    /// The API server takes no EndpointSlices on the loopback network from clients either.
    pub async fn add_endpoint(
        &self,
        namespace: &str,
        service: &str,
        port_name: &str,
        port: u16,
    ) -> Result<()> {
        let name = format!("{service}-{port}");
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [LOCALHOST], "conditions": {"ready": true}}],
            "ports": [{"name": port_name, "port": port, "protocol": "TCP"}],
        });
        self.store(&format!("/registry/endpointslices/{namespace}/{name}"), &slice).await
    }

    /// Takes that away again, as the end of the Pod would.
    pub async fn remove_endpoint(&self, namespace: &str, service: &str, port: u16) -> Result<()> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client().await?, namespace);
        slices.delete(&format!("{service}-{port}"), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Writes an object where the API server stores it.
    async fn store(&self, key: &str, object: &Value) -> Result<()> {
        let pair = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(object.to_string())});
        self.ask_etcd("kv/put", &pair).await.map(drop)
    }
}

/// An address of this machine that is none of loopback's, which no EndpointSlice may hold. Nothing is sent.
pub fn own_address() -> Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect("192.0.2.1:9").context("this machine has no address but loopback's")?;
    Ok(socket.local_addr()?.ip().to_string())
}
