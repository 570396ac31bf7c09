//! Connections that are read at a least speed, and only so many of them.
//!
//! A client that asks for much and reads nothing holds a place and memory for as long as it likes: as long as its
//! connection takes no bytes, the answer behind it is not even asked for its next piece. So the connection itself
//! measures. Only the time counts in which there was something to send and the client did not take it.

use std::{
    future::{Ready, ready},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready as ok},
    time::Duration,
};

use axum_server::accept::Accept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use super::places::{Place, Places};

/// How many measurements the least speed is the mean of.
const MEASUREMENTS: u32 = 10;
/// How many times the least speed is asked for while others wait for their turn, in each measurement.
const CROWDED: u64 = 10;

/// How fast answers are read at least.
#[derive(Clone)]
pub(super) struct Pace {
    /// Bytes a second.
    pub(super) least: u64,
    /// Time without progress that is one measurement.
    pub(super) window: Duration,
    /// Where requests wait when there are too many.
    pub(super) requests: Arc<Places>,
}

impl Pace {
    /// Bytes that are to be taken in this time at the least speed.
    fn due(&self, time: Duration) -> u64 {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_mul(self.least) / 1000
    }
}

/// Accepts connections while there are places for them.
#[derive(Clone)]
pub(super) struct PacedAcceptor {
    pub(super) connections: Arc<Places>,
    pub(super) pace: Pace,
}

impl<S> Accept<TcpStream, S> for PacedAcceptor {
    type Stream = Paced<TcpStream>;
    type Service = S;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accepted = || {
            // Small answers on a connection that stays open would otherwise wait for the client's delayed
            // acknowledgement of the answer before.
            stream.set_nodelay(true)?;
            let place = self.connections.try_take(stream.peer_addr()?.ip());
            let place = place.ok_or_else(|| io::Error::other("too many connections"))?;
            Ok((Paced::new(stream, self.pace.clone(), Some(place)), service))
        };
        ready(accepted())
    }
}

/// A connection that breaks off when the client does not read.
pub(super) struct Paced<S> {
    stream: S,
    pace: Pace,
    /// Since when the client takes nothing, and when the measurement is over if that goes on.
    blocked: Option<(Instant, Pin<Box<Sleep>>)>,
    /// The measurement: time without progress, and bytes taken.
    stalled: Duration,
    taken: u64,
    /// The measurements before: how many, and bytes taken.
    measured: (u32, u64),
    _place: Option<Place>,
}

impl<S> Paced<S> {
    fn new(stream: S, pace: Pace, held: Option<Place>) -> Self {
        let (stalled, taken, measured) = (Duration::ZERO, 0, (0, 0));
        Self { stream, pace, blocked: None, stalled, taken, measured, _place: held }
    }

    /// Takes in the result of a write.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = result {
            if let Some((since, _)) = self.blocked.take() {
                self.stalled += since.elapsed();
            }
            if let Ok(bytes) = &result {
                self.taken = self.taken.saturating_add(*bytes as u64);
            }
            return Poll::Ready(result);
        }
        loop {
            let rest = self.pace.window.saturating_sub(self.stalled);
            let (_, over) = self.blocked.get_or_insert_with(|| {
                let now = Instant::now();
                (now, Box::pin(sleep_until(now + rest)))
            });
            ok!(over.as_mut().poll(context));
            self.blocked = None;
            if self.is_too_slow() {
                let text = "the client reads too slowly";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
        }
    }

    /// Ends a measurement.
    fn is_too_slow(&mut self) -> bool {
        let taken = std::mem::take(&mut self.taken);
        self.stalled = Duration::ZERO;
        let due = self.pace.due(self.pace.window);
        if self.pace.requests.is_crowded() && taken < due.saturating_mul(CROWDED) {
            return true;
        }
        let (count, bytes) = self.measured;
        self.measured = (count + 1, bytes.saturating_add(taken));
        if self.measured.0 < MEASUREMENTS {
            return false;
        }
        let (count, bytes) = std::mem::take(&mut self.measured);
        bytes < due.saturating_mul(u64::from(count))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.written(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.written(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn pace() -> Pace {
        Pace { least: 10 << 10, window: Duration::from_secs(3), requests: Places::new(1, 1) }
    }

    /// Writes without end to a client that reads so many bytes a second; after how long that broke off, if it
    /// did within ten minutes.
    async fn broken_off(pace: Pace, bytes_a_second: usize) -> Option<u64> {
        let (server, mut client) = duplex(4 << 10);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; bytes_a_second / 10];
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if client.read_exact(&mut buffer).await.is_err() {
                    return;
                }
            }
        });
        let (mut paced, started) = (Paced::new(server, pace, None), Instant::now());
        let writing = async {
            let piece = vec![0; 64 << 10];
            loop {
                if let Err(error) = paced.write_all(&piece).await {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    return started.elapsed().as_secs();
                }
            }
        };
        let result = tokio::time::timeout(Duration::from_mins(10), writing).await.ok();
        reader.abort();
        result
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_too_slowly_is_broken_off() {
        assert_eq!(broken_off(pace(), 0).await, Some(30));
        assert_eq!(broken_off(pace(), 8 << 10).await, Some(30));
        assert_eq!(broken_off(pace(), 12 << 10).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn while_others_wait_clients_have_to_read_faster() {
        let pace = pace();
        let _taken = pace.requests.try_take(CLIENT).unwrap();
        let requests = Arc::clone(&pace.requests);
        let waiting =
            tokio::spawn(async move { requests.take(CLIENT, Duration::from_hours(1)).await.is_some() });
        tokio::task::yield_now().await;
        assert_eq!(broken_off(pace.clone(), 0).await, Some(3));
        assert_eq!(broken_off(pace.clone(), 80 << 10).await, Some(3));
        assert_eq!(broken_off(pace, 120 << 10).await, None);
        waiting.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_nothing_to_send_is_not_the_clients_fault() {
        let (server, mut client) = duplex(4 << 10);
        let reader = tokio::spawn(async move { client.read_to_end(&mut Vec::new()).await });
        let mut paced = Paced::new(server, pace(), None);
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            paced.write_all(b"a little").await.unwrap();
            paced.flush().await.unwrap();
        }
        drop(paced);
        assert_eq!(reader.await.unwrap().unwrap(), 800);
    }
}
