//! From references to blobs, for rendering, migrations and templates.
//!
//! A reference is a folder with a bundle, a folder with a catalog, or an image of either, in a registry or in a
//! layout. Several are worked on at a time; the order of what comes out is that of the references.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, bail};
use catalogd::CONFIGS_LABEL;
use clap::Args;
use futures::{StreamExt as _, stream};
use olm_fbc::SCHEMA_BUNDLE;
use olm_image::{Refusal, Select};
use olm_opm::{
    Blob, BundleBlob, Documents, LoadError, MigrationLevel, Outline, RegistryV1Bundle, each_document, migrate,
};

use crate::{
    catalog::image_template::ImageTemplate,
    progress::Bar,
    sources::{Opened, Registries, Source, Tree},
};

/// So many references are worked on at a time: pulls wait for the network, decoding takes a core each.
const REFERENCES_AT_ONCE_MAX: usize = 4;
const BUNDLE_LABEL: &str = "operators.operatorframework.io.bundle.package.v1";
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

/// How far bundles are brought to newer forms.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Migrations {
    /// Run all migrations up to and including this one: none, bundle-object-to-csv-metadata (manifests in the
    /// catalog become one property with the metadata that consoles show), all
    #[arg(long, value_name = "NAME", default_value_t, visible_alias = "level")]
    pub(crate) migrate_level: MigrationLevel,
}

/// The kinds of content that a reference may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Anything.
    All,
    /// Catalogs: folders and images.
    Catalogs,
    /// Bundle images of registries.
    BundleImages,
}

/// The content of a reference.
enum Rendered {
    Bundle(Box<BundleBlob>),
    Catalog(Vec<Blob>),
}

/// Renders references.
pub(crate) struct Renderer {
    pub(crate) registries: Registries,
    /// CA certificate (PEM file) to trust for catalogs of an address.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) allowed: Allowed,
    pub(crate) level: MigrationLevel,
    /// Gives bundles that have no reference one.
    pub(crate) image: Option<ImageTemplate>,
    pub(crate) bar: Bar,
}

impl Renderer {
    /// The documents of all references.
    pub(crate) async fn documents(&self, references: &[String]) -> anyhow::Result<Documents> {
        let mut documents = Documents::default();
        let mut rendered = stream::iter(references)
            .map(|reference| self.rendered(reference))
            .buffered(REFERENCES_AT_ONCE_MAX);
        while let Some(rendered) = rendered.next().await {
            let blobs = match rendered? {
                Rendered::Bundle(bundle) => vec![bundle.to_blob()],
                Rendered::Catalog(blobs) => blobs,
            };
            for blob in &blobs {
                documents.push_blob(blob)?;
            }
        }
        Ok(documents)
    }

    /// The bundle of each image, or why there is none.
    pub(crate) async fn bundles(&self, images: &[&str]) -> BTreeMap<String, anyhow::Result<BundleBlob>> {
        let rendered = stream::iter(images).map(|image| async move {
            let bundle = match self.rendered(image).await {
                Ok(Rendered::Bundle(bundle)) => Ok(*bundle),
                Ok(Rendered::Catalog(_)) => Err(anyhow::anyhow!("{image:?} is a catalog: not allowed")),
                Err(error) => Err(error),
            };
            ((*image).to_owned(), bundle)
        });
        rendered.buffered(REFERENCES_AT_ONCE_MAX).collect().await
    }

    async fn rendered(&self, reference: &str) -> anyhow::Result<Rendered> {
        let rendered = self.reference(reference).await;
        self.bar.item_done();
        rendered.with_context(|| format!("render reference {reference:?}"))
    }

    async fn reference(&self, reference: &str) -> anyhow::Result<Rendered> {
        let source: Source = reference.parse()?;
        let (opened, is_bundle) = match &source {
            Source::Address(_) | Source::Input if self.allowed != Allowed::BundleImages => {
                (self.registries.catalog(&source, self.authority.as_deref()).await?, false)
            }
            Source::File(_) | Source::Input | Source::Address(_) => {
                bail!("ref {reference:?} is not a directory: not allowed")
            }
            Source::Folder(folder) => {
                let is_bundle = is_bundle_folder(folder);
                match self.allowed {
                    Allowed::All => {}
                    Allowed::Catalogs if !is_bundle => {}
                    _ if is_bundle => bail!("cannot render bundle directory {reference:?}: not allowed"),
                    _ => bail!("cannot render declarative config directory: not allowed"),
                }
                (
                    self.registries
                        .open(&source, |_| Ok(Select::everything()), self.bar.pull(reference))
                        .await?,
                    is_bundle,
                )
            }
            Source::Layout(..) if self.allowed == Allowed::BundleImages => {
                bail!(
                    "cannot render OCI image layout {reference:?}: not allowed, name an image of a registry"
                )
            }
            Source::Layout(..) | Source::Image(_) => self.open_image(&source, reference).await?,
        };
        let image = if matches!(source, Source::Image(_)) { Some(reference.to_owned()) } else { None };
        let (template, level) = (self.image.clone(), self.level);
        let interrupted = "reading was interrupted";
        if !is_bundle {
            let read = move || read_catalog(&opened.tree, level);
            let blobs = tokio::task::spawn_blocking(read).await.context(interrupted)??;
            return Ok(Rendered::Catalog(blobs));
        }
        let read = move || read_bundle(&opened.tree, image, template.as_ref(), level);
        let (bundle, warnings) = tokio::task::spawn_blocking(read).await.context(interrupted)??;
        for warning in warnings {
            self.bar.warn(&format!("{reference}: {warning}"));
        }
        Ok(Rendered::Bundle(Box::new(bundle)))
    }

    /// Opens an image; by its labels it is a catalog or a bundle. Returns whether it is a bundle.
    async fn open_image(&self, source: &Source, reference: &str) -> anyhow::Result<(Opened, bool)> {
        // Why an image is refused is reported as it is, without what the puller puts around it.
        let refused = Mutex::new(None);
        let select = |labels: &BTreeMap<String, String>| {
            image_content(labels, reference, self.allowed).map_err(|problem| {
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem.clone());
                Refusal::terminal(problem)
            })?
        };
        let opened = self.registries.open(source, select, self.bar.pull(reference)).await;
        if let Some(problem) = refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bail!(problem);
        }
        let opened = opened?;
        let catalog = opened.labels.get(CONFIGS_LABEL);
        if let Some(path) = catalog
            && opened.tree.paths().is_empty()
        {
            bail!("the image has no files at {path}, the path its label {CONFIGS_LABEL} names");
        }
        let is_bundle = catalog.is_none();
        Ok((opened, is_bundle))
    }
}

/// The wanted files of an image with these labels, checked in opm's order.
fn image_content(
    labels: &BTreeMap<String, String>,
    reference: &str,
    allowed: Allowed,
) -> Result<Result<Select, Refusal>, String> {
    if let Some(path) = labels.get(CONFIGS_LABEL) {
        return match allowed {
            Allowed::BundleImages => Err("cannot render declarative config image: not allowed".to_owned()),
            Allowed::All | Allowed::Catalogs => Ok(Select::paths([path])),
        };
    }
    if labels.contains_key(BUNDLE_LABEL) {
        return match allowed {
            Allowed::Catalogs => Err("cannot render bundle image: not allowed".to_owned()),
            Allowed::All | Allowed::BundleImages => Ok(Select::paths(["manifests", "metadata"])),
        };
    }
    if labels.contains_key(DATABASE_LABEL) {
        return Err(format!(
            "render {reference:?}: sqlite-based index images are no longer supported, migrate to a file-based \
             catalog: not allowed"
        ));
    }
    let found: Vec<String> = labels.iter().map(|(key, value)| format!("\n  {key}={value}")).collect();
    let found = if found.is_empty() {
        ": image has no labels".to_owned()
    } else {
        format!(", found labels{}", found.concat())
    };
    Err(format!("render {reference:?}: image type could not be determined{found}"))
}

fn is_bundle_folder(folder: &Path) -> bool {
    ["manifests", "metadata"].iter().all(|name| folder.join(name).is_dir())
}

/// The bundle in a tree, and warnings about files that were left out.
fn read_bundle(
    tree: &Tree,
    image: Option<String>,
    template: Option<&ImageTemplate>,
    level: MigrationLevel,
) -> anyhow::Result<(BundleBlob, Vec<String>)> {
    let files = tree.bundle_files()?;
    let bundle = RegistryV1Bundle::read(&files)?;
    let image = image.unwrap_or_else(|| {
        let reference = |template: &ImageTemplate| {
            template.reference(&bundle.blob.package, &bundle.blob.name, &bundle.version)
        };
        template.map(reference).unwrap_or_default()
    });
    let mut blob = bundle.render(&image);
    migrate(&mut blob, level)?;
    Ok((blob, bundle.warnings))
}

/// The documents of a catalog, each checked for the types of its fields, bundles put in order and migrated.
fn read_catalog(tree: &Tree, level: MigrationLevel) -> anyhow::Result<Vec<Blob>> {
    let mut blobs = Vec::new();
    let mut outline = Outline::new(|_| Ok(()));
    each_document::<anyhow::Error>(tree, &mut |path, meta| {
        let document = |source| LoadError::Document { path: path.to_owned(), source };
        outline.push(meta).map_err(document)?;
        let mut blob = Blob::of(meta).with_context(|| path.to_owned())?;
        if blob.schema == SCHEMA_BUNDLE {
            let mut bundle = BundleBlob::read(&blob).with_context(|| path.to_owned())?;
            bundle.normalise();
            migrate(&mut bundle, level).with_context(|| path.to_owned())?;
            blob = bundle.to_blob();
        }
        blobs.push(blob);
        Ok(())
    })?;
    Ok(blobs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Allowed, image_content};

    fn problem(labels: &[(&str, &str)], allowed: Allowed) -> String {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        image_content(&labels, "r.io/x:1", allowed).err().unwrap_or_default()
    }

    #[test]
    fn an_image_is_what_the_first_known_label_says() {
        let index = "operators.operatorframework.io.index.configs.v1";
        let bundle = "operators.operatorframework.io.bundle.package.v1";
        let database = "operators.operatorframework.io.index.database.v1";
        let all = [(index, "/configs"), (bundle, "p"), (database, "/db")];
        for (labels, allowed, wanted) in [
            (&all[..], Allowed::All, ""),
            (&all[..], Allowed::Catalogs, ""),
            (&all[..], Allowed::BundleImages, "cannot render declarative config image: not allowed"),
            (&all[1..], Allowed::All, ""),
            (&all[1..], Allowed::BundleImages, ""),
            (&all[1..], Allowed::Catalogs, "cannot render bundle image: not allowed"),
            (
                &all[2..],
                Allowed::All,
                "render \"r.io/x:1\": sqlite-based index images are no longer supported, migrate to a file-based \
                 catalog: not allowed",
            ),
            (
                &[("b", "2"), ("a", "1")],
                Allowed::All,
                "render \"r.io/x:1\": image type could not be determined, found labels\n  a=1\n  b=2",
            ),
            (
                &[],
                Allowed::All,
                "render \"r.io/x:1\": image type could not be determined: image has no labels",
            ),
        ] {
            assert_eq!(problem(labels, allowed), wanted);
        }
    }
}
