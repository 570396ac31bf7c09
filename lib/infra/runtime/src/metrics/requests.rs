//! Counts the requests to the API server, as client-go does.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    code: String,
    host: String,
    method: String,
}

/// The counter `rest_client_requests_total`.
#[derive(Debug, Clone, Default)]
pub struct RequestCount {
    requests: Family<Labels, Counter>,
}

impl RequestCount {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "Number of requests to the API server, by status code, method and host",
            self.requests.clone(),
        );
    }

    /// Counts an answer, or that there was none.
    pub(crate) fn count(&self, method: &http::Method, host: &str, code: Option<http::StatusCode>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.as_str().to_owned());
        let labels = Labels { code, host: host.to_owned(), method: method.as_str().to_owned() };
        self.requests.get_or_create(&labels).inc();
    }
}
