//! The policies on object sets: whom one may act as, and who may make one that belongs to an extension.
//!
//! A set claims an extension by an owner reference of its kind, whatever its API version, or by any that says
//! `controller: true`; by our labels for the owner; or by the mark of a revision. Who makes or changes a claim, or an
//! annotation or label under our prefixes on a set with one, must have the right to make revisions of the extension,
//! which only the controller has. Everything else about a revision follows from these.

use olm_api::names::{
    DELETION_POLICY_ANNOTATION, GROUP, OWNER_KIND_LABEL, OWNER_NAME_LABEL, PROPERTIES_ANNOTATION,
    REVISION_OF_ANNOTATION, SERVICE_ACCOUNT_NAME_ANNOTATION, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
    SERVICE_ACCOUNT_UID_ANNOTATION,
};

use super::policies::{
    Policy, default_account_variables, may_not_use, may_own, may_use, metadata_map,
    not_being_deleted_or_edited, value_of,
};

pub(crate) const OBJECT_SET_ACCOUNT: &str = "clusterobjectset-account.olm.operatorframework.io";
pub(crate) const OBJECT_SET_DEFAULT_ACCOUNT: &str =
    "clusterobjectset-default-account.olm.operatorframework.io";
pub(crate) const OBJECT_SET_OWNER: &str = "clusterobjectset-owner.olm.operatorframework.io";

/// The form of a label (RFC 1123), without an end of the text.
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn references(object: &str) -> String {
    format!("(has({object}.metadata.ownerReferences) ? {object}.metadata.ownerReferences : [])")
}

/// The references by which a set claims to belong to an extension.
fn claiming_references(object: &str) -> String {
    format!(
        "{}.filter(r, r.kind == 'ClusterExtension' || (has(r.controller) && r.controller))",
        references(object)
    )
}

/// Whether a set claims to belong to an extension.
fn claims(object: &str) -> String {
    let has = |field: &str, key: &str| format!("'{key}' in {}", metadata_map(object, field));
    format!(
        "(size({}) > 0 || {} || {} || {})",
        claiming_references(object),
        has("labels", OWNER_KIND_LABEL),
        has("labels", OWNER_NAME_LABEL),
        has("annotations", REVISION_OF_ANNOTATION)
    )
}

/// Whether references were added or changed. Taking one away passes, and so does `blockOwnerDeletion`: the garbage
/// collector does both when an owner is deleted. What did not change at all is found out first, because comparing each
/// with each of very many costs more than the API server allows.
fn references_changed() -> String {
    let (new, old) = (references("object"), references("oldObject"));
    format!(
        "({new} != {old} && !{new}.all(r, {old}.exists(o, o.uid == r.uid && o.kind == r.kind && o.name == r.name && \
         o.apiVersion == r.apiVersion && \
         (!has(r.controller) || !r.controller || (has(o.controller) && o.controller)))))"
    )
}

/// Whether annotations or labels under our prefixes were added, changed or taken away.
fn ours_changed(field: &str) -> String {
    let (new, old) = (metadata_map("object", field), metadata_map("oldObject", field));
    let is_ours = format!("(k.contains('{GROUP}/') || k == '{PROPERTIES_ANNOTATION}')");
    format!(
        "({new} != {old} && ({new}.exists(k, {is_ours} && !(k in {old} && {old}[k] == {new}[k])) || \
         {old}.exists(k, {is_ours} && !(k in {new}))))"
    )
}

/// The names of the extensions that a set claims, as a list.
fn claimed_names(object: &str) -> String {
    let label = value_of(object, "labels", OWNER_NAME_LABEL);
    format!("({}.map(r, r.name) + ({label} == '' ? [] : [{label}]))", claiming_references(object))
}

/// Who makes, changes or takes back a claim.
pub(super) fn owner() -> Policy {
    let changed = [
        "oldObject == null".to_owned(),
        references_changed(),
        ours_changed("annotations"),
        ours_changed("labels"),
    ];
    Policy {
        conditions: vec![
            (
                "claims-an-extension",
                format!("{} || (oldObject != null && {})", claims("object"), claims("oldObject")),
            ),
            ("claim-changed", changed.join(" || ")),
        ],
        variables: vec![
            (
                "names",
                format!(
                    "{} + (oldObject == null ? [] : {})",
                    claimed_names("object"),
                    claimed_names("oldObject")
                ),
            ),
            // Without a name the question is about all extensions.
            ("extension", "size(variables.names) > 0 ? variables.names[0] : ''".to_owned()),
        ],
        validations: vec![
            (
                "variables.names.all(name, name == variables.extension)".to_owned(),
                format!(
                    "'metadata: the owner references and the label \"{OWNER_NAME_LABEL}\" name different \
                     ClusterExtensions: a ClusterObjectSet belongs to one'"
                ),
            ),
            (
                may_own("variables.extension"),
                format!(
                    "'metadata: only the controller makes revisions of a ClusterExtension, and ' + \
                     request.userInfo.username + ' may not make or change one of \"' + variables.extension + \
                     '\": leave out owner references of kind ClusterExtension and those with \"controller: true\", \
                     and leave labels and annotations under {GROUP} as they are'"
                ),
            ),
        ],
        ..Policy::new(OBJECT_SET_OWNER, "clusterobjectsets")
    }
}

/// The spec, the account, and what stays when the set goes.
fn guarded() -> (&'static str, String) {
    let changed = [
        SERVICE_ACCOUNT_NAME_ANNOTATION,
        SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
        SERVICE_ACCOUNT_UID_ANNOTATION,
        DELETION_POLICY_ANNOTATION,
    ]
    .map(|key| {
        let value = |object: &str| value_of(object, "annotations", key);
        format!("{} != {}", value("object"), value("oldObject"))
    })
    .join(" || ");
    ("guarded-part-changed", format!("oldObject == null || object.spec != oldObject.spec || {changed}"))
}

fn account_variables() -> [(&'static str, String); 2] {
    let value = |key| value_of("object", "annotations", key);
    [
        ("accountNamespace", value(SERVICE_ACCOUNT_NAMESPACE_ANNOTATION)),
        ("accountName", value(SERVICE_ACCOUNT_NAME_ANNOTATION)),
    ]
}

/// Who may have a set act as the account that it names, and change what it says about an extension's objects.
pub(super) fn account() -> Policy {
    let (namespace, name) = ("variables.accountNamespace", "variables.accountName");
    let [account_namespace, account_name] = account_variables();
    let field = format!("metadata.annotations[{SERVICE_ACCOUNT_NAME_ANNOTATION}]");
    Policy {
        conditions: vec![not_being_deleted_or_edited(), guarded()],
        variables: vec![
            account_namespace,
            account_name,
            ("names", claimed_names("object")),
            ("extension", "size(variables.names) > 0 ? variables.names[0] : ''".to_owned()),
        ],
        validations: vec![
            (
                format!(
                    "({name} == '' || (size({name}) <= 253 && {name}.matches('^{LABEL}([.]{LABEL})*$'))) && \
                     ({namespace} == '' || (size({namespace}) <= 63 && {namespace}.matches('^{LABEL}$')))"
                ),
                format!(
                    "'metadata.annotations: \"' + {name} + '\" in namespace \"' + {namespace} + '\" is not the name \
                     of a service account: correct \"{SERVICE_ACCOUNT_NAME_ANNOTATION}\" and \
                     \"{SERVICE_ACCOUNT_NAMESPACE_ANNOTATION}\"'"
                ),
            ),
            (
                format!("({name} == '') == ({namespace} == '') || {}", may_use_all()),
                format!(
                    "'metadata.annotations: name the service account of this ClusterObjectSet in both \
                     \"{SERVICE_ACCOUNT_NAME_ANNOTATION}\" and \"{SERVICE_ACCOUNT_NAMESPACE_ANNOTATION}\"'"
                ),
            ),
            (
                format!("{name} == '' || {namespace} == '' || {}", may_use(namespace, name)),
                may_not_use(&field, namespace, name),
            ),
            (
                format!(
                    "variables.extension == '' || authorizer.group('{GROUP}').resource('clusterextensions')\
                     .name(variables.extension).check('update').allowed()"
                ),
                "'metadata: ' + request.userInfo.username + ' may not update ClusterExtension \"' + \
                 variables.extension + '\", to which this ClusterObjectSet claims to belong'"
                    .to_owned(),
            ),
        ],
        ..Policy::new(OBJECT_SET_ACCOUNT, "clusterobjectsets")
    }
}

/// Whether who asks may use every account.
fn may_use_all() -> &'static str {
    "authorizer.group('').resource('serviceaccounts').subresource('token').check('create').allowed()"
}

/// Who may have a set act as the default account: one that names no account and belongs to no extension. One that
/// belongs to an extension gets its account from the controller.
pub(super) fn default_account() -> Policy {
    let (namespace, name) = ("variables.accountNamespace", "variables.accountName");
    let [account_namespace, account_name] = account_variables().map(|(_, value)| value);
    let field = format!(
        "metadata.annotations[{SERVICE_ACCOUNT_NAME_ANNOTATION}] (not set; the default account applies)"
    );
    Policy {
        with_settings: true,
        conditions: vec![
            not_being_deleted_or_edited(),
            guarded(),
            ("names-no-account", format!("{account_namespace} == '' && {account_name} == ''")),
            ("claims-no-extension", format!("!{}", claims("object"))),
        ],
        variables: default_account_variables(),
        validations: vec![
            (format!("{name} == '' || {}", may_use(namespace, name)), may_not_use(&field, namespace, name)),
            (
                // It acts as no account until it names one.
                format!("{name} != '' || {}", may_use_all()),
                format!(
                    "'metadata.annotations: name the service account of this ClusterObjectSet in \
                     \"{SERVICE_ACCOUNT_NAME_ANNOTATION}\" and \"{SERVICE_ACCOUNT_NAMESPACE_ANNOTATION}\": the cluster \
                     has no default account'"
                ),
            ),
        ],
        ..Policy::new(OBJECT_SET_DEFAULT_ACCOUNT, "clusterobjectsets")
    }
}
