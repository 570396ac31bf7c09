//! How many objects of each kind are in which state: our own metrics, beside those of controller-runtime.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::Resource;
use olm_api::{ConditionType, Conditions};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    kind: &'static str,
    condition: &'static str,
    status: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

/// By kind and name.
type States = BTreeMap<(String, String), StateLabels>;

/// Status and reason of an object that lacks the condition: nobody has come so far with it.
const UNKNOWN: (&str, &str) = ("Unknown", "Unset");

/// Counts objects by the condition that sums them up. Clones share their state.
#[derive(Debug, Clone)]
pub struct ObjectMetrics {
    objects: Family<StateLabels, Gauge>,
    repairs: Family<KindLabel, Counter>,
    states: Arc<Mutex<States>>,
}

impl ObjectMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { objects: Family::default(), repairs: Family::default(), states: Arc::default() };
        registry.register(
            "olm_objects",
            "Objects by kind, and status and reason of the condition that sums them up",
            metrics.objects.clone(),
        );
        // The library appends `_total` itself.
        registry.register(
            "olm_drift_repairs",
            "Objects of revisions that were brought back to what the revision says, by their kind",
            metrics.repairs.clone(),
        );
        metrics
    }

    /// Says in which state the object is: status and reason of its `condition`.
    fn is(&self, kind: &'static str, name: &str, condition: &'static str, status: &str, reason: &str) {
        let labels = StateLabels { kind, condition, status: status.to_owned(), reason: reason.to_owned() };
        let mut known = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert((kind.to_owned(), name.to_owned()), labels.clone());
        if before.as_ref() == Some(&labels) {
            return;
        }
        self.objects.get_or_create(&labels).inc();
        if let Some(before) = before {
            self.leaves(&before);
        }
    }

    /// Takes the state from the conditions of an object; one that is being deleted counts no more. One without the
    /// condition counts as `Unknown`: what was never brought about is no better than what was lost.
    pub fn observe<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        kind: &'static str,
        condition: ConditionType,
        conditions: Option<&Conditions>,
    ) {
        let name = object.meta().name.as_deref().unwrap_or_default();
        if object.meta().deletion_timestamp.is_some() {
            self.gone(kind, name);
        } else {
            let found = conditions.and_then(|all| all.find(condition));
            let (status, reason) =
                found.map_or(UNKNOWN, |found| (found.status.as_str(), found.reason.as_str()));
            self.is(kind, name, condition.as_str(), status, reason);
        }
    }

    /// The object is gone.
    pub(crate) fn gone(&self, kind: &str, name: &str) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = states.remove(&(kind.to_owned(), name.to_owned())) {
            self.leaves(&before);
        }
    }

    /// An object of this kind was brought back to what its revision says.
    pub fn repaired(&self, kind: &str) {
        self.repairs.get_or_create(&KindLabel { kind: kind.to_owned() }).inc();
    }

    fn leaves(&self, state: &StateLabels) {
        if self.objects.get_or_create(state).dec() <= 1 {
            self.objects.remove(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use olm_api::{ConditionStatus, ConditionUpdate, Reason, v1::ClusterCatalog};

    use super::*;

    fn shown(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| line.starts_with("olm_")).map(str::to_owned).collect()
    }

    #[test]
    fn an_object_without_the_condition_counts_until_it_goes() {
        let mut registry = Registry::default();
        let metrics = ObjectMetrics::register(&mut registry);
        let mut catalog: ClusterCatalog = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"}, "spec": {"source": {"type": "Image", "image": {"ref": "i"}}},
        }))
        .unwrap();
        let observe = |catalog: &ClusterCatalog, conditions: Option<&Conditions>| {
            metrics.observe(catalog, "ClusterCatalog", ConditionType::Serving, conditions);
        };
        let series = |status: &str, reason: &str| {
            format!(
                "olm_objects{{kind=\"ClusterCatalog\",condition=\"Serving\",status=\"{status}\",reason=\"{reason}\"}} 1"
            )
        };
        observe(&catalog, None);
        assert_eq!(shown(&registry), [series("Unknown", "Unset")]);
        let mut conditions = Conditions::default();
        let set = |conditions: &mut Conditions, type_, status, reason| {
            let update = ConditionUpdate::new(type_, status, reason, "", Some(1));
            conditions.set(update, Timestamp::UNIX_EPOCH);
        };
        set(&mut conditions, ConditionType::Progressing, ConditionStatus::True, Reason::Retrying);
        observe(&catalog, Some(&conditions));
        assert_eq!(shown(&registry), [series("Unknown", "Unset")], "another condition says nothing of it");
        set(&mut conditions, ConditionType::Serving, ConditionStatus::True, Reason::Available);
        observe(&catalog, Some(&conditions));
        assert_eq!(shown(&registry), [series("True", "Available")]);
        catalog.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
        observe(&catalog, Some(&conditions));
        assert!(shown(&registry).is_empty());
    }

    #[test]
    fn each_object_counts_in_one_state() {
        let mut registry = Registry::default();
        let metrics = ObjectMetrics::register(&mut registry);
        let shown = || shown(&registry);
        metrics.is("ClusterExtension", "a", "Ready", "False", "Retrying");
        metrics.is("ClusterExtension", "a", "Ready", "False", "Retrying");
        metrics.is("ClusterExtension", "b", "Ready", "False", "Retrying");
        let failing =
            "olm_objects{kind=\"ClusterExtension\",condition=\"Ready\",status=\"False\",reason=\"Retrying\"}";
        assert_eq!(shown(), [format!("{failing} 2")]);
        metrics.is("ClusterExtension", "a", "Ready", "True", "Succeeded");
        assert!(shown().contains(&format!("{failing} 1")));
        metrics.gone("ClusterExtension", "b");
        metrics.gone("ClusterExtension", "b");
        metrics.repaired("ConfigMap");
        assert_eq!(
            shown(),
            [
                "olm_objects{kind=\"ClusterExtension\",condition=\"Ready\",status=\"True\",reason=\"Succeeded\"} 1",
                "olm_drift_repairs_total{kind=\"ConfigMap\"} 1",
            ]
        );
    }
}
