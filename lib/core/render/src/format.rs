//! The table of bundle formats, and what any of them makes of a bundle.

use serde_json::Value;

use crate::{
    BundleFiles, CertificateProvider, Options, RenderError,
    limits::{BUNDLE_BYTES_MAX, FILES_MAX},
    registry_v1::RegistryV1,
};

/// What a bundle was rendered to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The package the bundle says it belongs to.
    pub package_name: String,
    /// Name of its ClusterServiceVersion.
    pub name: String,
    /// Version of its ClusterServiceVersion; empty when it has none.
    pub version: String,
    /// The oldest Kubernetes version the operator claims to run on, as written.
    pub min_kube_version: Option<String>,
    /// The objects: ServiceAccounts, Roles and bindings, ClusterRoles and bindings, CRDs, shipped objects,
    /// Deployments, webhook configurations, webhook Services, certificate objects.
    pub objects: Vec<Value>,
    /// The annotation `olm.properties` of a revision: a JSON array as text, the shipped one merged with the
    /// properties file, and with the platform limit of the first generation's annotation where it has none.
    pub olm_properties: Option<String>,
    /// What the bundle itself declares to need and to provide, each `{"type", "value"}`; or why its
    /// dependencies cannot be read.
    pub declared: Result<Vec<Value>, String>,
    /// Who makes the certificates of its webhooks; `None` when it has none.
    pub certificate_provider: Option<CertificateProvider>,
    /// Memory that the objects take until a revision is written, in bytes, estimated.
    pub memory: usize,
}

/// A way to package an operator.
pub trait BundleFormat: Sync {
    /// The media type that bundles name in `operators.operatorframework.io.bundle.mediatype.v1`.
    fn media_type(&self) -> &'static str;

    /// Whether these files are a bundle of this format.
    fn recognizes(&self, files: &BundleFiles) -> bool;

    /// Loads, checks and renders.
    fn render(&self, files: &BundleFiles, options: &Options) -> Result<Rendered, RenderError>;
}

/// The formats, the most particular first. The last one takes everything, as upstream reads every bundle as
/// registry+v1, whatever media type it declares.
pub static FORMATS: &[&dyn BundleFormat] = &[&RegistryV1];

/// Renders a bundle in the first format that recognises it.
///
/// # Errors
/// See [`RenderError`]; none of them heals without another bundle or another configuration.
pub fn render(files: &BundleFiles, options: &Options) -> Result<Rendered, RenderError> {
    if files.len() > FILES_MAX {
        return Err(RenderError::TooLarge { what: "files", limit: FILES_MAX });
    }
    if files.bytes() > BUNDLE_BYTES_MAX {
        return Err(RenderError::TooLarge { what: "bytes", limit: BUNDLE_BYTES_MAX });
    }
    let format = FORMATS.iter().find(|format| format.recognizes(files)).ok_or(RenderError::UnknownFormat)?;
    format.render(files, options)
}
