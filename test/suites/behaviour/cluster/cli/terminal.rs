//! `olm` on a pseudo terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::Child,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use olm_test::{cli::DEADLINE, scenario::Scenario};
use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use super::command_line;

/// Between two looks at a process that has closed its terminal.
const PAUSE: Duration = Duration::from_millis(20);

/// A command whose three streams are one terminal. It is killed when this is dropped.
pub(crate) struct Terminal {
    ours: File,
    child: Child,
    chunks: Receiver<Vec<u8>>,
    /// Everything that was shown.
    shown: Vec<u8>,
}

impl Terminal {
    /// Starts `olm` on a terminal of its own.
    pub(crate) fn run(scenario: &Scenario<'_>, args: &[&str]) -> Result<Self> {
        // Programs that other tests start at the same time must not inherit the terminal: it would stay open with them.
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs: OwnedFd = rustix::fs::open(name, flags, Mode::empty())?;
        let mut command = command_line(scenario, args)?;
        // What the tests themselves were started with says nothing about this terminal.
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
        let child = command.spawn().context("running olm")?;
        let ours = File::from(ours);
        let mut reader = ours.try_clone()?;
        let (sender, chunks) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // The other end is gone with the process, which reading reports as an error.
            while let Ok(length @ 1..) = reader.read(&mut chunk) {
                if sender.send(chunk[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { ours, child, chunks, shown: Vec::new() })
    }

    /// Reads until a text is shown, or the end. Runs on a thread where blocking is allowed.
    pub(crate) fn until(&mut self, wanted: &str) -> Result<()> {
        self.read_while(|shown| !shown.contains(wanted))
            .with_context(|| format!("waiting for {wanted:?}"))?;
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
        self.read_while(|_| true).context("waiting for the end")?;
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status.code(), self.text()));
            }
            ensure!(since.elapsed() < DEADLINE, "it closed its terminal and runs on\n{}", self.text());
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends a command that does not end by itself; all that was shown.
    pub(crate) fn kill(mut self) -> Result<String> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(self.text())
    }

    /// Reads while there is something to read and the text is as described.
    fn read_while(&mut self, goes_on: impl Fn(&str) -> bool) -> Result<()> {
        let since = Instant::now();
        while goes_on(&self.text()) {
            match self.chunks.recv_timeout(DEADLINE.saturating_sub(since.elapsed())) {
                Ok(chunk) => self.shown.extend_from_slice(&chunk),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("nothing came in {} s after\n{}", DEADLINE.as_secs(), self.text())
                }
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
