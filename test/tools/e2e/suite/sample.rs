//! The sample operator as it is installed here: a package, its catalog, its account, its objects.

use olm_test::{
    prelude::*,
    sample_operator::{PROGRAM, SampleOperator, VERSIONS},
};

use crate::world::World;

/// Name of the catalog.
pub(crate) const CATALOG: &str = "samples";
/// Where it is in the registry.
pub(crate) const CATALOG_IMAGE: &str = "lighthouse-keeper-catalog:e2e";
/// Name of the package and of the extension; it is installed in a namespace of this name.
pub(crate) const PACKAGE: &str = "lighthouse-keeper";
/// The account it is installed as.
const ACCOUNT: &str = "installer";

/// The package; its program is in an image that nodes have.
pub(crate) fn package() -> SampleOperator {
    let prefix = std::env::var(olm_test::tools::e2e::IMAGE_PREFIX);
    let prefix = prefix.as_deref().unwrap_or("localhost/olmv1");
    SampleOperator::new(PACKAGE, &format!("{prefix}/{PROGRAM}:{}", env!("CARGO_PKG_VERSION")))
}

/// Pushes bundles and catalog, and returns the catalog's content.
pub(crate) async fn push(world: &World) -> Result<String> {
    package().push(&world.images, &VERSIONS, "e2e").await?;
    let image = |version: &str| format!("{}/{PACKAGE}-bundle:v{version}", world.pull);
    let images = VERSIONS.map(image);
    let bundles: Vec<_> = VERSIONS.into_iter().zip(images.iter().map(String::as_str)).collect();
    // As the cluster reaches the registry, which may be another name than the one pushed to.
    let content = olm_test::catalog::chain(PACKAGE, &bundles);
    world.images.push_catalog(&content, CATALOG_IMAGE).await?;
    Ok(content)
}

/// The extension, at a version.
pub(crate) fn extension(version: &str) -> Value {
    olm_test::extension::extension(PACKAGE, PACKAGE, PACKAGE, CATALOG, &json!({"version": version}))
}

/// What `olm bundle rbac` prints for all versions.
pub(crate) fn rights() -> Result<String> {
    let mut folders = Vec::new();
    for version in VERSIONS {
        let folder = tempfile::tempdir()?;
        package().bundle(version).write(folder.path())?;
        folders.push(folder);
    }
    let olm: PathBuf = cargo_program("olm-cli", "olm")?;
    let mut command = Command::new(olm);
    command.args(["bundle", "rbac"]).args(folders.iter().map(tempfile::TempDir::path));
    command.args(["--install-namespace", PACKAGE, "--service-account", ACCOUNT]);
    command.args(["--certificate-provider", "built-in"]);
    let output = command.output().context("running olm")?;
    ensure!(output.status.success(), "olm bundle rbac: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
