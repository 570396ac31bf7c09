//! The second look: which of the stored custom resources would a refused CRD change really hurt?
//!
//! The API server knows only the definition it has, so objects are read in pages, with the rights of the
//! extension's account, and validated here. Conditions get counts only: more people may read them than objects. Names go
//! to the plan; content leaves this module nowhere. What cannot be decided is said to be so.

use std::{sync::Arc, time::Duration};

use futures::AsyncReadExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use olm_object::text;
use olm_plan::NamedObject;
use olm_runtime::bounded;
use olm_structural_schema::{Fate, Fates, Upgrade};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::controllers::api_text;

/// Objects asked for at once.
const PAGE_OBJECTS: u32 = 500;
/// Bytes of a page. Objects may have a megabyte and a half each, so a larger page is asked for in halves.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Objects of all definitions of a bundle that are read.
const OBJECTS_MAX: usize = 10_000;
/// Objects of a definition that are named.
const NAMED_MAX: usize = 1_000;
/// Bytes of all pages, also of those that were too large.
const BYTES_MAX: u64 = 256 << 20;
/// How long reading and validating may take in all. The pass that waits for it holds up its own extension only.
const TIME_MAX: Duration = Duration::from_mins(1);

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

/// A definition and what is to replace it.
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Value,
    pub(crate) new: &'a Value,
    /// The versions that the findings are about.
    pub(crate) versions: Vec<String>,
}

/// Reads and validates the objects of a definition; says what came out, and names those that do not stay as they
/// are.
pub(crate) async fn look(
    account: &Client,
    who: &str,
    change: &Change<'_>,
    left: &mut Allowed,
) -> (String, Vec<NamedObject>) {
    let mut named = Vec::new();
    let said = match fates(account, change, left, &mut named).await {
        Ok(fates) => fates.to_string(),
        Err(Ended::Unread(why)) => format!("its objects were not looked at: {why}"),
        Err(Ended::Forbidden) => format!(
            "its objects were not looked at: {who} may not list them; give it the verb \"list\" on {}",
            text(change.old, "/metadata/name")
        ),
        Err(Ended::Early(fates, why)) => format!("{fates}; not all were looked at: {why}"),
    };
    (said, named)
}

/// Why there are no counts, or not all.
#[derive(Debug)]
enum Ended {
    Unread(String),
    Forbidden,
    Early(Fates, &'static str),
}

async fn fates(
    account: &Client,
    change: &Change<'_>,
    left: &mut Allowed,
    named: &mut Vec<NamedObject>,
) -> Result<Fates, Ended> {
    let upgrade = Upgrade::of(change.old, change.new, &change.versions);
    let upgrade = Arc::new(upgrade.map_err(|e| Ended::Unread(e.to_string()))?);
    let plural = text(change.old, "/spec/names/plural");
    let url = format!("/apis/{}/{}/{plural}", text(change.old, "/spec/group"), upgrade.version());
    let (mut fates, mut token, mut size) = (Fates::default(), String::new(), PAGE_OBJECTS);
    loop {
        let most = u32::try_from(left.objects).unwrap_or(PAGE_OBJECTS).min(size);
        if most == 0 {
            return Err(Ended::Early(fates, "there are more than are read at once"));
        }
        let read = tokio::time::timeout_at(left.until, page(account, &url, most, &token, left)).await;
        let bytes = match read {
            Err(_) => return Err(Ended::Early(fates, "it took too long")),
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) if left.bytes == 0 || most == 1 => {
                return Err(Ended::Early(fates, "they are larger than what is read at once"));
            }
            Ok(Ok(None)) => {
                size = most / 2;
                continue;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => return Err(Ended::Forbidden),
            Ok(Err(error)) => return Err(Ended::Unread(api_text(&error))),
        };
        let upgrade = upgrade.clone();
        let judged = tokio::task::spawn_blocking(move || judge(&upgrade, &bytes, fates)).await;
        let judged = judged.map_err(|e| Ended::Unread(e.to_string()))?;
        let (counted, next, in_page) =
            judged.map_err(|e| Ended::Unread(format!("reading a page of them: {e}")))?;
        left.objects = left.objects.saturating_sub(counted.seen - fates.seen);
        fates = counted;
        named.extend(in_page);
        named.truncate(NAMED_MAX);
        match next {
            Some(next) if !next.is_empty() => token = next,
            _ => return Ok(fates),
        }
    }
}

/// Counts the objects of a page; with them comes the token of the next one, and who does not stay as he is.
fn judge(
    upgrade: &Upgrade,
    page: &[u8],
    mut fates: Fates,
) -> Result<(Fates, Option<String>, Vec<NamedObject>), serde_json::Error> {
    let page: Page<'_> = serde_json::from_slice(page)?;
    let mut named = Vec::new();
    for item in page.items {
        let object: Value = serde_json::from_str(item.get())?;
        let fate = upgrade.fate(&object);
        fates.count(&fate);
        named.extend(told(&fate).map(|fate| NamedObject { object: name(&object), fate: fate.to_owned() }));
    }
    Ok((fates, page.metadata.next, named))
}

/// What becomes of an object, the worst first; nothing if it stays as it is. Its content is not quoted.
fn told(fate: &Fate) -> Option<&'static str> {
    match fate {
        Fate { violations, invalid_already: false, .. } if !violations.is_empty() => {
            Some("would become invalid")
        }
        Fate { violations, .. } if !violations.is_empty() => Some("is invalid already"),
        Fate { lost, .. } if !lost.is_empty() => Some("would lose fields"),
        Fate { undecided, .. } if !undecided.is_empty() => Some("cannot be decided"),
        _ => None,
    }
}

fn name(object: &Value) -> String {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
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

    #[test]
    fn a_page_is_counted_and_names_the_next() {
        let definition = |most: u32| {
            json!({"spec": {"versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"properties": {"size": {"type": "integer", "maximum": most}}}},
            }]}})
        };
        let upgrade = Upgrade::of(&definition(9), &definition(3), &["v1".to_owned()]).unwrap();
        let named = json!({"size": 5, "metadata": {"name": "b", "namespace": "n"}});
        let page = json!({"metadata": {"continue": "next"}, "items": [{"size": 1}, named]}).to_string();
        let (fates, next, named) = judge(&upgrade, page.as_bytes(), Fates::default()).unwrap();
        assert_eq!(
            (fates.to_string().as_str(), next.as_deref()),
            ("1 of 2 objects would become invalid", Some("next"))
        );
        let broken = NamedObject { object: "n/b".into(), fate: "would become invalid".into() };
        assert_eq!(named, [broken]);
        let last = json!({"items": [{"size": 2}]}).to_string();
        let (fates, next, _) = judge(&upgrade, last.as_bytes(), fates).unwrap();
        assert_eq!((fates.to_string().as_str(), next), ("1 of 3 objects would become invalid", None));
    }
}
