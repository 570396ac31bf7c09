//! A recorded cluster: the versions of its objects, in order.

use olm_test::prelude::*;
use serde::Deserialize;

use crate::data;

/// A version of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    pub(super) t: f64,
    pub(super) rv: u64,
    pub(super) ev: String,
    pub(super) kind: String,
    pub(super) ns: Option<String>,
    pub(super) name: String,
    pub(super) uid: String,
    #[serde(rename = "gen")]
    pub(super) generation: Option<i64>,
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "texts")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    pub(super) owners: Option<Vec<String>>,
    pub(super) deleting: Option<String>,
    pub(super) spec: Value,
    pub(super) status: Value,
}

/// The annotations. Those that hold JSON were recorded as what it is.
fn texts<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<BTreeMap<String, String>>, D::Error> {
    let values = Option::<BTreeMap<String, Value>>::deserialize(from)?;
    let text = |(key, value): (String, Value)| {
        (key, value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    Ok(values.map(|values| values.into_iter().map(text).collect()))
}

impl Event {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    pub(super) fn is_copy(&self) -> bool {
        self.label("olm.copiedFrom").is_some()
    }

    pub(super) fn namespace(&self) -> &str {
        self.ns.as_deref().unwrap_or_default()
    }
}

/// Namespace and name.
type Key = (String, String);

/// The versions of all objects, by kind, namespace and name.
pub(super) struct Record(BTreeMap<String, BTreeMap<Key, Vec<Event>>>);

impl Record {
    pub(super) fn read(file: &Path) -> Self {
        let mut all: BTreeMap<String, BTreeMap<Key, Vec<Event>>> = BTreeMap::new();
        data::cases(file, |event: Event| {
            let key = (event.namespace().to_owned(), event.name.clone());
            all.entry(event.kind.clone()).or_default().entry(key).or_default().push(event);
        });
        for history in all.values_mut().flat_map(BTreeMap::values_mut) {
            history.sort_by_key(|event| event.rv);
            // Some were recorded by two watches.
            history.dedup_by(|one, other| one.rv == other.rv && one.ev == other.ev);
        }
        Self(all)
    }

    pub(super) fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&Key, &Vec<Event>)> {
        self.0.get(kind).into_iter().flatten()
    }

    /// The last `count` versions that an object had before `rv`, the newest first. None is one that does not exist.
    pub(super) fn last(&self, kind: &str, key: &Key, rv: u64, count: usize) -> Vec<Option<&Event>> {
        let history = self.0.get(kind).and_then(|kind| kind.get(key));
        let before = history.into_iter().flatten().rev().filter(|event| event.rv <= rv);
        let mut versions: Vec<Option<&Event>> =
            before.take(count).map(|event| (event.ev != "DELETED").then_some(event)).collect();
        if versions.len() < count {
            versions.push(None);
        }
        versions
    }

    /// The versions of all objects of a kind in a namespace.
    pub(super) fn within(&self, kind: &str, namespace: &str) -> impl Iterator<Item = (&Key, &Vec<Event>)> {
        self.of_kind(kind).filter(move |(key, _)| key.0 == namespace)
    }
}
