//! Creating recorded objects in their order: owners first.

use crate::prelude::*;

use super::{Dump, Recorded, text::with_release_text};

/// Kinds that come first, in this order; those up to object sets are waited for by all others.
const FIRST: [&str; 16] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ClusterCatalog",
    "ClusterExtension",
    "ClusterObjectSet",
    "Secret",
    "ConfigMap",
    "Service",
    "Deployment",
    "ReplicaSet",
    "Pod",
];
/// Kinds that come last, because they stand in the way of others.
const LAST: [&str; 5] = [
    "PodDisruptionBudget",
    "NetworkPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
];
/// The place of object sets.
const EARLY: usize = 9;
/// Between these come all others.
const BETWEEN: usize = 50;
/// A new kind is served a moment after its CRD says so.
const SERVED: Duration = Duration::from_mins(1);
const MANAGER: &str = "fieldManager=load";
const UIDS_LENGTH: usize = 36;

/// Creates everything of `dump`, with status and managed fields as recorded.
pub async fn load(client: &Client, dump: &Dump) -> Result<()> {
    let mut objects: Vec<&Recorded> = dump.objects.iter().collect();
    objects.sort_by_key(|one| (rank(one.kind()), one.text("/metadata/namespace"), one.name()));
    let inside: BTreeSet<&str> = objects.iter().map(|one| one.text("/metadata/uid")).collect();
    let mut loader = Loader { client, uids: BTreeMap::new() };
    while !objects.is_empty() {
        let before = objects.len();
        let early = objects.iter().any(|one| rank(one.kind()) <= EARLY);
        let mut left = Vec::new();
        for one in objects {
            let unowned = |owner| inside.contains(owner) && !loader.uids.contains_key(owner);
            let waits = (early && rank(one.kind()) > EARLY) || owners(&one.object).any(unowned);
            if waits {
                left.push(one);
            } else {
                let told = || format!("loading {} {}", one.kind(), one.name());
                loader.create(one).await.with_context(told)?;
            }
        }
        ensure!(left.len() < before, "owners are missing of {} objects", left.len());
        objects = left;
    }
    Ok(())
}

fn rank(kind: &str) -> usize {
    let place = |kinds: &[&str]| kinds.iter().position(|one| *one == kind);
    place(&FIRST).or_else(|| place(&LAST).map(|at| 2 * BETWEEN + at)).unwrap_or(BETWEEN)
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().filter_map(|r| r["uid"].as_str())
}

struct Loader<'a> {
    client: &'a Client,
    /// New UIDs by recorded ones.
    uids: BTreeMap<String, String>,
}

impl Loader<'_> {
    async fn create(&mut self, one: &Recorded) -> Result<()> {
        let mut object = bare(&one.object);
        let owners: Vec<Value> = one.object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|reference| {
                let mut reference = reference.clone();
                reference["uid"] = self.uids.get(reference["uid"].as_str()?)?.clone().into();
                Some(reference)
            })
            .collect();
        if !owners.is_empty() {
            object["metadata"]["ownerReferences"] = owners.into();
        }
        with_release_text(&mut object, |text| self.relinked(text, one))?;
        let made = self.made(one, &object).await?;
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        ensure!(uid(&made).len() == UIDS_LENGTH, "no UID in the answer: {made}");
        self.uids.insert(uid(&one.object), uid(&made));
        if one.kind() == "CustomResourceDefinition" {
            self.stored_versions(one).await?;
        } else if one.object.get("status").is_some() {
            self.status(one, &made).await?;
        }
        self.managed_fields(one).await
    }

    /// Creates the object, or replaces the one that the server makes by itself.
    async fn made(&self, one: &Recorded, object: &Value) -> Result<Value> {
        let mut first = object.clone();
        if let Some(spec) = earlier(one) {
            first["spec"] = spec;
        }
        let collection = format!("{}?{MANAGER}", path(one, false));
        let made = wait::until("the kind to be served", SERVED, || async {
            match self.request("POST", &collection, &first).await {
                Ok(made) => Ok(Some(made)),
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
                Err(kube::Error::Api(status)) if status.is_not_found() => bail!("{}", status.message),
                Err(error) => Err(wait::Final(error.to_string()).into()),
            }
        })
        .await?;
        match made {
            Some(made) if first == *object => Ok(made),
            _ => {
                self.rewrite(one, "", |current| {
                    let version = current["metadata"]["resourceVersion"].clone();
                    *current = object.clone();
                    current["metadata"]["resourceVersion"] = version;
                })
                .await
            }
        }
    }

    async fn stored_versions(&self, one: &Recorded) -> Result<Value> {
        wait::until("the CRD to be established", SERVED, || async {
            let found = self.get(one).await?;
            let conditions = found["status"]["conditions"].as_array();
            let served = |c: &Value| c["type"] == "Established" && c["status"] == "True";
            wait::check(conditions.is_some_and(|all| all.iter().any(served)), || format!("{conditions:?}"))
        })
        .await?;
        let versions = one.object["status"]["storedVersions"].clone();
        self.rewrite(one, "/status", |current| current["status"]["storedVersions"] = versions.clone()).await
    }

    async fn status(&self, one: &Recorded, made: &Value) -> Result<Value> {
        let generation = |object: &Value| object["metadata"]["generation"].clone();
        let status = observed(&one.object["status"], &generation(&one.object), &generation(made));
        // Kinds without the subresource keep their status with the object.
        match self.rewrite(one, "/status", |current| current["status"] = status.clone()).await {
            Err(error) if is_not_found(&error) => self.get(one).await,
            answer => answer,
        }
    }

    async fn managed_fields(&self, one: &Recorded) -> Result<()> {
        let fields = one.object["metadata"]["managedFields"].to_string();
        let fields: Value = serde_json::from_str(&self.relinked(&fields, one))?;
        self.rewrite(one, "", |current| current["metadata"]["managedFields"] = fields.clone()).await.map(drop)
    }

    /// Reads, changes and replaces the object until nobody came in between.
    async fn rewrite(&self, one: &Recorded, subresource: &str, change: impl Fn(&mut Value)) -> Result<Value> {
        let place = format!("{}{subresource}?{MANAGER}", path(one, true));
        wait::until("a write without conflict", SERVED, || async {
            let mut current = self.get(one).await?;
            change(&mut current);
            match self.request("PUT", &place, &current).await {
                Ok(made) => Ok(made),
                Err(kube::Error::Api(status)) if status.is_conflict() => bail!("{}", status.message),
                Err(error) => Err(wait::Final(error.to_string()).into()),
            }
        })
        .await
    }

    async fn get(&self, one: &Recorded) -> Result<Value> {
        Ok(self.request("GET", &path(one, true), &Value::Null).await?)
    }

    async fn request(&self, method: &str, place: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder()
            .method(method)
            .uri(place)
            .header("Content-Type", "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// A text with the UIDs of the object's owners as they are now.
    fn relinked(&self, text: &str, one: &Recorded) -> String {
        owners(&one.object).fold(text.to_owned(), |text, old| match self.uids.get(old) {
            Some(new) => text.replace(old, new),
            None => text,
        })
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("could not find the requested resource")
}

/// The object without what the server gives out and without its status.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for given in
            ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"]
        {
            metadata.remove(given);
        }
    }
    object
}

/// An older spec for what has been edited once, so that its generation is 2 as recorded.
fn earlier(one: &Recorded) -> Option<Value> {
    if one.object["metadata"]["generation"] != 2 {
        return None;
    }
    let mut spec = one.object["spec"].clone();
    match one.kind() {
        "ClusterObjectSet" => spec["lifecycleState"] = json!("Active"),
        "ClusterExtension" => spec["source"]["catalog"]["version"] = json!("0.0.1"),
        _ => return None,
    }
    Some(spec)
}

/// A status with its observed generations adapted.
fn observed(status: &Value, old: &Value, new: &Value) -> Value {
    match status {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let adapted = if key == "observedGeneration" && value == old {
                    new.clone()
                } else {
                    observed(value, old, new)
                };
                (key.clone(), adapted)
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| observed(item, old, new)).collect(),
        other => other.clone(),
    }
}

fn path(one: &Recorded, named: bool) -> String {
    let version = one.text("/apiVersion");
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let namespace = match one.text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let name = if named { format!("/{}", one.name()) } else { String::new() };
    format!("{root}/{version}{namespace}/{}{name}", one.resource)
}
