//! `/metrics`, for those whom the cluster lets read it: the bearer token is reviewed (TokenReview), and its user
//! must be allowed to GET the path (SubjectAccessReview), as controller-runtime's filter asks.
//!
//! Answers of the API server are kept for a short time, so that scrapers do not cost two requests each.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::{client::bounded, metrics};

const PATH: &str = "/metrics";
/// How long it is remembered that a token may read.
const ALLOWED_FOR: Duration = Duration::from_mins(1);
/// How long it is remembered that a token may not read.
const DENIED_FOR: Duration = Duration::from_secs(10);
/// Tokens that are remembered at most; a few scrapers are usual.
const REMEMBERED_MAX: usize = 256;
/// Longest token that is looked at; those of ServiceAccounts have about 1 kB.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// What became of a request for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Unauthorized,
    Forbidden,
}

struct Gatekeeper {
    client: Client,
    registry: Arc<Registry>,
    // Digests, so that no token is kept.
    remembered: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
}

/// The router with `/metrics`, which shows the registry. Reviews are made with `client`.
pub fn metrics_router(registry: Arc<Registry>, client: Client) -> Router {
    let keeper = Arc::new(Gatekeeper { client, registry, remembered: Mutex::default() });
    Router::new().route(PATH, get(answer)).with_state(keeper)
}

async fn answer(State(keeper): State<Arc<Gatekeeper>>, headers: HeaderMap) -> Response {
    let Some(token) = bearer(&headers) else {
        return (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response();
    };
    match keeper.verdict(token).await {
        Ok(Verdict::Allowed) => {
            ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&keeper.registry)).into_response()
        }
        Ok(Verdict::Unauthorized) => (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response(),
        Ok(Verdict::Forbidden) => {
            let text = "Forbidden: the user of this token may not get the path /metrics\n";
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "reviewing a request for metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n").into_response()
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
    usable.then_some(token)
}

impl Gatekeeper {
    async fn verdict(&self, token: &str) -> Result<Verdict, kube::Error> {
        let key: [u8; 32] = Sha256::digest(token).into();
        let now = Instant::now();
        if let Some(known) = self.recall(&key, now) {
            return Ok(known);
        }
        let verdict = match self.user(token).await? {
            None => Verdict::Unauthorized,
            Some(user) => {
                if self.may_read(user).await? {
                    Verdict::Allowed
                } else {
                    Verdict::Forbidden
                }
            }
        };
        let kept = if verdict == Verdict::Allowed { ALLOWED_FOR } else { DENIED_FOR };
        self.remember(key, now, now + kept, verdict);
        Ok(verdict)
    }

    fn recall(&self, key: &[u8; 32], now: Instant) -> Option<Verdict> {
        let remembered = self.remembered.lock();
        remembered.get(key).filter(|(until, _)| *until > now).map(|(_, verdict)| *verdict)
    }

    fn remember(&self, key: [u8; 32], now: Instant, until: Instant, verdict: Verdict) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, (until, _)| *until > now);
        }
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert(key, (until, verdict));
        }
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = bounded(api.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may_read(&self, user: UserInfo) -> Result<bool, kube::Error> {
        let asked = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(asked),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = bounded(api.create(&PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::Metrics;

    /// An API server that knows two tokens, and lets one user read.
    fn server(asked: Arc<Mutex<Vec<String>>>) -> Client {
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let asked = asked.clone();
            async move {
                let path = request.uri().path().to_owned();
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let mut review: Value = serde_json::from_slice(&bytes).unwrap();
                review["status"] = if path.ends_with("/tokenreviews") {
                    match review["spec"]["token"].as_str().unwrap() {
                        token @ ("scraper" | "tenant") => {
                            json!({"authenticated": true, "user": {"username": token}})
                        }
                        _ => json!({"authenticated": false}),
                    }
                } else {
                    assert_eq!(
                        review["spec"]["nonResourceAttributes"],
                        json!({"path": "/metrics", "verb": "get"})
                    );
                    json!({"allowed": review["spec"]["user"] == "scraper"})
                };
                asked.lock().push(path);
                let body = kube::client::Body::from(serde_json::to_vec(&review).unwrap());
                Ok::<_, std::convert::Infallible>(http::Response::new(body))
            }
        });
        Client::new(service, "default")
    }

    async fn get(router: &Router, authorization: Option<&str>) -> (StatusCode, String) {
        let mut request = Request::get("/metrics");
        if let Some(value) = authorization {
            request = request.header("Authorization", value);
        }
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_may_read_reads_and_is_asked_about_once() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut registry = Registry::default();
        Metrics::register(&mut registry);
        let router = metrics_router(Arc::new(registry), server(Arc::clone(&asked)));
        assert_eq!(get(&router, None).await.0, StatusCode::UNAUTHORIZED);
        assert_eq!(get(&router, Some("Basic scraper")).await.0, StatusCode::UNAUTHORIZED);
        assert!(asked.lock().is_empty(), "nobody is asked about nothing");
        assert_eq!(get(&router, Some("Bearer stranger")).await.0, StatusCode::UNAUTHORIZED);
        let (status, text) = get(&router, Some("Bearer tenant")).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(text.contains("/metrics"), "{text}");
        let (status, text) = get(&router, Some("bearer scraper")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("\nleader_election_master_status 0\n"), "{text}");
        let before = asked.lock().len();
        get(&router, Some("Bearer scraper")).await;
        assert_eq!(asked.lock().len(), before, "remembered");
        tokio::time::advance(ALLOWED_FOR + Duration::from_secs(1)).await;
        get(&router, Some("Bearer scraper")).await;
        assert_eq!(asked.lock().len(), before + 2, "for a short time only");
    }
}
