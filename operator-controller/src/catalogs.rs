//! The catalogs an extension is resolved from.

mod reader;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catalogd::CatalogChanged;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::reflector::{ObjectRef, Store},
};
use olm_api::{
    names::CATALOG_NAME_LABEL,
    v1::{AvailabilityMode, ClusterCatalog, ClusterExtension},
};
use olm_fbc::{CatalogError, PackageContent};
use olm_objectset::label_selector_matches;
use olm_resolve::CatalogView;
use olm_runtime::Source;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

pub use reader::CatalogReader;

/// What one catalog says about a package, or why it cannot be read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) name: String,
    pub(crate) priority: i32,
    pub(crate) content: Result<Arc<PackageContent>, CatalogError>,
}

impl Answer {
    pub(crate) fn view(&self) -> CatalogView<'_> {
        CatalogView {
            name: &self.name,
            priority: self.priority,
            content: self.content.as_ref().map(Arc::as_ref).map_err(Clone::clone),
        }
    }
}

/// Reads packages from all catalogs of the cluster.
#[derive(Clone)]
pub(crate) struct Catalogs {
    known: Store<DeserializeGuard<ClusterCatalog>>,
    reader: Arc<dyn CatalogReader>,
    absent: Arc<Absent>,
}

/// Catalogs that were asked and have never been served, and since when.
#[derive(Debug)]
struct Absent {
    since: Mutex<BTreeMap<String, Timestamp>>,
    deadline: SignedDuration,
}

impl Absent {
    fn note(&self, catalog: &str, absent: bool, now: Timestamp) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if absent {
            since.entry(catalog.to_owned()).or_insert(now);
        } else {
            since.remove(catalog);
        }
    }

    fn wait_for(&self, catalogs: &[String], now: Timestamp) -> Wait {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let deadlines: Option<Vec<Timestamp>> = catalogs
            .iter()
            .map(|name| since.get(name).and_then(|since| since.checked_add(self.deadline).ok()))
            .collect();
        match deadlines.and_then(|all| all.into_iter().max()) {
            Some(deadline) if deadline <= now => Wait::Over,
            Some(deadline) => Wait::Until(deadline),
            None => Wait::Longer,
        }
    }
}

/// How long catalogs that cannot be read are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until they can be read: they were served before.
    Longer,
    /// None of them has ever been served; until then.
    Until(Timestamp),
    /// That time has come.
    Over,
}

impl Catalogs {
    pub(crate) fn new(
        known: Store<DeserializeGuard<ClusterCatalog>>,
        reader: Arc<dyn CatalogReader>,
        deadline: Duration,
    ) -> Self {
        let deadline = SignedDuration::try_from(deadline).unwrap_or(SignedDuration::MAX);
        Self { known, reader, absent: Arc::new(Absent { since: Mutex::default(), deadline }) }
    }

    /// How long to wait for these catalogs, which could not be read.
    pub(crate) fn wait_for(&self, catalogs: &[String], now: Timestamp) -> Wait {
        self.absent.wait_for(catalogs, now)
    }

    /// The packages of all readable catalogs with `text` in what resolution reads of them: catalog, priority
    /// and package. For explanations.
    pub(crate) async fn mentioning(&self, text: &str) -> Vec<(String, i32, PackageContent)> {
        let mut found = Vec::new();
        for asked in self.asked(None) {
            match self.reader.mentioning(&asked.name, text).await {
                Ok(all) => found.extend(all.into_iter().map(|p| (asked.name.clone(), asked.priority, p))),
                Err(error) => {
                    tracing::debug!(catalog = asked.name, %error, "catalog left out of an explanation");
                }
            }
        }
        found
    }

    /// The available catalogs that `selector` selects, by name.
    fn asked(&self, selector: Option<&LabelSelector>) -> Vec<Asked> {
        let mut catalogs: Vec<Asked> = self
            .known
            .state()
            .iter()
            .filter_map(|guarded| guarded.0.as_ref().ok())
            .filter(|c| c.metadata.deletion_timestamp.is_none())
            .filter(|c| c.spec.availability_mode != AvailabilityMode::Unavailable)
            .filter(|c| selector.is_none_or(|s| selected(&c.name_any(), c.labels(), s)))
            .map(|c| Asked {
                name: c.name_any(),
                priority: c.spec.priority,
                served_before: c.status.as_ref().is_some_and(|status| status.last_unpacked.is_some()),
            })
            .collect();
        catalogs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        catalogs
    }

    /// Asks every available catalog that `selector` selects, in order of name.
    ///
    /// # Errors
    /// The selector is not valid; the text is the original's.
    pub(crate) async fn ask(
        &self,
        package: &str,
        selector: Option<&LabelSelector>,
        now: Timestamp,
    ) -> Result<Vec<Answer>, String> {
        if let Some(selector) = selector {
            validate(selector).map_err(|e| format!("desired catalog selector is invalid: {e}"))?;
        }
        let mut answers = Vec::new();
        for Asked { name, priority, served_before } in self.asked(selector) {
            let content = self.reader.package(&name, package).await;
            let absent = matches!(content, Err(CatalogError::NotServed { .. })) && !served_before;
            self.absent.note(&name, absent, now);
            answers.push(Answer { name, priority, content });
        }
        Ok(answers)
    }
}

/// A catalog that is to be asked.
#[derive(Debug)]
struct Asked {
    name: String,
    priority: i32,
    served_before: bool,
}

/// What of a catalog matters to resolution, beside its content.
#[derive(Debug, Clone, Default, PartialEq)]
struct Traits {
    labels: BTreeMap<String, String>,
    priority: i32,
    available: bool,
}

impl Traits {
    fn of(catalog: &ClusterCatalog) -> Self {
        Self {
            labels: catalog.labels().clone(),
            priority: catalog.spec.priority,
            available: catalog.spec.availability_mode == AvailabilityMode::Available
                && catalog.metadata.deletion_timestamp.is_none(),
        }
    }
}

/// Keeps the store of catalogs current. When a catalog comes, goes, or changes in a way that can matter to
/// resolution, wakes the extensions that use it, and no others.
pub(crate) async fn follow(
    source: Source<ClusterCatalog>,
    mut contents: broadcast::Receiver<CatalogChanged>,
    extensions: Store<DeserializeGuard<ClusterExtension>>,
    wake: mpsc::Sender<String>,
    stop: CancellationToken,
) {
    let store = source.store.clone();
    let mut objects = source.into_names();
    let mut known: BTreeMap<String, Traits> = BTreeMap::new();
    loop {
        let changed: Option<(String, Vec<Traits>)> = tokio::select! {
            // In this order, so that the same events have the same outcome.
            biased;
            () = stop.cancelled() => return,
            content = contents.recv() => match content {
                Ok(change) => {
                    let traits = known.get(&change.catalog).cloned();
                    Some((change.catalog, traits.into_iter().collect()))
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    wake_all(&extensions, &wake, |_| true).await;
                    None
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
            Some(object) = objects.next() => {
                object.and_then(|name| {
                    let found = store.get(&ObjectRef::new(&name));
                    let traits = found.and_then(|guarded| guarded.0.as_ref().ok().map(Traits::of));
                    note(&mut known, &name, traits).map(|changed| (name, changed))
                })
            }
        };
        if let Some((name, traits)) = changed {
            wake_all(&extensions, &wake, |extension| {
                // Of a catalog that was never seen only its name is known.
                let uses = |traits: &Traits| uses(extension, &name, &traits.labels);
                if traits.is_empty() { uses(&Traits::default()) } else { traits.iter().any(uses) }
            })
            .await;
        }
    }
}

async fn wake_all(
    extensions: &Store<DeserializeGuard<ClusterExtension>>,
    wake: &mpsc::Sender<String>,
    which: impl Fn(&ClusterExtension) -> bool,
) {
    for guarded in extensions.state() {
        let name = guarded.name_any();
        if guarded.0.as_ref().is_ok_and(&which) {
            // A closed channel means that the process is ending.
            let _ = wake.send(name).await;
        }
    }
}

/// Whether the extension takes bundles from a catalog of this name with these labels.
fn uses(extension: &ClusterExtension, catalog: &str, labels: &BTreeMap<String, String>) -> bool {
    let source = extension.spec.source.catalog.as_ref();
    source.is_some_and(|s| s.selector.as_ref().is_none_or(|selector| selected(catalog, labels, selector)))
}

/// Remembers what a catalog is like now; what it was and is, if that is news.
fn note(known: &mut BTreeMap<String, Traits>, name: &str, traits: Option<Traits>) -> Option<Vec<Traits>> {
    if known.get(name) == traits.as_ref() {
        return None;
    }
    let before = match traits.clone() {
        Some(traits) => known.insert(name.to_owned(), traits),
        None => known.remove(name),
    };
    Some(before.into_iter().chain(traits).collect())
}

/// The label with the catalog's own name counts as set even before catalogd has stamped it.
fn selected(catalog: &str, labels: &BTreeMap<String, String>, selector: &LabelSelector) -> bool {
    label_selector_matches(selector, |key| {
        if key == CATALOG_NAME_LABEL { Some(catalog) } else { labels.get(key).map(String::as_str) }
    })
}

fn validate(selector: &LabelSelector) -> Result<(), String> {
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_ref().is_some_and(|v| !v.is_empty());
        match requirement.operator.as_str() {
            "In" | "NotIn" if !values => {
                return Err(format!(
                    "key {:?}: for 'in', 'notin' operators, values set can't be empty",
                    requirement.key
                ));
            }
            "Exists" | "DoesNotExist" if values => {
                return Err(format!(
                    "key {:?}: values set must be empty for exists and does not exist",
                    requirement.key
                ));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_catalog_is_selected_by_its_name_without_the_label() {
        let by_name = selector(json!({"matchLabels": {CATALOG_NAME_LABEL: "mine"}}));
        assert!(selected("mine", &labels(&[]), &by_name));
        let other = selector(json!({"matchLabels": {CATALOG_NAME_LABEL: "other"}}));
        assert!(!selected("mine", &labels(&[]), &other));
    }

    #[test]
    fn expressions_select() {
        let expression = |operator: &str, values: &[&str]| {
            selector(json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}))
        };
        let selected =
            |labels: &BTreeMap<String, String>, by: LabelSelector| super::selected("mine", labels, &by);
        let gold = labels(&[("tier", "gold")]);
        assert!(selected(&gold, expression("In", &["gold"])));
        assert!(!selected(&gold, expression("NotIn", &["gold"])));
        assert!(selected(&gold, expression("Exists", &[])));
        assert!(!selected(&gold, expression("DoesNotExist", &[])));
        assert!(selected(&labels(&[]), expression("NotIn", &["gold"])));
    }

    #[test]
    fn selectors_that_cannot_select_are_refused() {
        for (operator, values) in [("In", json!([])), ("Exists", json!(["x"])), ("Like", json!(["x"]))] {
            let wrong =
                selector(json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}));
            assert!(validate(&wrong).is_err(), "{operator}");
        }
    }

    #[test]
    fn only_extensions_that_use_a_catalog_are_woken_by_it() {
        let extension = |selector: serde_json::Value| -> ClusterExtension {
            serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e"},
                "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": "p", "selector": selector,
                }}},
            }))
            .unwrap()
        };
        let gold = labels(&[("tier", "gold")]);
        assert!(uses(&extension(json!(null)), "mine", &gold));
        assert!(uses(&extension(json!({"matchLabels": {"tier": "gold"}})), "mine", &gold));
        assert!(!uses(&extension(json!({"matchLabels": {"tier": "silver"}})), "mine", &gold));
        assert!(!uses(&extension(json!({"matchLabels": {CATALOG_NAME_LABEL: "other"}})), "mine", &gold));
    }

    #[test]
    fn a_change_is_news_to_those_before_and_after() {
        let traits =
            |tier: &str| Some(Traits { labels: labels(&[("tier", tier)]), priority: 0, available: true });
        let mut known = BTreeMap::new();
        assert_eq!(note(&mut known, "c", traits("gold")).map(|all| all.len()), Some(1));
        assert_eq!(note(&mut known, "c", traits("gold")), None, "a status update is no news");
        assert_eq!(note(&mut known, "c", traits("silver")).map(|all| all.len()), Some(2));
        assert_eq!(note(&mut known, "c", None).map(|all| all.len()), Some(1));
    }

    #[test]
    fn catalogs_that_were_never_served_are_waited_for_until_a_deadline() {
        let absent = Absent { since: Mutex::default(), deadline: SignedDuration::from_secs(120) };
        let at = |second| Timestamp::from_second(second).unwrap();
        let both = ["a".to_owned(), "b".to_owned()];
        assert_eq!(absent.wait_for(&both, at(0)), Wait::Longer);
        absent.note("a", true, at(0));
        absent.note("a", true, at(50));
        assert_eq!(absent.wait_for(&both[..1], at(119)), Wait::Until(at(120)));
        assert_eq!(absent.wait_for(&both[..1], at(120)), Wait::Over);
        assert_eq!(absent.wait_for(&both, at(500)), Wait::Longer, "the other one was served before");
        absent.note("b", true, at(60));
        assert_eq!(absent.wait_for(&both, at(130)), Wait::Until(at(180)));
        absent.note("a", false, at(130));
        assert_eq!(absent.wait_for(&both, at(500)), Wait::Longer);
    }
}
