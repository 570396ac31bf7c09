//! ClusterExtensions as tests create them, and what they report.

use crate::prelude::*;
use olm_api::{Conditions, names::CATALOG_NAME_LABEL};

/// The ServiceAccount that installs, in the namespace of each test.
pub const ACCOUNT: &str = "installer";

/// A ClusterExtension of a package from one catalog, with further fields of `spec.source.catalog`.
pub fn extension(name: &str, namespace: &str, package: &str, catalog: &str, filter: &Value) -> Value {
    let mut source =
        json!({"packageName": package, "selector": {"matchLabels": {CATALOG_NAME_LABEL: catalog}}});
    for (field, value) in filter.as_object().into_iter().flatten() {
        source[field] = value.clone();
    }
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {
            "namespace": namespace, "serviceAccount": {"name": ACCOUNT},
            "source": {"sourceType": "Catalog", "catalog": source},
        },
    })
}

/// Lets extensions and revisions have shorter deadlines than the API allows, in minutes; it takes a while to be in force.
pub async fn allow_deadline(client: &Client, minutes: u8) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let minimum =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
    let operations = json!([{"op": "replace", "path": minimum, "value": minutes}]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations)?);
    for plural in ["clusterextensions", "clusterobjectsets"] {
        crds.patch(&format!("{plural}.olm.operatorframework.io"), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// A ClusterObjectSet with this metadata and number, and one phase with these entries.
pub fn object_set(metadata: &Value, number: i64, objects: &Value) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": metadata,
        "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent",
                 "phases": [{"name": "deploy", "objects": objects}]},
    })
}

/// `Status/Reason/Message` of a condition, or nothing.
pub fn condition_text(conditions: &Conditions, type_: ConditionType) -> String {
    conditions.find(type_).map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default()
}

/// What an extension reports.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The installed version.
    pub version: Option<String>,
    /// Whether Progressing is about the newest generation.
    pub generation_seen: bool,
    conditions: Conditions,
}

impl Shown {
    /// `Status/Reason/Message` of a condition, or nothing.
    pub fn condition(&self, type_: ConditionType) -> String {
        condition_text(&self.conditions, type_)
    }
}

/// An extension by name.
pub struct Extension {
    /// All extensions.
    pub api: Api<ClusterExtension>,
    /// Its name, and that of its namespace and its catalog.
    pub name: String,
}

impl Extension {
    /// The extension of this name, which need not exist.
    pub fn new(client: &Client, name: &str) -> Self {
        Self { api: Api::all(client.clone()), name: name.to_owned() }
    }

    /// The object that installs a package, with further fields of `spec.source.catalog`.
    pub fn object(&self, package: &str, filter: &Value) -> Value {
        extension(&self.name, &self.name, package, &self.name, filter)
    }

    /// Creates it.
    pub async fn create(&self, object: Value) -> Result<()> {
        self.api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Merges a patch into it.
    pub async fn patch(&self, patch: &Value) -> Result<()> {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Requests a version.
    pub async fn set_version(&self, version: &str) -> Result<()> {
        self.patch(&json!({"spec": {"source": {"catalog": {"version": version}}}})).await
    }

    /// Requests its deletion.
    pub async fn delete(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// What it reports now.
    pub async fn shown(&self) -> Result<Shown> {
        let extension = self.api.get(&self.name).await?;
        let generation = extension.metadata.generation;
        let status = extension.status.unwrap_or_default();
        let progressing = status.conditions.find(ConditionType::Progressing);
        Ok(Shown {
            version: status.install.as_ref().map(|install| install.bundle.version.clone()),
            generation_seen: progressing.is_some_and(|c| c.observed_generation == generation),
            conditions: status.conditions,
        })
    }

    /// Fails unless the version is installed and everything is ready.
    pub async fn is_installed(&self, version: &str) -> Result<()> {
        let shown = self.shown().await?;
        let ready = shown.condition(ConditionType::Ready).starts_with("True/");
        ensure!(shown.version.as_deref() == Some(version) && shown.generation_seen && ready, "{shown:#?}");
        Ok(())
    }

    /// Fails unless a condition begins as wanted: `Status/Reason/beginning of the message`.
    pub async fn shows(&self, type_: ConditionType, wanted: &str) -> Result<()> {
        let found = self.shown().await?.condition(type_);
        ensure!(found.starts_with(wanted), "{type_} is {found}");
        Ok(())
    }

    /// Fails while it exists.
    pub async fn is_gone(&self) -> Result<()> {
        ensure!(self.api.get_opt(&self.name).await?.is_none(), "{} is still there", self.name);
        Ok(())
    }
}
