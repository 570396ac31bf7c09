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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// What an API server answers one time after the other: none is an error.
    fn upgraded(versions: &'static [Option<&str>]) -> Client {
        let asked = AtomicUsize::new(0);
        let service = tower::service_fn(move |_: Request<Body>| {
            let number = asked.fetch_add(1, Ordering::Relaxed).min(versions.len() - 1);
            let answer = versions[number].map(|version| {
                let fields = [
                    "major",
                    "minor",
                    "gitCommit",
                    "gitTreeState",
                    "buildDate",
                    "goVersion",
                    "compiler",
                    "platform",
                ];
                let mut info = serde_json::json!({"gitVersion": version});
                for field in fields {
                    info[field] = "".into();
                }
                Response::new(Body::from(info.to_string().into_bytes()))
            });
            async move { answer.ok_or_else(|| std::io::Error::other("it does not answer")) }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn an_upgrade_of_the_cluster_is_noticed() {
        let versions =
            &[None, Some("v1.25.3"), Some("v1.25.3"), None, Some("v1.26.0+up.1"), Some("of no form")];
        let (version, shutdown, client) = (Version::default(), CancellationToken::new(), upgraded(versions));
        let (send, mut changes) = tokio::sync::mpsc::unbounded_channel();
        let follow = version.follow(&client, &shutdown, || send.send(()).unwrap());
        let seen = async {
            let mut seen = Vec::new();
            for _ in 0..3 {
                changes.recv().await.unwrap();
                seen.push(version.get());
            }
            shutdown.cancel();
            seen
        };
        let ((), seen) = tokio::join!(follow, seen);
        assert_eq!(seen, [KubeVersion::parse("v1.25.3"), KubeVersion::parse("v1.26.0"), None]);
    }
}
