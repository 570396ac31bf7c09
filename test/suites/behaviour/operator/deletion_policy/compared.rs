//! What is kept is kept as it is: the same objects, and each says what it said.

use olm_api::names::{OBJECT_DATA_SECRET_TYPE, OWNER_UID_ANNOTATION, REVISION_ANNOTATION};
use olm_test::{cluster::objects, prelude::*};

use super::beacons;

/// Kinds of the label that are no objects of the bundle: revisions, and what the cluster makes of a Service.
const OTHERS: [&str; 3] = ["ClusterObjectSet", "Endpoints", "EndpointSlice"];
/// Metadata that go with every write, or say whose an object is.
const OF_WRITES: [&str; 4] = ["resourceVersion", "managedFields", "generation", "ownerReferences"];
/// Annotations that say whose it is.
const OF_OWNERS: [&str; 2] = [OWNER_UID_ANNOTATION, REVISION_ANNOTATION];

/// The objects that outlive their extension, as they were before.
pub(super) struct Kept {
    said: BTreeMap<String, Value>,
    /// The user's object, which nobody is to write at all.
    mine: Value,
}

impl Kept {
    /// What `policy` is to keep, `least` objects or more.
    pub(super) async fn under(scenario: &Scenario<'_>, policy: &str, least: usize) -> Result<Self> {
        let mut said = said(scenario).await?;
        said.retain(|name, _| policy == "Orphan" || name.starts_with("CustomResourceDefinition "));
        ensure!(said.len() >= least, "hardly anything to keep: {:?}", said.keys());
        Ok(Self { said, mine: mine(scenario).await? })
    }

    /// Nothing of it is another object by now, or says something else.
    pub(super) async fn is_as_it_was(&self, scenario: &Scenario<'_>) -> Result<()> {
        let now = said(scenario).await?;
        for (name, was) in &self.said {
            let is = now.get(name).with_context(|| format!("{name} is gone"))?;
            ensure!(is == was, "{name}: it was\n{was}\nand is\n{is}");
        }
        let mine = mine(scenario).await?;
        ensure!(mine == self.mine, "the user's object was\n{}\nand is\n{mine}", self.mine);
        Ok(())
    }
}

async fn mine(scenario: &Scenario<'_>) -> Result<Value> {
    Ok(serde_json::to_value(beacons(scenario).get("mine").await.context("the user's object")?)?)
}

async fn said(scenario: &Scenario<'_>) -> Result<BTreeMap<String, Value>> {
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    let found = objects(&scenario.client, &mine).await?;
    let of_bundle = found.into_iter().filter(|(resource, object)| {
        !OTHERS.contains(&resource.kind.as_str()) && object.data["type"] != OBJECT_DATA_SECRET_TYPE
    });
    of_bundle
        .map(|(resource, object)| {
            let place = object.namespace().unwrap_or_default();
            let name = format!("{} {place}/{}", resource.kind, object.name_any());
            Ok((name, what_it_says(&object)?))
        })
        .collect()
}

/// Everything but the status, and what differs from write to write: spec, data, labels, annotations, UID.
fn what_it_says(object: &DynamicObject) -> Result<Value> {
    let mut value = serde_json::to_value(object)?;
    value.as_object_mut().context("no object")?.remove("status");
    let metadata = value["metadata"].as_object_mut().context("no metadata")?;
    metadata.retain(|field, _| !OF_WRITES.contains(&field.as_str()));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !OF_OWNERS.contains(&name.as_str()));
    }
    Ok(value)
}
