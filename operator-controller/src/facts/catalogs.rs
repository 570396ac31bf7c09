//! The catalogs an extension is resolved from.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use catalogd::CatalogReader;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use olm_api::{
    ConditionType::Stalled,
    names::CATALOG_NAME_LABEL,
    v1::{AvailabilityMode, ClusterCatalog},
};
use olm_fbc::{CatalogError, PackageContent};
use olm_objectset::label_selector_matches;
use olm_resolve::CatalogView;
use olm_runtime::{Guarded, Source};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::facts::readable;
use crate::{
    content::Content,
    interest::{Interest, Interests, Wanted},
};

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
    known: Store<Guarded<ClusterCatalog>>,
    reader: Arc<dyn CatalogReader>,
    absent: Arc<Absent>,
}

/// Catalogs that were asked and have never been served: their UIDs, and since when.
#[derive(Debug)]
struct Absent {
    since: Mutex<BTreeMap<String, (String, Timestamp)>>,
    deadline: SignedDuration,
}

impl Absent {
    fn note(&self, catalog: &str, uid: &str, absent: bool, now: Timestamp) {
        let mut since = self.since.lock();
        if !absent {
            since.remove(catalog);
        } else if since.get(catalog).is_none_or(|(known, _)| known != uid) {
            // One that was created again has all its time.
            since.insert(catalog.to_owned(), (uid.to_owned(), now));
        }
    }

    /// Forgets catalogs that are gone.
    fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.since.lock().retain(|name, _| exists(name));
    }

    fn wait_for(&self, catalogs: &[String], now: Timestamp) -> Wait {
        let since = self.since.lock();
        let deadlines: Option<Vec<Timestamp>> = catalogs
            .iter()
            .map(|name| since.get(name).and_then(|(_, since)| since.checked_add(self.deadline).ok()))
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
        known: Store<Guarded<ClusterCatalog>>,
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

    /// Whether someone has to act before one of these catalogs can be read.
    pub(crate) fn are_stalled(&self, catalogs: &[String]) -> bool {
        let is_stalled = |name: &String| {
            let found = self.known.get(&ObjectRef::new(name));
            found.is_some_and(|guarded| guarded.0.as_ref().is_ok_and(is_stalled))
        };
        catalogs.iter().any(is_stalled)
    }

    /// The names of the packages of these catalogs; one that cannot be read has none.
    pub(crate) async fn packages(&self, catalogs: &[String]) -> Vec<String> {
        let mut names = Vec::new();
        for catalog in catalogs {
            names.extend(self.reader.packages(catalog).await.unwrap_or_default());
        }
        names
    }

    /// The packages of all readable catalogs with `text` in what resolution reads of them: catalog, priority
    /// and package. For explanations.
    pub(crate) async fn mentioning(
        &self,
        text: &str,
        selector: Option<&LabelSelector>,
    ) -> Vec<(String, i32, PackageContent)> {
        let mut found = Vec::new();
        for asked in self.asked(selector) {
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
        let state = self.known.state();
        let mut catalogs: Vec<Asked> = readable(&state)
            .filter(|c| c.metadata.deletion_timestamp.is_none())
            .filter(|c| c.spec.availability_mode != AvailabilityMode::Unavailable)
            .filter(|c| selector.is_none_or(|s| selected(&c.name_any(), c.labels(), s)))
            .map(|c| Asked {
                name: c.name_any(),
                uid: c.uid().unwrap_or_default(),
                priority: c.spec.priority,
                served_before: c.status.as_ref().is_some_and(|status| status.last_unpacked.is_some()),
            })
            .collect();
        catalogs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        catalogs
    }

    /// Asks every available catalog that `selector` selects, in order of name. They are of interest from then on.
    ///
    /// # Errors
    /// The selector is not valid; the text is upstream's.
    pub(crate) async fn ask(
        &self,
        package: &str,
        selector: Option<&LabelSelector>,
        (now, wanted): (Timestamp, &Wanted),
    ) -> Result<Vec<Answer>, String> {
        wanted.add([Interest::Catalogs]);
        if let Some(selector) = selector {
            validate(selector).map_err(|e| format!("desired catalog selector is invalid: {e}"))?;
        }
        let mut answers = Vec::new();
        self.absent.retain(|name| self.known.get(&ObjectRef::new(name)).is_some());
        for Asked { name, uid, priority, served_before } in self.asked(selector) {
            wanted.add([Interest::Catalog(name.clone())]);
            let content = self.reader.package(&name, package).await;
            let absent = matches!(content, Err(CatalogError::NotServed { .. })) && !served_before;
            self.absent.note(&name, &uid, absent, now);
            answers.push(Answer { name, priority, content });
        }
        Ok(answers)
    }
}

/// A catalog that is to be asked.
#[derive(Debug)]
struct Asked {
    name: String,
    uid: String,
    priority: i32,
    served_before: bool,
}

/// Whether a catalog reports that someone has to act.
fn is_stalled(catalog: &ClusterCatalog) -> bool {
    catalog.status.as_ref().is_some_and(|status| status.conditions.is_true(Stalled))
}

/// What of a catalog matters to resolution and what it reports, beside its content.
#[derive(Debug, Clone, Default, PartialEq)]
struct Traits {
    labels: BTreeMap<String, String>,
    priority: i32,
    available: bool,
    stalled: bool,
}

impl Traits {
    fn of(catalog: &ClusterCatalog) -> Self {
        Self {
            labels: catalog.labels().clone(),
            priority: catalog.spec.priority,
            available: catalog.spec.availability_mode == AvailabilityMode::Available
                && catalog.metadata.deletion_timestamp.is_none(),
            stalled: is_stalled(catalog),
        }
    }
}

/// Keeps the store of catalogs current until `stop`. A catalog whose content changed fires its own interest, one that
/// comes, goes, or changes otherwise in a way that can matter to resolution, the interest in all of them: whom it concerns
/// now is not known from whom it concerned before.
pub(crate) async fn follow(
    source: Source<ClusterCatalog>,
    content: &Content,
    interests: Interests,
    stop: CancellationToken,
) {
    let (store, mut contents) = (source.store.clone(), content.changes());
    let mut objects = source.into_names();
    let mut known: BTreeMap<String, Traits> = BTreeMap::new();
    loop {
        tokio::select! {
            // In this order, so that the same events have the same outcome.
            biased;
            () = stop.cancelled() => return,
            change = contents.recv() => match change {
                Ok(change) => interests.fire(&Interest::Catalog(change.catalog)),
                Err(broadcast::error::RecvError::Lagged(_)) => interests.fire(&Interest::Catalogs),
                Err(broadcast::error::RecvError::Closed) => return,
            },
            Some(object) = objects.next() => if let Some(name) = object {
                content.catalog_changed(&name);
                let found = store.get(&ObjectRef::new(&name));
                let traits = found.and_then(|guarded| guarded.0.as_ref().ok().map(Traits::of));
                if note(&mut known, name, traits) {
                    interests.fire(&Interest::Catalogs);
                }
            }
        }
    }
}

/// Remembers what a catalog is like now; whether that is news.
fn note(known: &mut BTreeMap<String, Traits>, name: String, traits: Option<Traits>) -> bool {
    let is_news = known.get(&name) != traits.as_ref();
    match traits {
        Some(traits) => drop(known.insert(name, traits)),
        None => drop(known.remove(&name)),
    }
    is_news
}

/// Whether a selector selects a catalog. The label with the catalog's own name counts as set even before catalogd has stamped it.
pub fn selected(catalog: &str, labels: &BTreeMap<String, String>, selector: &LabelSelector) -> bool {
    label_selector_matches(selector, |key| {
        if key == CATALOG_NAME_LABEL { Some(catalog) } else { labels.get(key).map(String::as_str) }
    })
}

fn validate(selector: &LabelSelector) -> Result<(), String> {
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_ref().is_some_and(|v| !v.is_empty());
        let wrong = match requirement.operator.as_str() {
            "In" | "NotIn" if !values => "for 'in', 'notin' operators, values set can't be empty",
            "Exists" | "DoesNotExist" if values => "values set must be empty for exists and does not exist",
            "In" | "NotIn" | "Exists" | "DoesNotExist" => continue,
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        return Err(format!("key {:?}: {wrong}", requirement.key));
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
    fn traits_are_those_of_the_object() {
        let catalog = |status: &str| -> ClusterCatalog {
            let stalled = json!({
                "type": "Stalled", "status": status, "reason": "Blocked", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let object = json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
                "metadata": {"name": "c", "labels": {"tier": "gold"}},
                "spec": {"priority": 3, "source": {"type": "Image", "image": {"ref": "r/c:v1"}}},
                "status": {"conditions": [stalled]},
            });
            serde_json::from_value(object).unwrap()
        };
        let traits =
            Traits { labels: labels(&[("tier", "gold")]), priority: 3, available: true, stalled: false };
        assert_eq!(Traits::of(&catalog("False")), traits);
        assert_eq!(Traits::of(&catalog("True")), Traits { stalled: true, ..traits });
    }

    #[test]
    fn only_what_resolution_reads_is_news() {
        let traits = |tier: &str| Some(Traits { labels: labels(&[("tier", tier)]), ..Traits::default() });
        let mut known = BTreeMap::new();
        let mut note = |traits| note(&mut known, "c".to_owned(), traits);
        assert!(note(traits("gold")));
        assert!(!note(traits("gold")), "a status update is no news");
        assert!(note(traits("silver")));
        let stalled = |stalled| Some(Traits { stalled, ..traits("silver").unwrap_or_default() });
        assert!(note(stalled(true)), "extensions that wait for it are stalled too");
        assert!(note(stalled(false)));
        assert!(note(None));
        assert!(!note(None));
    }

    #[test]
    fn catalogs_that_were_never_served_are_waited_for_until_a_deadline() {
        let absent = Absent { since: Mutex::default(), deadline: SignedDuration::from_secs(120) };
        let at = |second| Timestamp::from_second(second).unwrap();
        let both = ["a".to_owned(), "b".to_owned()];
        assert_eq!(absent.wait_for(&both, at(0)), Wait::Longer);
        let note = |name, is_absent, second| absent.note(name, "uid", is_absent, at(second));
        note("a", true, 0);
        note("a", true, 50);
        assert_eq!(absent.wait_for(&both[..1], at(119)), Wait::Until(at(120)));
        assert_eq!(absent.wait_for(&both[..1], at(120)), Wait::Over);
        assert_eq!(absent.wait_for(&both, at(500)), Wait::Longer, "the other one was served before");
        note("b", true, 60);
        assert_eq!(absent.wait_for(&both, at(130)), Wait::Until(at(180)));
        note("a", false, 130);
        assert_eq!(absent.wait_for(&both, at(500)), Wait::Longer);
    }

    #[test]
    fn a_catalog_that_is_created_again_has_all_its_time_and_one_that_is_gone_is_forgotten() {
        let absent = Absent { since: Mutex::default(), deadline: SignedDuration::from_secs(120) };
        let at = |second| Timestamp::from_second(second).unwrap();
        let wait = |second| absent.wait_for(&["a".to_owned()], at(second));
        absent.note("a", "1", true, at(0));
        assert_eq!(wait(500), Wait::Over);
        absent.note("a", "2", true, at(500));
        assert_eq!(wait(500), Wait::Until(at(620)));
        absent.retain(|name| name != "b");
        assert_eq!(wait(500), Wait::Until(at(620)));
        absent.retain(|name| name != "a");
        assert!(absent.since.lock().is_empty());
    }
}
