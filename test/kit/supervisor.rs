//! The supervisor: a process that starts programs for the test process and ends them when it is gone.
//!
//! The test process holds the supervisor's standard input; whatever ends it, SIGKILL included, closes that
//! pipe, and the supervisor then kills what it started and removes the directories it was told of. Each
//! program dies with the supervisor as well (parent death signal), so that no kill leaves anything behind.
//! Requests and replies are one line of JSON each, one at a time.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::prelude::*;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getppid, kill_process, set_parent_process_death_signal, wait,
};
use serde::{Deserialize, Serialize};

/// The supervisor's file name, beside the programs cargo builds.
pub const PROGRAM: &str = "olm-test-supervisor";
/// The first argument that makes the supervisor's program become another program.
const BECOME: &str = "become";
/// The first argument that makes it hold namespaces: the first process of a pid namespace, which takes in those
/// that lost their parent and waits for their end.
pub(crate) const HOLD: &str = "hold";
/// For directories in which programs that were killed still write.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(10);
/// While there is nobody to wait for.
const HOLD_PAUSE: Duration = Duration::from_millis(200);

/// A program to run.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Program {
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the environment.
    pub env: BTreeMap<String, String>,
    /// Variables taken from the environment.
    pub env_remove: Vec<String>,
    /// Where its output goes, standard output and error alike, after what is there already.
    pub log: PathBuf,
}

/// What the test process asks for.
#[derive(Serialize, Deserialize, Debug)]
enum Request {
    Start(Program),
    Terminate(u64),
    Kill(u64),
    State(u64),
    RemoveAtEnd(PathBuf),
}

/// What the supervisor answers.
#[derive(Serialize, Deserialize, Debug)]
enum Reply {
    Started { id: u64, pid: u32 },
    State(State),
    Done,
    Failed(String),
}

/// Whether a program runs.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It ended with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
}

/// The test process' end.
pub struct Supervisor {
    // Held until the end of the process: closing it is what ends the programs.
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Supervisor {
    /// The one supervisor of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Supervisor, String>> = OnceLock::new();
        match SHARED.get_or_init(|| Self::start().map_err(|error| format!("{error:#}"))) {
            Ok(supervisor) => Ok(supervisor),
            Err(error) => bail!("{error}"),
        }
    }

    fn start() -> Result<Self> {
        let program = crate::process::target_folder()?.join(PROGRAM);
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C at the terminal ends the tests; the supervisor then does its work.
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!("starting {}; cargo builds it with olm-test's tests", program.display())
            })?;
        let stdin = child.stdin.take().context("the supervisor has no standard input")?;
        let stdout = child.stdout.take().context("the supervisor has no standard output")?;
        crate::watchdog::start();
        Ok(Self { pipes: Mutex::new((stdin, BufReader::new(stdout))) })
    }

    /// Starts a program and returns its number here and its process ID.
    pub fn spawn(&self, program: Program) -> Result<(u64, u32)> {
        let name = program.program.display().to_string();
        match self.ask(&Request::Start(program)).with_context(|| format!("starting {name}"))? {
            Reply::Started { id, pid } => Ok((id, pid)),
            other => bail!("starting {name}: unexpected answer {other:?}"),
        }
    }

    /// Whether a program runs.
    pub fn state(&self, id: u64) -> Result<State> {
        self.state_after(&Request::State(id))
    }

    /// Ends a program with SIGKILL and waits until it is gone.
    pub fn kill(&self, id: u64) -> Result<State> {
        self.state_after(&Request::Kill(id))
    }

    /// Asks a program to end, with SIGTERM.
    pub fn terminate(&self, id: u64) -> Result<State> {
        self.state_after(&Request::Terminate(id))
    }

    /// Removes a directory and all in it when the test process is gone.
    pub fn remove_at_end(&self, directory: &Path) -> Result<()> {
        match self.ask(&Request::RemoveAtEnd(directory.to_owned()))? {
            Reply::Done => Ok(()),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    fn state_after(&self, request: &Request) -> Result<State> {
        match self.ask(request)? {
            Reply::State(state) => Ok(state),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    fn ask(&self, request: &Request) -> Result<Reply> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (stdin, stdout) = &mut *pipes;
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        stdin.write_all(line.as_bytes()).context("asking the supervisor")?;
        let mut answer = String::new();
        stdout.read_line(&mut answer).context("reading the supervisor's answer")?;
        match serde_json::from_str(&answer).context("the supervisor is gone")? {
            Reply::Failed(message) => bail!(message),
            reply => Ok(reply),
        }
    }
}

/// The supervisor's program. With no arguments it serves requests; with `become <parent> <program> …` it
/// turns into that program, bound to its parent's life; with `hold` it keeps the namespaces it is in.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let mut args = args.into_iter().skip(1);
    match args.next() {
        Some(first) if first == BECOME => Err(become_program(args)),
        Some(first) if first == HOLD => hold(),
        Some(other) => bail!("unknown argument {}", other.display()),
        None => serve(),
    }
}

/// Returns only on failure.
fn become_program(mut args: impl Iterator<Item = OsString>) -> anyhow::Error {
    let bind = || -> Result<Command> {
        let parent = args.next().and_then(|pid| pid.to_str()?.parse::<i32>().ok());
        set_parent_process_death_signal(Some(Signal::KILL)).context("binding to the supervisor's life")?;
        // The supervisor may have died before the line above; then nobody would ever end this.
        if getppid().map(Pid::as_raw_pid) != parent {
            bail!("the supervisor is gone");
        }
        let mut command = Command::new(args.next().context("no program")?);
        command.args(args);
        Ok(command)
    };
    match bind() {
        Ok(mut command) => {
            let error = command.exec();
            anyhow::Error::new(error).context(format!("executing {}", command.get_program().display()))
        }
        Err(error) => error,
    }
}

/// Returns only on failure.
fn hold() -> Result<()> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Others enter the namespaces from outside: children appear when those lose their parent.
            Err(Errno::CHILD) => std::thread::sleep(HOLD_PAUSE),
            Err(error) => return Err(error).context("waiting for orphans"),
        }
    }
}

fn serve() -> Result<()> {
    let mut children = Children::default();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let reply = line
            .map_err(anyhow::Error::new)
            .and_then(|line| Ok(serde_json::from_str(&line)?))
            .and_then(|request| children.answer(request))
            .unwrap_or_else(|error| Reply::Failed(format!("{error:#}")));
        let mut line = serde_json::to_string(&reply)?;
        line.push('\n');
        // The test process is gone when nobody reads; its programs go with it.
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    children.end();
    Ok(())
}

/// Everything the supervisor answers for. Spawned by the main thread only: a parent death signal follows
/// the thread that spawned.
#[derive(Default)]
struct Children {
    children: BTreeMap<u64, Child>,
    directories: Vec<PathBuf>,
}

impl Children {
    fn answer(&mut self, request: Request) -> Result<Reply> {
        Ok(match request {
            Request::Start(program) => self.start(&program)?,
            Request::State(id) => Reply::State(state(self.child(id)?)?),
            Request::Kill(id) => {
                let child = self.child(id)?;
                child.kill()?;
                child.wait()?;
                Reply::State(state(child)?)
            }
            Request::Terminate(id) => {
                let child = self.child(id)?;
                // Asked first: a process ID that was waited for may belong to somebody else by now.
                if state(child)? == State::Running {
                    kill_process(Pid::from_child(child), Signal::TERM)?;
                }
                Reply::State(state(child)?)
            }
            Request::RemoveAtEnd(directory) => {
                self.directories.push(directory);
                Reply::Done
            }
        })
    }

    fn child(&mut self, id: u64) -> Result<&mut Child> {
        self.children.get_mut(&id).with_context(|| format!("there is no program {id}"))
    }

    fn start(&mut self, program: &Program) -> Result<Reply> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&program.log)
            .with_context(|| format!("opening {}", program.log.display()))?;
        // This program, also when its file has been built anew meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(BECOME)
            .arg(std::process::id().to_string())
            .arg(&program.program)
            .args(&program.args)
            .envs(&program.env)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        for name in &program.env_remove {
            command.env_remove(name);
        }
        let child = command.spawn()?;
        let (id, pid) = (self.children.len() as u64, child.id());
        self.children.insert(id, child);
        Ok(Reply::Started { id, pid })
    }

    fn end(&mut self) {
        // All are signalled before any is waited for; nothing useful can be done about an error here.
        for child in self.children.values_mut().rev() {
            let _ = child.kill();
        }
        for child in self.children.values_mut() {
            let _ = child.wait();
        }
        for directory in &self.directories {
            crate::permissions_used::keep(directory);
            remove(directory);
        }
    }
}

/// Removes a directory and all in it, as well as that can be done. Programs that were killed with the namespaces they
/// were in may still be about to end.
pub(crate) fn remove(directory: &Path) {
    let start = Instant::now();
    while directory.exists() && start.elapsed() < REMOVAL_DEADLINE {
        if directory.join("cgroup.procs").exists() {
            remove_cgroup(directory);
        } else {
            let _ = std::fs::remove_dir_all(directory);
        }
        if directory.exists() {
            std::thread::sleep(HOLD_PAUSE);
        }
    }
}

/// A cgroup's files are the kernel's: its folder goes when no other is in it.
fn remove_cgroup(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(directory);
}

fn state(child: &mut Child) -> Result<State> {
    Ok(match child.try_wait()? {
        None => State::Running,
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => State::Exited(code),
            (None, signal) => State::Killed(signal.unwrap_or_default()),
        },
    })
}
