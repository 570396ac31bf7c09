//! The least speed of a registry: a pull whose bytes hardly flow is ended, so that it does not keep its place.

use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::{Instant, timeout};

use crate::{
    layers::{BlobStream, Piece},
    limits::LeastSpeed,
    registry::RegistryError,
    rooms::Room,
};

/// Measures one pull. Only the time that is spent waiting for the registry counts: what is slow here is not its fault.
pub(crate) struct Meter {
    least: LeastSpeed,
    /// Bytes wanted before `left` is over; none at first.
    wanted: u64,
    arrived: u64,
    left: Duration,
    /// What is being read, for the error.
    action: String,
}

impl Meter {
    pub(crate) fn new(least: LeastSpeed) -> Self {
        Self { least, wanted: 0, arrived: 0, left: least.after, action: String::new() }
    }

    /// Names what is read from now on.
    pub(crate) fn read(&mut self, action: String) {
        self.action = action;
    }

    /// The next bytes of a blob.
    pub(crate) async fn next(&mut self, blob: &mut BlobStream) -> Option<Piece> {
        match self.wait(blob.next()).await {
            Ok(piece) => {
                self.arrived += piece.as_ref().map_or(0, bytes_of);
                piece
            }
            Err(slow) => Some(Err(slow)),
        }
    }

    /// The next bytes of a blob that has room.
    pub(crate) async fn next_in(&mut self, room: &Room<'_>, blob: &mut BlobStream) -> Option<Piece> {
        let next = room.wait(self.next(blob), |piece| piece.as_ref().map_or(0, bytes_of)).await;
        next.unwrap_or_else(|| {
            let cause =
                "the registry sent next to nothing for a while, and other images were waiting".to_owned();
            Some(Err(RegistryError::TooSlow { action: self.action.clone(), cause }))
        })
    }

    /// The answer to a request.
    pub(crate) async fn request<T>(
        &mut self,
        request: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        self.wait(request).await?
    }

    async fn wait<T>(&mut self, answer: impl Future<Output = T>) -> Result<T, RegistryError> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let since = Instant::now();
            if let Ok(answer) = timeout(self.left, &mut answer).await {
                self.left = self.left.saturating_sub(since.elapsed());
                return Ok(answer);
            }
            if self.arrived < self.wanted {
                let LeastSpeed { bytes_per_second, over, .. } = self.least;
                let seconds = over.as_secs();
                let cause = format!(
                    "the registry sent less than {bytes_per_second} bytes a second for {seconds} seconds"
                );
                return Err(RegistryError::TooSlow { action: self.action.clone(), cause });
            }
            let over = self.least.over;
            self.wanted = self.least.bytes_per_second.saturating_mul(over.as_secs());
            (self.arrived, self.left) = (0, over);
        }
    }
}

fn bytes_of(piece: &Piece) -> u64 {
    piece.as_ref().map_or(0, |bytes| bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;

    use super::*;

    const LEAST: LeastSpeed =
        LeastSpeed { bytes_per_second: 1000, over: Duration::from_secs(30), after: Duration::from_mins(1) };

    /// Sends pieces of so many bytes, each after so many seconds.
    fn sending(pieces: Vec<(u64, usize)>) -> BlobStream {
        stream::iter(pieces)
            .then(|(seconds, bytes)| async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(Bytes::from(vec![0; bytes]))
            })
            .boxed()
    }

    /// Reads all of it, with pauses of our own; after how many seconds, and how it ended.
    async fn read(mut blob: BlobStream, pause: u64) -> (u64, Result<usize, String>) {
        let (mut meter, started, mut bytes) = (Meter::new(LEAST), Instant::now(), 0);
        meter.read("reading blob b".to_owned());
        let result = loop {
            match meter.next(&mut blob).await {
                None => break Ok(bytes),
                Some(Ok(piece)) => bytes += piece.len(),
                Some(Err(error)) => break Err(error.to_string()),
            }
            tokio::time::sleep(Duration::from_secs(pause)).await;
        };
        (started.elapsed().as_secs(), result)
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_drips_is_given_up_after_a_minute_and_half() {
        let (seconds, result) = read(sending(vec![(5, 1); 1000]), 0).await;
        assert_eq!(seconds, 90);
        let text = "reading blob b: the registry sent less than 1000 bytes a second for 30 seconds";
        assert_eq!(result, Err(text.to_owned()));
        let (seconds, result) = read(stream::pending().boxed(), 0).await;
        assert_eq!((seconds, result.is_err()), (90, true), "one that sends nothing at all");
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_at_the_least_speed_is_waited_for() {
        let pieces = 400;
        assert_eq!(read(sending(vec![(2, 2200); pieces]), 0).await, (800, Ok(pieces * 2200)));
        // One that is slow at first only, and one that pauses.
        let slow_start = [vec![(55, 1)], vec![(2, 2200); 100]].concat();
        assert_eq!(read(sending(slow_start), 0).await.0, 255);
        let pause = [vec![(1, 2200); 85], vec![(20, 1)], vec![(1, 2200); 100]].concat();
        assert_eq!(read(sending(pause), 0).await.0, 205);
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_becomes_slow_is_given_up() {
        let (seconds, result) = read(sending([vec![(1, 2200); 100], vec![(5, 1); 100]].concat()), 0).await;
        assert!(result.is_err() && (120..=150).contains(&seconds), "{seconds}: {result:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_spent_here_is_not_the_registrys() {
        let (_, result) = read(sending(vec![(1, 1100); 200]), 60).await;
        assert_eq!(result, Ok(200 * 1100));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_count_as_well() {
        let (mut meter, started) = (Meter::new(LEAST), Instant::now());
        for _ in 0..3 {
            let answer = Box::pin(async {
                tokio::time::sleep(Duration::from_secs(29)).await;
                Ok(())
            });
            let _ = meter.request(answer).await;
        }
        let hanging = Box::pin(std::future::pending::<Result<(), RegistryError>>());
        let error = meter.request(hanging).await.expect_err("slow").to_string();
        assert!(error.contains("the registry sent less than"), "{error}");
        assert_eq!(started.elapsed().as_secs(), 90);
    }
}
