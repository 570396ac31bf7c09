//! The work queues of controllers as dashboards of client-go know them.
//!
//! The queue itself lies inside kube's scheduler and cannot be looked into; this follows what goes in and comes
//! out. What waits for a later time is not in the queue, and comes in when that time has come.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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

/// The families of all queues of the process.
#[derive(Debug, Clone)]
pub(crate) struct QueueFamilies {
    adds: Family<QueueLabels, Counter>,
    depth: Family<QueueLabels, Gauge>,
    waited: Family<QueueLabels, Histogram, fn() -> Histogram>,
    worked: Family<QueueLabels, Histogram, fn() -> Histogram>,
    retries: Family<QueueLabels, Counter>,
    under_way: UnderWay,
}

/// By controller, the objects that are worked on, and since when.
#[derive(Debug, Clone, Default)]
struct UnderWay(Arc<Mutex<BTreeMap<&'static str, HashMap<String, Instant>>>>);

impl UnderWay {
    fn change(&self, controller: &'static str, change: impl FnOnce(&mut HashMap<String, Instant>)) {
        change(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(controller).or_default());
    }
}

/// Says for how long work that is not over has gone on: how a pass that hangs is seen.
impl Collector for UnderWay {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let seconds: Vec<(QueueLabels, Vec<f64>)> = {
            let controllers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let lasting = |objects: &HashMap<String, Instant>| {
                objects.values().map(|since| since.elapsed().as_secs_f64()).collect()
            };
            controllers
                .iter()
                .map(|(controller, objects)| (QueueLabels { controller, name: controller }, lasting(objects)))
                .collect()
        };
        let mut gauge = |name: &str, help: &str, of: fn(&[f64]) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, seconds) in &seconds {
                ConstGauge::new(of(seconds)).encode(family.encode_family(labels)?)?;
            }
            Ok(())
        };
        gauge(
            "workqueue_unfinished_work_seconds",
            "How long all work that is under way has taken so far",
            // An empty sum is minus zero.
            |all| all.iter().fold(0.0, |sum, seconds| sum + seconds),
        )?;
        gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the work has taken so far that is under way for longest",
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
            under_way: UnderWay::default(),
        };
        // The library appends `_total` to counters itself.
        registry.register("workqueue_adds", "Additions to the queue", families.adds.clone());
        registry.register("workqueue_depth", "Objects in the queue", families.depth.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long an object stays in the queue before it is worked on",
            families.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long an object is worked on",
            families.worked.clone(),
        );
        registry.register("workqueue_retries", "Objects that are tried again", families.retries.clone());
        registry.register_collector(Box::new(families.under_way.clone()));
        families
    }
}

#[derive(Debug, Default)]
struct Waiting {
    ready: HashMap<String, Instant>,
    later: HashMap<String, Instant>,
}

/// The queue of one controller.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    families: QueueFamilies,
    labels: QueueLabels,
    waiting: Arc<Mutex<Waiting>>,
}

impl QueueMetrics {
    pub(crate) fn new(families: QueueFamilies, controller: &'static str) -> Self {
        let labels = QueueLabels { controller, name: controller };
        // There from the start, as client-go's are: an idle queue is no missing one.
        families.under_way.change(controller, |_| ());
        for counter in [&families.adds, &families.retries] {
            drop(counter.get_or_create(&labels));
        }
        for histogram in [&families.waited, &families.worked] {
            drop(histogram.get_or_create(&labels));
        }
        drop(families.depth.get_or_create(&labels));
        Self { families, labels, waiting: Arc::default() }
    }

    /// An object is to be worked on. One that is in the queue already stays where it is.
    pub(crate) fn added(&self, object: &str) {
        self.families.adds.get_or_create(&self.labels).inc();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.ready.entry(object.to_owned()).or_insert_with(Instant::now);
        self.deep(&waiting);
    }

    /// It is to be worked on after this time.
    pub(crate) fn later(&self, object: &str, wait: Duration) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.later.insert(object.to_owned(), Instant::now() + wait);
    }

    /// It failed and is tried again after this time.
    pub(crate) fn retried(&self, object: &str, wait: Duration) {
        self.families.retries.get_or_create(&self.labels).inc();
        self.later(object, wait);
    }

    /// It is being worked on now.
    pub(crate) fn taken(&self, object: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let later = waiting.later.remove(object);
        let since = waiting.ready.remove(object);
        self.deep(&waiting);
        drop(waiting);
        if since.is_none() {
            self.families.adds.get_or_create(&self.labels).inc();
        }
        let waited = since.or(later).map(|since| since.elapsed()).unwrap_or_default();
        self.families.waited.get_or_create(&self.labels).observe(waited.as_secs_f64());
        self.families.under_way.change(self.labels.controller, |objects| {
            objects.insert(object.to_owned(), Instant::now());
        });
    }

    /// Work on an object is over.
    pub(crate) fn done(&self, object: &str, took: Duration) {
        self.families.under_way.change(self.labels.controller, |objects| {
            objects.remove(object);
        });
        self.families.worked.get_or_create(&self.labels).observe(took.as_secs_f64());
    }

    /// It is gone, so that nobody works on it.
    pub(crate) fn dropped(&self, object: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.ready.remove(object);
        waiting.later.remove(object);
        self.deep(&waiting);
    }

    fn deep(&self, waiting: &Waiting) {
        let depth = i64::try_from(waiting.ready.len()).unwrap_or(i64::MAX);
        self.families.depth.get_or_create(&self.labels).set(depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_counted_once_and_what_is_due_later_when_it_is() {
        let mut registry = Registry::default();
        let queue = QueueMetrics::new(QueueFamilies::register(&mut registry), "test");
        let shows = |wanted: &str| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            assert!(text.lines().any(|line| line == wanted), "{wanted} is not in\n{text}");
        };
        for family in ["depth", "adds_total", "retries_total", "queue_duration_seconds_count"] {
            shows(&format!("workqueue_{family}{{controller=\"test\",name=\"test\"}} 0"));
        }
        queue.added("a");
        queue.added("a");
        queue.added("b");
        shows("workqueue_depth{controller=\"test\",name=\"test\"} 2");
        shows("workqueue_adds_total{controller=\"test\",name=\"test\"} 3");
        tokio::time::advance(Duration::from_secs(2)).await;
        queue.taken("a");
        queue.taken("b");
        tokio::time::advance(Duration::from_secs(1)).await;
        queue.done("b", Duration::from_secs(1));
        queue.added("b");
        queue.taken("c");
        tokio::time::advance(Duration::from_secs(3)).await;
        shows("workqueue_unfinished_work_seconds{controller=\"test\",name=\"test\"} 7.0");
        shows("workqueue_longest_running_processor_seconds{controller=\"test\",name=\"test\"} 4.0");
        for object in ["a", "c"] {
            queue.done(object, Duration::from_secs(1));
        }
        shows("workqueue_unfinished_work_seconds{controller=\"test\",name=\"test\"} 0.0");
        shows("workqueue_longest_running_processor_seconds{controller=\"test\",name=\"test\"} 0.0");
        shows("workqueue_depth{controller=\"test\",name=\"test\"} 1");
        shows("workqueue_queue_duration_seconds_sum{controller=\"test\",name=\"test\"} 4.0");
        shows("workqueue_work_duration_seconds_count{controller=\"test\",name=\"test\"} 3");
        queue.retried("a", Duration::from_secs(5));
        shows("workqueue_retries_total{controller=\"test\",name=\"test\"} 1");
        tokio::time::advance(Duration::from_secs(6)).await;
        queue.taken("a");
        shows("workqueue_queue_duration_seconds_sum{controller=\"test\",name=\"test\"} 5.0");
        queue.dropped("b");
        shows("workqueue_depth{controller=\"test\",name=\"test\"} 0");
    }
}
