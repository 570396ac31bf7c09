//! The disk that the sources of a namespace may take: who may create CatalogSources in one namespace must not fill it for all.

use std::{collections::BTreeMap, sync::Arc};

use olm_image::DiskBudget;
use parking_lot::Mutex;

use super::content;

/// The part of the whole that a namespace may take.
const PART: u64 = 4;

/// The parts of all namespaces. Clones are the same.
#[derive(Clone)]
pub(crate) struct Shares(Arc<Inner>);

struct Inner {
    whole: DiskBudget,
    /// Whose catalogs are for all.
    global_namespace: String,
    parts: Mutex<BTreeMap<String, DiskBudget>>,
}

impl Shares {
    /// Parts of `whole`. The catalogs of `global_namespace` are an administrator's, and may take all of it.
    pub(crate) fn new(whole: DiskBudget, global_namespace: String) -> Self {
        Self(Arc::new(Inner { whole, global_namespace, parts: Mutex::default() }))
    }

    /// The budget of a slot. ClusterCatalogs are an administrator's too.
    pub(crate) fn of(&self, slot: &str) -> DiskBudget {
        let Inner { whole, global_namespace, parts } = &*self.0;
        let namespace = content::namespace_of(slot);
        if namespace == global_namespace || !content::is_of_source(slot) {
            return whole.clone();
        }
        let mut parts = parts.lock();
        // Namespaces come and go.
        parts.retain(|known, part| known == namespace || part.used() > 0);
        let part = || whole.part(&format!("the catalogs of namespace {namespace}"), whole.limit() / PART);
        parts.entry(namespace.to_owned()).or_insert_with(part).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_fills_its_part_only() {
        let shares = Shares::new(DiskBudget::new(100), "olm".to_owned());
        let mut first = shares.of("a_one").empty();
        first.grow(20).unwrap();
        let full = shares.of("a_two").empty().grow(6).unwrap_err().to_string();
        assert!(full.starts_with("the catalogs of namespace a hold 20 of the 25 bytes"), "{full}");
        shares.of("b_one").empty().grow(25).unwrap();
        shares.of("olm_one").empty().grow(80).unwrap();
        shares.of("a").empty().grow(80).unwrap();
        drop(first);
        shares.of("a_two").empty().grow(25).unwrap();
    }
}
