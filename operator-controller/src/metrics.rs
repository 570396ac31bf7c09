//! Metrics of operator-controller, beside those that every controller has.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

/// Counts objects of revisions that were brought back to what the revision says. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(crate) struct DriftRepairs(Family<KindLabel, Counter>);

impl DriftRepairs {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let repairs = Self::default();
        // The library appends `_total` itself.
        registry.register(
            "olm_drift_repairs",
            "Objects of revisions that were restored after an outside change, by their kind",
            repairs.0.clone(),
        );
        repairs
    }

    /// Counts an object of this kind.
    pub(crate) fn repaired(&self, kind: &str) {
        self.0.get_or_create(&KindLabel { kind: kind.to_owned() }).inc();
    }
}
