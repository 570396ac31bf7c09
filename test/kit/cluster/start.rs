//! Starting a control plane: certificates, programs, nodes; everything that can go side by side does.

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use super::{Options, Own, client, node};
use crate::permissions_used;
use crate::process::free_ports;
use crate::supervisor::Program;
use crate::{
    pki::{Authority, IdentityFiles, write_service_account_keys},
    prelude::*,
};
use olm_test_programs::controlplane::{CONTROLLERS, Tool, Tools};

/// A port may be taken between its choice and its use.
const ATTEMPTS: usize = 3;

/// Writes are recorded, with who made them but without their content.
const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[
{"level":"Metadata","verbs":["create","update","patch","delete","deletecollection"]},{"level":"None"}]}"#;

const STAGES: &str = include_str!("../controlplane/stages.yaml");

pub(super) async fn start(tools: &Tools, options: &Options) -> Result<Own> {
    let mut attempt = 1;
    loop {
        match try_start(tools, options).await {
            Ok(own) => return Ok(own),
            Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn try_start(tools: &Tools, options: &Options) -> Result<Own> {
    let directory = StateDirectory::new("cluster")?;
    let path = &directory.path().to_owned();
    permissions_used::expect(path)?;
    let [etcd_port, peer_port, port] = free_ports()?;
    let server = format!("https://127.0.0.1:{port}");

    let launch = |tool: Tool, args: Vec<String>| {
        let name = tool.file_name();
        let log = path.join(format!("{name}.log"));
        // A kubeconfig of the user must not leak into a cluster that is nobody's.
        let env_remove = vec!["KUBECONFIG".to_owned()];
        Process::start(
            name,
            Program { program: tools.path(tool), args, log, env_remove, ..Program::default() },
        )
    };
    let etcd = launch(Tool::Etcd, etcd_args(path, etcd_port, peer_port))?;
    let authority = write_files(path, &server, &[])?;
    let api_server_args =
        api_server_args(path, port, etcd_port).into_iter().chain(options.api_server_args.iter().cloned());
    let api_server = launch(Tool::ApiServer, api_server_args.collect())?;

    let admin = client(&path.join("admin.kubeconfig")).await?;
    wait::until("the API server to be ready", DEADLINE, || async {
        running(&[&etcd, &api_server])?;
        let request = http::Request::get("/readyz").body(Vec::new())?;
        wait::check(admin.request_text(request).await? == "ok", || "not ok".to_owned())
    })
    .await
    .map_err(|error| explain(error, &[&api_server]))?;

    let mut own = Own {
        processes: vec![api_server, etcd],
        tools: tools.clone(),
        authority,
        server,
        etcd: format!("http://127.0.0.1:{etcd_port}"),
        directory,
    };
    if tools.missing(&CONTROLLERS).is_empty() {
        let controllers = start_controllers(path, admin, options, launch).await?;
        // Ended in this order: nobody shall complain about a server that is gone.
        own.processes.splice(0..0, controllers);
    }
    Ok(own)
}

/// Starts what makes Pods of Deployments, and waits for nodes. Answers the programs in the order in which to end them.
async fn start_controllers(
    path: &Path,
    admin: kube::Client,
    options: &Options,
    launch: impl Fn(Tool, Vec<String>) -> Result<Process>,
) -> Result<Vec<Process>> {
    let controller_manager = launch(Tool::ControllerManager, controller_manager_args(path))?;
    let scheduler = launch(Tool::Scheduler, scheduler_args(path))?;
    let kwok = launch(Tool::Kwok, kwok_args(path))?;
    let nodes: Api<Node> = Api::all(admin.clone());
    for index in 0..options.nodes {
        let node: Node = serde_json::from_value(node(&format!("node-{index}")))?;
        nodes.create(&PostParams::default(), &node).await.context("creating a node")?;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, "default");
    wait::until("nodes and the default service account", DEADLINE, || async {
        running(&[&controller_manager, &scheduler, &kwok])?;
        let ready =
            nodes.list(&kube::api::ListParams::default()).await?.iter().filter(|node| is_ready(node)).count();
        wait::check(ready == options.nodes, || format!("{ready} of {} nodes are ready", options.nodes))?;
        accounts.get("default").await.map(drop).context("the default service account")
    })
    .await
    .map_err(|error| explain(error, &[&kwok, &controller_manager]))?;

    Ok(vec![kwok, scheduler, controller_manager])
}

/// Adds the logs that say why it takes so long; a program that ended has shown its own already.
fn explain(error: anyhow::Error, processes: &[&Process]) -> anyhow::Error {
    if error.is::<wait::Final>() {
        return error;
    }
    let logs: Vec<_> = processes.iter().map(|process| process.log_tail()).collect();
    anyhow::anyhow!("{error:#}\n{}", logs.join("\n"))
}

fn running(processes: &[&Process]) -> Result<()> {
    processes.iter().try_for_each(|process| process.check_running())
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Everything the programs read. The API server answers to `addresses` as well.
pub(crate) fn write_files(path: &Path, server: &str, addresses: &[&str]) -> Result<Authority> {
    let authority = Authority::new("olm-test")?;
    authority.identity().write(path, "ca")?;
    let front = Authority::new("olm-test-front-proxy")?;
    front.identity().write(path, "front-ca")?;
    front.client("front-proxy-client", &[])?.write(path, "front")?;
    write_service_account_keys(path)?;
    let names =
        ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1"];
    authority.server("kube-apiserver", &[&names[..], addresses].concat())?.write(path, "apiserver")?;
    let policy =
        if permissions_used::folder().is_some() { permissions_used::AUDIT_POLICY } else { AUDIT_POLICY };
    fs::write(path.join("audit-policy.yaml"), policy)?;
    // Made here, so that it can be read before the first write.
    fs::write(path.join("audit.log"), "")?;
    fs::write(path.join("stages.yaml"), STAGES)?;
    for (name, user, groups) in [
        ("admin", "admin", &["system:masters"][..]),
        ("kwok", "kwok", &["system:masters"]),
        ("controller-manager", "system:kube-controller-manager", &[]),
        ("scheduler", "system:kube-scheduler", &[]),
    ] {
        let files = authority.client(user, groups)?.write(path, name)?;
        write_kubeconfig(&path.join(format!("{name}.kubeconfig")), server, path, &files)?;
    }
    Ok(authority)
}

pub(crate) fn write_kubeconfig(path: &Path, server: &str, pki: &Path, user: &IdentityFiles) -> Result<()> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": pki.join("ca.crt")}}],
        "users": [{"name": "user", "user": {"client-certificate": user.certificate, "client-key": user.key}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    });
    fs::write(path, content.to_string()).with_context(|| format!("writing {}", path.display()))
}

pub(crate) fn etcd_args(path: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        "--name=test".to_owned(),
        format!("--data-dir={}", path.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=test={peer}"),
        // The data is worth nothing once the machine is down.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(crate) fn api_server_args(path: &Path, port: u16, etcd_port: u16) -> Vec<String> {
    let file = |name: &str| path.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        // Nobody reaches the server through the Service `kubernetes`, and loopback is no valid endpoint.
        "--advertise-address=192.0.2.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
        format!("--requestheader-client-ca-file={}", file("front-ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        format!("--proxy-client-cert-file={}", file("front.crt")),
        format!("--proxy-client-key-file={}", file("front.key")),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        "--audit-log-maxsize=2000".to_owned(),
    ]
}

pub(crate) fn controller_manager_args(path: &Path) -> Vec<String> {
    let file = |name: &str| path.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file("controller-manager.kubeconfig")),
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
        "--profiling=false".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", file("sa.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
        "--concurrent-gc-syncs=20".to_owned(),
        "--concurrent-namespace-syncs=10".to_owned(),
    ]
}

pub(crate) fn scheduler_args(path: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", path.join("scheduler.kubeconfig").display()),
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn kwok_args(path: &Path) -> Vec<String> {
    vec![
        format!("--config={}", path.join("stages.yaml").display()),
        format!("--kubeconfig={}", path.join("kwok.kubeconfig").display()),
        "--manage-all-nodes=true".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
    ]
}
