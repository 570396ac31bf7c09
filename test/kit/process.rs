//! Programs under the supervisor: start, watch, kill, restart, read the log.
//!
//! A [`Process`] that is dropped is killed. Nothing here belongs to an async runtime, so that one process
//! can serve the tests of several runtimes.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::Final;
use crate::{
    prelude::*,
    supervisor::{Program, State, Supervisor},
};

/// Lines of a log that a failure text shows.
const LOG_TAIL_LINES: usize = 20;

/// A program that runs, or ran.
pub struct Process {
    name: String,
    program: Program,
    current: Mutex<(u64, u32)>,
}

impl Process {
    /// Starts a program. `name` is what failures call it.
    pub fn start(name: &str, program: Program) -> Result<Self> {
        let current = Supervisor::shared()?.spawn(program.clone())?;
        Ok(Self { name: name.to_owned(), program, current: Mutex::new(current) })
    }

    /// What failures call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.current().1
    }

    /// Whether it runs, and how it ended if not.
    pub fn state(&self) -> Result<State> {
        Supervisor::shared()?.state(self.current().0)
    }

    /// An error, with the end of the log, if the program does not run any more; it ends a wait at once.
    pub fn check_running(&self) -> Result<()> {
        match self.state()? {
            State::Running => Ok(()),
            ended => Err(Final(format!("{} ended: {ended:?}\n{}", self.name, self.log_tail())).into()),
        }
    }

    /// Ends it with SIGKILL and waits until it is gone.
    pub fn kill(&self) -> Result<State> {
        Supervisor::shared()?.kill(self.current().0)
    }

    /// Asks it to end, with SIGTERM, and waits until it did.
    pub async fn terminate(&self, deadline: Duration) -> Result<State> {
        Supervisor::shared()?.terminate(self.current().0)?;
        wait::until(&format!("the end of {}", self.name), deadline, || async {
            match self.state()? {
                State::Running => bail!("it runs\n{}", self.log_tail()),
                ended => Ok(ended),
            }
        })
        .await
    }

    /// Starts it again, killing it first if it runs. The log goes on.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        let started = Supervisor::shared()?.spawn(self.program.clone())?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = started;
        Ok(())
    }

    /// Stops it where it is, with SIGSTOP, until [`Process::resume`].
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} has no process ID", self.name))?;
        kill_process(pid, signal).with_context(|| format!("{signal:?} for {}", self.name))
    }

    /// Everything it wrote so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.program.log)
            .map_or_else(|error| format!("no log: {error}"), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// The end of what it wrote, for failure texts.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        format!(
            "--- end of {} ---\n{}",
            self.program.log.display(),
            lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
        )
    }

    fn current(&self) -> (u64, u32) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(supervisor) = Supervisor::shared() {
            // An error means that it is gone already.
            let _ = supervisor.kill(self.current().0);
        }
    }
}

/// A directory that is removed when it is dropped, or when the test process is gone.
pub struct StateDirectory(tempfile::TempDir);

impl StateDirectory {
    /// A new directory whose name begins with `olm-test-` and `name`.
    pub fn new(name: &str) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix(&format!("olm-test-{name}-")).tempdir()?;
        Supervisor::shared()?.remove_at_end(directory.path())?;
        Ok(Self(directory))
    }

    /// A new directory that stays until the test process is gone.
    pub fn kept(name: &str) -> Result<PathBuf> {
        Ok(Self::new(name)?.0.keep())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Loopback ports that nobody listens on, all different. Another process may take one before its user
/// binds it; whoever starts a program on one tries again with others then.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // Held together, so that no two are the same.
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// The folder cargo builds programs into, for the profile these tests were built with.
pub fn target_folder() -> Result<PathBuf> {
    let test = std::env::current_exe().context("where this test is")?;
    let folder = test.parent().context("this test has no folder")?;
    // Tests are in `deps` or `examples`, programs one above.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(folder.to_owned())
}

/// The path of a program of this workspace, built now if it is not up to date (cargo builds only the
/// programs of the package under test by itself). With `OLM_TEST_BUILT` set it was built before, as
/// `make test` does for all at once.
pub fn cargo_program(package: &str, name: &str) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return Ok(path.clone());
    }
    let folder = target_folder()?;
    let path = folder.join(name);
    if std::env::var_os("OLM_TEST_BUILT").is_some() && path.is_file() {
        return Ok(path);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Together with this package, so that dependencies have the features they have here.
    cargo.args(["build", "--quiet", "--package", package, "--package", "olm-test", "--bin", name]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let profile = folder.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
    if profile != "debug" {
        cargo.args(["--profile", profile]);
    }
    // The tests' own target folder, wherever it is.
    cargo.arg("--target-dir").arg(folder.parent().unwrap_or(&folder));
    let status = cargo.status().context("running cargo")?;
    if !status.success() {
        bail!("cargo could not build {name}: {status}");
    }
    built.insert(name.to_owned(), path.clone());
    Ok(path)
}
