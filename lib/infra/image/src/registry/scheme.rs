//! Where a host is dialled, and in which scheme.

use ::http::StatusCode;
use reqwest::Client;

/// Which scheme an insecure host speaks. Both are tried at once, as a server of one may take long to refuse the
/// other; nothing is shown to it.
pub(super) async fn spoken(client: &Client, host: &str) -> &'static str {
    let ping = |scheme: &str| client.get(format!("{scheme}://{}/v2/", dialled(host))).send();
    let (mut https, mut http) = (Box::pin(ping("https")), Box::pin(ping("http")));
    let is_https = tokio::select! {
        answer = &mut https => answer.is_ok(),
        answer = &mut http => {
            let is_registry = answer
                .is_ok_and(|answer| matches!(answer.status(), StatusCode::OK | StatusCode::UNAUTHORIZED));
            // Servers of HTTPS answer plain HTTP too, with a complaint.
            !is_registry && https.await.is_ok()
        }
    };
    if is_https { "https" } else { "http" }
}

/// The host that Docker Hub's registry answers at; every other name is its own.
pub(super) fn dialled(host: &str) -> &str {
    if host == "docker.io" { "registry-1.docker.io" } else { host }
}
