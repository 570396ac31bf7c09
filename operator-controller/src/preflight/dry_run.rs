//! Looks at every object of a new revision: asks the API server, as the account, what it thinks of it without
//! storing anything, and reads what is there.
//!
//! The answer to a dry-run tells an object that would be new from one that is there; only the latter are read.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use olm_api::names::OBJECT_FIELD_MANAGER;
use olm_object::{DefinedKind, ObjectKey, defined_kinds};
use olm_objectset::Phase;
use olm_plan::{DryRunVerdict, Found};
use olm_runtime::{Discovery, DiscoveryError, Kind, api_text, bounded};
use serde_json::Value;

use super::second_opinion::takes_instead;
use crate::concurrently::{REQUESTS, concurrently};

/// Who looks, and at what.
pub(crate) struct Look<'a> {
    /// The account's client, for dry-runs; without it there are none.
    pub(crate) account: Option<&'a Client>,
    /// Who reads what is there.
    pub(crate) reader: &'a Client,
    pub(crate) discovery: &'a Discovery,
    pub(crate) phases: &'a [Phase],
    /// Objects of the revisions that are active. What the new revision itself brings a kind or a namespace for can
    /// be there only if one of them has it.
    pub(crate) rolled_out: &'a BTreeSet<ObjectKey>,
}

/// What was seen of an object.
pub(crate) struct Looked {
    /// The API server's opinion, if it was asked.
    pub(crate) said: Option<DryRunVerdict>,
    /// The object as it would be stored.
    pub(crate) would_be: Option<Value>,
    /// What is there.
    pub(crate) found: Found,
}

impl Looked {
    fn unasked(found: Found) -> Self {
        Self { said: None, would_be: None, found }
    }
}

/// Looks at every object, in the order of the phases.
pub(crate) async fn look(look: &Look<'_>) -> Vec<Looked> {
    let namespaces: BTreeSet<String> = look
        .phases
        .iter()
        .flat_map(|p| &p.objects)
        .map(ObjectKey::of)
        .filter(|key| key.kind == "Namespace" && key.group.is_empty())
        .map(|key| key.name)
        .collect();
    let brought =
        Brought { kinds: defined_kinds(look.phases.iter().flat_map(|phase| &phase.objects)), namespaces };
    let mut asked = Vec::new();
    for phase in look.phases {
        asked.extend(phase.objects.iter().map(|object| one(look, object, &brought)));
    }
    concurrently(REQUESTS, asked).await
}

struct Brought {
    kinds: BTreeMap<(String, String), DefinedKind>,
    namespaces: BTreeSet<String>,
}

impl Brought {
    /// What of the object comes with the revision itself.
    fn what(&self, key: &ObjectKey) -> Option<&'static str> {
        if self.kinds.contains_key(&(key.group.clone(), key.kind.clone())) {
            return Some("its kind");
        }
        self.namespaces.contains(&key.namespace).then_some("its namespace")
    }
}

async fn one(look: &Look<'_>, object: &Value, brought: &Brought) -> Looked {
    let key = ObjectKey::of(object);
    if let Some(what) = brought.what(&key) {
        let known = look.rolled_out.iter().any(|other| other.same_object(&key));
        let found = if known { read(look, &key).await } else { Found::Absent };
        let said = DryRunVerdict::Deferred(format!("{what} comes with this revision"));
        return Looked { said: look.account.map(|_| said), ..Looked::unasked(found) };
    }
    let kind = match look.discovery.kind(&key.api_version(), &key.kind).await {
        Ok(kind) => kind,
        Err(error) => {
            let said = match &error {
                DiscoveryError::Unavailable { .. } => DryRunVerdict::Deferred(error.to_string()),
                DiscoveryError::Unknown { .. } => DryRunVerdict::Refused(error.to_string()),
            };
            let found = Found::Unknown(error.to_string());
            return Looked { said: look.account.map(|_| said), ..Looked::unasked(found) };
        }
    };
    let Some(account) = look.account else {
        return Looked::unasked(get(look.reader, &kind, &key).await);
    };
    let params = PatchParams { dry_run: true, ..PatchParams::apply(OBJECT_FIELD_MANAGER).force() };
    let api = api(account, &kind, &key);
    let answer = bounded(api.patch(&key.name, &params, &Patch::Apply(object))).await;
    let (said, would_be) = match answer {
        Ok(answer) => (DryRunVerdict::Accepted, serde_json::to_value(answer).ok()),
        Err(kube::Error::Api(status)) if status.code == 422 && takes_instead(&api, &key, object).await => {
            (DryRunVerdict::Accepted, None)
        }
        Err(kube::Error::Api(status)) => (DryRunVerdict::of_refusal(status.code, &status.message), None),
        Err(error) => (DryRunVerdict::Deferred(api_text(&error)), None),
    };
    let is_new = would_be.as_ref().is_some_and(|answer| {
        let version = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        version.is_none_or(str::is_empty)
    });
    let found = if is_new { Found::Absent } else { get(look.reader, &kind, &key).await };
    Looked { said: Some(said), would_be, found }
}

async fn read(look: &Look<'_>, key: &ObjectKey) -> Found {
    match look.discovery.kind(&key.api_version(), &key.kind).await {
        Ok(kind) => get(look.reader, &kind, key).await,
        Err(DiscoveryError::Unknown { .. }) => Found::Absent,
        Err(error) => Found::Unknown(error.to_string()),
    }
}

async fn get(reader: &Client, kind: &Kind, key: &ObjectKey) -> Found {
    match bounded(api(reader, kind, key).get_opt(&key.name)).await {
        Ok(None) => Found::Absent,
        Ok(Some(live)) => match serde_json::to_value(live) {
            Ok(live) => Found::Present(live),
            Err(error) => Found::Unknown(error.to_string()),
        },
        Err(error) => Found::Unknown(api_text(&error)),
    }
}

fn api(client: &Client, kind: &Kind, key: &ObjectKey) -> Api<DynamicObject> {
    if kind.namespaced {
        Api::namespaced_with(client.clone(), &key.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    }
}
