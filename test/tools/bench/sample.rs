//! What is installed in the figures: the sample operator, and generated packages.

use olm_bundle::BundleFiles;

use crate::catalog::chain;
use crate::extension::extension;
use crate::images::bundle_files;
use crate::{
    bundle::{IMAGE, config_map, crd, deployment},
    prelude::*,
};

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
        let folder = lighthouse(VERSION);
        Self::push(world, name, "lighthouse-operator", "lighthouse-operator", &folder).await
    }

    /// A package of its own.
    pub(super) async fn generated(world: &World, name: &str, content: Content) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        bundle(name, content).write(folder.path())?;
        Self::push(world, name, name, name, folder.path()).await
    }

    async fn push(world: &World, name: &str, package: &str, deployment: &str, folder: &Path) -> Result<Self> {
        let image = world.images.push_bundle(folder, &format!("{name}-bundle:v{VERSION}")).await?;
        Ok(Self {
            name: name.to_owned(),
            deployment: deployment.to_owned(),
            catalog: chain(package, &[(VERSION, &image)]),
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
        let extension = extension(&self.name, &self.name, &self.package, catalog, &Value::Null);
        Ok(serde_json::from_value(extension)?)
    }
}

/// A generated bundle; its CRD is of a group of its own, `<name>.example.com`.
fn bundle(name: &str, content: Content) -> Bundle {
    let mut bundle = Bundle::new(name, VERSION);
    if content != Content::ConfigMaps {
        bundle = bundle.workload(deployment(name, IMAGE));
    }
    if content == Content::Operator {
        bundle = bundle.contains(crd(
            &format!("{name}.example.com"),
            "Widget",
            &json!({"size": {"type": "integer"}}),
        ));
    }
    let maps = (0..CONFIG_MAPS)
        .map(|number| config_map(&format!("{name}-{number}"), &json!({"number": number.to_string()})));
    maps.fold(bundle, Bundle::contains)
}
