//! Metrics of Subscriptions, their resolution and their InstallPlans, with upstream's names and labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::ResourceExt;
use olm_api_classic::{InstallPlan, Subscription};
use olm_runtime::object_key;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Upper bounds of the buckets, in seconds. Half of what a namespace may take is a few seconds.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Characters of a label: a name has no more, but a Subscription may ask for anything.
const LABEL_CHARACTERS_MAX: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Synced {
    name: String,
    installed: String,
    channel: String,
    package: String,
    approval: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resolved {
    outcome: &'static str,
}

/// The metrics. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct SubscriptionMetrics {
    subscriptions: Gauge,
    plans: Gauge,
    synced: Family<Synced, Counter>,
    resolved: Family<Resolved, Histogram, fn() -> Histogram>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    subscriptions: BTreeMap<String, Synced>,
    plans: BTreeSet<String>,
}

impl SubscriptionMetrics {
    /// Exports the metrics.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let this = Self {
            subscriptions: Gauge::default(),
            plans: Gauge::default(),
            synced: Family::default(),
            resolved: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            known: Arc::default(),
        };
        registry.register("subscription_count", "Number of Subscriptions", this.subscriptions.clone());
        registry.register("install_plan_count", "Number of InstallPlans", this.plans.clone());
        let help = "Monotonic count of Subscription syncs";
        registry.register("subscription_sync", help, this.synced.clone());
        let help = "The duration of a dependency resolution attempt";
        registry.register("olm_resolution_duration_seconds", help, this.resolved.clone());
        this
    }

    /// Counts a change of a Subscription; the series of what it was before goes.
    pub(super) fn subscription(&self, subscription: &Subscription, is_gone: bool) {
        let key = object_key(subscription);
        let labels = labels(subscription);
        let mut known = self.known.lock();
        let before = known.subscriptions.remove(&key);
        if !is_gone {
            known.subscriptions.insert(key, labels.clone());
        }
        // Names are unique in a namespace only: another Subscription may be counted in the same series.
        if let Some(before) = before.filter(|before| known.subscriptions.values().all(|one| one != before)) {
            self.synced.remove(&before);
        }
        if !is_gone {
            self.synced.get_or_create(&labels).inc();
        }
        self.subscriptions.set(i64::try_from(known.subscriptions.len()).unwrap_or(i64::MAX));
    }

    /// Counts an InstallPlan, until it is gone.
    pub(super) fn plan(&self, plan: &InstallPlan, is_gone: bool) {
        let mut known = self.known.lock();
        if is_gone {
            known.plans.remove(&object_key(plan));
        } else {
            known.plans.insert(object_key(plan));
        }
        self.plans.set(i64::try_from(known.plans.len()).unwrap_or(i64::MAX));
    }

    /// Takes note of a resolution of a namespace.
    pub(super) fn resolved(&self, took: Duration, has_succeeded: bool) {
        let outcome = if has_succeeded { "succeeded" } else { "failed" };
        self.resolved.get_or_create(&Resolved { outcome }).observe(took.as_secs_f64());
    }
}

fn labels(subscription: &Subscription) -> Synced {
    let spec = &subscription.spec;
    let label = |text: Option<&String>| {
        text.into_iter().flat_map(|text| text.chars()).take(LABEL_CHARACTERS_MAX).collect::<String>()
    };
    Synced {
        name: subscription.name_any(),
        installed: label(subscription.status.as_ref().and_then(|status| status.installed_csv.as_ref())),
        channel: label(spec.channel.as_ref()),
        package: label(Some(&spec.name)),
        approval: label(spec.install_plan_approval.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subscription(namespace: &str, channel: &str, installed: Option<&str>) -> Subscription {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "lamp", "namespace": namespace},
            "spec": {
                "name": "lamp", "source": "cat", "sourceNamespace": "olm", "channel": channel,
                "installPlanApproval": "Manual",
            },
            "status": {"lastUpdated": null, "installedCSV": installed},
        });
        serde_json::from_value(object).unwrap()
    }

    fn shown(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let wanted = |line: &&str| line.starts_with("subscription_") || line.starts_with("install_plan");
        text.lines().filter(wanted).map(str::to_owned).collect()
    }

    #[test]
    fn changes_of_a_subscription_are_counted_under_what_it_is_now() {
        let mut registry = Registry::default();
        let metrics = SubscriptionMetrics::register(&mut registry);
        let series = |installed: &str, count: u32| {
            format!(
                "subscription_sync_total{{name=\"lamp\",installed=\"{installed}\",channel=\"stable\",package=\"lamp\",\
                 approval=\"Manual\"}} {count}"
            )
        };
        let (before, after) =
            (subscription("a", "stable", None), subscription("a", "stable", Some("lamp.v1")));
        metrics.subscription(&before, false);
        metrics.subscription(&before, false);
        assert!(shown(&registry).contains(&series("", 2)), "{:?}", shown(&registry));
        metrics.subscription(&after, false);
        let all = shown(&registry);
        assert!(all.contains(&series("lamp.v1", 1)) && !all.contains(&series("", 2)), "{all:?}");
        // One of the same name in another namespace keeps the series.
        metrics.subscription(&subscription("b", "stable", Some("lamp.v1")), false);
        metrics.subscription(&after, true);
        let all = shown(&registry);
        assert!(all.contains(&series("lamp.v1", 2)), "{all:?}");
        assert!(all.contains(&"subscription_count 1".to_owned()), "{all:?}");
        metrics.subscription(&subscription("b", "stable", Some("lamp.v1")), true);
        let left: Vec<_> = shown(&registry).into_iter().filter(|line| line.contains('{')).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn a_label_is_no_longer_than_a_name() {
        let mut registry = Registry::default();
        let metrics = SubscriptionMetrics::register(&mut registry);
        metrics.subscription(&subscription("a", &"c".repeat(100_000), None), false);
        assert!(shown(&registry).iter().all(|line| line.len() < 1000));
    }
}
