//! The version of Kubernetes, which images may be named after.

use std::{sync::Arc, time::Duration};

use kube::Client;
use olm_classic_core::source::template::KubeVersion;
use olm_runtime::bounded;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time between two checks: a cluster is upgraded in many minutes.
const CHECK: Duration = Duration::from_mins(1);
/// Time to the next attempt while the API server does not answer.
const ATTEMPT: Duration = Duration::from_secs(5);

/// What the API server has answered.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    NotYet,
    NoVersion,
    Version(KubeVersion),
}

/// The version. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Version(Arc<watch::Sender<Answer>>);

impl Default for Version {
    fn default() -> Self {
        Self(Arc::new(watch::channel(Answer::NotYet).0))
    }
}

impl Version {
    pub(super) fn get(&self) -> Option<KubeVersion> {
        match &*self.0.borrow() {
            Answer::Version(version) => Some(version.clone()),
            Answer::NotYet | Answer::NoVersion => None,
        }
    }

    /// Ends when the API server has answered.
    pub(super) fn known(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut version = self.0.subscribe();
        async move {
            // The sender lives as long as the controller.
            let _ = version.wait_for(|answer| *answer != Answer::NotYet).await;
        }
    }

    /// Follows the version until `shutdown`; `changed` is called when it is another one.
    pub(super) async fn follow(&self, client: &Client, shutdown: &CancellationToken, changed: impl Fn()) {
        loop {
            let wait = match bounded(client.apiserver_version()).await {
                Ok(info) => {
                    let found =
                        KubeVersion::parse(&info.git_version).map_or(Answer::NoVersion, Answer::Version);
                    if self.0.send_if_modified(|known| std::mem::replace(known, found.clone()) != found) {
                        changed();
                    }
                    CHECK
                }
                Err(error) => {
                    tracing::debug!(%error, "the version of Kubernetes is not known");
                    ATTEMPT
                }
            };
            if shutdown.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }
}
