//! The types of properties that OLM defines.

/// Type of the property that names a bundle's package and version.
pub const PROPERTY_PACKAGE: &str = "olm.package";
/// Type of the property that names another package a bundle needs.
pub const PROPERTY_PACKAGE_REQUIRED: &str = "olm.package.required";
/// Type of the property that names an API a bundle provides.
pub const PROPERTY_GVK: &str = "olm.gvk";
/// Type of the property that names an API a bundle needs.
pub const PROPERTY_GVK_REQUIRED: &str = "olm.gvk.required";
/// Type of the property that holds a generic dependency.
pub const PROPERTY_CONSTRAINT: &str = "olm.constraint";
/// Type of the property that holds a whole manifest.
pub const PROPERTY_BUNDLE_OBJECT: &str = "olm.bundle.object";
/// Type of the property that holds what consoles show of a bundle.
pub const PROPERTY_CSV_METADATA: &str = "olm.csv.metadata";
/// Type of the property that holds a channel's name, for internal use.
pub const PROPERTY_CHANNEL: &str = "olm.channel";
/// Type of the property that names the Kubernetes versions a bundle runs on.
pub const PROPERTY_KUBERNETES_VERSION: &str = "olm.kubeversion";
/// Type of the property that says up to which minor version a platform may be updated.
pub const PROPERTY_MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";
