//! `olm` on a pseudo terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::Child,
};

use anyhow::{Context as _, Result, ensure};
use olm_test::scenario::Scenario;
use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use super::command_line;

/// A command whose three streams are one terminal.
pub(crate) struct Terminal {
    ours: File,
    child: Child,
    /// Everything that was shown.
    shown: Vec<u8>,
}

impl Terminal {
    /// Starts `olm` on a terminal of its own.
    pub(crate) fn run(scenario: &Scenario<'_>, args: &[&str]) -> Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let theirs: OwnedFd = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        let mut command = command_line(scenario, args)?;
        command.env("TERM", "xterm").stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
        let child = command.spawn().context("running olm")?;
        Ok(Self { ours: File::from(ours), child, shown: Vec::new() })
    }

    /// Reads until a text is shown, or the end. Runs on a thread where blocking is allowed.
    pub(crate) fn until(&mut self, wanted: &str) -> Result<()> {
        let mut chunk = [0; 4096];
        while !self.text().contains(wanted) {
            // The other end is gone with the process, which reading reports as an error.
            let Ok(length @ 1..) = self.ours.read(&mut chunk) else { break };
            self.shown.extend_from_slice(&chunk[..length]);
        }
        let text = self.text();
        ensure!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        Ok(())
    }

    /// Types a line.
    pub(crate) fn answer(&mut self, line: &str) -> Result<()> {
        Ok(self.ours.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Reads to the end; the exit code and all that was shown.
    pub(crate) fn end(mut self) -> Result<(Option<i32>, String)> {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = self.ours.read(&mut chunk) {
            self.shown.extend_from_slice(&chunk[..length]);
        }
        let code = self.child.wait()?.code();
        Ok((code, self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }
}
