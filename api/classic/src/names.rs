//! Labels, annotations and names that Classic's users, consoles and scripts look for.

/// API group of all kinds.
pub const GROUP: &str = "operators.coreos.com";
/// Label of everything that is made here; `false` on ConfigMaps that users provide.
pub const MANAGED_LABEL: &str = "olm.managed";
/// Label of a registry Pod and of what belongs to it: the name of its CatalogSource.
pub const CATALOG_SOURCE_LABEL: &str = "olm.catalogSource";
/// Label with the hash of a registry Pod's spec.
pub const POD_HASH_LABEL: &str = "olm.pod-spec-hash";
/// Label with the hash of a registry Service's spec.
pub const SERVICE_HASH_LABEL: &str = "olm.service-spec-hash";
/// Label of Pods that unpack a bundle.
pub const UNPACK_LABEL: &str = "operatorframework.io/bundle-unpack-ref";
/// Label of a Pod that polls an image: the name of its CatalogSource.
pub const UPDATE_LABEL: &str = "catalogsource.operators.coreos.com/update";
/// Annotation of a CatalogSource: its image, with variables of the cluster's version.
pub const IMAGE_TEMPLATE_ANNOTATION: &str = "olm.catalogImageTemplate";
/// Annotation of a CatalogSource: the priority class of its Pod.
pub const PRIORITY_CLASS_ANNOTATION: &str = "operatorframework.io/priorityclass";
/// Annotation of a CatalogSource: `Pod` has its image run as a Pod, although it could be read.
pub const SERVE_ANNOTATION: &str = "olm.classic/serve";
/// Label of what belongs to an object of OLM: its name.
pub const OWNER_LABEL: &str = "olm.owner";
/// Label of what belongs to an object of OLM: its namespace.
pub const OWNER_NAMESPACE_LABEL: &str = "olm.owner.namespace";
/// Label of what belongs to an object of OLM: its kind.
pub const OWNER_KIND_LABEL: &str = "olm.owner.kind";
/// Label of a copied ClusterServiceVersion: the namespace of the one that it was copied from.
pub const COPIED_FROM_LABEL: &str = "olm.copiedFrom";
/// Prefix of the labels of a ClusterServiceVersion that index it by API.
pub const API_LABEL_PREFIX: &str = "olm.api.";
/// Label with the hash of the spec that a Deployment is to have.
pub const DEPLOYMENT_HASH_LABEL: &str = "olm.deployment-spec-hash";
/// Label of roles and bindings with the hash of what they grant.
pub const PERMISSIONS_HASH_LABEL: &str = "olm.permissions.hash";
/// Annotation of a ClusterServiceVersion: its OperatorGroup.
pub const GROUP_ANNOTATION: &str = "olm.operatorGroup";
/// Annotation of a ClusterServiceVersion: the namespace of its OperatorGroup.
pub const GROUP_NAMESPACE_ANNOTATION: &str = "olm.operatorNamespace";
/// Annotation of a ClusterServiceVersion: the namespaces that it serves, comma-separated; empty for all.
pub const TARGETS_ANNOTATION: &str = "olm.targetNamespaces";
/// Annotation of an OperatorGroup: how long a bundle may take to be pulled, such as `5m`; `0` for any time.
pub const UNPACK_TIMEOUT_ANNOTATION: &str = "operatorframework.io/bundle-unpack-timeout";
/// Annotation of an OperatorGroup: how long a bundle that could not be pulled is held back, such as `5m`.
pub const UNPACK_RETRY_ANNOTATION: &str = "operatorframework.io/bundle-unpack-min-retry-interval";
/// Annotation of an OperatorGroup: the APIs that its operators provide.
pub const PROVIDED_APIS_ANNOTATION: &str = "olm.providedAPIs";
/// Prefix of the annotations of a CustomResourceDefinition with the ClusterServiceVersions that it came with.
pub const ALONGSIDE_ANNOTATION_PREFIX: &str = "operatorframework.io/installed-alongside-";
/// Finalizer of ClusterServiceVersions: what is not in a namespace has to go before they do.
pub const CSV_FINALIZER: &str = "operators.coreos.com/csv-cleanup";
