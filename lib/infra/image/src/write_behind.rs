//! Writing behind: a thread of its own writes what was handed over, while more is made.

use std::{
    io::{self, Write},
    mem,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

/// Writes pieces to `W` in their order. The thread begins with the first of them, so that what is written at once at the
/// end needs none, and ends with this value.
pub struct WriteBehind<W>(State<W>);

enum State<W> {
    Idle(W),
    Writing(Writing<W>),
    Failed,
}

struct Writing<W> {
    pieces: SyncSender<Vec<u8>>,
    /// Their buffers, to be filled again.
    written: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<W>>,
}

impl<W: Write + Send + 'static> WriteBehind<W> {
    /// Nothing is written yet.
    pub fn new(to: W) -> Self {
        Self(State::Idle(to))
    }

    /// Hands the buffer's bytes over and leaves it empty, once those before are written.
    ///
    /// # Errors
    /// This or an earlier piece could not be written.
    pub fn write(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let writing = match mem::replace(&mut self.0, State::Failed) {
            State::Idle(to) => Writing::start(to)?,
            State::Writing(writing) => writing,
            State::Failed => return Err(failed_before()),
        };
        if writing.pieces.send(mem::take(buffer)).is_err() {
            // The thread has ended by itself, because it could not write.
            return writing.end().and(Err(failed_before()));
        }
        *buffer = writing.written.try_recv().unwrap_or_default();
        self.0 = State::Writing(writing);
        Ok(())
    }

    /// Writes the rest; what everything was written to.
    ///
    /// # Errors
    /// This or an earlier piece could not be written.
    pub fn finish(self, rest: &[u8]) -> io::Result<W> {
        let mut to = match self.0 {
            State::Idle(to) => to,
            State::Writing(writing) => writing.end()?,
            State::Failed => return Err(failed_before()),
        };
        to.write_all(rest)?;
        Ok(to)
    }
}

impl<W: Write + Send + 'static> Writing<W> {
    fn start(mut to: W) -> io::Result<Self> {
        // No piece waits beside the one that is written: there are two buffers.
        let (pieces, received) = sync_channel::<Vec<u8>>(0);
        let (emptied, written) = sync_channel(1);
        let write = move || {
            for mut piece in received {
                to.write_all(&piece)?;
                piece.clear();
                // A buffer that is not wanted back is freed.
                drop(emptied.try_send(piece));
            }
            Ok(to)
        };
        let thread = thread::Builder::new().name("write-behind".to_owned()).spawn(write)?;
        Ok(Self { pieces, written, thread })
    }

    fn end(self) -> io::Result<W> {
        drop(self.pieces);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes has panicked")))
    }
}

fn failed_before() -> io::Error {
    io::Error::other("writing has failed before")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes in as many bytes as it has room for.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_are_written_in_their_order() {
        for pieces in [0_usize, 1, 2, 100] {
            let mut behind = WriteBehind::new(Vec::new());
            let mut buffer = Vec::new();
            let mut wanted = Vec::new();
            for piece in 0..pieces {
                let bytes = format!("{piece},");
                buffer.extend_from_slice(bytes.as_bytes());
                wanted.extend_from_slice(bytes.as_bytes());
                behind.write(&mut buffer).unwrap();
                assert!(buffer.is_empty());
            }
            wanted.extend_from_slice(b"rest");
            assert_eq!(behind.finish(b"rest").unwrap(), wanted);
        }
    }

    #[test]
    fn a_failure_is_reported_with_its_cause_and_nothing_is_written_after_it() {
        let mut behind = WriteBehind::new(Full(10));
        let failed = (0..100).find_map(|_| behind.write(&mut b"four".to_vec()).err()).unwrap();
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        behind.write(&mut b"four".to_vec()).unwrap_err();
        behind.finish(b"").err().unwrap();
        // One that no later piece could report.
        for pieces in [1, 2] {
            let mut behind = WriteBehind::new(Full(3));
            let reported = (0..pieces).find_map(|_| behind.write(&mut b"four".to_vec()).err());
            let reported = reported.or_else(|| behind.finish(b"").err());
            assert_eq!(reported.unwrap().kind(), io::ErrorKind::StorageFull);
        }
    }
}
