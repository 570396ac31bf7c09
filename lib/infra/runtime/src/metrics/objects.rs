//! How many objects of each kind are in which state: a metric beside those of controller-runtime.

use std::{collections::BTreeMap, sync::Arc};

use kube::Resource;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::controller::object_key;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    kind: String,
    condition: &'static str,
    status: String,
    reason: String,
}

/// By kind and key.
type States = BTreeMap<(String, String), StateLabels>;

/// Status and reason of an object that lacks the condition: it was never reconciled so far.
const UNKNOWN: (&str, &str) = ("Unknown", "Unset");

/// Counts objects by the condition that sums them up. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct ObjectStates {
    objects: Family<StateLabels, Gauge>,
    states: Arc<Mutex<States>>,
}

impl ObjectStates {
    /// Exports the metric under the program's name for it.
    pub fn register(&self, name: &str, registry: &mut Registry) {
        let help = "Objects by kind, and status and reason of the condition that sums them up";
        registry.register(name, help, self.objects.clone());
    }

    /// Counts the object in its state: status and reason of its `condition`.
    fn set(&self, kind: &str, name: &str, condition: &'static str, status: &str, reason: &str) {
        let [kind, status, reason] = [kind, status, reason].map(str::to_owned);
        let mut known = self.states.lock();
        let labels = StateLabels { kind: kind.clone(), condition, status, reason };
        let before = known.insert((kind, name.to_owned()), labels.clone());
        if before.as_ref() == Some(&labels) {
            return;
        }
        self.objects.get_or_create(&labels).inc();
        if let Some(before) = before {
            self.leaves(&before);
        }
    }

    /// Counts an object by status and reason of its `condition`; one that is being deleted counts no more. One without
    /// the condition counts as `Unknown`: what was never brought about is no better than what was lost.
    pub fn observe<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        condition: &'static str,
        state: Option<(&str, &str)>,
    ) {
        let (kind, name) = (&K::kind(&()), &object_key(object));
        if object.meta().deletion_timestamp.is_some() {
            self.gone(kind, name);
        } else {
            let (status, reason) = state.unwrap_or(UNKNOWN);
            self.set(kind, name, condition, status, reason);
        }
    }

    /// The object is gone.
    pub fn gone(&self, kind: &str, name: &str) {
        let mut states = self.states.lock();
        if let Some(before) = states.remove(&(kind.to_owned(), name.to_owned())) {
            self.leaves(&before);
        }
    }

    fn leaves(&self, state: &StateLabels) {
        if self.objects.get_or_create(state).dec() <= 1 {
            self.objects.remove(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use kube::core::ObjectMeta;

    use super::*;

    fn registered() -> (Registry, ObjectStates) {
        let (mut registry, metrics) = (Registry::default(), ObjectStates::default());
        metrics.register("objects", &mut registry);
        (registry, metrics)
    }

    fn shown(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| line.starts_with("objects{")).map(str::to_owned).collect()
    }

    fn series(status: &str, reason: &str, count: usize) -> String {
        format!(
            "objects{{kind=\"ConfigMap\",condition=\"Ready\",status=\"{status}\",reason=\"{reason}\"}} {count}"
        )
    }

    #[test]
    fn an_object_without_the_condition_counts_until_it_is_deleted() {
        let (registry, metrics) = registered();
        let mut object = ConfigMap {
            metadata: ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        metrics.observe(&object, "Ready", None);
        assert_eq!(shown(&registry), [series("Unknown", "Unset", 1)]);
        metrics.observe(&object, "Ready", Some(("True", "Available")));
        assert_eq!(shown(&registry), [series("True", "Available", 1)]);
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        metrics.observe(&object, "Ready", Some(("True", "Available")));
        assert!(shown(&registry).is_empty());
    }

    #[test]
    fn each_object_counts_in_one_state() {
        let (registry, metrics) = registered();
        for name in ["a", "a", "b"] {
            metrics.set("ConfigMap", name, "Ready", "False", "Retrying");
        }
        assert_eq!(shown(&registry), [series("False", "Retrying", 2)]);
        metrics.set("ConfigMap", "a", "Ready", "True", "Succeeded");
        assert!(shown(&registry).contains(&series("False", "Retrying", 1)));
        metrics.gone("ConfigMap", "b");
        metrics.gone("ConfigMap", "b");
        assert_eq!(shown(&registry), [series("True", "Succeeded", 1)]);
    }
}
