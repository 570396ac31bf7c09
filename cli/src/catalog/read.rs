//! How the commands for catalogs read one: which source, with which registries, how much of it is kept.

use anyhow::{Context as _, anyhow};
use clap::Args;
use olm_image::{Reference, ReferenceCause};
use olm_opm::{Outline, outline};

use crate::sources::{Opened, Registries, Source, Tree, bundles, named};

/// A catalog that is read.
#[derive(Debug, Args)]
pub(crate) struct Catalog {
    /// Folder, file, OCI image layout (oci:FOLDER[:NAME]) or image of the catalog; - for standard input
    #[arg(value_name = "CATALOG")]
    pub(crate) source: Source,
    #[command(flatten)]
    registries: Registries,
}

impl Catalog {
    /// Opens the catalog.
    pub(crate) async fn open(&self) -> anyhow::Result<Opened> {
        self.registries.catalog(&self.source).await
    }

    /// The files and the outline of the catalog. The catalog may be invalid.
    pub(crate) async fn outline(&self) -> anyhow::Result<(Tree, Outline)> {
        let files = self.open().await?.tree;
        let outline = read(&files).with_context(|| self.source.to_string())?;
        Ok((files, outline))
    }
}

/// The outline of the catalog in these files.
///
/// # Errors
/// A file is not part of a catalog. Where that is because the files are those of bundles, it says so.
pub(crate) fn read(files: &Tree) -> anyhow::Result<Outline> {
    outline(files, image_syntax).map_err(|error| match bundles(files).as_slice() {
        [] => error.into(),
        [""] => anyhow!("this is a bundle, not a catalog: use \"olm bundle validate\""),
        all => anyhow!(
            "this is not a catalog, it has bundles in it ({}): use \"olm bundle validate\" with one of them, or leave them out with .indexignore",
            named(all)
        ),
    })
}

/// Whether a text is an image reference as container tools take it: short names are, which pulling refuses.
pub(crate) fn image_syntax(text: &str) -> Result<(), String> {
    match Reference::parse(text) {
        Ok(_) => Ok(()),
        Err(error) if error.cause == ReferenceCause::NotCanonical => Ok(()),
        Err(error) => Err(error.cause.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::image_syntax;

    #[test]
    fn image_references_are_read_as_container_tools_do() {
        for text in
            ["quay.io/a/b:1", "busybox", "a/b", "LOCALHOST:5000/x", "Quay.io/x", "docker.io/library/x"]
        {
            assert_eq!(image_syntax(text), Ok(()), "{text}");
        }
        let digest = format!("quay.io/a@sha256:{}", "a".repeat(64));
        assert_eq!(image_syntax(&digest), Ok(()));
        let identifier = "a".repeat(64);
        for (text, expected) in [
            ("docker://quay.io/a", "invalid reference format".to_owned()),
            ("quay.io/A", "invalid reference format: repository name must be lowercase".to_owned()),
            ("quay.io/a:", "invalid reference format".to_owned()),
            ("quay.io/a@sha256:1", "invalid reference format".to_owned()),
            (" ", "invalid reference format".to_owned()),
            (
                &identifier,
                format!("invalid repository name ({identifier}), cannot specify 64-byte hexadecimal strings"),
            ),
        ] {
            assert_eq!(image_syntax(text), Err(expected), "{text}");
        }
    }
}
