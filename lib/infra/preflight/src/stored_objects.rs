//! The impact of a refused CRD change on the stored custom resources.
//!
//! The API server knows only the definition it has, so objects are read in pages, with the permissions of the
//! extension's ServiceAccount, and validated here. Conditions get counts only: more people may read them than objects.
//! The plan has names; content never leaves this module. Objects that cannot be validated are reported as undecided.

use std::{fmt, sync::Arc, time::Duration};

use futures::AsyncReadExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use olm_crd::{NotByObjects, ObjectImpact, Report, Upgrade, UpgradeImpact, by_objects};
use olm_object::text;
use olm_plan::NamedObject;
use olm_runtime::{api_text, bounded};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// Objects of a page.
const PAGE_OBJECTS: u32 = 500;
/// Bytes of a page. Objects may have a megabyte and a half each, so a larger page is requested in halves.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Objects of all definitions of a bundle that are read.
const OBJECTS_MAX: usize = 10_000;
/// Objects of a definition that the plan names.
const NAMED_MAX: usize = 1_000;
/// Bytes of all pages, also of those that were too large.
const BYTES_MAX: u64 = 256 << 20;
/// Time for reading and validating in all. The reconcile that waits for it delays its own extension only.
const TIME_MAX: Duration = Duration::from_mins(1);

/// The remainder of the limits.
#[derive(Debug)]
pub struct ReadLimits {
    objects: usize,
    bytes: u64,
    until: tokio::time::Instant,
}

impl ReadLimits {
    /// All that may be read.
    #[must_use]
    pub fn full() -> Self {
        Self { objects: OBJECTS_MAX, bytes: BYTES_MAX, until: tokio::time::Instant::now() + TIME_MAX }
    }
}

/// A definition and the one that is to replace it.
pub struct Change<'a> {
    /// The definition that is served.
    pub old: &'a Value,
    /// The one that is to replace it.
    pub new: &'a Value,
    /// The versions that the findings are about.
    pub versions: Vec<String>,
}

/// Reads and validates the objects of a definition; returns a summary, and the objects that the change affects.
pub async fn check(
    account: &Client,
    who: &str,
    change: &Change<'_>,
    left: &mut ReadLimits,
) -> (String, Vec<NamedObject>) {
    let mut named = Vec::new();
    let read = match Upgrade::new(change.old, change.new, &change.versions) {
        Ok(upgrade) => impact(account, change.old, upgrade, left, &mut named).await,
        Err(why) => Err(Incomplete::Unread(why.to_string())),
    };
    let summary = match read {
        Ok(impact) => impact.to_string(),
        Err(incomplete) => incomplete.summary(who, change.old),
    };
    (summary, named.into_iter().map(|one| one.named).collect())
}

/// The decision of the stored objects about a change that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The change affects none of so many objects.
    Unaffected(usize),
    /// It may affect some, or not all could be checked.
    Affected {
        /// The numbers, or why there are none.
        summary: String,
        /// The objects, as far as they are known.
        named: Vec<NamedObject>,
    },
    /// Objects cannot decide about it.
    Inapplicable(NotByObjects),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unaffected(0) => f.write_str("there are no stored objects"),
            Self::Unaffected(1) => f.write_str("the one stored object is not affected"),
            Self::Unaffected(objects) => write!(f, "none of {objects} stored objects is affected"),
            Self::Affected { summary, .. } => f.write_str(summary),
            Self::Inapplicable(why) => write!(f, "stored objects do not decide about this change: {why}"),
        }
    }
}

/// Lets the stored objects decide about what `report` refuses of replacing `old` by `new`. Whatever is not certain
/// counts as affected.
pub async fn decide(
    account: &Client,
    who: &str,
    (old, new, report): (&Value, &Value, &Report),
    left: &mut ReadLimits,
) -> Decision {
    let upgrades = match by_objects(old, new, report) {
        Ok(upgrades) => upgrades,
        Err(why) => return Decision::Inapplicable(why),
    };
    let (mut objects, mut summaries, mut affected) = (0, Vec::new(), Vec::new());
    for upgrade in upgrades {
        let version = upgrade.version().to_owned();
        match impact(account, old, upgrade, left, &mut affected).await {
            Ok(impact) if impact.is_harmless() => objects = objects.max(impact.seen),
            Ok(impact) => summaries.push(format!("at version {version} {impact}")),
            Err(incomplete) => summaries.push(incomplete.summary(who, old)),
        }
    }
    if summaries.is_empty() {
        return Decision::Unaffected(objects);
    }
    let mut named: Vec<NamedObject> = affected.into_iter().map(|one: Affected| one.named).collect();
    named.sort_unstable();
    named.dedup();
    Decision::Affected { summary: summaries.join("; "), named }
}

/// A stored object that the new definition does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Namespace and name, as `namespace/name`.
    pub object: String,
    /// What is wrong with it.
    pub problems: String,
}

/// What a change comes to for the stored objects as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// None becomes invalid. Objects that are invalid already do not count: nothing changes for them.
    Harmless,
    /// It cannot be known, and why.
    Undecided(String),
    /// The first object that becomes invalid.
    Breaks(Broken),
}

/// Whether a change makes stored objects invalid.
///
/// # Errors
/// The objects cannot be read, or not all of them: the text says why.
pub async fn verdict(client: &Client, change: &Change<'_>, left: &mut ReadLimits) -> Result<Verdict, String> {
    let upgrade = match Upgrade::new(change.old, change.new, &change.versions) {
        Ok(upgrade) => upgrade,
        // Without objects there is nothing to decide.
        Err(why) => {
            let is_stored = is_stored(client, change.old, left).await?;
            return Ok(if is_stored { Verdict::Undecided(why.to_string()) } else { Verdict::Harmless });
        }
    };
    let mut named = Vec::new();
    let read = impact(client, change.old, upgrade, left, &mut named).await;
    if let Some(found) = named.into_iter().find(|one| one.problems.is_some()) {
        let problems = found.problems.unwrap_or_default();
        return Ok(Verdict::Breaks(Broken { object: found.named.object, problems }));
    }
    match read {
        Ok(impact) if impact.undecided > 0 => Ok(Verdict::Undecided(impact.to_string())),
        Ok(_) => Ok(Verdict::Harmless),
        Err(Incomplete::Unread(why)) => Err(why),
        Err(Incomplete::Forbidden) => Err("the objects may not be listed".to_owned()),
        Err(Incomplete::Partly(_, why)) => Err(format!("not all objects were checked: {why}")),
    }
}

/// Whether there are objects of a definition.
async fn is_stored(client: &Client, crd: &Value, left: &mut ReadLimits) -> Result<bool, String> {
    let versions = || crd["spec"]["versions"].as_array().into_iter().flatten();
    let served = || versions().filter(|version| version["served"] == true);
    // Most objects are stored at that version: they are read without their webhook.
    let version = served().find(|version| version["storage"] == true).or_else(|| served().next());
    let Some(version) = version else { return Ok(false) };
    let (until, url) = (left.until, url(crd, text(version, "/name")));
    let read = tokio::time::timeout_at(until, page(client, &url, 1, "", left));
    let bytes = match read.await {
        Err(_) => return Err("it took too long to list the objects".to_owned()),
        Ok(read) => read.map_err(|error| api_text(&error))?,
    };
    // A page that is too large has an object.
    let Some(bytes) = bytes else { return Ok(true) };
    let page: Page<'_> = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok(!page.items.is_empty())
}

/// The address of the objects of a definition at a version.
fn url(crd: &Value, version: &str) -> String {
    format!("/apis/{}/{version}/{}", text(crd, "/spec/group"), text(crd, "/spec/names/plural"))
}

/// An object that a change affects, and what is wrong if it becomes invalid.
struct Affected {
    named: NamedObject,
    problems: Option<String>,
}

/// The reason why there are no counts, or not of all objects.
#[derive(Debug)]
enum Incomplete {
    Unread(String),
    Forbidden,
    Partly(UpgradeImpact, &'static str),
}

impl Incomplete {
    fn summary(&self, who: &str, definition: &Value) -> String {
        match self {
            Self::Unread(why) => format!("its objects were not checked: {why}"),
            Self::Forbidden => format!(
                "its objects were not checked: {who} may not list them; give it the verb \"list\" on {}",
                text(definition, "/metadata/name")
            ),
            Self::Partly(impact, why) => format!("{impact}; not all were checked: {why}"),
        }
    }
}

/// Reads the objects of a definition at the version of the upgrade, and validates them.
async fn impact(
    account: &Client,
    definition: &Value,
    upgrade: Upgrade,
    left: &mut ReadLimits,
    named: &mut Vec<Affected>,
) -> Result<UpgradeImpact, Incomplete> {
    let upgrade = Arc::new(upgrade);
    let url = url(definition, upgrade.version());
    let (mut impact, mut token, mut size) = (UpgradeImpact::default(), String::new(), PAGE_OBJECTS);
    loop {
        let most = u32::try_from(left.objects).unwrap_or(PAGE_OBJECTS).min(size);
        if most == 0 {
            return Err(Incomplete::Partly(impact, "there are too many"));
        }
        let read = tokio::time::timeout_at(left.until, page(account, &url, most, &token, left)).await;
        let bytes = match read {
            Err(_) => return Err(Incomplete::Partly(impact, "it took too long")),
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) if left.bytes == 0 || most == 1 => {
                return Err(Incomplete::Partly(impact, "they are too large"));
            }
            Ok(Ok(None)) => {
                size = most / 2;
                continue;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => return Err(Incomplete::Forbidden),
            Ok(Err(error)) => return Err(Incomplete::Unread(api_text(&error))),
        };
        let upgrade = upgrade.clone();
        let page = tokio::task::spawn_blocking(move || add_page(&upgrade, &bytes, impact)).await;
        let page = page.map_err(|e| Incomplete::Unread(e.to_string()))?;
        let (counted, next, in_page) =
            page.map_err(|e| Incomplete::Unread(format!("reading a page of them: {e}")))?;
        left.objects = left.objects.saturating_sub(counted.seen - impact.seen);
        impact = counted;
        named.extend(in_page);
        named.truncate(NAMED_MAX);
        match next {
            Some(next) if !next.is_empty() => token = next,
            _ => return Ok(impact),
        }
    }
}

/// Adds the objects of a page; returns the token of the next page, and the objects that the change affects.
fn add_page(
    upgrade: &Upgrade,
    page: &[u8],
    mut impact: UpgradeImpact,
) -> Result<(UpgradeImpact, Option<String>, Vec<Affected>), serde_json::Error> {
    let page: Page<'_> = serde_json::from_slice(page)?;
    let mut named = Vec::new();
    for item in page.items {
        let object: Value = serde_json::from_str(item.get())?;
        let on_object = upgrade.impact_on(&object);
        impact.add(&on_object);
        named.extend(summary(&on_object).map(|text| Affected {
            named: NamedObject { object: name(&object), impact: text.to_owned() },
            problems: problems(&on_object),
        }));
    }
    Ok((impact, page.metadata.next, named))
}

/// The worst impact on an object; `None` if there is none. Its content is not quoted.
fn summary(impact: &ObjectImpact) -> Option<&'static str> {
    match impact {
        ObjectImpact { violations, invalid_already: false, .. } if !violations.is_empty() => {
            Some("would become invalid")
        }
        ObjectImpact { violations, .. } if !violations.is_empty() => Some("is invalid already"),
        ObjectImpact { lost, .. } if !lost.is_empty() => Some("would lose fields"),
        ObjectImpact { undecided, .. } if !undecided.is_empty() => Some("cannot be decided"),
        ObjectImpact { changed, .. } if !changed.is_empty() => Some("may be read with other values"),
        _ => None,
    }
}

/// What is wrong with an object that becomes invalid.
fn problems(impact: &ObjectImpact) -> Option<String> {
    let list =
        || impact.violations.iter().map(|note| format!("{}: {}", note.path, note.text)).collect::<Vec<_>>();
    (!impact.violations.is_empty() && !impact.invalid_already).then(|| format!("[{}]", list().join(", ")))
}

fn name(object: &Value) -> String {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// A page of objects; `None` if it is too large.
async fn page(
    account: &Client,
    url: &str,
    most: u32,
    token: &str,
    left: &mut ReadLimits,
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

/// The number of objects of a definition; `None` if the ServiceAccount may not list them.
pub async fn count(account: &Client, crd: &CustomResourceDefinition) -> Option<usize> {
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
        let upgrade = Upgrade::new(&definition(9), &definition(3), &["v1".to_owned()]).unwrap();
        let named = json!({"size": 5, "metadata": {"name": "b", "namespace": "n"}});
        let page = json!({"metadata": {"continue": "next"}, "items": [{"size": 1}, named]}).to_string();
        let (impact, next, named) = add_page(&upgrade, page.as_bytes(), UpgradeImpact::default()).unwrap();
        assert_eq!(
            (impact.to_string().as_str(), next.as_deref()),
            ("1 of 2 objects would become invalid", Some("next"))
        );
        let broken = NamedObject { object: "n/b".into(), impact: "would become invalid".into() };
        assert_eq!(named.into_iter().map(|one| one.named).collect::<Vec<_>>(), [broken]);
        let last = json!({"items": [{"size": 2}]}).to_string();
        let (impact, next, _) = add_page(&upgrade, last.as_bytes(), impact).unwrap();
        assert_eq!((impact.to_string().as_str(), next), ("1 of 3 objects would become invalid", None));
    }
}
