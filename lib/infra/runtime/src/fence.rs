//! No writes by a leader whose lease has run out.
//!
//! A process that stood still for longer than its lease goes on where it was, and its workers may be in the
//! middle of a pass before it finds out that another one leads. [`Fence`] knows until when the lease counts, on
//! the clock of this process, and refuses writes after that. It does not guard requests that are under way.

use std::{collections::BTreeMap, sync::Arc};

use http::{Method, Request};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;

/// A write was refused because a lease has run out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not written: the lease {lease:?} has run out, another process may lead")]
pub struct Lapsed {
    lease: String,
}

/// Until when the leases that this process holds count. Without any, everything passes.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Fence {
    /// Sets until when a lease counts.
    pub(crate) fn set(&self, lease: &str, until: Instant) {
        self.0.lock().insert(lease.to_owned(), until);
    }

    /// Whether all leases count.
    ///
    /// # Errors
    /// The lease that has run out.
    pub fn check(&self) -> Result<(), Lapsed> {
        let leases = self.0.lock();
        let now = Instant::now();
        match leases.iter().find(|(_, until)| **until <= now) {
            Some((lease, _)) => Err(Lapsed { lease: lease.clone() }),
            None => Ok(()),
        }
    }

    /// A client whose writes are refused once a lease has run out.
    pub fn around(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let fence = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (fence, client) = (fence.clone(), client.clone());
            async move {
                if ![Method::GET, Method::HEAD].contains(request.method()) {
                    fence.check().map_err(|lapsed| kube::Error::Service(lapsed.into()))?;
                }
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Response;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_end_with_the_lease_and_reads_do_not() {
        let server = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, tower::BoxError>(Response::new(Body::empty()))
        });
        let fence = Fence::default();
        let client = fence.around(Client::new(server, "default"));
        let ask = async |method: &str| {
            let request = Request::builder().method(method).uri("/api").body(Body::empty()).unwrap();
            client.send(request).await.is_ok()
        };
        assert!(ask("PUT").await, "nobody was elected");
        fence.set("lease", Instant::now() + Duration::from_secs(10));
        fence.set("other", Instant::now() + Duration::from_secs(20));
        assert!(ask("PATCH").await);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!ask("DELETE").await && ask("GET").await);
        fence.set("lease", Instant::now() + Duration::from_secs(10));
        assert!(ask("POST").await, "renewed in time by its own clock");
    }
}
