//! The metrics of work queues under the names of client-go, which dashboards know.

use std::{collections::BTreeMap, fmt::Error, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};
use tokio::time::Instant;

/// Buckets in seconds: client-go's.
const BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    controller: &'static str,
    name: &'static str,
}

/// The objects of one queue that are worked on, and since when. A scrape reads it.
pub(super) type Running = Arc<Mutex<BTreeMap<String, Instant>>>;

/// The families of all queues of the process.
#[derive(Debug, Clone)]
pub(crate) struct QueueFamilies {
    adds: Family<QueueLabels, Counter>,
    depth: Family<QueueLabels, Gauge>,
    waited: Family<QueueLabels, Histogram, fn() -> Histogram>,
    worked: Family<QueueLabels, Histogram, fn() -> Histogram>,
    retries: Family<QueueLabels, Counter>,
    unfinished: Unfinished,
}

/// The metrics of one queue.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) depth: Gauge,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
    pub(super) retries: Counter,
    pub(super) running: Running,
}

/// By controller, what is worked on. Exports for how long: how a reconcile that hangs is seen.
#[derive(Debug, Clone, Default)]
struct Unfinished(Arc<Mutex<BTreeMap<&'static str, Running>>>);

impl Collector for Unfinished {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let queues = self.0.lock();
        let seconds = |running: &Running| {
            let running = running.lock();
            running.values().map(|since| since.elapsed().as_secs_f64()).collect::<Vec<_>>()
        };
        let mut gauge = |name: &str, help: &str, of: fn(&[f64]) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (controller, running) in &*queues {
                let labels = QueueLabels { controller, name: controller };
                ConstGauge::new(of(&seconds(running))).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        gauge(
            "workqueue_unfinished_work_seconds",
            "How long all running reconciliations have taken so far",
            // An empty sum is minus zero.
            |all| all.iter().fold(0.0, |sum, seconds| sum + seconds),
        )?;
        gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the longest running reconciliation has taken so far",
            |all| all.iter().copied().fold(0.0, f64::max),
        )
    }
}

impl QueueFamilies {
    /// Creates the families and registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            adds: Family::default(),
            depth: Family::default(),
            waited: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            worked: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            retries: Family::default(),
            unfinished: Unfinished::default(),
        };
        // The library appends `_total` to counters itself.
        registry.register("workqueue_adds", "Additions to the queue", families.adds.clone());
        registry.register("workqueue_depth", "Objects in the queue", families.depth.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long an object waits in the queue",
            families.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a reconciliation of an object takes",
            families.worked.clone(),
        );
        registry.register("workqueue_retries", "Objects that are retried", families.retries.clone());
        registry.register_collector(Box::new(families.unfinished.clone()));
        families
    }

    /// The metrics of a controller's queue. They are exported from now on: an idle queue is no missing one.
    pub(crate) fn queue(&self, controller: &'static str) -> QueueMetrics {
        let labels = QueueLabels { controller, name: controller };
        let mut unfinished = self.unfinished.0.lock();
        QueueMetrics {
            adds: self.adds.get_or_create(&labels).clone(),
            depth: self.depth.get_or_create(&labels).clone(),
            waited: self.waited.get_or_create(&labels).clone(),
            worked: self.worked.get_or_create(&labels).clone(),
            retries: self.retries.get_or_create(&labels).clone(),
            running: unfinished.entry(controller).or_default().clone(),
        }
    }
}
