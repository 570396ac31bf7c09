//! A catalog whose packages have been checked.

use std::{collections::BTreeMap, sync::Arc};

use olm_fbc::{CatalogError, PackageContent, SCHEMA_BUNDLE};
use olm_opm::{ImageSyntax, Outline, validate};

use super::{Content, QueryError};
use crate::{
    graph,
    limits::{ENTRY_BYTES, GRAPH_BYTES_MAX},
};

/// A catalog that can be queried: the graph of its valid packages, and its content.
#[derive(Debug)]
pub struct Catalog<C> {
    pub(super) content: C,
    /// Shared by catalogs of the same content.
    pub(super) packages: Arc<BTreeMap<String, graph::Package>>,
    faulty: Arc<BTreeMap<String, String>>,
    memory: usize,
}

impl<C: Content> Catalog<C> {
    /// Reads the packages of a catalog that are valid ([`valid_package`]). opm serves nothing of a catalog with an invalid
    /// package; here only that package is left out.
    ///
    /// # Errors
    /// The content cannot be read at all.
    pub fn read(content: C, image_syntax: Option<ImageSyntax>) -> Result<Self, CatalogError> {
        let (mut packages, mut faulty) = (BTreeMap::new(), BTreeMap::new());
        let mut memory = 0_usize;
        for name in content.packages() {
            let read = match content.package(&name) {
                Ok(package) => valid_package(&content, &name, &package, image_syntax)?,
                Err(CatalogError::Decode { cause, .. }) => Err(cause),
                Err(error) => return Err(error),
            };
            let read = read.and_then(|package| {
                memory = memory.saturating_add(package.memory());
                if memory <= GRAPH_BYTES_MAX {
                    return Ok(package);
                }
                memory = memory.saturating_sub(package.memory());
                Err(format!("the upgrade graph of the catalog takes more than {} MiB", GRAPH_BYTES_MAX >> 20))
            });
            match read {
                Ok(package) => drop(packages.insert(name, package)),
                Err(problem) => drop(faulty.insert(name, problem)),
            }
        }
        let problems = faulty.iter().map(|(name, problem)| name.len() + problem.len() + ENTRY_BYTES);
        memory = problems.fold(memory, usize::saturating_add);
        Ok(Self { content, packages: Arc::new(packages), faulty: Arc::new(faulty), memory })
    }

    /// The catalog of other documents that are the same ones, as those of an image that two catalogs have.
    #[must_use]
    pub fn of_same(&self, content: C) -> Self {
        let (packages, faulty) = (Arc::clone(&self.packages), Arc::clone(&self.faulty));
        Self { content, packages, faulty, memory: self.memory }
    }

    /// The memory that the packages are reckoned to take, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The documents.
    pub fn content(&self) -> &C {
        &self.content
    }

    /// The valid packages by name.
    pub fn packages(&self) -> &BTreeMap<String, graph::Package> {
        &self.packages
    }

    /// The packages that are left out, each with the first thing that is wrong with it.
    pub fn faulty(&self) -> &BTreeMap<String, String> {
        &self.faulty
    }

    /// All packages with what resolution needs of their bundles.
    ///
    /// # Errors
    /// The content cannot be read, or there is too much of it.
    pub fn snapshot(&self) -> Result<graph::Snapshot, QueryError> {
        let mut snapshot = graph::Snapshot::default();
        let too_large = |error: graph::SnapshotError| QueryError::Unknown(error.to_string());
        for name in self.packages.keys() {
            snapshot.push_package(&self.package(name)?).map_err(too_large)?;
            let content = self.content.package(name)?;
            for channel in self.packages[name].channels.keys() {
                let mut pushed = Ok(true);
                self.each_of_channel(name, channel, &content, &mut |bundle| {
                    pushed = snapshot.push_bundle(&bundle);
                    pushed.is_ok()
                })?;
                pushed.map_err(too_large)?;
            }
        }
        Ok(snapshot)
    }
}

/// The graph of a package, or what is wrong with it: an invalid package is offered by no API. `content` is that of the
/// package. Without `image_syntax` it is only checked for what the graph needs.
///
/// # Errors
/// The content cannot be read at all.
pub fn valid_package<C: Content>(
    catalog: &C,
    name: &str,
    content: &PackageContent,
    image_syntax: Option<ImageSyntax>,
) -> Result<Result<graph::Package, String>, CatalogError> {
    if let Some(image_syntax) = image_syntax
        && let Err(problem) = validated(catalog, name, content, image_syntax)?
    {
        return Ok(Err(problem));
    }
    Ok(graph::Package::of(content).map_err(|error| error.to_string()))
}

/// Applies opm's rules to a package.
fn validated<C: Content>(
    catalog: &C,
    name: &str,
    content: &PackageContent,
    image_syntax: ImageSyntax,
) -> Result<Result<(), String>, CatalogError> {
    let mut outline = Outline::new(image_syntax);
    outline.packages.clone_from(&content.packages);
    outline.channels.clone_from(&content.channels);
    outline.deprecations.clone_from(&content.deprecations);
    for bundle in &content.bundles {
        let value = if bundle.image.is_empty() {
            // It may have its manifests with it, which were left out.
            let document = catalog.document(name, Some(&bundle.name))?.unwrap_or_default();
            serde_json::from_slice(&document).map_err(|error| error.to_string())
        } else {
            serde_json::to_value(bundle).map_err(|error| error.to_string())
        };
        let pushed = value
            .and_then(|value| outline.push_value(SCHEMA_BUNDLE, &value).map_err(|error| error.to_string()));
        if let Err(problem) = pushed {
            return Ok(Err(problem));
        }
    }
    let mut faulty = validate(&outline).faulty;
    Ok(faulty.remove(name).or_else(|| faulty.into_values().next()).map_or(Ok(()), Err))
}
