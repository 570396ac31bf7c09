//! Metrics of CatalogSources, with upstream's names.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::SourceKey;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
}

/// How many CatalogSources there are, which are ready, and how often resolution has read them. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceMetrics {
    count: Gauge,
    ready: Family<Labels, Gauge>,
    snapshots: Family<Labels, Counter>,
    known: Arc<Mutex<BTreeSet<SourceKey>>>,
}

impl SourceMetrics {
    /// Exports the metrics.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        registry.register("catalog_source_count", "Number of catalog sources", this.count.clone());
        let help = "State of a CatalogSource. 1 indicates that the CatalogSource is in a READY state";
        registry.register("catalogsource_ready", help, this.ready.clone());
        let help =
            "The number of times the catalog operator has requested a snapshot of data from a catalog source";
        registry.register("catalog_source_snapshots", help, this.snapshots.clone());
        this
    }

    /// Counts that resolution has read a source.
    pub(crate) fn snapshot(&self, key: &SourceKey) {
        // One that is gone by now has no series.
        if self.known.lock().contains(key) {
            self.snapshots.get_or_create(&labels(key)).inc();
        }
    }

    pub(super) fn set(&self, key: &SourceKey, is_ready: bool) {
        let mut known = self.known.lock();
        known.insert(key.clone());
        self.count.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
        self.ready.get_or_create(&labels(key)).set(is_ready.into());
    }

    pub(super) fn forget(&self, key: &SourceKey) {
        let mut known = self.known.lock();
        known.remove(key);
        self.count.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
        self.ready.remove(&labels(key));
        self.snapshots.remove(&labels(key));
    }
}

fn labels(key: &SourceKey) -> Labels {
    Labels { namespace: key.namespace.clone(), name: key.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_counts_until_it_is_gone() {
        let mut registry = Registry::default();
        let metrics = SourceMetrics::register(&mut registry);
        let key = |name: &str| SourceKey { namespace: "n".to_owned(), name: name.to_owned() };
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines()
                .filter(|line| line.starts_with("catalog"))
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        metrics.set(&key("a"), true);
        metrics.set(&key("b"), true);
        metrics.set(&key("b"), false);
        metrics.snapshot(&key("b"));
        metrics.snapshot(&key("b"));
        metrics.snapshot(&key("gone"));
        let wanted = [
            "catalog_source_count 2",
            "catalog_source_snapshots_total{namespace=\"n\",name=\"b\"} 2",
            "catalogsource_ready{namespace=\"n\",name=\"a\"} 1",
            "catalogsource_ready{namespace=\"n\",name=\"b\"} 0",
        ];
        assert_eq!(shown(), wanted.map(str::to_owned).into());
        metrics.forget(&key("b"));
        assert_eq!(shown().len(), 2);
    }
}
