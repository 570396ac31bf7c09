//! The question before a command changes a cluster.

use std::io::{IsTerminal as _, Write as _};

use anyhow::bail;
use clap::Args;
use olm_text::one_line;

/// How the question is answered.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Consent {
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Show what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

impl Consent {
    /// Fails early where no user could answer, before anything long is done.
    pub(crate) fn check(self) -> anyhow::Result<()> {
        if self.yes || self.dry_run || is_terminal() {
            return Ok(());
        }
        bail!(
            "this command asks before it changes the cluster, and there is no terminal to ask on: pass --yes to go ahead, or --dry-run to see what it would do"
        )
    }

    /// Whether the command is to go on.
    ///
    /// # Errors
    /// The answer was no, or there is no user to ask.
    pub(crate) fn ask(self, question: &str) -> anyhow::Result<bool> {
        if self.yes || self.dry_run {
            return Ok(self.yes);
        }
        self.check()?;
        let mut asked = std::io::stderr();
        write!(asked, "{} [y/N] ", one_line(question))?;
        asked.flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(true);
        }
        bail!("the answer was not \"y\": nothing was changed")
    }
}

/// Whether a question can be read and answered.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
