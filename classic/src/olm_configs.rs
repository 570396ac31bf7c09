//! The controller of the OLMConfig: reports whether operators are copied as it says.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use olm_api_classic::{ClusterServiceVersion, OLMConfig, OLMConfigStatus, names::COPIED_FROM_LABEL};
use olm_classic_core::csv::{
    chain::is_copy,
    copied::{CONFIG, DISABLED, conditions, is_disabled, is_for_all, namespaces},
};
use olm_runtime::{Clock, Next, ObjectWriter};
use tokio::sync::watch;

use crate::{
    operator_groups::now,
    operators::{Interest, Stores, live},
};

/// The time after which it is counted again while copies are made or deleted.
const AGAIN: Duration = Duration::from_secs(1);

/// Everything a reconcile needs.
#[derive(Clone)]
pub(crate) struct Reconciler {
    pub(crate) stores: Stores,
    pub(crate) objects: Arc<ObjectWriter<OLMConfig>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) leader: watch::Receiver<bool>,
}

impl olm_runtime::Reconciler for Reconciler {
    type Object = OLMConfig;
    type Interest = Interest;

    const CONDITION: &'static str = DISABLED;

    fn state(config: &OLMConfig) -> Option<(&str, &str)> {
        let conditions = &config.status.as_ref()?.conditions;
        let condition = conditions.iter().find(|condition| condition.type_ == Self::CONDITION)?;
        Some((&condition.status, &condition.reason))
    }

    async fn reconcile(&self, config: &OLMConfig) -> (Next, BTreeSet<Interest>) {
        if let Some(left) = self.objects.behind(config) {
            return (Next::After(left), BTreeSet::from([Interest::Part]));
        }
        let is_deleted = config.metadata.deletion_timestamp.is_some();
        if !*self.leader.borrow() || is_deleted || config.name_any() != CONFIG {
            return (Next::Await, BTreeSet::from([Interest::Part]));
        }
        let agrees = self.agrees(is_disabled(Some(config)));
        let status = OLMConfigStatus { conditions: conditions(config, agrees, now(&self.clock)) };
        let next = match self.objects.set_status(config, status).await {
            Ok(_) if agrees => Next::Await,
            // Each copy that comes or goes has an event: all of them are not counted at each.
            Ok(_) => return (Next::After(AGAIN), [Interest::Part].into()),
            Err(error) => Next::Retry(error),
        };
        (next, [Interest::Part, Interest::Copies, Interest::Namespaces].into())
    }

    async fn report_panic(&self, _: &OLMConfig) {}
}

impl Reconciler {
    /// Whether the operators for all namespaces have the copies that they are to have.
    fn agrees(&self, disabled: bool) -> bool {
        let existing = live(&self.stores.namespaces);
        let stored = self.stores.csvs.state();
        let csvs = || stored.iter().filter_map(|csv| csv.0.as_ref().ok());
        if disabled {
            let of_all = |copy: &ClusterServiceVersion| {
                let from = copy.labels().get(COPIED_FROM_LABEL).map(String::as_str).unwrap_or_default();
                let original = self.stores.csvs.get(&ObjectRef::new(&copy.name_any()).within(from));
                original.is_some_and(|original| original.0.as_ref().is_ok_and(is_for_all))
            };
            return !csvs().filter(|csv| is_copy(csv)).any(of_all);
        }
        let has = |csv: &ClusterServiceVersion, namespace: &str| {
            self.stores.csvs.get(&ObjectRef::new(&csv.name_any()).within(namespace)).is_some()
        };
        let mut copied = csvs().filter(|csv| is_for_all(csv));
        copied.all(|csv| namespaces(csv, &existing, false).iter().all(|namespace| has(csv, namespace)))
    }
}
