//! Small bundles of one ConfigMap, and catalogs of them with any edges and properties.

use std::path::Path;

use anyhow::Result;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use olm_api::v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_test::{images::bundle_files, rights, wait};
use serde_json::{Value, json};

use crate::world::{ACCOUNT, DEADLINE, Scenario};

/// A bundle, and its place in the catalog.
#[derive(Clone)]
pub(crate) struct Small {
    package: String,
    name: Option<String>,
    version: String,
    data: String,
    channels: Vec<String>,
    edges: Value,
    /// Beside `olm.package`, in the catalog.
    properties: Vec<Value>,
    annotations: Value,
    dependencies: Option<String>,
    kind: Option<(String, String)>,
    /// Fields of that kind's objects, all of them texts.
    fields: Vec<String>,
    /// Whether it has a Deployment, and that can run somewhere.
    deployment: Option<bool>,
    webhooks: Vec<Value>,
    shipped: Vec<Value>,
}

pub(crate) fn small(package: &str, version: &str) -> Small {
    Small {
        package: package.to_owned(),
        name: None,
        version: version.to_owned(),
        data: version.to_owned(),
        channels: vec!["stable".to_owned()],
        edges: json!({}),
        properties: Vec::new(),
        annotations: json!({}),
        dependencies: None,
        kind: None,
        fields: Vec::new(),
        deployment: None,
        webhooks: Vec::new(),
        shipped: Vec::new(),
    }
}

impl Small {
    fn name(&self) -> String {
        // A release stands behind a plus sign, which no name may have.
        let usual = || format!("{}.v{}", self.package, self.version.replace('+', "-"));
        self.name.clone().unwrap_or_else(usual)
    }

    /// Its name, if that is not made of package and version.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// `replaces`, `skips`, `skipRange` of its entries.
    pub(crate) fn edges(mut self, edges: Value) -> Self {
        self.edges = edges;
        self
    }

    pub(crate) fn replaces(self, version: &str) -> Self {
        let replaced = format!("{}.v{version}", self.package);
        self.edges(json!({"replaces": replaced}))
    }

    pub(crate) fn channels(mut self, channels: &[&str]) -> Self {
        self.channels = channels.iter().map(|c| (*c).to_owned()).collect();
        self
    }

    /// A property of the catalog.
    pub(crate) fn property(mut self, kind: &str, value: Value) -> Self {
        let mut property = json!({"type": kind});
        property["value"] = value;
        self.properties.push(property);
        self
    }

    /// An annotation of the CSV.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations[key] = value.into();
        self
    }

    /// `metadata/dependencies.yaml` of the bundle.
    pub(crate) fn dependencies(mut self, text: &str) -> Self {
        self.dependencies = Some(text.to_owned());
        self
    }

    /// What its ConfigMap says, beside the version.
    pub(crate) fn data(mut self, data: &str) -> Self {
        data.clone_into(&mut self.data);
        self
    }

    /// It brings this kind, by a CRD and a property.
    pub(crate) fn brings(mut self, group: &str, kind: &str) -> Self {
        self.kind = Some((group.to_owned(), kind.to_owned()));
        self.property("olm.gvk", json!({"group": group, "version": "v1", "kind": kind}))
    }

    /// Objects of its kind have these fields beside others.
    pub(crate) fn fields(mut self, fields: &[&str]) -> Self {
        self.fields = fields.iter().map(|field| (*field).to_owned()).collect();
        self
    }

    /// It has a Deployment, which becomes available or never does.
    pub(crate) fn deployment(mut self, runs: bool) -> Self {
        self.deployment = Some(runs);
        self
    }

    fn deployments(&self) -> Vec<Value> {
        let Some(runs) = self.deployment else { return Vec::new() };
        let selector = if runs { json!({}) } else { json!({"nowhere": "true"}) };
        let labels = json!({"app": self.package});
        vec![json!({"name": self.package, "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": self.package, "nodeSelector": selector,
                "containers": [{"name": "c", "image": "example.com/c:v1"}],
            }},
        }})]
    }

    /// Its Deployment serves a webhook of this type for objects of its kind, which nobody asks before there are some.
    pub(crate) fn webhook(mut self, type_: &str) -> Self {
        let group = self.kind.as_ref().map(|(group, _)| group);
        self.webhooks.push(json!({
            "type": type_, "generateName": format!("{}.{}.example.com", type_.to_lowercase(), self.package),
            "deploymentName": self.package, "containerPort": 443, "webhookPath": "/", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}],
        }));
        self
    }

    /// It ships this object, for which the account `installer` gets no rights.
    pub(crate) fn ships(mut self, object: Value) -> Self {
        self.shipped.push(object);
        self
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let (manifests, metadata) = (folder.join("manifests"), folder.join("metadata"));
        std::fs::create_dir_all(&manifests)?;
        std::fs::create_dir_all(&metadata)?;
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.package.v1": self.package,
        }});
        std::fs::write(metadata.join("annotations.yaml"), annotations.to_string())?;
        if let Some(text) = &self.dependencies {
            std::fs::write(metadata.join("dependencies.yaml"), text)?;
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{}-data", self.package)}, "data": {"data": self.data},
        });
        std::fs::write(manifests.join("map.yaml"), map.to_string())?;
        let mut owned = Vec::new();
        if let Some((group, kind)) = &self.kind {
            let plural = format!("{}s", kind.to_lowercase());
            let name = format!("{plural}.{group}");
            owned.push(json!({"name": name, "version": "v1", "kind": kind}));
            let fields: serde_json::Map<String, Value> =
                self.fields.iter().map(|field| (field.clone(), json!({"type": "string"}))).collect();
            let schema =
                json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": name},
                "spec": {
                    "group": group, "scope": "Namespaced",
                    "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
                },
            });
            std::fs::write(manifests.join("crd.yaml"), crd.to_string())?;
        }
        let modes: Vec<Value> = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
            .iter()
            .map(|mode| json!({"type": mode, "supported": *mode == "AllNamespaces"}))
            .collect();
        let mut install = json!({"deployments": self.deployments()});
        if self.deployment.is_some() {
            // Without any rule there would be no account for the Deployment.
            let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
            install["clusterPermissions"] = json!([{"serviceAccountName": self.package, "rules": rules}]);
        }
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.name(), "annotations": self.annotations},
            "spec": {
                "displayName": self.package, "version": self.version, "installModes": modes,
                "customresourcedefinitions": {"owned": owned}, "webhookdefinitions": self.webhooks,
                "install": {"strategy": "deployment", "spec": install},
            },
        });
        std::fs::write(manifests.join("csv.yaml"), csv.to_string())?;
        Ok(())
    }

    /// Gives the account `installer` the rights for this bundle alone; `folder` is for its files.
    pub(crate) async fn grant(&self, scenario: &Scenario<'_>, folder: &Path) -> Result<()> {
        self.write(folder)?;
        let rules = rights::rules_for(&[bundle_files(folder)?], &scenario.name)?;
        rights::grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await
    }

    fn blob(&self, image: &str) -> Value {
        let mut properties = vec![
            json!({"type": "olm.package", "value": {"packageName": self.package, "version": self.version}}),
        ];
        properties.extend(self.properties.iter().cloned());
        json!({"schema": "olm.bundle", "package": self.package, "name": self.name(), "image": image, "properties": properties})
    }
}

/// Pushes the bundles and a catalog of them with further blobs; the account `installer` gets the rights for them.
pub(crate) async fn push(
    scenario: &Scenario<'_>,
    bundles: &[Small],
    more: &[Value],
    tag: &str,
) -> Result<String> {
    let mut lines = Vec::new();
    let mut files = Vec::new();
    let mut packages: Vec<&str> = bundles.iter().map(|b| b.package.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    for package in packages {
        lines.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        let of_package = || bundles.iter().filter(|b| b.package == package);
        let mut channels: Vec<&str> =
            of_package().flat_map(|b| b.channels.iter().map(String::as_str)).collect();
        channels.sort_unstable();
        channels.dedup();
        for channel in channels {
            let entries: Vec<Value> = of_package()
                .filter(|b| b.channels.iter().any(|c| c == channel))
                .map(|b| {
                    let mut entry = b.edges.clone();
                    entry["name"] = b.name().into();
                    entry
                })
                .collect();
            lines.push(
                json!({"schema": "olm.channel", "package": package, "name": channel, "entries": entries}),
            );
        }
    }
    for bundle in bundles {
        let folder = tempfile::tempdir()?;
        bundle.write(folder.path())?;
        files.push(bundle_files(folder.path())?);
        for (index, object) in bundle.shipped.iter().enumerate() {
            std::fs::write(
                folder.path().join(format!("manifests/shipped-{index}.yaml")),
                object.to_string(),
            )?;
        }
        let name = format!("{}/{}:{tag}-{}", scenario.name, bundle.package, bundle.version.replace('+', "-"));
        let image = scenario.world.images.push_bundle(folder.path(), &name).await?;
        lines.push(bundle.blob(&image));
    }
    lines.extend(more.iter().cloned());
    rights::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let rules = rights::rules_for(&files, &scenario.name)?;
    rights::grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await?;
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    scenario.push_catalog(&text.join("\n"), tag).await
}

/// A catalog of the bundles under the scenario's name, serving.
pub(crate) async fn prepare(scenario: &Scenario<'_>, bundles: &[Small], more: &[Value]) -> Result<()> {
    let reference = push(scenario, bundles, more, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    scenario.catalog_serves().await
}

/// A further catalog, `<scenario>-<suffix>`, with the label `scenario`. It need not come to serve.
pub(crate) async fn further_catalog(
    scenario: &Scenario<'_>,
    suffix: &str,
    priority: i32,
    reference: &str,
) -> Result<String> {
    let name = format!("{}-{suffix}", scenario.name);
    let catalog: ClusterCatalog = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": name, "labels": {"scenario": scenario.name}},
        "spec": {"priority": priority, "source": {"type": "Image", "image": {"ref": reference}}},
    }))?;
    catalogs(scenario).create(&PostParams::default(), &catalog).await?;
    Ok(name)
}

pub(crate) fn catalogs(scenario: &Scenario<'_>) -> Api<ClusterCatalog> {
    Api::all(scenario.client.clone())
}

pub(crate) async fn serves(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    wait::until("the catalog to serve", DEADLINE, || async {
        let status = catalogs(scenario).get(name).await?.status.unwrap_or_default();
        wait::check(status.conditions.is_true(olm_api::ConditionType::Serving), || format!("{status:?}"))
    })
    .await
}

pub(crate) async fn patch_catalog(scenario: &Scenario<'_>, name: &str, patch: Value) -> Result<()> {
    catalogs(scenario).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// All catalogs that [`further_catalog`] made.
pub(crate) fn of_scenario(scenario: &Scenario<'_>) -> Value {
    json!({"selector": {"matchLabels": {"scenario": scenario.name}}})
}

/// A second extension of the scenario, in its namespace and with its account.
pub(crate) async fn another(scenario: &Scenario<'_>, name: &str, package: &str, filter: Value) -> Result<()> {
    let mut catalog = json!({
        "packageName": package,
        "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": scenario.name}},
    });
    if let (Some(catalog), Some(filter)) = (catalog.as_object_mut(), filter.as_object()) {
        catalog.extend(filter.clone());
    }
    let extension: ClusterExtension = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": name},
        "spec": {
            "namespace": scenario.name, "serviceAccount": {"name": ACCOUNT},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        },
    }))?;
    scenario.extensions().create(&PostParams::default(), &extension).await?;
    Ok(())
}

/// The scenario's extension, to be created with something more.
pub(crate) fn extension(scenario: &Scenario<'_>, package: &str) -> Result<ClusterExtension> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": scenario.name},
        "spec": {
            "namespace": scenario.name, "serviceAccount": {"name": ACCOUNT},
            "source": {"sourceType": "Catalog", "catalog": {
                "packageName": package,
                "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": scenario.name}},
            }},
        },
    }))?)
}

/// Removes an extension made by [`another`], and waits until it is gone.
pub(crate) async fn remove(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    scenario.extensions().delete(name, &DeleteParams::default()).await?;
    wait::until("the extension to be gone", DEADLINE, || async {
        wait::check(scenario.extensions().get_opt(name).await?.is_none(), || "it is still there".into())
    })
    .await
}

pub(crate) async fn annotate(scenario: &Scenario<'_>, annotation: &str, value: Value) -> Result<()> {
    let key = format!("extensions.olm.operatorframework.io/{annotation}");
    scenario.patch_extension(json!({"metadata": {"annotations": {key: value}}})).await
}

/// The scenario's active revisions, in ascending order.
pub(crate) async fn revisions(scenario: &Scenario<'_>) -> Result<Vec<ClusterObjectSet>> {
    let sets: Api<ClusterObjectSet> = Api::all(scenario.client.clone());
    let label = format!("olm.operatorframework.io/owner-name={}", scenario.name);
    let mut all = sets.list(&kube::api::ListParams::default().labels(&label)).await?.items;
    all.retain(|set| set.spec.lifecycle_state == olm_api::v1::LifecycleState::Active);
    all.sort_by_key(|set| set.spec.revision);
    Ok(all)
}

/// Notes of the Events about an extension, by reason.
pub(crate) async fn events(scenario: &Scenario<'_>, extension: &str) -> Result<Vec<(String, String)>> {
    let api: Api<k8s_openapi::api::events::v1::Event> = Api::all(scenario.client.clone());
    let all = api.list(&kube::api::ListParams::default()).await?.items;
    let about = all.into_iter().filter(|event| {
        event.regarding.as_ref().is_some_and(|r| {
            r.kind.as_deref() == Some("ClusterExtension") && r.name.as_deref() == Some(extension)
        })
    });
    Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
}

/// Waits for an Event of this reason whose note begins as given.
pub(crate) async fn event(scenario: &Scenario<'_>, reason: &str, note: &str) -> Result<()> {
    wait::until(&format!("an Event {reason}"), DEADLINE, || async {
        let all = events(scenario, &scenario.name).await?;
        wait::check(all.iter().any(|(r, n)| r == reason && n.starts_with(note)), || format!("{all:?}"))
    })
    .await
}
