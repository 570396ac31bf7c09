//! Asks the API server, as the account, what it thinks of every object, without storing anything.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use olm_api::names::OBJECT_FIELD_MANAGER;
use olm_objectset::{ObjectKey, Phase};
use olm_runtime::{Discovery, DiscoveryError, bounded};
use serde_json::Value;

use super::{brought_kinds, second_opinion::takes_instead};
use crate::{
    concurrently::{REQUESTS, concurrently},
    controllers::api_text,
};

/// Applies every object of `phases` in dry-run.
///
/// Refusals (403, 422 and other client errors) are errors, all at once. What cannot be known yet is passed:
/// objects of kinds or in namespaces that the revision brings itself, webhooks that refuse dry-runs, and a
/// server that is busy. They are found out when their turn comes.
///
/// # Errors
/// The API server refuses objects; one line each.
pub(crate) async fn check(client: &Client, discovery: &Discovery, phases: &[Phase]) -> Result<(), String> {
    let kinds = brought_kinds(phases);
    let namespaces: BTreeSet<String> = phases
        .iter()
        .flat_map(|p| &p.objects)
        .map(ObjectKey::of)
        .filter(|key| key.kind == "Namespace" && key.group.is_empty())
        .map(|key| key.name)
        .collect();
    let brought = Brought { kinds, namespaces };
    let mut asked = Vec::new();
    for phase in phases {
        asked.extend(phase.objects.iter().map(|object| one(client, discovery, object, &brought)));
    }
    let mut refusals: Vec<String> = concurrently(REQUESTS, asked).await.into_iter().flatten().collect();
    if refusals.is_empty() {
        return Ok(());
    }
    refusals.sort_unstable();
    Err(format!("the API server refuses objects of the bundle:\n{}", refusals.join("\n")))
}

struct Brought {
    kinds: BTreeMap<(String, String), (String, bool)>,
    namespaces: BTreeSet<String>,
}

async fn one(client: &Client, discovery: &Discovery, object: &Value, brought: &Brought) -> Option<String> {
    let key = ObjectKey::of(object);
    if brought.kinds.contains_key(&(key.group.clone(), key.kind.clone()))
        || brought.namespaces.contains(&key.namespace)
    {
        return None;
    }
    let kind = match discovery.kind(&key.api_version(), &key.kind).await {
        Ok(kind) => kind,
        Err(DiscoveryError::Unavailable { .. }) => return None,
        Err(error) => return Some(format!("Object {key}: {error}")),
    };
    let api: Api<DynamicObject> = if kind.namespaced {
        Api::namespaced_with(client.clone(), &key.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    };
    let params = PatchParams { dry_run: true, ..PatchParams::apply(OBJECT_FIELD_MANAGER).force() };
    match bounded(api.patch(&key.name, &params, &Patch::Apply(object))).await {
        Err(kube::Error::Api(status)) if refuses(status.code, &status.message) => {
            if status.code == 422 && takes_instead(&api, &key, object).await {
                return None;
            }
            Some(format!("Object {key}: {}", status.message))
        }
        // Anything else is no opinion of the object.
        Ok(_) | Err(kube::Error::Api(_)) => None,
        Err(error) => {
            tracing::debug!(object = %key, error = api_text(&error), "dry-run left out");
            None
        }
    }
}

/// Whether an answer is a verdict about the object.
fn refuses(code: u16, message: &str) -> bool {
    match code {
        // A webhook without side-effect declaration cannot be asked; the object may be fine.
        400 => !message.contains("does not support dry run"),
        403 | 422 => true,
        // The role that a binding refers to may come with the revision; only a missing namespace is final.
        404 => message.starts_with("namespaces "),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verdicts_about_the_object_refuse() {
        assert!(refuses(403, "forbidden"));
        assert!(refuses(422, "invalid"));
        assert!(refuses(404, "namespaces \"x\" not found"));
        assert!(refuses(400, "strict decoding error"));
        assert!(!refuses(404, "clusterrolebindings.rbac.authorization.k8s.io \"b\" not found"));
        assert!(!refuses(400, "admission webhook \"a\" does not support dry run"));
        for busy in [409, 429, 500, 503] {
            assert!(!refuses(busy, "busy"));
        }
    }
}
