//! Metrics of ClusterServiceVersions, under upstream's names.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicI64},
};

use kube::ResourceExt;
use olm_api_classic::ClusterServiceVersion;
use olm_classic_core::csv::{Phase, chain};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Succeeded {
    namespace: String,
    name: String,
    version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Abnormal {
    namespace: String,
    name: String,
    version: String,
    phase: String,
    reason: String,
}

/// What is shown of an operator.
type Shown = (Succeeded, Option<Abnormal>);

/// The metrics. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct CsvMetrics {
    count: Gauge,
    /// A gauge, since a counter's name would end in `_total`.
    upgrades: Gauge,
    succeeded: Family<Succeeded, Gauge<i64, AtomicI64>>,
    abnormal: Family<Abnormal, Gauge<i64, AtomicI64>>,
    known: Arc<Mutex<BTreeMap<String, Shown>>>,
}

impl CsvMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("csv_count", "ClusterServiceVersions that are no copies", metrics.count.clone());
        registry.register("csv_upgrade_count", "Upgrades of operators", metrics.upgrades.clone());
        registry.register("csv_succeeded", "Whether an operator runs", metrics.succeeded.clone());
        registry.register("csv_abnormal", "An operator that does not run", metrics.abnormal.clone());
        metrics
    }

    pub(crate) fn upgraded(&self) {
        self.upgrades.inc();
    }

    /// Takes note of the state of an operator, or that it is gone.
    pub(crate) fn set(&self, csv: &ClusterServiceVersion, exists: bool) {
        if chain::is_copy(csv) {
            return;
        }
        let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
        let key = format!("{namespace}/{name}");
        let version = csv.spec.version.clone().unwrap_or_default();
        let phase = chain::phase(csv);
        let succeeded =
            Succeeded { namespace: namespace.clone(), name: name.clone(), version: version.clone() };
        let reason = csv.status.as_ref().and_then(|status| status.reason.clone()).unwrap_or_default();
        let abnormal = (phase != Phase::Succeeded).then(|| Abnormal {
            namespace,
            name,
            version,
            phase: phase.to_string(),
            reason,
        });
        let mut known = self.known.lock();
        if let Some((before, wrong)) = known.remove(&key) {
            if !exists || before != succeeded {
                self.succeeded.remove(&before);
            }
            if let Some(wrong) = wrong.filter(|wrong| !exists || Some(wrong) != abnormal.as_ref()) {
                self.abnormal.remove(&wrong);
            }
        }
        if exists {
            self.succeeded.get_or_create(&succeeded).set(i64::from(phase == Phase::Succeeded));
            if let Some(abnormal) = &abnormal {
                self.abnormal.get_or_create(abnormal).set(1);
            }
            known.insert(key, (succeeded, abnormal));
        }
        self.count.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
    }
}
