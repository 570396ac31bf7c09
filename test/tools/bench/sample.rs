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
    files: Vec<BundleFiles>,
}

impl Sample {
    /// The operator of the project's samples: a CRD, a Deployment, RBAC, a ConfigMap.
    pub(super) async fn lighthouse(world: &World, name: &str) -> Result<Self> {
        Self::lighthouses(world, name, &[VERSION]).await
    }

    /// The same in several versions, each of which replaces the one before.
    pub(super) async fn lighthouses(world: &World, name: &str, versions: &[&'static str]) -> Result<Self> {
        let folders: Vec<_> = versions.iter().map(|version| (*version, lighthouse(version))).collect();
        Self::push(world, name, ["lighthouse-operator"; 2], &folders).await
    }

    /// A real operator, by its bundle's folder.
    pub(super) async fn real(world: &World, package: &str, version: &str, folder: &Path) -> Result<Self> {
        Self::push(world, package, [package, ""], &[(version, folder.to_owned())]).await
    }

    /// A package of its own.
    pub(super) async fn generated(world: &World, name: &str, content: Content) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        bundle(name, content).write(folder.path())?;
        Self::push(world, name, [name; 2], &[(VERSION, folder.path().to_owned())]).await
    }

    async fn push(
        world: &World,
        name: &str,
        [package, deployment]: [&str; 2],
        versions: &[(&str, PathBuf)],
    ) -> Result<Self> {
        let (mut images, mut files) = (Vec::new(), Vec::new());
        for (version, folder) in versions {
            images.push(world.images.push_bundle(folder, &format!("{name}-bundle:v{version}")).await?);
            files.push(bundle_files(folder)?);
        }
        let bundles: Vec<_> =
            versions.iter().zip(&images).map(|((version, _), image)| (*version, image.as_str())).collect();
        Ok(Self {
            name: name.to_owned(),
            deployment: deployment.to_owned(),
            catalog: chain(package, &bundles),
            package: package.to_owned(),
            files,
        })
    }

    /// Makes the namespace and the account with exactly the rights for it.
    pub(super) async fn prepare(&self, world: &World, client: &Client) -> Result<()> {
        world.cluster.create_namespace(&self.name).await?;
        give_account(client, &self.name, &self.files).await
    }

    /// The user name of the account.
    pub(super) fn user(&self) -> String {
        user_of(&self.name)
    }

    /// The extension, from one catalog.
    pub(super) fn extension(&self, catalog: &str) -> Result<ClusterExtension> {
        self.extension_of(catalog, &Value::Null)
    }

    /// The same with further fields of `spec.source.catalog`.
    pub(super) fn extension_of(&self, catalog: &str, filter: &Value) -> Result<ClusterExtension> {
        let extension = extension(&self.name, &self.name, &self.package, catalog, filter);
        Ok(serde_json::from_value(extension)?)
    }
}

/// Makes the account of a namespace with exactly the rights for bundles.
pub(super) async fn give_account(client: &Client, namespace: &str, bundles: &[BundleFiles]) -> Result<()> {
    create_account(client, namespace, ACCOUNT).await?;
    grant(client, namespace, ACCOUNT, &rules_for(bundles, namespace)?).await
}

/// The user name of the account of a namespace.
pub(super) fn user_of(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{ACCOUNT}")
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
    config_maps(name).fold(bundle, Bundle::contains)
}

/// The ConfigMaps of a generated bundle.
pub(super) fn config_maps(name: &str) -> impl Iterator<Item = Value> {
    (0..CONFIG_MAPS)
        .map(move |number| config_map(&format!("{name}-{number}"), &json!({"number": number.to_string()})))
}
