//! What is installed in the figures: the sample operator, and generated packages.

use std::path::{Path, PathBuf};

use anyhow::Result;
use kube::Client;
use olm_api::names::CATALOG_NAME_LABEL;
use olm_api::v1::ClusterExtension;
use olm_bundle::BundleFiles;
use serde_json::{Value, json};

use super::World;
use crate::images::bundle_files;
use crate::rights::{create_account, grant, rules_for};

/// The account that installs, in each namespace.
const ACCOUNT: &str = "installer";
/// Version of every bundle here.
const VERSION: &str = "1.0.0";
/// ConfigMaps in a generated package.
const CONFIG_MAPS: usize = 3;

/// What a generated package brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// ConfigMaps only.
    ConfigMaps,
    /// ConfigMaps and a Deployment.
    Deployment,
    /// ConfigMaps, a CRD of its own group and a Deployment.
    Operator,
}

/// A package with one bundle, pushed, and the extension that installs it.
pub(super) struct Sample {
    /// Name of the extension and of its namespace.
    pub(super) name: String,
    /// Name of its one Deployment.
    pub(super) deployment: String,
    /// Lines of a catalog with it.
    pub(super) catalog: String,
    package: String,
    files: BundleFiles,
}

impl Sample {
    /// The operator of the project's samples: a CRD, a Deployment, RBAC, a ConfigMap.
    pub(super) async fn lighthouse(world: &World, name: &str) -> Result<Self> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../config/samples/lighthouse/bundles")
            .join(VERSION);
        Self::push(world, name, "lighthouse-operator", "lighthouse-operator", &folder).await
    }

    /// A package of its own.
    pub(super) async fn generated(world: &World, name: &str, content: Content) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        write_bundle(folder.path(), name, content)?;
        Self::push(world, name, name, name, folder.path()).await
    }

    async fn push(world: &World, name: &str, package: &str, deployment: &str, folder: &Path) -> Result<Self> {
        let image = world.images.push_bundle(folder, &format!("{name}-bundle:v{VERSION}")).await?;
        Ok(Self {
            name: name.to_owned(),
            deployment: deployment.to_owned(),
            catalog: crate::images::catalog(package, &[(VERSION, &image)]),
            package: package.to_owned(),
            files: bundle_files(folder)?,
        })
    }

    /// Makes the namespace and the account with exactly the rights for it.
    pub(super) async fn prepare(&self, world: &World, client: &Client) -> Result<()> {
        world.cluster.create_namespace(&self.name).await?;
        create_account(client, &self.name, ACCOUNT).await?;
        let rules = rules_for(std::slice::from_ref(&self.files), &self.name)?;
        grant(client, &self.name, ACCOUNT, &rules).await
    }

    /// The user name of the account.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.name)
    }

    /// The extension, from one catalog.
    pub(super) fn extension(&self, catalog: &str) -> Result<ClusterExtension> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": self.name},
            "spec": {
                "namespace": self.name,
                "serviceAccount": {"name": ACCOUNT},
                "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": self.package,
                    "selector": {"matchLabels": {CATALOG_NAME_LABEL: catalog}},
                }},
            },
        }))?)
    }
}

/// Writes a bundle; JSON is YAML.
fn write_bundle(folder: &Path, name: &str, content: Content) -> Result<()> {
    let (manifests, metadata) = (folder.join("manifests"), folder.join("metadata"));
    std::fs::create_dir_all(&manifests)?;
    std::fs::create_dir_all(&metadata)?;
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": name,
        "operators.operatorframework.io.bundle.channels.v1": "stable",
    }});
    std::fs::write(metadata.join("annotations.yaml"), annotations.to_string())?;
    std::fs::write(manifests.join("csv.yaml"), service_version(name, content).to_string())?;
    if content == Content::Operator {
        std::fs::write(manifests.join("crd.yaml"), definition(name).to_string())?;
    }
    for number in 0..CONFIG_MAPS {
        let config_map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{name}-{number}")}, "data": {"number": number.to_string()},
        });
        std::fs::write(manifests.join(format!("config-{number}.yaml")), config_map.to_string())?;
    }
    Ok(())
}

/// A CRD of a group of its own, `widgets.<name>.example.com`.
fn definition(name: &str) -> Value {
    let group = format!("{name}.example.com");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

fn service_version(name: &str, content: Content) -> Value {
    let labels = json!({"app": name});
    let modes: Vec<Value> = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .iter()
        .map(|mode| json!({"type": mode, "supported": *mode == "AllNamespaces"}))
        .collect();
    let deployment = json!({"name": name, "spec": {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "registry.k8s.io/pause:3.10"}]},
        },
    }});
    let deployments = if content == Content::ConfigMaps { vec![] } else { vec![deployment] };
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v{VERSION}")},
        "spec": {
            "displayName": name, "version": VERSION, "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": deployments}},
        },
    })
}
