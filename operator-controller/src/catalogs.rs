//! The catalogs an extension is resolved from.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use catalogd::CatalogChanged;
use futures::StreamExt;
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
use olm_fbc::{CatalogError, CatalogReader, PackageContent};
use olm_objectset::label_selector_matches;
use olm_resolve::CatalogView;
use olm_runtime::Source;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

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
}

impl Catalogs {
    pub(crate) fn new(
        known: Store<DeserializeGuard<ClusterCatalog>>,
        reader: Arc<dyn CatalogReader>,
    ) -> Self {
        Self { known, reader }
    }

    /// Asks every available catalog that `selector` selects, in order of name.
    ///
    /// # Errors
    /// The selector is not valid; the text is the original's.
    pub(crate) async fn ask(
        &self,
        package: &str,
        selector: Option<&LabelSelector>,
    ) -> Result<Vec<Answer>, String> {
        if let Some(selector) = selector {
            validate(selector).map_err(|e| format!("desired catalog selector is invalid: {e}"))?;
        }
        let mut catalogs: Vec<(String, i32)> = self
            .known
            .state()
            .iter()
            .filter_map(|guarded| guarded.0.as_ref().ok())
            .filter(|c| c.metadata.deletion_timestamp.is_none())
            .filter(|c| c.spec.availability_mode != AvailabilityMode::Unavailable)
            .filter(|c| selector.is_none_or(|s| selected(c, s)))
            .map(|c| (c.name_any(), c.spec.priority))
            .collect();
        catalogs.sort_unstable();
        let mut answers = Vec::with_capacity(catalogs.len());
        for (name, priority) in catalogs {
            let content = self.reader.package(&name, package).await.map(|snapshot| snapshot.content);
            answers.push(Answer { name, priority, content });
        }
        Ok(answers)
    }
}

/// What of a catalog matters to resolution, beside its content.
#[derive(Debug, PartialEq)]
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

/// Keeps the store of catalogs current, and wakes every extension when a catalog comes, goes, or changes in
/// a way that can matter to resolution.
pub(crate) async fn follow(
    source: Source<ClusterCatalog>,
    mut contents: broadcast::Receiver<CatalogChanged>,
    extensions: Store<DeserializeGuard<ClusterExtension>>,
    wake: mpsc::Sender<String>,
    stop: CancellationToken,
) {
    let store = source.store.clone();
    let mut objects = source.into_names();
    let mut known: HashMap<String, Traits> = HashMap::new();
    loop {
        let changed = tokio::select! {
            () = stop.cancelled() => return,
            content = contents.recv() => match content {
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => true,
                Err(broadcast::error::RecvError::Closed) => return,
            },
            Some(object) = objects.next() => {
                object.is_some_and(|name| {
                    let found = store.get(&ObjectRef::new(&name));
                    note(&mut known, name, found.and_then(|guarded| guarded.0.as_ref().ok().map(Traits::of)))
                })
            }
        };
        if changed {
            for extension in extensions.state() {
                // A closed channel means that the process is ending.
                let _ = wake.send(extension.name_any()).await;
            }
        }
    }
}

/// Remembers what a catalog is like now; whether that is news.
fn note(known: &mut HashMap<String, Traits>, name: String, traits: Option<Traits>) -> bool {
    if known.get(&name) == traits.as_ref() {
        return false;
    }
    match traits {
        Some(traits) => known.insert(name, traits),
        None => known.remove(&name),
    };
    true
}

/// The label with the catalog's own name counts as set even before catalogd has stamped it.
fn selected(catalog: &ClusterCatalog, selector: &LabelSelector) -> bool {
    let own_name = catalog.name_any();
    label_selector_matches(selector, |key| {
        if key == CATALOG_NAME_LABEL {
            Some(own_name.as_str())
        } else {
            catalog.labels().get(key).map(String::as_str)
        }
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
    use olm_api::v1::ClusterCatalogSpec;
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn catalog(labels: &[(&str, &str)]) -> ClusterCatalog {
        let mut catalog = ClusterCatalog::new("mine", ClusterCatalogSpec::default());
        catalog.metadata.labels =
            Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        catalog
    }

    #[test]
    fn a_catalog_is_selected_by_its_name_without_the_label() {
        let by_name = selector(json!({"matchLabels": {CATALOG_NAME_LABEL: "mine"}}));
        assert!(selected(&catalog(&[]), &by_name));
        let other = selector(json!({"matchLabels": {CATALOG_NAME_LABEL: "other"}}));
        assert!(!selected(&catalog(&[]), &other));
    }

    #[test]
    fn expressions_select() {
        let expression = |operator: &str, values: &[&str]| {
            selector(json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}))
        };
        let gold = catalog(&[("tier", "gold")]);
        assert!(selected(&gold, &expression("In", &["gold"])));
        assert!(!selected(&gold, &expression("NotIn", &["gold"])));
        assert!(selected(&gold, &expression("Exists", &[])));
        assert!(!selected(&gold, &expression("DoesNotExist", &[])));
        assert!(selected(&catalog(&[]), &expression("NotIn", &["gold"])));
    }

    #[test]
    fn selectors_that_cannot_select_are_refused() {
        for (operator, values) in [("In", json!([])), ("Exists", json!(["x"])), ("Like", json!(["x"]))] {
            let wrong =
                selector(json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}));
            assert!(validate(&wrong).is_err(), "{operator}");
        }
    }
}
