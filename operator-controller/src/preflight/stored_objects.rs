//! The second look: which of the stored custom resources would a refused CRD change really hurt?
//!
//! The API server knows only the definition it has, so objects are read in pages, with the rights of the
//! extension's account, and validated here. Only counts leave this module: more people may read conditions than
//! objects. What cannot be decided is said to be so.

use std::{sync::Arc, time::Duration};

use futures::AsyncReadExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use olm_runtime::bounded;
use olm_structural_schema::{Schema, SchemaError, Verdict};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::controllers::api_text;

/// Objects asked for at once.
const PAGE_OBJECTS: u32 = 500;
/// Bytes of a page. Objects may have a megabyte and a half each, so a larger page is asked for in halves.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Objects of all definitions of a bundle that are read.
const OBJECTS_MAX: usize = 10_000;
/// Bytes of all pages, also of those that were too large.
const BYTES_MAX: u64 = 256 << 20;
/// How long reading and validating may take in all. The pass that waits for it holds up its own extension only.
const TIME_MAX: Duration = Duration::from_secs(60);

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Allowed {
    objects: usize,
    bytes: u64,
    until: tokio::time::Instant,
}

impl Allowed {
    pub(crate) fn now() -> Self {
        Self { objects: OBJECTS_MAX, bytes: BYTES_MAX, until: tokio::time::Instant::now() + TIME_MAX }
    }
}

/// What would become of the objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    seen: usize,
    /// Valid now, or not decided, and invalid afterwards.
    broken: usize,
    /// Invalid before and afterwards.
    already: usize,
    /// Fields would be dropped that are kept now.
    losing: usize,
    undecided: usize,
}

/// A definition and what is to replace it.
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Value,
    pub(crate) new: &'a Value,
    /// The versions that the findings are about.
    pub(crate) versions: Vec<String>,
}

/// Reads and validates the objects of a definition, and says what came out.
pub(crate) async fn look(account: &Client, who: &str, change: &Change<'_>, left: &mut Allowed) -> String {
    match counts(account, change, left).await {
        Ok(counts) => sentence(counts),
        Err(Ended::Unread(why)) => format!("its objects were not looked at: {why}"),
        Err(Ended::Forbidden) => format!(
            "its objects were not looked at: {who} may not list them; give it the verb \"list\" on {}",
            text(change.old, "/metadata/name")
        ),
        Err(Ended::Early(counts, why)) => {
            format!("{}; not all were looked at: {why}", sentence(counts))
        }
    }
}

fn sentence(counts: Counts) -> String {
    let Counts { seen, broken, already, losing, undecided } = counts;
    let objects = if seen == 1 { "object" } else { "objects" };
    let first = match (seen, broken) {
        (0, _) => return "there are no objects".to_owned(),
        (_, 0) if undecided > 0 => format!("undecided for {undecided} of {seen} {objects}"),
        (_, 0) => format!("none of {seen} {objects} would become invalid"),
        _ => format!("{broken} of {seen} {objects} would become invalid"),
    };
    let mut parts = vec![first];
    if broken > 0 && undecided > 0 {
        parts.push(format!("undecided for {undecided}"));
    }
    if losing > 0 {
        parts.push(format!("{losing} would lose fields"));
    }
    if already > 0 {
        parts.push(format!("{already} are invalid already"));
    }
    parts.join(", ")
}

/// Why there are no counts, or not all.
#[derive(Debug)]
enum Ended {
    Unread(String),
    Forbidden,
    Early(Counts, &'static str),
}

async fn counts(account: &Client, change: &Change<'_>, left: &mut Allowed) -> Result<Counts, Ended> {
    let version = served_version(change)?;
    let schemas = Schemas::of(change, &version).map_err(|e| Ended::Unread(format!("undecided: {e}")))?;
    let schemas = Arc::new(schemas);
    let url = format!(
        "/apis/{}/{version}/{}",
        text(change.old, "/spec/group"),
        text(change.old, "/spec/names/plural")
    );
    let (mut counts, mut token, mut size) = (Counts::default(), String::new(), PAGE_OBJECTS);
    loop {
        let most = u32::try_from(left.objects).unwrap_or(PAGE_OBJECTS).min(size);
        if most == 0 {
            return Err(Ended::Early(counts, "there are more than are read at once"));
        }
        let read = tokio::time::timeout_at(left.until, page(account, &url, most, &token, left)).await;
        let bytes = match read {
            Err(_) => return Err(Ended::Early(counts, "it took too long")),
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) if left.bytes == 0 => {
                return Err(Ended::Early(counts, "they are larger than what is read at once"));
            }
            Ok(Ok(None)) => {
                size = (most / 2).max(1);
                continue;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => return Err(Ended::Forbidden),
            Ok(Err(error)) => return Err(Ended::Unread(api_text(&error))),
        };
        let schemas = schemas.clone();
        let judged = tokio::task::spawn_blocking(move || schemas.judge(&bytes)).await;
        let judged = judged.map_err(|e| Ended::Unread(e.to_string()))?;
        let (found, next) = judged.map_err(|e| Ended::Unread(format!("reading a page of them: {e}")))?;
        left.objects = left.objects.saturating_sub(found.seen);
        counts = counts.plus(found);
        match next {
            Some(next) if !next.is_empty() => token = next,
            _ => return Ok(counts),
        }
    }
}

/// The version that objects are read at. Where a webhook converts between versions, what it would make of them
/// with the new definition cannot be known.
fn served_version(change: &Change<'_>) -> Result<String, Ended> {
    let is_webhook = |crd: &Value| text(crd, "/spec/conversion/strategy") == "Webhook";
    let versions = change.old.pointer("/spec/versions").and_then(Value::as_array);
    let served: Vec<&Value> = versions.into_iter().flatten().filter(|v| v["served"] == true).collect();
    let storage = served.iter().find(|v| v["storage"] == true).or(served.first());
    let version = storage.map(|v| text(v, "/name").to_owned());
    let version = version.ok_or_else(|| Ended::Unread("no version of them is served".to_owned()))?;
    if is_webhook(change.old) || is_webhook(change.new) {
        let stored = change.old.pointer("/status/storedVersions");
        let alone = stored.is_none_or(|stored| *stored == serde_json::json!([version]));
        if !alone || change.versions != [version.as_str()] {
            return Err(Ended::Unread("undecided: a conversion webhook stands between".to_owned()));
        }
    }
    Ok(version)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A page of objects; nothing if it is too large.
async fn page(
    account: &Client,
    url: &str,
    most: u32,
    token: &str,
    left: &mut Allowed,
) -> Result<Option<Vec<u8>>, kube::Error> {
    let params = ListParams { continue_token: Some(token.to_owned()), ..Default::default() };
    let params = if token.is_empty() { ListParams::default() } else { params };
    let request = kube::core::Request::new(url).list(&params.limit(most));
    let request = request.map_err(kube::Error::BuildRequest)?;
    let stream = account.request_stream(request).await?;
    let most = PAGE_BYTES_MAX.min(left.bytes);
    let mut bytes = Vec::new();
    let mut limited = stream.take(most + 1);
    limited.read_to_end(&mut bytes).await.map_err(|e| kube::Error::Service(e.into()))?;
    let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    left.bytes = left.bytes.saturating_sub(read);
    Ok((read <= most).then_some(bytes))
}

/// The schemas before and after, of each version that findings are about.
struct Schemas {
    old: Schema,
    new: Vec<Schema>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl Schemas {
    fn of(change: &Change<'_>, version: &str) -> Result<Self, SchemaError> {
        // A version that the new definition no longer has is a finding of its own.
        let has = |name: &&String| {
            let versions = change.new.pointer("/spec/versions").and_then(Value::as_array);
            versions.into_iter().flatten().any(|v| v["name"] == name.as_str())
        };
        let new = change.versions.iter().filter(has).map(|name| Schema::of(change.new, name));
        Ok(Self { old: Schema::of(change.old, version)?, new: new.collect::<Result<_, _>>()? })
    }

    fn judge(&self, page: &[u8]) -> Result<(Counts, Option<String>), serde_json::Error> {
        let page: Page<'_> = serde_json::from_slice(page)?;
        let mut counts = Counts::default();
        for item in page.items {
            counts = counts.plus(self.one(&serde_json::from_str(item.get())?));
        }
        Ok((counts, page.metadata.next))
    }

    fn one(&self, object: &Value) -> Counts {
        let before = self.old.judge(object);
        let after: Vec<_> = self.new.iter().map(|schema| schema.judge(object)).collect();
        let is = |verdict| after.iter().any(|judged| judged.verdict() == verdict);
        let mut counts = Counts { seen: 1, ..Counts::default() };
        if is(Verdict::Invalid) {
            let was = before.verdict() == Verdict::Invalid;
            (counts.already, counts.broken) = (usize::from(was), usize::from(!was));
        } else {
            counts.undecided = usize::from(is(Verdict::Undecided));
        }
        let loses =
            after.iter().flat_map(|judged| &judged.dropped).any(|path| !before.dropped.contains(path));
        counts.losing = usize::from(loses);
        counts
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            seen: self.seen + other.seen,
            broken: self.broken + other.broken,
            already: self.already + other.already,
            losing: self.losing + other.losing,
            undecided: self.undecided + other.undecided,
        }
    }
}

/// How many objects a definition has; nothing if the account may not list them.
pub(crate) async fn count(account: &Client, crd: &CustomResourceDefinition) -> Option<usize> {
    let served = crd.spec.versions.iter().find(|version| version.served)?;
    let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
    let gvk = GroupVersionKind::gvk(group, &served.name, &crd.spec.names.kind);
    let api: Api<DynamicObject> =
        Api::all_with(account.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural));
    let listed = bounded(api.list_metadata(&ListParams::default().limit(1))).await.ok()?;
    let more = listed.metadata.remaining_item_count.unwrap_or_default();
    Some(listed.items.len() + usize::try_from(more).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(spec: &Value) -> Value {
        json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "foos"}, "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }]},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn judged(old: &Value, new: &Value, specs: &[Value]) -> String {
        let (old, new) = (definition(old), definition(new));
        let change = Change { old: &old, new: &new, versions: vec!["v1".to_owned()] };
        let items: Vec<_> = specs.iter().map(|spec| json!({"metadata": {}, "spec": spec})).collect();
        let page = json!({"metadata": {"continue": "next"}, "items": items}).to_string();
        let (counts, next) = Schemas::of(&change, "v1").unwrap().judge(page.as_bytes()).unwrap();
        assert_eq!(next.as_deref(), Some("next"));
        sentence(counts)
    }

    #[test]
    fn objects_are_counted_by_what_becomes_of_them() {
        let object = |size: Value| json!({"type": "object", "properties": {"size": size}});
        let loose = object(json!({"type": "integer", "maximum": 9}));
        let specs = [json!({"size": 1}), json!({"size": 5}), json!({"size": 20}), json!({})];
        let tight = object(json!({"type": "integer", "maximum": 3}));
        assert_eq!(
            judged(&loose, &tight, &specs),
            "1 of 4 objects would become invalid, 1 are invalid already"
        );
        assert_eq!(judged(&loose, &tight, &[json!({"size": 2})]), "none of 1 object would become invalid");
        assert_eq!(judged(&loose, &tight, &[]), "there are no objects");
        let renamed = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
        assert_eq!(
            judged(&loose, &renamed, &specs),
            "none of 4 objects would become invalid, 3 would lose fields"
        );
        let unclear =
            object(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "isURL(string(self))"}]}));
        assert_eq!(judged(&loose, &unclear, &specs), "undecided for 3 of 4 objects");
    }

    #[test]
    fn a_webhook_between_versions_makes_it_undecided() {
        let mut old = definition(&json!({"type": "object"}));
        let new = old.clone();
        let version = |old: &Value, versions: &[&str]| {
            let versions = versions.iter().map(|v| (*v).to_owned()).collect();
            served_version(&Change { old, new: &new, versions })
        };
        assert_eq!(version(&old, &["v1", "v2"]).unwrap(), "v1");
        old["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(version(&old, &["v1"]).unwrap(), "v1");
        version(&old, &["v1", "v2"]).unwrap_err();
        old["status"]["storedVersions"] = json!(["v1", "v1beta1"]);
        version(&old, &["v1"]).unwrap_err();
    }
}
