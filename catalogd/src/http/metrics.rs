//! How long requests take, by status code.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

/// Seconds; upstream's, chosen so that an Apdex score for up to a second can be computed.
const BUCKETS: [f64; 19] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    code: u16,
}

/// The metric of the catalog server.
#[derive(Debug, Clone)]
pub(super) struct HttpMetrics {
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
}

impl HttpMetrics {
    /// Creates the metric and registers it.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)) };
        registry.register(
            "catalogd_http_request_duration_seconds",
            "Histogram of request duration in seconds",
            metrics.seconds.clone(),
        );
        metrics
    }

    pub(super) fn answered(&self, code: u16, seconds: f64) {
        self.seconds.get_or_create(&Labels { code }).observe(seconds);
    }
}
