//! `olm` on a cluster, as an administrator types it: with a terminal, and without one as scripts run it.

mod changing;
mod installing;
mod mirroring;
mod recorded;
mod running;
mod saving;
mod terminal;
mod watching;

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use olm_test::{cli::ended, process::cargo_program, scenario::Scenario};
use tokio::sync::Mutex;

pub(crate) use self::terminal::Terminal;

/// What `olm` answered.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    pub(crate) errors: String,
}

impl Answer {
    /// Checks the exit code and parts of standard output.
    pub(crate) fn ensure(&self, code: i32, contains: &[&str]) -> Result<()> {
        let Self { text, errors, .. } = self;
        ensure!(self.code == Some(code), "exit code {:?}, not {code}\n{text}\n{errors}", self.code);
        for wanted in contains {
            ensure!(text.contains(wanted), "{wanted:?} is not in\n{text}\n{errors}");
        }
        Ok(())
    }

    /// Checks the exit code and parts of standard error.
    pub(crate) fn ensure_error(&self, code: i32, contains: &[&str]) -> Result<()> {
        self.ensure(code, &[])?;
        for wanted in contains {
            ensure!(self.errors.contains(wanted), "{wanted:?} is not in\n{}", self.errors);
        }
        Ok(())
    }
}

/// Held by tests that install the sample: its ClusterRoles can be there once only.
pub(crate) static SAMPLE: Mutex<()> = Mutex::const_new(());

/// Commands that pull bundles.
const PULLING: [&str; 7] = ["diff", "upgrade", "rollback", "install", "explain", "outdated", "run"];

/// The command line of `olm` on the scenario's cluster.
pub(crate) fn command_line(scenario: &Scenario<'_>, args: &[&str]) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(args).arg("--kubeconfig").arg(scenario.world.cluster.kubeconfig_admin());
    if args.first().is_some_and(|first| PULLING.contains(first)) {
        command.arg("--registries-conf").arg(scenario.world.images.registries_conf());
    }
    Ok(command)
}

fn program() -> Result<PathBuf> {
    cargo_program("olm-cli", "olm")
}

/// Runs `olm` without a terminal, as the administrator.
pub(crate) async fn olm(scenario: &Scenario<'_>, args: &[&str]) -> Result<Answer> {
    let output = ended(command_line(scenario, args)?).await?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("olm writes UTF-8");
    let answer =
        Answer { code: output.status.code(), text: text(output.stdout)?, errors: text(output.stderr)? };
    println!("$ olm {}\n{}{}", args.join(" "), answer.text, answer.errors);
    Ok(answer)
}
