//! The labels, annotations, finalizers, field managers and other names this project writes into a cluster.
//!
//! They are part of the contract: users select by them, and what an earlier program wrote is found by them.

/// The API group of the three kinds, and the prefix of what upstream writes.
pub const GROUP: &str = "olm.operatorframework.io";

/// Label on every applied object and on object sets: the kind of the owner, always `ClusterExtension`.
pub const OWNER_KIND_LABEL: &str = "olm.operatorframework.io/owner-kind";
/// Label on every applied object, on object sets and their Secrets: the extension's name.
pub const OWNER_NAME_LABEL: &str = "olm.operatorframework.io/owner-name";
/// Label on Secrets that hold objects: the object set's name.
pub const REVISION_NAME_LABEL: &str = "olm.operatorframework.io/revision-name";
/// Label on object sets made from a Helm release: `"true"`.
pub const MIGRATED_FROM_HELM_LABEL: &str = "olm.operatorframework.io/migrated-from-helm";
/// Label on every ClusterCatalog: its own name, so that a selector can name one catalog.
pub const CATALOG_NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// Kubernetes' label for the program that manages an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY_LABEL`] on every applied object.
pub const MANAGED_BY: &str = "olm.operatorframework.io";

/// Annotation on object sets and the objects in them, label of Helm releases: the package.
pub const PACKAGE_NAME: &str = "olm.operatorframework.io/package-name";
/// Annotation on object sets, label of Helm releases: the bundle's name.
pub const BUNDLE_NAME: &str = "olm.operatorframework.io/bundle-name";
/// Annotation on object sets and the objects in them, label of Helm releases: the bundle's version.
pub const BUNDLE_VERSION: &str = "olm.operatorframework.io/bundle-version";
/// Annotation on object sets and the objects in them, label of Helm releases: the bundle's release, where
/// it is known (it may be empty).
pub const BUNDLE_RELEASE: &str = "olm.operatorframework.io/bundle-release";
/// Annotation on object sets, label of Helm releases: the bundle image's reference.
pub const BUNDLE_REFERENCE: &str = "olm.operatorframework.io/bundle-reference";
/// Annotation on applied objects: the number of the revision that applied them.
pub const REVISION_ANNOTATION: &str = "olm.operatorframework.io/revision";
/// Annotation on applied objects that a deletion policy keeps, which have no owner reference: the UID of the object
/// set that controls them.
pub const OWNER_UID_ANNOTATION: &str = "olm.operatorframework.io/owner-uid";
/// Annotation on object sets: the name of the ServiceAccount that the objects are written with.
pub const SERVICE_ACCOUNT_NAME_ANNOTATION: &str = "olm.operatorframework.io/service-account-name";
/// Annotation on object sets: the namespace of the ServiceAccount that the objects are written with.
pub const SERVICE_ACCOUNT_NAMESPACE_ANNOTATION: &str = "olm.operatorframework.io/service-account-namespace";
/// Annotation on extensions: their own UID, once revisions that an earlier program made were marked. From then on an
/// object set without the mark is no revision. Only the controller may write it.
pub const TAKEN_OVER_ANNOTATION: &str = "olm.operatorframework.io/taken-over";
/// Annotation on bundles' CSVs and on object sets: properties as a JSON list.
pub const PROPERTIES_ANNOTATION: &str = "olm.properties";
/// Annotation on the CRDs: which set they belong to.
pub const GENERATOR_ANNOTATION: &str = "olm.operatorframework.io/generator";
/// The value of [`GENERATOR_ANNOTATION`]; there is one set.
pub const GENERATOR_STANDARD: &str = "standard";

/// Finalizer on extensions: the bundle cache is cleaned.
pub const CLEANUP_UNPACK_CACHE_FINALIZER: &str = "olm.operatorframework.io/cleanup-unpack-cache";
/// Finalizer on extensions: watches are released.
pub const CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER: &str =
    "olm.operatorframework.io/cleanup-contentmanager-cache";
/// Finalizer on object sets: objects are torn down.
pub const TEARDOWN_FINALIZER: &str = "olm.operatorframework.io/teardown";
/// Finalizer on catalogs: the served content is removed.
pub const DELETE_SERVER_CACHE_FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";

/// The type of Secrets that hold the objects of an object set.
pub const OBJECT_DATA_SECRET_TYPE: &str = "olm.operatorframework.io/object-data";

/// Field manager of the objects of object sets.
pub const OBJECT_FIELD_MANAGER: &str = "olm.operatorframework.io";
/// Field manager of the `caBundle`s of webhooks and of the Secrets with their certificates, where no other
/// provider makes them.
pub const WEBHOOK_CERTIFICATES_FIELD_MANAGER: &str = "olm.operatorframework.io/webhook-certificates";
/// Field manager of object sets and their Secrets.
pub const EXTENSION_FIELD_MANAGER: &str = "olm.operatorframework.io/clusterextension-controller";

/// Field manager of statuses and finalizers of extensions and object sets; upstream's, so that what it wrote is
/// ours.
pub const PROGRAM_FIELD_MANAGER: &str = "operator-controller";
/// Field manager of catalogs, upstream's too.
pub const CATALOGD_FIELD_MANAGER: &str = "catalogd";

/// The prefix of the annotations that ask for what goes beyond upstream's API. Unknown names under it are
/// refused at admission.
pub const EXTENSIONS_PREFIX: &str = "extensions.olm.operatorframework.io/";
/// `Block`: an update to the next major version needs a hand.
pub const MAJOR_UPDATES_ANNOTATION: &str = "extensions.olm.operatorframework.io/major-updates";
/// `Refuse`: a bundle that declares dependencies is refused, as upstream does, instead of waited with. `Install`: extensions
/// are created for what it requires; `InstallAndRemove`: and removed when nothing needs them any more.
pub const DEPENDENCIES_ANNOTATION: &str = "extensions.olm.operatorframework.io/dependencies";
/// Annotation of a ClusterExtension that was created because the bundle of another one requires it: name and UID of that
/// one. Only the controller may write it.
pub const REQUIRED_BY_ANNOTATION: &str = "extensions.olm.operatorframework.io/required-by";
/// `Required`: an update never crosses from one catalog to another.
pub const SAME_CATALOG_ANNOTATION: &str = "extensions.olm.operatorframework.io/same-catalog";
/// `RetainCRDs` or `Orphan`: what is kept when the extension is deleted; written on to its object sets.
pub const DELETION_POLICY_ANNOTATION: &str = "extensions.olm.operatorframework.io/deletion-policy";
/// `Block`: objects of kinds the cluster does not serve stop the installation instead of being left out.
pub const UNKNOWN_KINDS_ANNOTATION: &str = "extensions.olm.operatorframework.io/unknown-kinds";
/// Annotation of a ClusterObjectSet: the objects that are left out until the cluster serves their kinds, as a JSON
/// list.
pub const LEFT_OUT_ANNOTATION: &str = "extensions.olm.operatorframework.io/left-out";
/// Changes of CRDs that are accepted although the upgrade check refuses them, `<CRD>:<path>:<check>` each.
pub const ALLOW_CRD_CHANGES_ANNOTATION: &str = "extensions.olm.operatorframework.io/allow-crd-changes";
/// `CheckObjects`: changes of CRDs that endanger only stored objects are accepted if they affect none of those that
/// exist.
pub const CRD_CHANGE_MODE_ANNOTATION: &str = "extensions.olm.operatorframework.io/crd-changes";
/// `Block`: the extension cannot be deleted while that would delete custom resources.
pub const DELETION_GUARD_ANNOTATION: &str = "extensions.olm.operatorframework.io/deletion-guard";
/// Asks for a new revision although name, version and release of the bundle stayed the same.
pub const REINSTALL_ANNOTATION: &str = "extensions.olm.operatorframework.io/reinstall";
/// The number of a revision of the extension, whose objects are to come back as a new revision.
pub const ROLLBACK_TO_ANNOTATION: &str = "extensions.olm.operatorframework.io/rollback-to";
/// `true`, or the time (RFC 3339) until which no new revision is made.
pub const PAUSED_ANNOTATION: &str = "extensions.olm.operatorframework.io/paused";
/// The digest of the ExtensionPlan that may be rolled out. Who sets it needs the verb `approve` on the extension.
pub const APPROVED_PLAN_ANNOTATION: &str = "extensions.olm.operatorframework.io/approved-plan";
/// Annotation of a ClusterExtension: with a new value, a version that failed and was replaced is tried again.
pub const RETRY_ANNOTATION: &str = "extensions.olm.operatorframework.io/retry";
/// Annotation of a ClusterObjectSet: the revision whose objects came back with it, when the extension asked so, or because
/// another one failed.
pub const ROLLED_BACK_TO_ANNOTATION: &str = "extensions.olm.operatorframework.io/rolled-back-to";
/// Annotation of a ClusterObjectSet: the revision that failed and that it replaces, as JSON.
pub const RETURNED_FROM_ANNOTATION: &str = "extensions.olm.operatorframework.io/returned-from";
/// Annotation of a ClusterObjectSet: the CRD changes that were accepted for it and the CRDs it no longer has, as
/// JSON.
pub const CRD_CHANGES_ANNOTATION: &str = "olm.operatorframework.io/crd-changes";
/// Annotation of a ClusterObjectSet, the mark of a revision: the UID of the ClusterExtension that it was made for. Only
/// the controller may write it, which admission sees to.
pub const REVISION_OF_ANNOTATION: &str = "extensions.olm.operatorframework.io/revision-of";
/// Annotation of a ClusterObjectSet: digest of everything it was made from.
pub const INPUTS_DIGEST_ANNOTATION: &str = "extensions.olm.operatorframework.io/inputs-digest";
/// Annotation of a ClusterObjectSet: digest of what was rendered for it, and of the reinstallation that was asked for. By
/// it the revision is recognised when the same is wanted again.
pub const RENDERED_DIGEST_ANNOTATION: &str = "extensions.olm.operatorframework.io/rendered-digest";
/// Annotation of a ClusterObjectSet: digest of its objects. Where [`RENDERED_DIGEST_ANNOTATION`] is missing an earlier
/// version wrote it, with that meaning.
pub const CONTENT_DIGEST_ANNOTATION: &str = "extensions.olm.operatorframework.io/content-digest";
/// Annotation of a ClusterExtension, written by the controller: which namespace and ServiceAccount it uses, by UID.
pub const IDENTITY_ANNOTATION: &str = "extensions.olm.operatorframework.io/identity";
/// Annotation of a ClusterObjectSet: the UID of the ServiceAccount it acts as. No other one of that name is used.
pub const SERVICE_ACCOUNT_UID_ANNOTATION: &str = "extensions.olm.operatorframework.io/service-account-uid";
/// Annotation of a ClusterObjectSet: digest of the plan that it was made by, as `olm diff` prints it.
pub const PLAN_DIGEST_ANNOTATION: &str = "extensions.olm.operatorframework.io/plan-digest";
/// Annotation of a ClusterObjectSet: the kind whose objects are created before all others, and all or none of them. No dry
/// run has shown whether the API server takes them. Roles and bindings do not wait until they are served.
pub const CREATED_FIRST_ANNOTATION: &str = "extensions.olm.operatorframework.io/created-first";
/// Annotation of a ClusterObjectSet: a sentence about the permissions that its bundle has beyond those of the bundle that
/// was installed before.
pub const ADDED_PERMISSIONS_ANNOTATION: &str = "extensions.olm.operatorframework.io/added-permissions";
/// Annotation of a ClusterObjectSet: the ClusterCatalog that its bundle came from.
pub const CATALOG_ANNOTATION: &str = "extensions.olm.operatorframework.io/catalog";
/// Annotation of a ClusterObjectSet: the bundle's properties in its catalog, as a JSON list, for what depends on
/// them.
pub const CATALOG_PROPERTIES_ANNOTATION: &str = "extensions.olm.operatorframework.io/catalog-properties";
/// Annotation of a ClusterObjectSet: the properties by which its bundle itself declares what it requires, as a JSON list.
pub const DECLARED_ANNOTATION: &str = "extensions.olm.operatorframework.io/declared-requirements";
/// Annotation of a ClusterObjectSet: who makes the certificates of its webhooks; kept until another version.
pub const WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION: &str =
    "extensions.olm.operatorframework.io/webhook-certificate-provider";

/// Field manager of what `olm` writes for a person, and the value of [`MANAGED_BY_LABEL`] on what it creates besides
/// extensions.
pub const CLI_FIELD_MANAGER: &str = "olm";
/// Annotation on ServiceAccounts, roles and bindings that `olm install` creates: the extension that they are for.
pub const INSTALLED_FOR_ANNOTATION: &str = "extensions.olm.operatorframework.io/installed-for";
