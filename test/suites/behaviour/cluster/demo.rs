//! `make demo` on a cluster of somebody else: it asks, it replaces nothing, and it removes what it made.

use std::{
    ffi::OsString,
    process::{Output, Stdio},
};

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::config::Kubeconfig;
use olm_test::{cluster::inventory, prelude::*};
use olm_test_programs::controlplane::{API_SERVER, Tools};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

const DEADLINE: Duration = Duration::from_mins(3);
/// By its value all processes of a demo are found.
const MARK: &str = "OLM_TEST_DEMO";

/// A cluster, and a list of kubeconfigs that together lead to it.
struct World {
    cluster: Cluster,
    list: OsString,
    before: BTreeSet<String>,
}

/// A demo that runs.
struct Demo {
    child: Child,
    mark: String,
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let mut clusters = Kubeconfig::read_from(cluster.kubeconfig_admin())?;
        let mut contexts = Kubeconfig::default();
        contexts.contexts = std::mem::take(&mut clusters.contexts);
        contexts.current_context = clusters.current_context.take();
        let folder = StateDirectory::kept("kubeconfigs")?;
        let files = ["missing", "contexts", "clusters"].map(|name| folder.join(name));
        std::fs::write(&files[1], serde_json::to_string(&contexts)?)?;
        std::fs::write(&files[2], serde_json::to_string(&clusters)?)?;
        let before = settled(&cluster).await?;
        Ok(Self { list: std::env::join_paths(&files)?, cluster, before })
    }

    fn demo(&self, variables: &[(&str, &str)]) -> Result<Demo> {
        let mark = unique_name("demo");
        let kubectl = self.cluster.kubectl();
        let folder = kubectl.parent().context("kubectl has no folder")?.to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [folder].into_iter().chain(std::env::split_paths(&path));
        let mut demo = Command::new(env!("CARGO_BIN_EXE_olm-demo"));
        demo.env_remove("DEMO_EXIT")
            .env_remove("DEMO_CLUSTER")
            .env("KUBECONFIG", &self.list)
            .env(MARK, &mark);
        demo.env("PATH", std::env::join_paths(folders)?).envs(variables.iter().copied());
        demo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(Demo { child: demo.spawn()?, mark })
    }

    /// The demo failed, with this sentence, and nothing of it is left.
    async fn failed(&self, demo: Demo, sentence: &str) -> Result<()> {
        let (output, _) = self.ended(demo).await?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1) && error.contains(sentence), "{}: {error}", output.status);
        ensure!(error.trim_end().lines().count() == 1, "more than a sentence: {error}");
        Ok(())
    }

    /// Waits for the end, and for the cluster to be as before.
    async fn ended(&self, demo: Demo) -> Result<(Output, String)> {
        let mark = demo.mark;
        let output = tokio::time::timeout(DEADLINE, demo.child.wait_with_output())
            .await
            .context("the demo runs on")??;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        eventually("the demo's processes to end", async || Ok(processes(&mark)), Vec::is_empty).await?;
        wait::until("the cluster to be as before", DEADLINE, async || {
            let now = objects(&self.cluster).await?;
            let differences: Vec<_> = now.symmetric_difference(&self.before).collect();
            wait::check(differences.is_empty(), || format!("{differences:#?}"))
        })
        .await
        .with_context(|| text.clone())?;
        Ok((output, text))
    }
}

impl Demo {
    /// Reads what it prints until a line has this text.
    async fn prints(&mut self, text: &str) -> Result<()> {
        let output = self.child.stdout.as_mut().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut seen = Vec::new();
        let read = async {
            while let Some(line) = lines.next_line().await? {
                if line.contains(text) {
                    return Ok(());
                }
                seen.push(line);
            }
            anyhow::bail!("it ended")
        };
        let read = tokio::time::timeout(DEADLINE, read).await.context("it takes too long").flatten();
        read.with_context(|| format!("no {text:?} in {seen:#?}"))
    }
}

/// Kind, name and identity of everything; events of nodes come and go by themselves.
async fn objects(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let all = inventory(&cluster.client().await?, &ListParams::default()).await?;
    let named = all.into_iter().map(|(kind, meta)| {
        let [namespace, name, uid] = [meta.namespace, meta.name, meta.uid].map(Option::unwrap_or_default);
        format!("{kind} {namespace}/{name} {uid}")
    });
    Ok(named.filter(|name| !name.starts_with("Event ") || name.contains("lighthouse")).collect())
}

/// The objects once none has come or gone for two seconds: a cluster that has just been started makes some of its own.
async fn settled(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let mut known = objects(cluster).await?;
    let deadline = Instant::now() + DEADLINE;
    while Instant::now() < deadline {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = objects(cluster).await?;
        if now == known {
            return Ok(now);
        }
        known = now;
    }
    anyhow::bail!("the cluster does not come to rest")
}

/// Process IDs and commands of a demo.
fn processes(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter_map(|entry| {
        let read = |file: &str| std::fs::read(Path::new(&entry.path()).join(file)).unwrap_or_default();
        let marked = read("environ").split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
        let pid = entry.file_name().to_str()?.parse().ok()?;
        marked.then(|| (pid, String::from_utf8_lossy(&read("comm")).trim().to_owned()))
    });
    found.collect()
}

fn signal(pid: Option<i32>, signal: Signal) -> Result<()> {
    let pid = pid.and_then(Pid::from_raw).context("no such process")?;
    Ok(kill_process(pid, signal)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_leaves_a_given_cluster_as_it_was() -> Result<()> {
    if skip_on_given_cluster() {
        return Ok(());
    }
    let world = World::start().await?;
    world.failed(world.demo(&[("DEMO_EXIT", "1")])?, "set DEMO_CLUSTER=yes").await?;
    nothing_is_replaced(&world).await?;

    let consent = ("DEMO_CLUSTER", "yes");
    let (output, text) = world.ended(world.demo(&[consent, ("DEMO_EXIT", "1")])?).await?;
    ensure!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(text.starts_with("KUBECONFIG names cluster test (context test, https://127.0.0.1:"), "{text}");
    ensure!(text.contains("upgraded within its channel to 1.1.0"), "{text}");

    let mut cut = world.demo(&[consent])?;
    cut.prints("ClusterCatalog demo-lighthouse is serving").await?;
    signal(cut.child.id().map(u32::cast_signed), Signal::INT)?;
    world.failed(cut, "interrupted before everything was installed").await?;

    let mut up = world.demo(&[consent])?;
    up.prints("Everything stays up").await?;
    let controller = processes(&up.mark).into_iter().find(|(_, name)| name.starts_with("operator-contro"));
    signal(controller.map(|(pid, _)| pid), Signal::KILL)?;
    world.failed(up, "operator-controller was ended by signal 9").await?;

    let mut up = world.demo(&[consent])?;
    up.prints("Everything stays up").await?;
    signal(up.child.id().map(u32::cast_signed), Signal::TERM)?;
    let (output, _) = world.ended(up).await?;
    ensure!(output.status.success(), "Ctrl-C is how it ends: {}", output.status);
    Ok(())
}

/// What has a name of the demo's is named and stays as it is.
async fn nothing_is_replaced(world: &World) -> Result<()> {
    let api: Api<ClusterRole> = Api::all(world.cluster.client().await?);
    let name = "demo-lighthouse-installer";
    let role = ClusterRole {
        metadata: kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        ..Default::default()
    };
    let made = api.make(&role).await?;
    let mut demo = world.demo(&[("DEMO_CLUSTER", "yes"), ("DEMO_EXIT", "1")])?;
    demo.prints("pushed to").await?;
    let output =
        tokio::time::timeout(DEADLINE, demo.child.wait_with_output()).await.context("the demo runs on")??;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(error.contains("ClusterRole demo-lighthouse-installer exists on cluster test"), "{error}");
    ensure!(!output.status.success(), "{}", output.status);
    let now = api.get(name).await?;
    ensure!(now.metadata.resource_version == made.metadata.resource_version, "it was written");
    api.remove(name).await?;
    let now = objects(&world.cluster).await?;
    ensure!(now == world.before, "{:#?}", now.symmetric_difference(&world.before).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_needs_nothing_but_an_api_server() -> Result<()> {
    let folder = StateDirectory::new("assets")?;
    let tools = tokio::task::spawn_blocking(|| Tools::locate(&API_SERVER)).await??;
    for tool in API_SERVER {
        std::os::unix::fs::symlink(tools.path(tool), folder.path().join(tool.file_name()))?;
    }
    let mut demo = Command::new(env!("CARGO_BIN_EXE_olm-demo"));
    demo.env_remove("KUBECONFIG").env("DEMO_EXIT", "1").env("PATH", "").env("XDG_CACHE_HOME", folder.path());
    let output = demo.env("KUBEBUILDER_ASSETS", folder.path()).kill_on_drop(true).output().await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(text.contains("upgraded within its channel to 1.1.0"), "{text}");
    Ok(())
}
