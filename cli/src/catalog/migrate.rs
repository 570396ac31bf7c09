//! `olm catalog migrate`: writes a catalog in its newer form, a folder a package.
//!
//! The folder comes to be as a whole or not at all: it is written beside its place under another name, and
//! renamed when it is complete.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use olm_fbc::{Documents, Form};

use crate::{
    catalog::rendering::{Allowed, CatalogForm, Migrations, Renderer},
    output::escaped,
    progress::Bar,
    sources::Registries,
};

/// `olm catalog migrate`
#[derive(Debug, Args)]
#[command(
    about = "Writes a catalog into a folder, a sub-folder a package, migrated to a newer form",
    long_about = "Writes a catalog into a folder: PACKAGE/catalog.json (or .yaml) for each package, catalog.json for \
                  what belongs to none, migrated up to the level asked for.\n\n\
                  The folder must be empty or absent; it is complete, or not there.\n\n\
                  Exit code 0 when the folder is written, 1 when it is not, 2 when the arguments are wrong."
)]
pub(crate) struct Migrate {
    /// Catalog: a folder, an OCI image layout (oci:FOLDER[:NAME]) or an image
    #[arg(value_name = "REF")]
    reference: String,
    /// Folder to write, empty or absent
    #[arg(value_name = "OUTDIR")]
    folder: PathBuf,
    /// Form of the files
    #[arg(short, long, value_enum, default_value_t)]
    output: CatalogForm,
    #[command(flatten)]
    migrations: Migrations,
    #[command(flatten)]
    registries: Registries,
}

impl Migrate {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        check_empty(&self.folder)?;
        let renderer = Renderer {
            registries: self.registries,
            allowed: Allowed::Catalogs,
            level: self.migrations.level(),
            image: None,
            bar: Bar::new("migrating", 1),
        };
        let documents = renderer.documents(&[self.reference]).await.context("render catalog image")?;
        drop(renderer);
        write(&documents, &self.folder, self.output.into())?;
        let (count, folder) = (documents.len(), self.folder.display().to_string());
        writeln!(out, "{count} documents written to {}", escaped(&folder))?;
        Ok(())
    }
}

fn check_empty(folder: &Path) -> anyhow::Result<()> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    if entries.next().is_some() {
        bail!("output dir {:?} must be empty", folder.display().to_string());
    }
    Ok(())
}

/// Writes the documents so that `folder` is complete as soon as it has content.
fn write(documents: &Documents, folder: &Path, form: Form) -> anyhow::Result<()> {
    let sibling = Sibling::beside(folder)?;
    let file = format!("catalog.{}", form.extension());
    for package in documents.packages() {
        check_name(package)?;
        let inner = sibling.path.join(package);
        fs::create_dir(&inner).with_context(|| inner.display().to_string())?;
        write_file(&inner.join(&file), &documents.package(package, form))?;
    }
    let rest = documents.without_package(form);
    if !rest.is_empty() {
        write_file(&sibling.path.join(&file), &rest)?;
    }
    sibling.rename(folder)
}

/// A package's name is that of a folder.
fn check_name(package: &str) -> anyhow::Result<()> {
    let mut components = Path::new(package).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) if name == package && !package.contains('\0') => Ok(()),
        _ => bail!("invalid package name {package:?}: must be a single local path element"),
    }
}

fn write_file(path: &Path, content: &str) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| path.display().to_string())
}

/// A folder in the making beside its place; dropped before it is renamed, it is removed.
struct Sibling {
    path: PathBuf,
}

impl Sibling {
    fn beside(folder: &Path) -> anyhow::Result<Self> {
        let Some(name) = folder.file_name() else {
            bail!("{}: no name for a folder: give the path of one that is absent or empty", folder.display());
        };
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let path = parent.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    fn rename(self, folder: &Path) -> anyhow::Result<()> {
        // An empty folder is replaced; one that got content meanwhile is not.
        fs::rename(&self.path, folder).with_context(|| folder.display().to_string())
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        // Once renamed there is nothing here; what cannot be removed was reported when it was written.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_of_packages_are_names_of_folders() {
        for name in ["a", "a.b-c", "ünicode", "..."] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [".", "..", "a/b", "/a", "a/", "./a", "../a", "a\0b"] {
            assert_eq!(
                check_name(name).expect_err(name).to_string(),
                format!("invalid package name {name:?}: must be a single local path element")
            );
        }
    }
}
