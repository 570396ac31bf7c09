//! What the other tests rely on: users, audit, processes, and that nothing is left behind.

use std::process::{Child, Stdio};

use kube::api::{Api, ObjectMeta};
use olm_test::{
    prelude::*,
    supervisor::{Program, State},
};
use rustix::process::{Pid, Signal, kill_process};

/// Set in the process that is killed by a test of it.
const VICTIM: &str = "OLM_TEST_VICTIM";

#[tokio::test]
async fn users_have_the_rights_that_rbac_gives_and_writes_are_audited() -> Result<()> {
    if skip_on_given_cluster() {
        return Ok(());
    }
    let cluster = Cluster::shared().await?;
    let name = unique_name("audited");
    let mark = cluster.audit_mark()?;
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let stranger: Api<ConfigMap> = Api::namespaced(
        cluster.client_for("ann", &["devs", "ops", "system:authenticated"]).await?,
        "default",
    );
    let refused = stranger.create(&PostParams::default(), &map).await.unwrap_err();
    assert!(refused.to_string().contains("User \"ann\" cannot create"), "{refused}");

    let admin: Api<ConfigMap> =
        Api::namespaced(cluster.client_for("eve", &["devs", "system:masters"]).await?, "default");
    admin.make(&map).await?;
    let seen: Vec<_> = cluster
        .audit_events_since(mark)?
        .into_iter()
        .filter(|event| event.resource == "configmaps" && ["ann", "eve"].contains(&event.user.as_str()))
        .map(|event| (event.user, event.verb, event.name, event.code))
        .collect();
    // The name is in the body of a create; the log shows it for the request that was let in.
    assert_eq!(
        seen,
        [
            ("ann".to_owned(), "create".to_owned(), String::new(), 403),
            ("eve".to_owned(), "create".to_owned(), name, 201),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_process_can_be_killed_restarted_and_asked_to_end() -> Result<()> {
    let directory = StateDirectory::new("process")?;
    let program = Program {
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), "echo \"from $WHO\"; exec sleep 600".to_owned()],
        env: [("WHO".to_owned(), "the test".to_owned())].into(),
        log: directory.path().join("log"),
        ..Program::default()
    };
    let process = Process::start("sleeper", program)?;
    let first = process.pid();
    wait::until("the first line", DEADLINE, || async {
        wait::check(process.log() == "from the test\n", || process.log())
    })
    .await?;
    assert_eq!(process.kill()?, State::Killed(9));
    process.check_running().unwrap_err();
    process.restart()?;
    assert_ne!(process.pid(), first);
    wait::until("the second line", DEADLINE, || async {
        wait::check(process.log().lines().count() == 2, || process.log())
    })
    .await?;
    assert_eq!(process.terminate(DEADLINE).await?, State::Killed(15));
    Ok(())
}

/// Not a test of its own: the process that the next test kills.
#[tokio::test]
async fn victim() -> Result<()> {
    let Some(report) = std::env::var_os(VICTIM) else { return Ok(()) };
    let cluster = Cluster::start(Options { nodes: 1, ..Options::default() }).await?;
    let pids: Vec<u32> = cluster.processes().iter().map(Process::pid).collect();
    let directory = cluster.kubeconfig_admin().parent().map(Path::to_owned);
    let report = Path::new(&report);
    std::fs::write(report.with_extension("part"), json!({"pids": pids, "directory": directory}).to_string())?;
    std::fs::rename(report.with_extension("part"), report)?;
    std::future::pending().await
}

#[tokio::test]
async fn nothing_is_left_when_the_test_process_is_killed() -> Result<()> {
    let mut victim = Victim::start().await?;
    victim.process.kill()?;
    victim.process.wait()?;
    victim.programs_go().await?;
    wait::until("the victim's files to go", DEADLINE, async || {
        wait::check(!victim.state.exists(), || format!("{} is there", victim.state.display()))
    })
    .await
}

#[tokio::test]
async fn no_program_is_left_when_the_supervisor_is_killed() -> Result<()> {
    let mut victim = Victim::start().await?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", victim.programs[0]))?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).context("no parent")?;
    let supervisor = Pid::from_raw(parent.trim().parse()?).context("no parent")?;
    kill_process(supervisor, Signal::KILL)?;
    victim.programs_go().await?;
    victim.process.kill()?;
    victim.process.wait()?;
    // Nobody is left who would.
    std::fs::remove_dir_all(&victim.state)?;
    Ok(())
}

struct Victim {
    process: Child,
    programs: Vec<u64>,
    state: PathBuf,
}

impl Victim {
    async fn start() -> Result<Self> {
        let directory = StateDirectory::new("victim")?;
        let report = directory.path().join("report.json");
        let mut process = Command::new(std::env::current_exe()?)
            .args(["harness::victim", "--exact", "--nocapture"])
            .env(VICTIM, &report)
            .env_remove("KUBECONFIG")
            .stdout(Stdio::null())
            .spawn()?;
        let seen = wait::until("the victim's cluster", Duration::from_mins(2), async || {
            wait::check(process.try_wait()?.is_none(), || "the victim ended".to_owned())?;
            std::fs::read(&report).context("no report")
        })
        .await;
        if seen.is_err() {
            process.kill()?;
            process.wait()?;
        }
        let seen: serde_json::Value = serde_json::from_slice(&seen?)?;
        let programs: Vec<_> =
            seen["pids"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect();
        assert_eq!(programs.len(), 5);
        let state = seen["directory"].as_str().context("directory")?.into();
        Ok(Self { process, programs, state })
    }

    async fn programs_go(&self) -> Result<()> {
        wait::until("the victim's programs to go", DEADLINE, async || {
            let left: Vec<_> =
                self.programs.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
            wait::check(left.is_empty(), || format!("{left:?} run"))
        })
        .await
    }
}
