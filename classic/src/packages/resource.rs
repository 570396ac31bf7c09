//! PackageManifests as objects of the aggregated API server.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::{Arc, atomic::Ordering},
};

use http::request::Parts;
use jiff::Timestamp;
use k8s_openapi::{Resource as _, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use olm_aggregate::{Column, Listing, Names, Object, Resource, age};
use olm_api_classic::PackageManifest;
use olm_classic_core::packages::manifest_labels;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Catalog, Packages, Shown, icon, summary::Package};

/// A package as a request for a namespace sees it.
#[derive(Debug, Clone)]
pub struct Manifest {
    metadata: Arc<ObjectMeta>,
    catalog: Arc<Catalog>,
    place: usize,
}

impl Manifest {
    fn new(catalog: &Arc<Catalog>, place: usize, namespace: Option<&str>) -> Option<Self> {
        let package = catalog.summary.packages().get(place)?;
        let (key, source) = (&catalog.key, &catalog.source.metadata);
        let names = (key.namespace.as_str(), key.name.as_str());
        let metadata = ObjectMeta {
            name: Some(package.name.clone()),
            namespace: Some(namespace.unwrap_or(&key.namespace).to_owned()),
            labels: Some(manifest_labels(&package.provider, &package.labels, names, source.labels.as_ref())),
            creation_timestamp: source.creation_timestamp.clone(),
            ..ObjectMeta::default()
        };
        Some(Self { metadata: Arc::new(metadata), catalog: Arc::clone(catalog), place })
    }

    /// The package. It was there when this value was made, and summaries do not change.
    pub(super) fn package(&self) -> &Package {
        &self.catalog.summary.packages()[self.place]
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn display_name(&self) -> &str {
        self.catalog.source.spec.display_name.as_deref().unwrap_or_default()
    }
}

impl Object for Manifest {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let created = self.metadata.creation_timestamp.as_ref().map(|time| time.0);
        vec![json!(self.metadata.name), json!(self.display_name()), json!(age(created, now))]
    }

    fn write_members(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let (package, catalog) = (self.package(), &self.catalog);
        let publisher = catalog.source.spec.publisher.as_deref().unwrap_or_default();
        out.extend_from_slice(b"\"spec\":{},\"status\":{");
        for (key, text) in [
            ("catalogSource", catalog.key.name.as_str()),
            ("catalogSourceDisplayName", self.display_name()),
            ("catalogSourcePublisher", publisher),
            ("catalogSourceNamespace", &catalog.key.namespace),
            ("packageName", &package.name),
            ("defaultChannel", &package.default_channel),
        ] {
            member(key, &text, out)?;
            out.push(b',');
        }
        member("provider", &package.provider, out)?;
        if let Some(deprecation) = &package.deprecation {
            out.push(b',');
            member("deprecation", deprecation, out)?;
        }
        out.extend_from_slice(b",\"channels\":");
        catalog.summary.read_channels(package, out)?;
        out.push(b'}');
        Ok(())
    }

    fn fingerprint(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        let source = &self.catalog.source;
        self.package().fingerprint.hash(&mut hash);
        (&self.catalog.key.namespace, &self.catalog.key.name).hash(&mut hash);
        (&source.spec.display_name, &source.spec.publisher, &source.metadata.labels).hash(&mut hash);
        source.metadata.uid.hash(&mut hash);
        hash.finish()
    }
}

fn member(key: &str, value: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    out.extend_from_slice(format!("\"{key}\":").as_bytes());
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

impl Resource for Packages {
    type Object = Manifest;

    const NAMES: Names = Names {
        group: PackageManifest::GROUP,
        version: PackageManifest::VERSION,
        kind: PackageManifest::KIND,
        plural: PackageManifest::URL_PATH_SEGMENT,
        singular: "packagemanifest",
        subresources: &["icon"],
        columns: &[
            Column { name: "Name", format: "name", description: "The name of the package" },
            Column { name: "Catalog", format: "", description: "The source catalog for this package" },
            Column { name: "Age", format: "", description: "The age of the CatalogSource" },
        ],
        schema: |generator| generator.subschema_for::<PackageManifest>(),
    };

    fn list(&self, namespace: Option<&str>) -> Listing<Manifest> {
        self.listed(&self.shown(), namespace)
    }

    fn list_at(&self, version: u64, namespace: Option<&str>) -> Option<Listing<Manifest>> {
        let shown = self.shown.read().iter().find(|shown| shown.version == version).cloned();
        shown.map(|shown| self.listed(&shown, namespace))
    }

    fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn ready(&self) -> Result<(), String> {
        if self.read.load(Ordering::Acquire) { Ok(()) } else { Err("packages not read yet".to_owned()) }
    }

    async fn subresource(&self, object: Manifest, _: &str, request: &Parts) -> axum::response::Response {
        icon::answer(object, request).await
    }
}

impl Packages {
    /// The packages that a namespace shows: those of its own catalogs, then those of the global ones.
    fn listed(&self, shown: &Shown, namespace: Option<&str>) -> Listing<Manifest> {
        let all = shown.catalogs.as_slice();
        let catalogs: Vec<_> = match namespace {
            None => all.iter().collect(),
            Some(own) if own == self.global_namespace => of_namespace(all, own).collect(),
            Some(own) => of_namespace(all, own).chain(of_namespace(all, &self.global_namespace)).collect(),
        };
        let manifests = |catalog: &Arc<Catalog>| {
            let places = 0..catalog.summary.packages().len();
            places.filter_map(|place| Manifest::new(catalog, place, namespace)).collect::<Vec<_>>()
        };
        Listing { version: shown.version, objects: catalogs.into_iter().flat_map(manifests).collect() }
    }
}

fn of_namespace<'a>(
    catalogs: &'a [Arc<Catalog>],
    namespace: &'a str,
) -> impl Iterator<Item = &'a Arc<Catalog>> {
    catalogs.iter().filter(move |catalog| catalog.key.namespace == namespace)
}
