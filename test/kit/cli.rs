//! The command line program `olm`, run as a user would.

use std::process::{Output, Stdio};

use crate::prelude::*;

/// After which a command that has not ended is taken for one that never ends.
pub const DEADLINE: Duration = Duration::from_mins(5);

/// What `olm` answered.
pub struct Answer {
    /// The exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub text: String,
    /// Standard error.
    pub errors: String,
}

impl Answer {
    /// The output as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("{}\n{}", self.text, self.errors))
    }

    /// Fails unless the exit code is this one and the output has all of these parts.
    pub fn ensure(&self, code: i32, contains: &[&str]) -> Result<()> {
        let Self { text, errors, .. } = self;
        ensure!(self.code == Some(code), "exit code {:?}, not {code}\n{text}\n{errors}", self.code);
        for wanted in contains {
            ensure!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
        Ok(())
    }
}

/// Runs `olm` on the cluster of a kubeconfig.
pub async fn olm(kubeconfig: &Path, args: &[&str]) -> Result<Answer> {
    let mut command = Command::new(cargo_program("olm-cli", "olm")?);
    command.args(args).arg("--kubeconfig").arg(kubeconfig);
    let output = ended(command).await?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("olm writes UTF-8");
    Ok(Answer { code: output.status.code(), text: text(output.stdout)?, errors: text(output.stderr)? })
}

/// Runs a command without a terminal to its end; what has not ended at the deadline is killed.
pub async fn ended(command: Command) -> Result<Output> {
    let named = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let waited = tokio::time::timeout(DEADLINE, running).await;
    let output = waited.with_context(|| format!("{named} runs on after {} s", DEADLINE.as_secs()))?;
    output.with_context(|| format!("running {named}"))
}
