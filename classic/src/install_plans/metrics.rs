//! Metrics of InstallPlans, with upstream's names.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanMetrics {
    warnings: Counter,
}

impl PlanMetrics {
    /// Exports the metrics.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Monotonic count of resources that generated warnings when applied as part of an InstallPlan (for example, due to deprecation)";
        registry.register("installplan_warnings", help, this.warnings.clone());
        this
    }

    /// Counts an object whose write the API server warned of.
    pub(super) fn warned(&self) {
        self.warnings.inc();
    }
}
