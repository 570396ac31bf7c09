//! What is in the cluster, and what was seen of the extensions on the way.

use std::sync::{Mutex, PoisonError};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use olm_api::names::OBJECT_DATA_SECRET_TYPE;
use olm_object::text;
use olm_test::{cluster::objects, prelude::*};
use tokio::task::JoinHandle;

use crate::world::COLLECTED;

/// Managers of upstream's Helm runtime.
const MANAGERS_OF_HELM: [&str; 2] = ["operator-controller", "Go-http-client"];
const OURS: &str = "olm.operatorframework.io";
/// Who may have written an extension, and why.
const WRITERS: [(&str, &str); 5] = [
    ("kubectl-client-side-apply", "whoever made it, before the dump"),
    ("kubectl-patch", "whoever changed it, before the dump"),
    ("operator-controller", "upstream, and we: finalizers and status"),
    ("olm.operatorframework.io/clusterextension-controller", "we: what the extension uses"),
    ("unknown", "this test, which changes it as a user does"),
];
const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
const OWNER_UID: &str = "olm.operatorframework.io/owner-uid";
/// What must stay as it is, by kind.
const KEPT: [&str; 9] = [
    "ClusterExtension",
    "ClusterCatalog",
    "CustomResourceDefinition",
    "Deployment",
    "ServiceAccount",
    "ReplicaSet",
    "Pod",
    "Grafana",
    "GrafanaFolder",
];
/// What appears beside revisions with their content and what the administrator applied: kind, name if it is one object,
/// and who makes it.
const APPEAR: [(&str, &str, &str); 10] = [
    (
        "APIService",
        "v1alpha1.extensions.olm.operatorframework.io",
        "the cluster, of the CRDs of update policies",
    ),
    ("ClusterObjectSet", "", "we; how many there are is compared elsewhere"),
    ("Event", "", "everybody, to tell what happens"),
    ("Lease", "", "whoever leads, and nodes"),
    ("ConfigMap", "kube-root-ca.crt", "the cluster, in each namespace"),
    ("ServiceAccount", "default", "the cluster, in each namespace"),
    ("ConfigMap", "catalogd-serving-cert", "we: what clients of the catalogs trust"),
    ("Secret", "catalogd-serving-cert", "we: what the catalogs are served with"),
    ("Endpoints", "", "the cluster, of Services: the dumps have none"),
    ("EndpointSlice", "", "the cluster, of Services: the dumps have none"),
];
/// Kinds that carry an extension's label without being objects of its bundle.
const NOT_APPLIED: [&str; 4] = ["Secret", "ClusterObjectSet", "Endpoints", "EndpointSlice"];

/// Every object of the cluster, by kind, namespace and name.
pub(crate) type Inventory = BTreeMap<String, Value>;

pub(crate) async fn inventory(client: &Client) -> Result<Inventory> {
    let mut found = Inventory::new();
    for (resource, object) in objects(client, &ListParams::default()).await? {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let mut object = serde_json::to_value(&object)?;
        object["kind"] = resource.kind.clone().into();
        found.insert(format!("{}.{} {namespace}/{name}", resource.kind, resource.group), object);
    }
    Ok(found)
}

fn is_kept(object: &Value) -> bool {
    let own = text(object, "/metadata/name").ends_with(".olm.operatorframework.io");
    KEPT.contains(&text(object, "/kind")) && !own && text(object, "/metadata/namespace") != SYSTEM_NAMESPACE
}

/// Nothing that ran or was written by users is another object now, or says something else; `least` of them were there.
pub(crate) fn unchanged(before: &Inventory, after: &Inventory, least: usize) -> Result<()> {
    let mut checked = 0;
    for (key, old) in before.iter().filter(|(_, object)| is_kept(object)) {
        let new = after.get(key).with_context(|| format!("{key} is gone"))?;
        let places = [
            "/metadata/uid",
            "/metadata/creationTimestamp",
            "/metadata/generation",
            "/spec",
            "/status/storedVersions",
            "/status/containerStatuses",
        ];
        // The API server counts a change of annotations as a new generation of a Deployment.
        let annotated = text(old, "/kind") == "Deployment"
            && old["metadata"]["annotations"] != new["metadata"]["annotations"];
        for place in places.into_iter().filter(|place| !annotated || *place != "/metadata/generation") {
            let (was, is) = (old.pointer(place), new.pointer(place));
            ensure!(was == is, "{key}: {place} was {was:?} and is {is:?}");
        }
        checked += 1;
    }
    ensure!(checked >= least, "only {checked} objects were there");
    println!("{checked} objects unchanged");
    Ok(())
}

/// Extensions' objects belong to revisions, and nobody but us has applied them.
pub(crate) fn taken_over(after: &Inventory, extensions: &[&str]) -> Result<()> {
    taken_over_under(after, extensions, |_| false)
}

/// The same, where a deletion policy keeps some objects: these have no owner, but the UID of their revision.
pub(crate) fn taken_over_under(
    after: &Inventory,
    extensions: &[&str],
    keeps: impl Fn(&Value) -> bool,
) -> Result<()> {
    let mut checked = 0;
    for (key, object) in objects_of(after, extensions) {
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        if keeps(object) {
            let uid = &object["metadata"]["annotations"][OWNER_UID];
            let set =
                after.values().find(|o| o["kind"] == "ClusterObjectSet" && o["metadata"]["uid"] == *uid);
            ensure!(owners.is_empty() && set.is_some(), "{key}: kept for {uid}, owners {owners:?}");
        } else {
            ensure!(owners.len() == 1 && owners[0]["kind"] == "ClusterObjectSet", "{key}: owners {owners:?}");
            ensure!(owners[0]["controller"] == true, "{key}: owners {owners:?}");
        }
        let annotations = object["metadata"]["annotations"].to_string();
        ensure!(!annotations.contains("meta.helm.sh"), "{key}: annotations {annotations}");
        let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let names: BTreeSet<&str> = managers.iter().filter_map(|entry| entry["manager"].as_str()).collect();
        ensure!(names.contains(OURS), "{key}: managers {names:?}");
        ensure!(MANAGERS_OF_HELM.iter().all(|name| !names.contains(name)), "{key}: managers {names:?}");
        checked += 1;
    }
    ensure!(checked > 5 * extensions.len(), "only {checked} objects of {extensions:?}");
    println!("{checked} objects taken over");
    Ok(())
}

/// The objects of the extensions' bundles.
pub(crate) fn objects_of<'a>(
    inventory: &'a Inventory,
    extensions: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    inventory.iter().filter(|(_, object)| {
        let of = text(object, "/metadata/labels/olm.operatorframework.io~1owner-name");
        extensions.contains(&of) && !NOT_APPLIED.contains(&text(object, "/kind"))
    })
}

/// The extensions' own metadata and status: nobody unknown wrote them, and nothing in them is out of date.
pub(crate) fn nothing_stale(after: &Inventory, blocked: &[&str]) -> Result<()> {
    for (key, object) in after.iter().filter(|(_, o)| text(o, "/kind") == "ClusterExtension") {
        let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        for entry in &managers {
            let manager = entry["manager"].as_str().unwrap_or_default();
            ensure!(WRITERS.iter().any(|(known, _)| *known == manager), "{key}: manager {entry}");
            let status = entry["subresource"] == "status";
            ensure!(!status || manager == "operator-controller", "{key}: status of {manager}");
        }
        let name = text(object, "/metadata/name");
        let generation = &object["metadata"]["generation"];
        let status = &object["status"];
        for condition in status["conditions"].as_array().into_iter().flatten() {
            ensure!(condition["observedGeneration"] == *generation, "{key}: {condition}");
        }
        if blocked.contains(&name) {
            continue;
        }
        let mut active: Vec<&str> = status["activeRevisions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|r| r["name"].as_str())
            .collect();
        active.sort_unstable();
        let running: Vec<&str> = after
            .values()
            .filter(|o| text(o, "/kind") == "ClusterObjectSet" && o["spec"]["lifecycleState"] == "Active")
            .filter(|o| o["metadata"]["labels"][OWNER_NAME] == name)
            .map(|o| text(o, "/metadata/name"))
            .collect();
        ensure!(active == running, "{key}: active revisions {active:?}, not {running:?}");
    }
    Ok(())
}

/// Nothing appeared but what a takeover is made of.
pub(crate) fn nothing_stray(before: &Inventory, after: &Inventory) -> Result<()> {
    let sets: BTreeSet<&str> = after
        .values()
        .filter(|object| text(object, "/kind") == "ClusterObjectSet")
        .map(|set| text(set, "/metadata/uid"))
        .collect();
    let expected = |object: &Value| {
        let metadata = &object["metadata"];
        let mut managers = metadata["managedFields"].as_array().into_iter().flatten();
        // What the administrator applied to install us.
        let installed = managers.any(|entry| entry["manager"] == "kubectl" && entry["operation"] == "Apply");
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let content = object["type"] == OBJECT_DATA_SECRET_TYPE
            && owners.any(|owner| sets.contains(owner["uid"].as_str().unwrap_or_default()));
        let named = |(kind, name): &(&str, &str)| {
            text(object, "/kind") == *kind && (name.is_empty() || text(object, "/metadata/name") == *name)
        };
        installed || content || APPEAR.iter().any(|(kind, name, _)| named(&(*kind, *name)))
    };
    let strays: Vec<&String> = after
        .iter()
        .filter(|(key, object)| !before.contains_key(*key) && !expected(object))
        .map(|(key, _)| key)
        .collect();
    ensure!(strays.is_empty(), "{strays:?}");
    Ok(())
}

/// Waits until nothing of the extensions is left.
pub(crate) async fn nothing_left(client: &Client, extensions: &[&str]) -> Result<()> {
    wait::until("everything of the extensions to be gone", COLLECTED, || async {
        let found = inventory(client).await?;
        let left: Vec<&String> =
            found.iter().filter(|(_, object)| is_of(object, extensions)).map(|(key, _)| key).collect();
        wait::check(left.is_empty(), || format!("left: {left:?}"))
    })
    .await
}

fn is_of(object: &Value, extensions: &[&str]) -> bool {
    let metadata = &object["metadata"];
    let labels = &metadata["labels"];
    let named = |value: &Value| value.as_str().is_some_and(|name| extensions.contains(&name));
    let owned =
        metadata["ownerReferences"].as_array().into_iter().flatten().any(|r| {
            ["ClusterExtension", "ClusterObjectSet"].contains(&r["kind"].as_str().unwrap_or_default())
        });
    let is_release = labels["owner"] == "operator-controller" && named(&labels["name"]);
    owned || is_release || named(&labels[OWNER_NAME]) || object["kind"] == "ClusterObjectSet"
}

/// What every extension said at every moment.
pub(crate) struct Watched {
    violations: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Watched {
    /// Watches from now on that what is installed stays installed, at these versions or later ones.
    pub(crate) fn start(client: &Client, installed: &[&'static str]) -> Self {
        let violations = Arc::new(Mutex::new(Vec::new()));
        let api: Api<ClusterExtension> = Api::all(client.clone());
        let (kept, names) = (violations.clone(), installed.to_vec());
        let task = tokio::spawn(async move {
            let seen = watcher(api, watcher::Config::default());
            // Its requests must not take the machine from everything else while the server changes the kind.
            let mut seen = seen.default_backoff().applied_objects().boxed();
            while let Some(event) = seen.next().await {
                let Ok(extension) = event else { continue };
                let name = extension.name_any();
                if !names.contains(&name.as_str()) || extension.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                let status = extension.status.unwrap_or_default();
                let told = status.conditions.iter().find(|c| c.type_ == "Installed");
                if told.is_none_or(|c| c.status != "True") || status.install.is_none() {
                    let text = format!("{name}: {told:?}, {:?}", status.install);
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                }
            }
        });
        Self { violations, task }
    }

    /// Fails if an extension ever said that it is not installed.
    pub(crate) fn end(self, process: &Process) -> Result<()> {
        self.task.abort();
        let violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        let log = process.log();
        let told: Vec<&str> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
        ensure!(violations.is_empty(), "{violations:?}\n{}", told.join("\n"));
        Ok(())
    }
}
