//! The objects of a cluster, without what differs from run to run.

use olm_test::prelude::*;
use regex::{Captures, Regex};

use crate::lives::STILL;

/// `apiVersion`, kind and plural.
pub(crate) type Kind = (&'static str, &'static str, &'static str);

/// Everything an extension of the sample operator can leave.
const KINDS: [Kind; 12] = [
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("v1", "Service", "services"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("apps/v1", "Deployment", "deployments"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ("olm.operatorframework.io/v1", "ClusterExtension", "clusterextensions"),
    ("olm.operatorframework.io/v1", "ClusterObjectSet", "clusterobjectsets"),
];

/// Fields that differ although nothing does.
const FLEETING: [&str; 7] = [
    "resourceVersion",
    "creationTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastUnpacked",
];

/// Kind, namespace and name.
pub(crate) type Id = String;

/// The objects of the cluster, as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    objects: BTreeMap<Id, Value>,
}

impl Snapshot {
    pub(crate) async fn take(client: &Client) -> Result<Self> {
        let mut objects = BTreeMap::new();
        for (kind, object) in all_of(client, &KINDS).await? {
            let id = format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any());
            objects.insert(id, serde_json::to_value(&object)?);
        }
        Ok(Self { objects })
    }

    /// What is here and not in `before`; what was there before must be as it was.
    pub(crate) fn since(mut self, before: &Self) -> Result<Self> {
        for (id, was) in &before.objects {
            let Some(is) = self.objects.remove(id) else {
                anyhow::bail!("{id} is gone and was nobody's to delete")
            };
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            ensure!(version(&is) == version(was), "{id} was changed:\nfrom {was}\nto   {is}");
        }
        Ok(self)
    }

    fn objects(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().map(|(id, object)| (id.as_str(), object))
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn check_empty(&self) -> Result<()> {
        let left: Vec<_> = self.objects.keys().collect();
        wait::check(left.is_empty(), || format!("left: {left:?}"))
    }

    /// What revisions and Deployments say of themselves.
    pub(crate) fn told(&self) -> String {
        let tells = |id: &str| ["ClusterObjectSet ", "Deployment "].iter().any(|kind| id.starts_with(kind));
        let lines = self.objects().filter(|(id, _)| tells(id));
        lines.map(|(id, object)| format!("{id}: {}", object["status"])).collect::<Vec<_>>().join("\n")
    }

    /// The same objects without UIDs, versions and times; a UID of a known object is its name.
    pub(crate) fn normal(&self) -> BTreeMap<Id, Value> {
        let uids: BTreeMap<&str, &str> = self
            .objects()
            .filter_map(|(id, object)| Some((object["metadata"]["uid"].as_str()?, id)))
            .collect();
        self.objects
            .iter()
            .map(|(id, object)| {
                let text = name_uids(&object.to_string(), &uids);
                let mut object = serde_json::from_str(&text).expect("JSON in which only texts changed");
                strip(&mut object);
                object["metadata"]["managedFields"] = managed(&object["metadata"]["managedFields"]);
                (id.clone(), object)
            })
            .collect()
    }

    /// Not more than one active revision of an extension, and no object of two active ones.
    pub(crate) fn check_owners(&self) -> Result<()> {
        let mut active: BTreeMap<&str, &str> = BTreeMap::new();
        let mut extensions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, object) in self.objects().filter(|(id, _)| id.starts_with("ClusterObjectSet ")) {
            if object["spec"]["lifecycleState"] == "Active" {
                active.insert(object["metadata"]["uid"].as_str().unwrap_or_default(), id);
                let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
                extensions.entry(owner).or_default().push(id);
            }
        }
        for (owner, revisions) in &extensions {
            ensure!(revisions.len() == 1, "active revisions of one extension ({owner}): {revisions:?}");
        }
        for (id, object) in self.objects() {
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let of_active: Vec<_> = owners
                .iter()
                .filter(|o| active.contains_key(o["uid"].as_str().unwrap_or_default()))
                .collect();
            ensure!(of_active.len() <= 1, "{id} has several active owners: {of_active:?}");
            let controllers = owners.iter().filter(|o| o["controller"] == true).count();
            ensure!(controllers <= 1, "{id} has {controllers} controllers");
        }
        Ok(())
    }
}

/// The state that does not change for a while.
pub(crate) async fn settled(client: &Client) -> Result<Snapshot> {
    let mut last = Snapshot::take(client).await?;
    let mut since = Instant::now();
    wait::until("a cluster in which nothing happens", DEADLINE, async || {
        let now = Snapshot::take(client).await?;
        let lines = difference(&last.normal(), &now.normal());
        if !lines.is_empty() {
            (last, since) = (now, Instant::now());
        }
        ensure!(lines.is_empty() && since.elapsed() >= STILL, "{}", lines.join("\n"));
        Ok(last.clone())
    })
    .await
}

/// All objects of some kinds, each with its kind.
pub(crate) async fn all_of(client: &Client, kinds: &[Kind]) -> Result<Vec<(&'static str, DynamicObject)>> {
    let mut found = Vec::new();
    for (api_version, kind, plural) in kinds {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(api_version, kind, plural));
        found.extend(api.all().await?.into_iter().map(|object| (*kind, object)));
    }
    Ok(found)
}

/// UIDs become what they are the UIDs of. They stand in field names of managed fields, too.
fn name_uids(text: &str, uids: &BTreeMap<&str, &str>) -> String {
    let uid = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a pattern");
    let name = |found: &Captures<'_>| uids.get(&found[0]).copied().unwrap_or("nobody's UID").to_owned();
    uid.replace_all(text, name).into_owned()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !FLEETING.contains(&name.as_str()));
            // A map in the API's sense: the order is that in which they were said first.
            if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
                conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Which fields a manager has, however it came by them: an object that is created and one that is applied after
/// a crash are the same.
fn managed(entries: &Value) -> Value {
    let mut managers = json!({});
    for entry in entries.as_array().into_iter().flatten() {
        let manager = entry["manager"].as_str().unwrap_or_default();
        merge(&mut managers[manager], &entry["fieldsV1"]);
    }
    managers
}

fn merge(into: &mut Value, fields: &Value) {
    if !into.is_object() {
        *into = json!({});
    }
    // A dot is the field itself: it is there as soon as something is below it.
    for (name, below) in fields.as_object().into_iter().flatten().filter(|(name, _)| *name != ".") {
        merge(&mut into[name], below);
    }
}

/// What differs between two states, at most a few lines.
pub(crate) fn difference(wanted: &BTreeMap<Id, Value>, found: &BTreeMap<Id, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, wanted) in wanted {
        match found.get(id) {
            None => lines.push(format!("{id} is missing")),
            Some(found) => differing(id, wanted, found, &mut lines),
        }
    }
    lines.extend(found.keys().filter(|id| !wanted.contains_key(*id)).map(|id| format!("{id} is too many")));
    lines.truncate(12);
    lines
}

fn differing(path: &str, wanted: &Value, found: &Value, lines: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let of = |fields: &serde_json::Map<String, Value>| {
                    fields.get(name).cloned().unwrap_or(json!(null))
                };
                differing(&format!("{path}.{name}"), &of(a), &of(b), lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differing(&format!("{path}[{index}]"), a, b, lines);
            }
        }
        _ if wanted == found => {}
        _ => lines.push(format!("{path}: wanted {wanted}, found {found}")),
    }
}
