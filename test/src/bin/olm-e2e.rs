//! `make e2e`: the images built, a cluster with real nodes started, and tests run on it.
//!
//! Where no such cluster can be had it says why in one sentence and ends with success: `.ci/run` calls it
//! everywhere. With `--stay` no tests are run: it prints what to export and stays until Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use olm_test::controlplane::{Tool, Tools};
use olm_test::e2e::{Choice, MIRRORED, Place, REGISTRY_PULL, REGISTRY_PUSH};
use olm_test::images::Images;
use olm_test::{node, sample_operator};

/// The tests, in their order. Each is run on what the one before left.
const SUITES: [&str; 1] = ["e2e"];
/// Archives of images that nodes get.
const ARCHIVES: [&str; 3] = ["operator-controller", "catalogd", sample_operator::PROGRAM];

#[tokio::main]
async fn main() -> ExitCode {
    let stay = std::env::args().any(|argument| argument == "--stay");
    let choice = match Choice::make() {
        Ok(choice) => choice,
        Err(reason) => {
            println!("make e2e: left out, no cluster with real nodes can be had here: {reason}.");
            println!("Set KUBECONFIG, or start docker or podman with kind installed, or be root on Debian.");
            return ExitCode::SUCCESS;
        }
    };
    match run(choice, stay).await {
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
    let images = images(&root)?;
    if !stay {
        tests(&root, &["--no-run"]).status().context("running cargo")?;
    }
    let started = Instant::now();
    let place = Place::start(choice).await?;
    for archive in ARCHIVES {
        place.load(&images.join(format!("{archive}.tar")))?;
    }
    println!("BENCH e2e_cluster_start {:.1} s", started.elapsed().as_secs_f64());
    let tools = tokio::task::spawn_blocking(Tools::locate).await??;
    let kubectl = tools.path(Tool::Kubectl);
    let folder = kubectl.parent().context("kubectl has no folder")?;
    let environment = environment(&place).await?;
    if stay {
        for (name, value) in &environment {
            println!("export {name}={value}");
        }
        println!("export PATH={}:$PATH", folder.display());
        tokio::signal::ctrl_c().await?;
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(&path)))?;
    let mut tests = tests(&root, &["--", "--nocapture", "--test-threads=1"]);
    tests.env("OLM_TEST_LONG", "1").env("PATH", path).envs(environment);
    let status = tests.status().context("running cargo")?;
    ensure!(status.success(), "the tests ended with {status}");
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

/// `cargo test` of the suites.
fn tests(root: &Path, more: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--quiet", "--locked", "--package", "olm-test"]);
    cargo.args(SUITES.iter().flat_map(|suite| ["--test", suite]));
    cargo.args(more).current_dir(root);
    cargo
}

/// The folder with the archives: that of `OLM_E2E_IMAGES`, or what `make image` makes now.
fn images(root: &Path) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("OLM_E2E_IMAGES") {
        return Ok(PathBuf::from(folder));
    }
    let mut make = Command::new("make");
    let programs = format!("PROGRAMS={}", ARCHIVES.join(" "));
    let status = make
        .args(["--no-print-directory", "image", &programs])
        .current_dir(root)
        .status()
        .context("running make")?;
    ensure!(status.success(), "make image: {status}");
    Ok(root.join("target/images"))
}
