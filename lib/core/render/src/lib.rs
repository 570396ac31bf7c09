//! From a bundle to Kubernetes objects: a pure function of the bundle and the user's options.
//!
//! [`render`] asks the configuration and the install modes which namespaces are watched, validates the bundle (all
//! findings at once) and generates the objects; each module generates one sort of them. The same bundle and options
//! give the same objects in the same order. Labels of owners and managed fields are added by object sets. Where
//! upstream's behaviour is a defect, the module names the difference.
//!
//! As in operator-controller's internal/operator-controller/rukpak.

mod certificates;
mod config;
mod crds;
mod deployment_config;
mod deployments;
mod duplicates;
mod error;
mod fields;
mod install_modes;
mod limits;
mod names;
mod options;
mod rbac;
mod render;
mod shipped;
mod validate;
mod webhooks;

pub use certificates::{
    VolumeOrder, WebhookCertificate, certificate_name, service_name, webhook_certificates,
};
pub use deployment_config::apply as apply_deployment_config;
pub use deployments::mount_certificates;
pub use error::{Reason, RenderError};
pub use options::{CertificateProvider, Features, Options};
pub use render::{Rendered, render, render_for};
