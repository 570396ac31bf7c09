//! What is served: the names of a kind, and where its objects come from.

use std::io;

use axum::response::Response;
use http::request::Parts;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use tokio::sync::watch;

/// Names of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// API group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The kind: `Pod`.
    pub kind: &'static str,
    /// The resource: `pods`.
    pub plural: &'static str,
    /// The resource in the singular: `pod`.
    pub singular: &'static str,
    /// Subresources that can be read: `log`.
    pub subresources: &'static [&'static str],
    /// The columns of its table.
    pub columns: &'static [Column],
    /// The schema of an object. Definitions without a dot in their names get the group and version before it.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Names {
    /// `group/version`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// `plural.group`.
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// A column of a table, whose cells are text.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    /// The meaning of its cells.
    pub description: &'static str,
}

/// An object as a request sees it: cheap to clone, its content is read when it is written.
pub trait Object: Clone + Send + Sync + 'static {
    /// Its metadata, without a resource version.
    fn metadata(&self) -> &ObjectMeta;

    /// The cells of its row, one for each column.
    fn cells(&self, now: Timestamp) -> Vec<Value>;

    /// Appends the members beside `apiVersion`, `kind` and `metadata` as JSON text, separated by commas, without braces.
    /// May block.
    fn write_members(&self, out: &mut Vec<u8>) -> io::Result<()>;

    /// A number that changes with the object.
    fn fingerprint(&self) -> u64;
}

/// The objects of a namespace at one time.
#[derive(Debug, Clone)]
pub struct Listing<O> {
    /// The resource version.
    pub version: u64,
    /// The objects, in the order in which they are shown. Of several with one name, the first is the one that a get
    /// finds.
    pub objects: Vec<O>,
}

/// Objects of one kind, all of them in namespaces.
pub trait Resource: Send + Sync + 'static {
    /// Its objects.
    type Object: Object;

    /// The names of the kind.
    const NAMES: Names;

    /// The objects that a namespace shows, or those of all namespaces.
    fn list(&self, namespace: Option<&str>) -> Listing<Self::Object>;

    /// The same as it was at an earlier version, if that is still known.
    fn list_at(&self, version: u64, namespace: Option<&str>) -> Option<Listing<Self::Object>>;

    /// The resource version, which rises with each change.
    fn versions(&self) -> watch::Receiver<u64>;

    /// Why the objects are not known yet.
    fn ready(&self) -> Result<(), String>;

    /// A subresource of [`Names::subresources`] of an object.
    fn subresource(
        &self,
        object: Self::Object,
        subresource: &str,
        request: &Parts,
    ) -> impl Future<Output = Response> + Send;
}
