//! kubectl, run as an administrator does, and the manifests that it applies.

use std::{io::Write as _, process::Stdio};

use crate::prelude::*;

/// For Pods to start and to go.
const ROLLED_OUT: Duration = Duration::from_mins(3);
/// The last Events that a failure shows.
const EVENTS_SHOWN: usize = 8;

/// A path below `config`.
pub fn config(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config").join(path)
}

/// Runs kubectl as admin and returns what it prints.
pub fn kubectl(cluster: &Cluster, args: &[&str]) -> Result<String> {
    kubectl_with(cluster, args, b"").map(|(output, _)| output)
}

/// Runs kubectl as the user of a kubeconfig and returns what it prints.
pub fn kubectl_as(cluster: &Cluster, kubeconfig: &Path, args: &[&str]) -> Result<String> {
    run(cluster, kubeconfig, args, b"").map(|(output, _)| output)
}

/// The same as admin, with a standard input; returns the errors that it prints too.
pub fn kubectl_with(cluster: &Cluster, args: &[&str], input: &[u8]) -> Result<(String, String)> {
    run(cluster, &cluster.kubeconfig_admin(), args, input)
}

fn run(cluster: &Cluster, kubeconfig: &Path, args: &[&str], input: &[u8]) -> Result<(String, String)> {
    let mut kubectl = cluster
        .kubectl_command()
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running kubectl")?;
    // One that does not read its input may have ended already.
    drop(kubectl.stdin.take().context("no standard input")?.write_all(input));
    let output = kubectl.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "kubectl {}: {}", args.join(" "), errors.trim());
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), errors))
}

/// An object, or a list, as JSON.
pub fn get(cluster: &Cluster, what: &[&str]) -> Result<Value> {
    let args: Vec<&str> = ["get", "-o=json"].into_iter().chain(what.iter().copied()).collect();
    serde_json::from_str(&kubectl(cluster, &args)?).context("JSON of kubectl")
}

/// Waits until a Deployment has so many ready Pods, all of its newest template, and no others.
pub async fn deployed(cluster: &Cluster, namespace: &str, deployment: &str, replicas: u64) -> Result<()> {
    let what = format!("{replicas} ready Pods of {deployment}");
    wait::until(&what, ROLLED_OUT, async || {
        let object = get(cluster, &["deployment", deployment, "-n", namespace])?;
        let status = &object["status"];
        let there = |field: &str| status[field].as_u64().unwrap_or_default() == replicas;
        let current = status["observedGeneration"] == object["metadata"]["generation"];
        let all = ["readyReplicas", "updatedReplicas", "replicas"].into_iter().all(there);
        wait::check(current && all, || {
            let ask =
                |args: &[&str]| kubectl(cluster, &[args, &["-n", namespace]].concat()).unwrap_or_default();
            let (pods, events) = (ask(&["get", "pods"]), ask(&["get", "events", "--sort-by=.lastTimestamp"]));
            let lines: Vec<_> = events.lines().collect();
            let last = lines[lines.len().saturating_sub(EVENTS_SHOWN)..].join("\n");
            format!("{status}\n{pods}{last}")
        })
    })
    .await
}
