//! The health of the catalogs that a namespace sees, as its Subscriptions show it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api_classic::{CatalogHealth, CatalogSource, Subscription};

use super::{
    conditions::{self, whole_seconds},
    texts,
};
use crate::source::status::is_healthy;

/// Brings the health of catalogs up to date. `catalogs` are those that the namespace sees.
pub fn follow(subscription: &mut Subscription, catalogs: &[&CatalogSource], now: Timestamp) {
    let (source, namespace) = (subscription.spec.source.clone(), subscription.spec.source_namespace.clone());
    let status = subscription.status.get_or_insert_default();
    let before = std::mem::take(&mut status.catalog_health);
    let mut after: Vec<CatalogHealth> = catalogs.iter().map(|catalog| entry(catalog, &before, now)).collect();
    after.sort_by_cached_key(key);
    let change = change(&before, &after);
    let named = after.iter().find(|one| key(one) == (namespace.clone(), source.clone()));
    let others = after.iter().filter(|one| !one.healthy).map(|one| {
        let (namespace, name) = key(one);
        format!("{namespace}/{name}")
    });
    let others: Vec<String> = others.collect();
    let (value, reason, message) = match named {
        _ if after.is_empty() => {
            let message = if before.is_empty() {
                texts::CATALOG_REQUIRED.to_owned()
            } else {
                texts::catalog_missing(&namespace, &source)
            };
            ("True", texts::NO_CATALOGS, message)
        }
        None => ("True", texts::UNHEALTHY_CATALOG, texts::catalog_missing(&namespace, &source)),
        Some(named) if !named.healthy => {
            ("True", texts::UNHEALTHY_CATALOG, texts::catalog_unhealthy(&namespace, &source))
        }
        Some(_) if !others.is_empty() => {
            ("True", texts::UNHEALTHY_CATALOG, texts::other_catalogs_unhealthy(&others))
        }
        Some(_) => ("False", texts::ALL_CATALOGS_HEALTHY, texts::CATALOGS_HEALTHY.to_owned()),
    };
    status.catalog_health = after;
    conditions::set(status, [texts::CATALOGS_UNHEALTHY, value, change.unwrap_or(reason), &message], now);
}

/// What is different from before: that is the reason until the next reconcile.
fn change(before: &[CatalogHealth], after: &[CatalogHealth]) -> Option<&'static str> {
    let state = |one: &CatalogHealth| (one.catalog_source_ref.uid.clone(), one.healthy);
    match after.len().cmp(&before.len()) {
        std::cmp::Ordering::Greater => Some(texts::CATALOGS_ADDED),
        std::cmp::Ordering::Less => Some(texts::CATALOGS_DELETED),
        std::cmp::Ordering::Equal => {
            let is_same = before.iter().all(|one| after.iter().any(|other| state(other) == state(one)));
            (!is_same).then_some(texts::CATALOGS_UPDATED)
        }
    }
}

/// The entry of a catalog; the one before while it says the same.
fn entry(catalog: &CatalogSource, before: &[CatalogHealth], now: Timestamp) -> CatalogHealth {
    let healthy = is_healthy(catalog);
    let same = |one: &&CatalogHealth| {
        one.catalog_source_ref.uid == catalog.metadata.uid
            && one.healthy == healthy
            && key(one) == key_of(catalog)
    };
    if let Some(known) = before.iter().find(same) {
        return known.clone();
    }
    CatalogHealth {
        catalog_source_ref: ObjectReference {
            api_version: Some("operators.coreos.com/v1alpha1".to_owned()),
            kind: Some("CatalogSource".to_owned()),
            name: Some(catalog.name_any()),
            namespace: catalog.namespace(),
            uid: catalog.uid(),
            resource_version: catalog.resource_version(),
            field_path: None,
        },
        last_updated: Some(whole_seconds(now)),
        healthy,
    }
}

/// Namespace and name.
fn key(one: &CatalogHealth) -> (String, String) {
    let reference = &one.catalog_source_ref;
    (reference.namespace.clone().unwrap_or_default(), reference.name.clone().unwrap_or_default())
}

fn key_of(catalog: &CatalogSource) -> (String, String) {
    (catalog.namespace().unwrap_or_default(), catalog.name_any())
}

#[cfg(test)]
mod tests;
