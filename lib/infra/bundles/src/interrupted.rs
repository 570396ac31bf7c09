//! Notes of what is being read, for the process that comes after one that was killed meanwhile.
//!
//! A bundle that makes the kernel kill the controller would do so again at once, and no extension would ever be
//! reconciled. A note is written before a bundle is read and removed when it is rendered; it holds
//! how often the process ended in between. What is noted when a process starts waits, longer each time, and is then
//! read while no other bundle is in memory: the innocent among them come through, and the next note names the others.
//! An orderly end is no accident: [`Interruptions::stop`] takes the notes back.

use std::{collections::BTreeMap, fs, io, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;

/// How long after the start what was interrupted once waits; doubled with each time.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_mins(30);
/// Doublings that lead to it.
const DOUBLINGS_MAX: u32 = 6;
/// Most notes that are taken over: bundles in memory at the same time are fewer.
const NOTES_MAX: usize = 1_000;

/// The bundle has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the controller crashed while it read this bundle, possibly because of it: the bundle is tried again after the others"
)]
pub struct Interrupted;

/// The notes. Clones are the same.
#[derive(Clone)]
pub(crate) struct Interruptions(Arc<Inner>);

struct Inner {
    /// Nothing is noted without one.
    folder: Option<PathBuf>,
    started: Instant,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// How often each was interrupted before this process.
    interrupted: BTreeMap<String, u32>,
    /// How many passes have each in memory.
    readers: BTreeMap<String, usize>,
    stopped: bool,
}

/// A bundle that is in memory, until this is dropped.
pub struct Reading {
    interruptions: Interruptions,
    key: String,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reading").field(&self.key).finish()
    }
}

impl Default for Interruptions {
    fn default() -> Self {
        Self(Arc::new(Inner { folder: None, started: Instant::now(), notes: Mutex::default() }))
    }
}

impl Interruptions {
    /// Notes in `folder`, and takes over what is noted there.
    pub(crate) fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let mut notes = Notes::default();
        for entry in fs::read_dir(&folder)?.take(NOTES_MAX) {
            let entry = entry?;
            // A note that was not written whole is one all the same.
            let times = fs::read_to_string(entry.path()).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
            if let Ok(key) = entry.file_name().into_string() {
                tracing::warn!(
                    bundle = key,
                    times,
                    "bundle was being read when the process ended unexpectedly"
                );
                notes.interrupted.insert(key, times);
            }
        }
        let (folder, notes) = (Some(folder), Mutex::new(notes));
        Ok(Self(Arc::new(Inner { folder, started: Instant::now(), notes })))
    }

    /// Whether a bundle was interrupted before, so that it is to be read alone.
    ///
    /// # Errors
    /// It was, and has to wait.
    pub(crate) fn check(&self, key: &str) -> Result<bool, Interrupted> {
        let Some(times) = self.0.notes.lock().interrupted.get(key).copied() else { return Ok(false) };
        let doublings = times.saturating_sub(1).min(DOUBLINGS_MAX);
        let wait = (FIRST_WAIT * 2_u32.pow(doublings)).min(LONGEST_WAIT);
        if self.0.started.elapsed() < wait { Err(Interrupted) } else { Ok(true) }
    }

    /// Notes that a bundle is in memory from now on.
    pub(crate) fn begin(&self, key: &str) -> Reading {
        let mut notes = self.0.notes.lock();
        let readers = notes.readers.entry(key.to_owned()).or_default();
        *readers += 1;
        if *readers == 1 && !notes.stopped {
            let before = notes.interrupted.get(key).copied().unwrap_or_default();
            self.write(key, before.saturating_add(1));
        }
        Reading { interruptions: self.clone(), key: key.to_owned() }
    }

    /// Takes back what is noted now, and notes nothing more.
    pub(crate) fn stop(&self) {
        let mut notes = self.0.notes.lock();
        notes.stopped = true;
        for key in notes.readers.keys() {
            self.write(key, notes.interrupted.get(key).copied().unwrap_or_default());
        }
    }

    fn end(&self, key: &str) {
        let mut notes = self.0.notes.lock();
        let Some(readers) = notes.readers.get_mut(key) else { return };
        *readers -= 1;
        if *readers > 0 {
            return;
        }
        notes.readers.remove(key);
        if !notes.stopped {
            notes.interrupted.remove(key);
            self.write(key, 0);
        }
    }

    /// Writes how often a bundle was interrupted; no note for never.
    fn write(&self, key: &str, times: u32) {
        let Some(folder) = &self.0.folder else { return };
        let path = folder.join(key);
        let written = if times == 0 { fs::remove_file(&path) } else { fs::write(&path, times.to_string()) };
        match written {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, bundle = key, "noting that a bundle is being read");
            }
            _ => {}
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.interruptions.end(&self.key);
    }
}

#[cfg(test)]
mod tests;
