//! Commands for bundles.

mod diff;
mod rbac;
mod render;
mod rendering;
mod validate;

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use olm_bundle::ANNOTATIONS;
use olm_image::{Compression, ImageBuilder, PackedImage, folders_layer};

pub(crate) use validate::Examination;
#[cfg(test)]
pub(crate) use validate::configuration;

use crate::{pack::Destination, sources::read_limited};

/// Folders of a bundle that go into its image, and whether it must have them; the others are not part of one.
const FOLDERS: [(&str, bool); 3] = [("manifests", true), ("metadata", true), ("tests", false)];
/// Largest annotations file in bytes; real ones have one or two thousand.
const ANNOTATIONS_BYTES_MAX: u64 = 1 << 20;

/// `olm bundle …`
#[derive(Debug, Subcommand)]
pub(crate) enum Bundle {
    /// Packs a folder with `manifests` and `metadata` into a bundle image.
    #[command(after_help = "Examples:\n  olm bundle pack ./bundle --push quay.io/example/bundle:v1.0.0")]
    Pack(Box<Pack>),
    /// Shows what an upgrade from one bundle to another changes: CRDs, objects, images, permissions, install modes.
    ///
    /// Exit codes: 0 every change is safe, 1 the bundles could not be compared, 2 a CRD changes in an unsafe way, or a CRD
    /// or install mode is removed.
    #[command(after_help = "Examples:\n  olm bundle diff ./bundle-1.0.0 ./bundle-1.1.0")]
    Diff(Box<diff::Diff>),
    /// Prints the ServiceAccount for an extension, with exactly the permissions it needs.
    ///
    /// The manifests can be applied as they are. Risky permissions are listed in comments at the top.
    #[command(after_help = "Examples:\n  olm bundle rbac ./bundle -n argocd | kubectl apply -f -")]
    Rbac(Box<rbac::Rbac>),
    /// Prints the objects that installing a bundle would apply.
    ///
    /// The controller also adds labels and annotations, and with the built-in certificate provider the Secrets and CA
    /// bundles of webhooks. Exits with 1 if the bundle or the configuration is rejected.
    #[command(
        after_help = "Examples:\n  olm bundle render ./bundle -n argocd\n  olm bundle render quay.io/example/bundle:v1.0.0 -n argocd | kubectl diff -f -"
    )]
    Render(Box<render::Render>),
    /// Checks a bundle without a cluster, and lists what is needed to install it.
    ///
    /// Hints list install modes with their configuration, what the extension's ServiceAccount needs, and what the
    /// cluster must have. Exits with 1 if the bundle is invalid, breaks rules of a suite that are errors, or cannot be
    /// read.
    #[command(
        after_help = "Examples:\n  olm bundle validate ./bundle\n  olm bundle validate ./bundle --suite operatorhub --suite good-practices -o junit > report.xml"
    )]
    Validate(Box<validate::Validate>),
}

/// `olm bundle pack`
#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// Folder of the bundle; the image's labels are taken from its metadata/annotations.yaml
    folder: PathBuf,
    #[command(flatten)]
    destination: Destination,
}

impl Bundle {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Pack(pack) => pack.destination.store(&bundle_image(&pack.folder)?, out).await,
            Self::Diff(diff) => diff.run(out).await,
            Self::Rbac(rbac) => rbac.run(out).await,
            Self::Render(render) => render.run(out).await,
            Self::Validate(validate) => validate.run(out).await,
        }
    }
}

/// The image of the bundle in a folder.
pub(crate) fn bundle_image(folder: &Path) -> anyhow::Result<PackedImage> {
    let mut folders = Vec::new();
    for (name, is_required) in FOLDERS {
        let path = folder.join(name);
        if path.is_dir() {
            folders.push((path, name));
        } else if is_required {
            bail!("{}: no such folder: a bundle has manifests and metadata", path.display());
        }
    }
    let labels = labels(&folder.join(ANNOTATIONS))?;
    let folders: Vec<(&Path, &str)> = folders.iter().map(|(path, name)| (path.as_path(), *name)).collect();
    let layer = folders_layer(&folders, Compression::Gzip).context("packing the bundle")?;
    let image = ImageBuilder::new().layer(layer);
    Ok(labels.into_iter().fold(image, |image, (key, value)| image.label(key, value)).build())
}

/// The annotations of a bundle, which are also its image's labels.
fn labels(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let bytes = read_limited(path, ANNOTATIONS_BYTES_MAX)?;
    olm_bundle::labels(&bytes).map_err(|error| anyhow!("{}: {error}", path.display()))
}
