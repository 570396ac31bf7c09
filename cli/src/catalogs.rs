//! The catalogs that a command asks: those given with `--catalog`, or those of the cluster.
//!
//! A catalog is either held, as files of its own that were read once, or served by the cluster and asked for one package
//! at a time. Both give the same documents in the same order.

mod held;
mod served;

use std::{path::PathBuf, str::FromStr};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use olm_fbc::{CatalogError, Meta, PackageContent};
use olm_object::names::is_subdomain;
use olm_text::did_you_mean;

pub(crate) use self::{
    held::{Held, client, fetch, open as open_given},
    served::{Served, Way, behind_proxy},
};
use crate::{
    cluster::{Cluster, catalogs::ClusterCatalogs},
    output::causes,
    sources::Registries,
};

/// The namespace of the controllers unless a flag says otherwise.
pub(crate) const SYSTEM_NAMESPACE: &str = "olmv1-system";

/// The catalogs of a command.
#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    /// A catalog: name of a ClusterCatalog, folder or file, OCI image layout, image, or URL of a served catalog
    /// (https://host/catalogs/name). Append `=N` for a priority other than 0. May be repeated. Default: the catalogs
    /// of the cluster
    #[arg(long = "catalog", value_name = "NAME|PATH|IMAGE|URL[=PRIORITY]")]
    pub(crate) catalogs: Vec<Named>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// How catalogs are reached.
#[derive(Debug, Clone, Args)]
pub(crate) struct Access {
    /// CA certificate (PEM file) to trust for catalogs that are read over HTTPS
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog_ca: Option<PathBuf>,
    /// Namespace of the controllers
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: String,
    #[command(flatten)]
    pub(crate) registries: Registries,
}

/// A catalog as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Where it is.
    pub(crate) source: String,
    /// The highest wins. Default: 0, or that of the ClusterCatalog.
    pub(crate) priority: Option<i32>,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (source, priority) = match text.rsplit_once('=') {
            // A file may have the sign in its name.
            Some((source, number)) if !std::path::Path::new(text).exists() => {
                let priority = number
                    .parse()
                    .map_err(|_| format!("{number:?} is not a priority: write a whole number"))?;
                (source, Some(priority))
            }
            _ => (text, None),
        };
        if source.is_empty() {
            return Err("name a catalog, folder, file, image or address".to_owned());
        }
        Ok(Self { source: source.to_owned(), priority })
    }
}

impl Named {
    /// Whether this is the name of a ClusterCatalog: no address, nothing on disk, and no reference to an image.
    fn is_of_cluster(&self) -> bool {
        is_subdomain(&self.source) && !std::path::Path::new(&self.source).exists()
    }
}

/// The documents of a catalog that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// All of them.
    All,
    /// Those of the packages themselves.
    Packages,
    /// Those about a package, with the package's own first.
    Package(&'a str),
    /// A bundle, by package and name.
    Bundle(&'a str, &'a str),
}

/// A catalog with its place among others.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// Name of the ClusterCatalog, or the source as given.
    pub(crate) name: String,
    /// The highest wins.
    pub(crate) priority: i32,
    pub(crate) content: Content,
}

/// Where a catalog's documents come from.
#[derive(Debug)]
pub(crate) enum Content {
    /// Files of this process.
    Held(Held),
    /// The cluster's server of catalogs.
    Served(Box<Served>),
    /// The cluster has the catalog but does not serve it, for this reason.
    NotServed(String),
}

impl CatalogArgs {
    /// Opens the catalogs, those of the cluster if none is given.
    pub(crate) async fn open(&self) -> anyhow::Result<Vec<Catalog>> {
        let mut sources: Vec<&str> = self.catalogs.iter().map(|named| named.source.as_str()).collect();
        sources.sort_unstable();
        if let Some([twice, _]) = sources.array_windows().find(|[one, next]| one == next) {
            bail!("--catalog {twice}: given twice");
        }
        if self.catalogs.is_empty() {
            let context = "reading the catalogs of the cluster; give catalogs with --catalog to need none";
            return Ok(self.of_cluster().await.context(context)?.into_all());
        }
        let (of_cluster, given): (Vec<&Named>, Vec<&Named>) =
            self.catalogs.iter().partition(|named| named.is_of_cluster());
        let mut catalogs =
            held::open(&given, &self.access.registries, self.access.catalog_ca.as_deref()).await?;
        if !of_cluster.is_empty() {
            let mut served = self.of_cluster().await.context("reading the catalogs of the cluster")?;
            for named in of_cluster {
                let mut catalog = served.take(&named.source)?;
                catalog.priority = named.priority.unwrap_or(catalog.priority);
                catalogs.push(catalog);
            }
        }
        Ok(catalogs)
    }

    /// As when only these catalogs are given.
    #[cfg(test)]
    pub(crate) fn of(catalogs: Vec<Named>) -> Self {
        let registries = Registries::default();
        let access = Access { catalog_ca: None, system_namespace: SYSTEM_NAMESPACE.to_owned(), registries };
        Self { catalogs, cluster: Cluster::default(), access }
    }

    async fn of_cluster(&self) -> anyhow::Result<ClusterCatalogs> {
        ClusterCatalogs::of(&self.cluster.config().await?, &self.access).await
    }
}

impl Catalog {
    /// What resolution reads of a package; empty when the catalog does not have it.
    pub(crate) async fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        match &self.content {
            Content::Held(held) => held.package(package).await,
            Content::Served(served) => served.package(package).await,
            Content::NotServed(_) => Err(CatalogError::NotServed { catalog: self.name.clone() }),
        }
    }

    /// The packages with the text somewhere in what resolution reads of them. It reads the whole catalog.
    pub(crate) async fn mentioning(&self, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        match &self.content {
            Content::Held(held) => held.mentioning(text).await,
            Content::Served(served) => served.mentioning(text).await,
            Content::NotServed(_) => Err(CatalogError::NotServed { catalog: self.name.clone() }),
        }
    }

    /// The names of its packages.
    pub(crate) async fn packages(&self) -> anyhow::Result<Vec<String>> {
        let take = |names: &mut Vec<String>, meta: &Meta<'_>| {
            names.push(meta.envelope.name.to_string());
            Ok(())
        };
        self.fold(Wanted::Packages, Vec::new(), take).await
    }

    /// Passes the wanted documents to `take`, one after another in the order of the catalog; no more than one is in memory.
    pub(crate) async fn fold<T: Send + 'static>(
        &self,
        wanted: Wanted<'_>,
        start: T,
        take: impl Fn(&mut T, &Meta<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> anyhow::Result<T> {
        let folded = match &self.content {
            Content::Held(held) => held.fold(wanted, start, take).await,
            Content::Served(served) => served.fold(wanted, start, take).await,
            Content::NotServed(reason) => bail!("catalog {:?} is not served: {reason}", self.name),
        };
        folded.with_context(|| format!("reading catalog {:?}", self.name))
    }
}

/// Reports that no catalog has a package, with those that were probably meant.
pub(crate) async fn no_package(package: &str, catalogs: &[Catalog]) -> anyhow::Error {
    let meant = meant(package, catalogs).await;
    let meant = meant.unwrap_or_else(|| "\"olm search\" looks for parts of names and texts".to_owned());
    anyhow!("no catalog has a package {package:?}. {meant}")
}

/// The packages that were probably meant, as a question. Catalogs that cannot be read are skipped.
pub(crate) async fn meant(package: &str, catalogs: &[Catalog]) -> Option<String> {
    let mut names = Vec::new();
    for catalog in catalogs {
        names.extend(catalog.packages().await.unwrap_or_default());
    }
    did_you_mean(package, names.iter().map(String::as_str))
}

/// An error of a catalog that cannot be read, in upstream's words.
pub(crate) fn unreadable(catalog: &str, error: &anyhow::Error) -> CatalogError {
    CatalogError::Read { catalog: catalog.to_owned(), cause: causes(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_may_follow() {
        let named = |text: &str| text.parse::<Named>().map(|one| (one.source, one.priority));
        assert_eq!(named("quay.io/a/b:latest"), Ok(("quay.io/a/b:latest".to_owned(), None)));
        assert_eq!(named("quay.io/a/b:latest=-5"), Ok(("quay.io/a/b:latest".to_owned(), Some(-5))));
        assert_eq!(named("https://h/catalogs/c=7"), Ok(("https://h/catalogs/c".to_owned(), Some(7))));
        assert!(named("./folder=high").is_err());
        assert!(named("=7").is_err());
    }

    #[test]
    fn the_name_of_a_catalog_is_neither_a_path_nor_an_image() {
        let is_of_cluster =
            |source: &str| Named { source: source.to_owned(), priority: None }.is_of_cluster();
        assert!(is_of_cluster("operatorhubio"));
        for other in ["src", "./catalog", "quay.io/a/b", "https://h/catalogs/c", "oci:x", "a:b"] {
            assert!(!is_of_cluster(other), "{other}");
        }
    }
}
