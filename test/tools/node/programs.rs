//! What the programs of a node are told: container runtime, kubelet, kube-proxy, and the control plane where it
//! differs from one without nodes.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::{NODE, dns, images::PAUSE, namespaces::Namespaces, packages};

/// Where the container runtime listens, in the node's mount namespace.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";
/// Addresses of pods.
const PODS: &str = "10.244.0.0/24";

/// Flags of the API server, after those of a control plane on loopback; the last of two holds.
pub(super) fn api_server(directory: &Path, namespaces: &Namespaces) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        "--bind-address=0.0.0.0".to_owned(),
        format!("--advertise-address={}", namespaces.address()),
        "--endpoint-reconciler-type=lease".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--kubelet-client-certificate={}", file("admin.crt")),
        format!("--kubelet-client-key={}", file("admin.key")),
    ]
}

/// Writes the configuration of the container runtime and of its network, and returns the flags.
pub(super) fn containerd(directory: &Path) -> Result<Vec<String>> {
    let place = |name: &str| directory.join(name).display().to_string();
    let (networks, registries) = (directory.join("networks"), directory.join("registries"));
    fs::create_dir(&networks)?;
    fs::create_dir(&registries)?;
    let network = json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [{
        "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }]});
    fs::write(networks.join("10-pods.conflist"), network.to_string())?;
    // Without restrict_oom_score_adj a root that may not lower the score of its children starts no pod.
    let cri = r#"plugins."io.containerd.grpc.v1.cri""#;
    let config = format!(
        "version = 2\nroot = {root:?}\nstate = \"/run/containerd\"\n[grpc]\naddress = {SOCKET:?}\n\
         [{cri}]\nsandbox_image = {PAUSE:?}\nrestrict_oom_score_adj = true\n\
         [{cri}.cni]\nbin_dir = {plugins:?}\nconf_dir = {networks:?}\n\
         [{cri}.registry]\nconfig_path = {registries:?}\n\
         [{cri}.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\
         [{cri}.containerd.runtimes.runc.options]\nSystemdCgroup = false\n",
        root = place("containerd"),
        plugins = packages::plugins()?.display().to_string(),
        networks = place("networks"),
        registries = place("registries"),
    );
    fs::write(directory.join("containerd.toml"), config)?;
    Ok(vec![format!("--config={}", place("containerd.toml"))])
}

/// Makes the container runtime pull from a registry without TLS.
pub(super) fn allow_registry(directory: &Path, host: &str) -> Result<()> {
    let folder = directory.join("registries").join(host);
    fs::create_dir_all(&folder)?;
    let url = format!("http://{host}");
    // Older ones refuse a file without the second part.
    let text = format!("server = {url:?}\n[host.{url:?}]\ncapabilities = [\"pull\", \"resolve\"]\n");
    Ok(fs::write(folder.join("hosts.toml"), text)?)
}

/// Writes the kubelet's configuration and returns its flags.
pub(super) fn kubelet(directory: &Path, namespaces: &Namespaces) -> Result<Vec<String>> {
    let place = |name: &str| directory.join(name).display().to_string();
    fs::write(directory.join("resolv.conf"), format!("nameserver {}\n", dns::ADDRESS))?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", namespaces.cgroup()),
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": place("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": place("kubelet.crt"),
        "tlsPrivateKeyFile": place("kubelet.key"),
        "clusterDNS": [dns::ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": place("resolv.conf"),
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        // What was imported cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "fileCheckFrequency": "1s",
        "syncFrequency": "10s",
        "oomScoreAdj": 0,
    });
    fs::write(directory.join("kubelet.json"), config.to_string())?;
    Ok(vec![
        format!("--config={}", place("kubelet.json")),
        format!("--kubeconfig={}", place("kubelet.kubeconfig")),
        format!("--hostname-override={NODE}"),
        format!("--node-ip={}", namespaces.address()),
    ])
}

/// Writes kube-proxy's configuration and returns its flags.
pub(super) fn kube_proxy(directory: &Path) -> Result<Vec<String>> {
    let place = |name: &str| directory.join(name).display().to_string();
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": PODS,
        "hostnameOverride": NODE,
        "linux": {"oomScoreAdj": 0},
        "clientConnection": {"kubeconfig": place("kube-proxy.kubeconfig")},
        // These are for the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "nftables": {"syncPeriod": "30s", "minSyncPeriod": "100ms"},
    });
    fs::write(directory.join("kube-proxy.json"), config.to_string())?;
    Ok(vec![format!("--config={}", place("kube-proxy.json"))])
}

/// The rule by which pods reach servers on this machine's end of the link.
pub(super) fn masquerade() -> String {
    format!(
        "table ip olm-node {{ chain post {{ type nat hook postrouting priority 100; \
         ip saddr {PODS} oifname {} masquerade; }}; }}",
        super::namespaces::UPLINK
    )
}
