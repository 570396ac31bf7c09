//! `/metrics`, for those whom the cluster lets read it: the bearer token is reviewed (TokenReview), and its user
//! must be allowed to GET the path (SubjectAccessReview), as controller-runtime's filter asks.
//!
//! Answers of the API server are kept for a short time, so that scrapers do not cost two requests each.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReviewSpec};
use kube::Client;
use prometheus_client::registry::Registry;

use super::reviews::{Kept, Reviews, bearer};
use crate::metrics;

const PATH: &str = "/metrics";
/// How long answers about scrapers are kept.
const KEPT: Kept = Kept { allowed: Duration::from_mins(1), denied: Duration::from_secs(10) };

/// What became of a request for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Unauthorized,
    Forbidden,
}

struct Gatekeeper {
    reviews: Reviews,
    registry: Arc<Registry>,
}

/// The router with `/metrics`, which shows the registry. Reviews are made with `client`.
pub fn metrics_router(registry: Arc<Registry>, client: Client) -> Router {
    let keeper = Arc::new(Gatekeeper { reviews: Reviews::new(client, KEPT), registry });
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

impl Gatekeeper {
    async fn verdict(&self, token: &str) -> Result<Verdict, kube::Error> {
        let Some(user) = self.reviews.user(token).await? else { return Ok(Verdict::Unauthorized) };
        let asked = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec { non_resource_attributes: Some(asked), ..Default::default() };
        let decision = self.reviews.decision(&user, spec).await?;
        Ok(if decision.allowed { Verdict::Allowed } else { Verdict::Forbidden })
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use parking_lot::Mutex;
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
        tokio::time::advance(KEPT.allowed + Duration::from_secs(1)).await;
        get(&router, Some("Bearer scraper")).await;
        assert_eq!(asked.lock().len(), before + 2, "for a short time only");
    }
}
