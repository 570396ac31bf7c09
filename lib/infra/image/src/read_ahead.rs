//! Reading ahead: a thread of its own reads, while what it has read before is used.

use std::{
    io, mem,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::blob::BlobError;

/// Bytes read at once. One buffer is used, one waits, and one is filled. With smaller ones the threads wait for each other:
/// to wake one takes some 50 us, where a catalog is ingested at 2 us a kilobyte.
const BUFFER_BYTES: usize = 512 << 10;

/// The bytes of a source that is read in a thread. The thread ends with the source, or after this value.
pub(crate) struct ReadAhead {
    parts: Receiver<Part>,
    /// Buffers to be filled again.
    used: SyncSender<Vec<u8>>,
    current: Part,
    position: usize,
}

#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    /// How the source ended after these bytes.
    end: Option<Result<(), BlobError>>,
}

impl ReadAhead {
    /// Reads by `read`, which returns how much of its buffer it filled: nothing at the end.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn new(
        mut read: impl FnMut(&mut [u8]) -> Result<usize, BlobError> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, parts) = sync_channel(1);
        let (used, returned) = sync_channel::<Vec<u8>>(1);
        let ahead = move || {
            loop {
                let part = Part::filled(returned.try_recv().unwrap_or_default(), &mut read);
                let is_last = part.end.is_some();
                if sender.send(part).is_err() || is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("read-ahead".to_owned()).spawn(ahead)?;
        Ok(Self { parts, used, current: Part::default(), position: 0 })
    }

    /// Reads what comes next; nothing at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, BlobError> {
        while self.position == self.current.bytes.len() {
            if let Some(end) = self.current.end.replace(Ok(())) {
                return end.map(|()| 0);
            }
            let panicked = |_| BlobError::Spool(io::Error::other("the thread that reads ahead has panicked"));
            // One that is not wanted back is freed.
            drop(self.used.try_send(mem::take(&mut self.current.bytes)));
            self.position = 0;
            self.current = self.parts.recv().map_err(panicked)?;
        }
        let rest = &self.current.bytes[self.position..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

impl Part {
    fn filled(mut bytes: Vec<u8>, read: &mut impl FnMut(&mut [u8]) -> Result<usize, BlobError>) -> Self {
        bytes.resize(BUFFER_BYTES, 0);
        let (mut filled, mut end) = (0, None);
        while filled < BUFFER_BYTES && end.is_none() {
            match read(&mut bytes[filled..]) {
                Ok(0) => end = Some(Ok(())),
                Ok(count) => filled += count,
                Err(error) => end = Some(Err(error)),
            }
        }
        bytes.truncate(filled);
        Self { bytes, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a source of so many bytes gives, which are read in pieces of `step`, and how it ends.
    fn read(length: usize, step: usize, end: Option<BlobError>) -> (Vec<u8>, Option<String>) {
        let (mut given, mut end) = (0, end);
        let mut ahead = ReadAhead::new(move |buffer| {
            let count = step.min(length - given).min(buffer.len());
            for (index, byte) in buffer[..count].iter_mut().enumerate() {
                *byte = u8::try_from((given + index) % 251).unwrap();
            }
            given += count;
            if count == 0 { end.take().map_or(Ok(0), Err) } else { Ok(count) }
        })
        .unwrap();
        let (mut all, mut buffer) = (Vec::new(), vec![0; 1000]);
        loop {
            match ahead.read(&mut buffer) {
                Ok(0) => return (all, None),
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(error) => {
                    assert_eq!(ahead.read(&mut buffer).unwrap(), 0, "nothing follows an error");
                    return (all, Some(error.to_string()));
                }
            }
        }
    }

    #[test]
    fn everything_comes_in_order_and_then_the_end() {
        for length in [0, 1, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 10 * BUFFER_BYTES] {
            let wanted: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            assert_eq!(read(length, 7_000, None), (wanted.clone(), None));
            let broken = Some(BlobError::Content("broken".to_owned()));
            assert_eq!(read(length, usize::MAX, broken), (wanted, Some("broken".to_owned())));
        }
    }

    #[test]
    fn a_panic_is_no_end() {
        let mut ahead = ReadAhead::new(|_| panic!("a panic that a test wants")).unwrap();
        assert!(ahead.read(&mut [0]).unwrap_err().to_string().ends_with("has panicked"));
    }
}
