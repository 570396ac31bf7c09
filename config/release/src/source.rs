//! The commit that a release is made from.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::programs::output;

/// A commit of a repository.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Address of the repository.
    pub(crate) repository: String,
    /// Hash of the commit.
    pub(crate) commit: String,
    /// Seconds since 1970 at which it was made.
    pub(crate) time: u64,
    /// Whether the checkout is exactly the commit.
    pub(crate) is_clean: bool,
}

impl Source {
    /// Reads the commit that is checked out at `root`.
    ///
    /// # Errors
    /// It is no git checkout.
    pub(crate) fn of_checkout(root: &Path, repository: String) -> anyhow::Result<Self> {
        let git = |args: &[&str]| output(Command::new("git").current_dir(root).args(args));
        let time = git(&["log", "-1", "--format=%ct"])?.trim().parse().context("the commit's time")?;
        let commit = git(&["rev-parse", "HEAD"])?.trim().to_owned();
        let is_clean = git(&["status", "--porcelain"])?.trim().is_empty();
        Ok(Self { repository, commit, time, is_clean })
    }
}
