//! A folder that is there whole or not at all: it is written beside its place and renamed into it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use olm_opm::{Documents, Form};

/// A folder that is being written; gone when it is dropped before [`Self::finish`].
#[derive(Debug)]
pub(crate) struct NewFolder {
    target: PathBuf,
    partial: PathBuf,
}

impl NewFolder {
    /// Begins to write `target`, which must not be there, or be empty; folders above it are made.
    pub(crate) fn create(target: &Path) -> anyhow::Result<Self> {
        let shown = target.display();
        if target.exists() && fs::read_dir(target).with_context(|| shown.to_string())?.next().is_some() {
            bail!("output dir {:?} must be empty", shown.to_string());
        }
        let Some(name) = target.file_name() else {
            bail!("{shown}: name the folder that is to be written");
        };
        let partial = format!(".{}.partial-{}", name.to_string_lossy(), std::process::id());
        let partial = target.with_file_name(partial);
        if let Some(parent) = target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        fs::create_dir(&partial).with_context(|| partial.display().to_string())?;
        Ok(Self { target: target.to_owned(), partial })
    }

    /// Writes a file; `path` is relative to the folder.
    pub(crate) fn write(&self, path: &Path, content: &str) -> anyhow::Result<()> {
        let file = self.partial.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        fs::write(&file, content).with_context(|| file.display().to_string())
    }

    /// Writes a catalog with a folder for each package, and puts the folder into its place.
    pub(crate) fn write_catalog(self, documents: &Documents, form: Form) -> anyhow::Result<()> {
        let file = format!("catalog.{}", form.extension());
        for package in documents.packages() {
            if !single_name(package) {
                bail!("invalid package name {package:?}: must be a single local path element");
            }
            self.write(&Path::new(package).join(&file), &documents.package(package, form))?;
        }
        let rest = documents.without_package(form);
        if !rest.is_empty() {
            self.write(Path::new(&file), &rest)?;
        }
        self.finish()
    }

    /// Puts the folder into its place.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        // Renaming onto an empty folder replaces it.
        fs::rename(&self.partial, &self.target).with_context(|| self.target.display().to_string())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // After the renaming there is nothing left to remove; before it, the error that led here is reported.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// A name as that of a file or folder of its own, not a way out of the folder it is in.
pub(crate) fn single_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0'])
}
