//! Texts of InstallPlans that users, consoles and scripts match on. They are upstream's, but for those of `Ready` and
//! `Stalled`.

/// The annotation of a ClusterServiceVersion with the properties of its bundle.
pub const PROPERTIES_ANNOTATION: &str = "operatorframework.io/properties";
/// The annotation of a Subscription that a plan makes: the plan.
pub const GENERATED_BY_ANNOTATION: &str = "olm.generated-by";
/// The annotation of a plan that approves it as long as its steps have this digest.
pub const APPROVED_DIGEST_ANNOTATION: &str = "olm.classic/approved-digest";
/// Beginning of the annotations of a CRD that name the ClusterServiceVersions which brought it.
pub const ALONGSIDE_PREFIX: &str = "operatorframework.io/installed-alongside-";
/// The kind of steps for Secrets of a bundle; steps of the kind Secret are pull Secrets.
pub const BUNDLE_SECRET: &str = "BundleSecret";

/// Phase: a person has to approve the plan.
pub const REQUIRES_APPROVAL: &str = "RequiresApproval";
/// Phase: the steps are carried out.
pub const INSTALLING: &str = "Installing";
/// Phase: all steps are carried out.
pub const COMPLETE: &str = "Complete";
/// Phase: a step cannot be carried out.
pub const FAILED: &str = "Failed";

/// Status of a step that has not been carried out.
pub const UNKNOWN: &str = "Unknown";
/// Status of a step whose object is to be made again.
pub const NOT_PRESENT: &str = "NotPresent";
/// Status of a step whose object was there.
pub const PRESENT: &str = "Present";
/// Status of a step whose object was made.
pub const CREATED: &str = "Created";
/// Status of a step whose CRD is not served yet.
pub const WAITING_FOR_API: &str = "WaitingForApi";
/// Status of a step whose kind no plan may hold.
pub const UNSUPPORTED: &str = "UnsupportedResource";

/// Condition: whether everything is installed.
pub const INSTALLED: &str = "Installed";
/// Condition: digest and seal of the steps, as this program wrote them.
pub const SEALED: &str = "Sealed";
/// Condition: one summary, as GitOps tools read it.
pub const READY: &str = "Ready";
/// Condition: whether only a person can help.
pub const STALLED: &str = "Stalled";

/// Reason: the ServiceAccount cannot be found out.
pub const CHECK_FAILED: &str = "InstallCheckFailed";
/// Reason: a step failed.
pub const COMPONENT_FAILED: &str = "InstallComponentFailed";
/// Reason: the ServiceAccount is missing permissions.
pub const MISSING_PERMISSIONS: &str = "MissingPermissions";
/// Reason: the steps are not those that this program wrote.
pub const NOT_SEALED: &str = "UnknownSteps";

/// The error of a plan with a step that no plan may have.
pub const INVALID_DATA: &str = "the InstallPlan contains invalid data";
/// The error of a namespace without an OperatorGroup.
pub const NO_GROUP: &str = "no operator group found that is managing this namespace";

/// The error of a namespace with several OperatorGroups.
pub fn several_groups(count: usize) -> String {
    format!("more than one operator group(s) are managing this namespace count={count}")
}

/// The error of an OperatorGroup whose ServiceAccount is not found.
pub fn no_account(account: &str, namespace: &str, group: &str) -> String {
    format!("please make sure the service account exists. sa={account} operatorgroup={namespace}/{group}")
}

/// The message of a plan that is tried again.
pub fn retrying(error: &str) -> String {
    format!("retrying execution due to error: {error}")
}

/// The error of a read or write of an object.
pub fn failed_to(verb: &str, kind: &str, name: &str, error: &str) -> String {
    format!("error {verb} {kind} {name}: {error}")
}

/// The error of a manifest that cannot be read.
pub fn unreadable(name: &str, error: &str) -> String {
    format!("error parsing step manifest: {name}: {error}")
}

/// The error of a step whose kind the cluster does not serve.
pub fn not_served(kind: &str, name: &str, (group, version, of): (&str, &str, &str)) -> String {
    let gvk = if group.is_empty() {
        format!("/{version}, Kind={of}")
    } else {
        format!("{group}/{version}, Kind={of}")
    };
    format!(
        "api-server resource not found installing {kind} {name}: GroupVersionKind {gvk} not found on the cluster. This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information."
    )
}

/// The note of an Event about warnings of the API server.
pub fn warnings(count: usize, csv: &str, kind: &str, name: &str, texts: &str) -> String {
    let during = if csv.is_empty() {
        "operator installation".to_owned()
    } else {
        format!("installation of operator \"{csv}\"")
    };
    format!("{count} warning(s) generated during {during} ({kind} \"{name}\"): {texts}")
}

/// The error of a CRD that drops a version at which objects are stored.
pub fn stored_version_removed(crd: &str, version: &str) -> String {
    format!(
        "risk of data loss updating \"{crd}\": new CRD removes version {version} that is listed as a stored version on the existing CRD"
    )
}

/// The error of a CRD without versions.
pub fn no_versions(crd: &str) -> String {
    format!(
        "checking CRD for potential data loss updating \"{crd}\": could not find any versions in the new CRD"
    )
}

/// The error of a CRD under which a stored object would not be valid.
pub fn too_restrictive(crd: &str, gvk: &str, object: &str, problems: &str) -> String {
    format!(
        "error validating existing CRs against new CRD's schema for \"{crd}\": error validating {gvk} \"{object}\": updated validation is too restrictive: {problems}"
    )
}

/// The error of a CRD whose stored objects cannot be checked.
pub fn not_checked(crd: &str, gvk: &str, why: &str) -> String {
    format!("error validating existing CRs against new CRD's schema for \"{crd}\": {gvk}: {why}")
}
