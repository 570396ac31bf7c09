//! Metrics under the names that dashboards of controller-runtime expect.

mod certificates;
mod objects;
mod process;
mod requests;
mod text;

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

pub use certificates::CertificateReads;
pub use objects::ObjectStates;
pub use requests::RequestCount;
pub(crate) use text::{CONTENT_TYPE, text};

use crate::{
    controller::Next,
    queue::{QueueFamilies, QueueMetrics},
};
use process::ProcessCollector;

/// Buckets of reconcile times in seconds, controller-runtime's order of magnitude.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// The values of the label `result`, controller-runtime's.
const RESULTS: [&str; 4] = ["error", "requeue", "requeue_after", "success"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

/// Metric families shared by all controllers of the process.
#[derive(Debug, Clone)]
pub struct Metrics {
    total: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabel, Counter>,
    terminal: Family<ControllerLabel, Counter>,
    panics: Family<ControllerLabel, Counter>,
    seconds: Family<ControllerLabel, Histogram, fn() -> Histogram>,
    workers: Family<ControllerLabel, Gauge>,
    workers_max: Family<ControllerLabel, Gauge>,
    queue: QueueFamilies,
    objects: ObjectStates,
    leader: Gauge,
    requests: RequestCount,
    certificates: CertificateReads,
}

impl Metrics {
    /// Creates the families and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            total: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            workers: Family::default(),
            workers_max: Family::default(),
            queue: QueueFamilies::register(registry),
            objects: ObjectStates::default(),
            leader: Gauge::default(),
            requests: RequestCount::default(),
            certificates: CertificateReads::default(),
        };
        // The library appends `_total` to counters itself.
        registry.register(
            "controller_runtime_reconcile",
            "Reconciliations by controller and result",
            metrics.total.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciliation errors by controller",
            metrics.errors.clone(),
        );
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciliation errors that are not retried, by controller",
            metrics.terminal.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Reconciliation panics by controller",
            metrics.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconciliation by controller",
            metrics.seconds.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Running reconciliations by controller",
            metrics.workers.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciliations by controller",
            metrics.workers_max.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "1 when this process is the leader",
            metrics.leader.clone(),
        );
        metrics.requests.register(registry);
        metrics.certificates.register(registry);
        registry.register_collector(Box::new(ProcessCollector::started_now()));
        metrics
    }

    /// The metrics of one controller.
    pub fn controller(&self, controller: &'static str) -> ControllerMetrics {
        // At zero from the start, as controller-runtime does: alerts on rates need a first sample.
        for result in RESULTS {
            drop(self.total.get_or_create(&ResultLabels { controller, result }));
        }
        for family in [&self.errors, &self.terminal, &self.panics] {
            drop(family.get_or_create(&ControllerLabel { controller }));
        }
        drop(self.seconds.get_or_create(&ControllerLabel { controller }));
        drop(self.workers.get_or_create(&ControllerLabel { controller }));
        ControllerMetrics { families: self.clone(), controller }
    }

    /// The count of requests to the API server, for the clients of the process.
    pub fn requests(&self) -> RequestCount {
        self.requests.clone()
    }

    /// The count of readings of the serving certificate's files, for who watches them.
    pub fn certificate_reads(&self) -> CertificateReads {
        self.certificates.clone()
    }

    /// The states of objects, which the program registers under its name for them.
    pub fn objects(&self) -> ObjectStates {
        self.objects.clone()
    }

    /// Records whether this process leads.
    pub fn leading(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }
}

/// The metrics of one controller.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    families: Metrics,
    controller: &'static str,
}

impl ControllerMetrics {
    pub(crate) fn reconciled(&self, next: &Next, took: Duration) {
        let controller = self.controller;
        let result = match next {
            Next::Await => "success",
            Next::After(_) => "requeue_after",
            Next::Retry(_) | Next::RetryWithin(..) | Next::RetryAfter(..) | Next::Blocked(_) => "error",
        };
        self.families.workers.get_or_create(&ControllerLabel { controller }).dec();
        self.families.total.get_or_create(&ResultLabels { controller, result }).inc();
        self.families.seconds.get_or_create(&ControllerLabel { controller }).observe(took.as_secs_f64());
        if matches!(next, Next::Retry(_) | Next::RetryWithin(..) | Next::RetryAfter(..) | Next::Blocked(_)) {
            self.families.errors.get_or_create(&ControllerLabel { controller }).inc();
        }
        if matches!(next, Next::Blocked(_)) {
            self.families.terminal.get_or_create(&ControllerLabel { controller }).inc();
        }
    }

    /// Says how many reconciliations there may be at a time.
    pub(crate) fn workers_max(&self, workers: u16) {
        let label = ControllerLabel { controller: self.controller };
        self.families.workers_max.get_or_create(&label).set(i64::from(workers));
    }

    /// A reconciliation begins.
    pub(crate) fn begins(&self) {
        self.families.workers.get_or_create(&ControllerLabel { controller: self.controller }).inc();
    }

    /// The queue of the controller.
    pub(crate) fn queue(&self) -> QueueMetrics {
        self.families.queue.queue(self.controller)
    }

    /// The states of its objects.
    pub fn objects(&self) -> &ObjectStates {
        &self.families.objects
    }

    pub(crate) fn panicked(&self) {
        self.families.panics.get_or_create(&ControllerLabel { controller: self.controller }).inc();
    }
}
