//! `make e2e`: the images built, a cluster with real nodes started, and tests run on it.
//!
//! Where no such cluster can be had it says why in one sentence and ends with success: `.ci/run` calls it
//! everywhere. With `--stay` no tests are run: it prints what to export and stays until Ctrl-C. With `--check` it only
//! says whether everything for a cluster is here already, by its exit code too.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use olm_test::{cluster, permissions_used, sample_operator, tools::node};
use olm_test::{
    prelude::*,
    tools::e2e::{Choice, MIRRORED, PREVIOUS, Place, REGISTRY_PULL, REGISTRY_PUSH},
};
use olm_test_programs::controlplane::{Tool, Tools};

/// The tests in their order, and what of them is run. Each is run on what the one before left.
const SUITES: [(&str, Option<&str>); 4] = [
    ("e2e", None),
    ("scenarios", None),
    // Catalogs are read from another process, over the network.
    ("e2e", Some("two Deployments for the scenarios")),
    ("scenarios", None),
];
/// Archives of images that nodes get.
const ARCHIVES: [&str; 4] = ["operator-controller", "catalogd", "olm-classic", sample_operator::PROGRAM];

#[tokio::main]
async fn main() -> ExitCode {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    let (stay, check) = (given("--stay"), given("--check"));
    let choice = match Choice::make(!check) {
        Ok(choice) if check => {
            println!("make e2e: can be run on {choice}");
            return ExitCode::SUCCESS;
        }
        Ok(choice) => choice,
        Err(reason) => {
            println!("make e2e: left out, no cluster with real nodes can be had here: {reason}.");
            if check {
                return ExitCode::FAILURE;
            }
            println!(
                "Set KUBECONFIG, or install kind beside docker or podman. As root on Debian, OLM_E2E_NODE=own needs neither."
            );
            return ExitCode::SUCCESS;
        }
    };
    let ended = async {
        let mut told_to_end = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = run(choice, stay) => ended,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = told_to_end.recv() => bail!("told to end"),
        }
    };
    // What was started for it has been taken away when this is reached.
    match ended.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make e2e: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(choice: Choice, stay: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    println!("make e2e: on {choice:?}");
    let choice = choice.with_one_file()?;
    if let Choice::Given(kubeconfig) = &choice {
        nobody_uses_it(kubeconfig).await?;
    }
    let images = images(&root).await?;
    let previous = previous(&root);
    if !stay {
        let suites = SUITES.iter().flat_map(|(suite, _)| ["--test", suite]);
        let built = tests(&root, &["--no-run"]).args(suites).status().await.context("running cargo")?;
        ensure!(built.success(), "the tests were not built");
    }
    let started = Instant::now();
    let place = Place::start(choice).await?;
    for archive in ARCHIVES {
        let archive = images.join(format!("{archive}.tar"));
        place.load(&archive)?;
        let name = archive.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
        #[expect(
            clippy::cast_precision_loss,
            reason = "images are far smaller than what an f64 holds exactly"
        )]
        let size = std::fs::metadata(&archive)?.len() as f64 / 1e6;
        println!("BENCH e2e_image_{name} {size:.1} MB");
    }
    if let Some(folder) = &previous {
        place.load(&folder.join("operator-controller.tar"))?;
    }
    println!("BENCH e2e_cluster_start {:.1} s", started.elapsed().as_secs_f64());
    let tools = tokio::task::spawn_blocking(|| Tools::locate(&[Tool::Kubectl])).await??;
    let kubectl = tools.path(Tool::Kubectl);
    let folder = kubectl.parent().context("kubectl has no folder")?;
    let environment = environment(&place).await?;
    if stay {
        for (name, value) in &environment {
            println!("export {name}={value}");
        }
        println!("export PATH={}:$PATH", folder.display());
        std::future::pending::<()>().await;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(&path)))?;
    let mut failed = Vec::new();
    for (suite, part) in SUITES {
        let mut tests = tests(&root, &["--test", suite, "--", "--nocapture", "--test-threads=1"]);
        tests.env("OLM_TEST_LONG", "1").env("OLM_TEST_BUILT", "1").env("PATH", &path);
        // The rights used are those of the cluster, which is this process'.
        tests.envs(environment.clone()).env_remove(permissions_used::FOLDER);
        if let Some(folder) = &previous {
            tests.env(PREVIOUS, folder);
        }
        if let Some(part) = part {
            tests.env("OLM_E2E_ONLY", part);
        }
        let started = Instant::now();
        let status = tests.status().await.context("running cargo")?;
        println!(
            "make e2e: {suite} {} took {:.0} s",
            part.unwrap_or_default(),
            started.elapsed().as_secs_f64()
        );
        if !status.success() {
            failed.push(suite);
        }
    }
    ensure!(failed.is_empty(), "these suites failed: {}", failed.join(", "));
    Ok(())
}

/// What the suites have to know. Images that Pods of scenarios run are there when this returns.
async fn environment(place: &Place) -> Result<Vec<(&'static str, String)>> {
    let mut variables = place.environment();
    let of = |wanted: &str| {
        let given = variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone());
        given.map_or_else(|| std::env::var(wanted), Ok).with_context(|| format!("{wanted} is not set"))
    };
    let (push, pull) = (of(REGISTRY_PUSH)?, of(REGISTRY_PULL)?);
    let folder = tempfile::tempdir()?;
    Images::at(push)?.push(&node::pause(folder.path())?, "pause:1").await?;
    variables.push(("OLM_E2E_OPERATOR_IMAGE", format!("{pull}/pause:1")));
    variables.push(("OLM_E2E_MIRROR", MIRRORED.to_owned()));
    Ok(variables)
}

/// The chapters install and remove everything that `install.yaml` has, its kinds and with them all extensions.
async fn nobody_uses_it(kubeconfig: &Path) -> Result<()> {
    let extensions = Api::<ClusterExtension>::all(cluster::client(kubeconfig).await?);
    match extensions.list_metadata(&ListParams::default().limit(1)).await {
        Ok(list) if list.items.is_empty() => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Ok(_) => bail!(
            "the cluster of KUBECONFIG has ClusterExtensions, which these tests would remove with their kind; \
             give a cluster that nobody uses"
        ),
        Err(error) => Err(error).context("asking the cluster of KUBECONFIG for extensions"),
    }
}

/// `cargo test` of this package.
fn tests(root: &Path, more: &[&str]) -> tokio::process::Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--quiet", "--locked", "--package", "olm-test"]).args(more).current_dir(root);
    let mut cargo = tokio::process::Command::from(cargo);
    cargo.kill_on_drop(true);
    cargo
}

/// The folder with another commit's images: that of `OLM_E2E_PREVIOUS`, or what `make previous` made.
fn previous(root: &Path) -> Option<PathBuf> {
    let made = || Some(root.join("target/previous"));
    let folder = std::env::var_os(PREVIOUS).map(PathBuf::from).or_else(made)?;
    folder.join("operator-controller.tar").is_file().then_some(folder)
}

/// The folder with the archives: that of `OLM_E2E_IMAGES`, or what `make image` makes now.
async fn images(root: &Path) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("OLM_E2E_IMAGES") {
        return Ok(PathBuf::from(folder));
    }
    let mut make = tokio::process::Command::new("make");
    let programs = format!("PROGRAMS={}", ARCHIVES.join(" "));
    let status = make
        .args(["--no-print-directory", "image", &programs])
        .current_dir(root)
        .kill_on_drop(true)
        .status()
        .await
        .context("running make")?;
    ensure!(status.success(), "make image: {status}");
    Ok(root.join("target/images"))
}
