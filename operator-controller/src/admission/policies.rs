//! The policies and their bindings, as they stand in the manifests, with every default written out so that they
//! can be compared with what the API server returns.

use olm_api::names::{
    DELETION_POLICY_ANNOTATION, EXTENSIONS_PREFIX, GROUP, IDENTITY_ANNOTATION, OWNER_KIND_LABEL,
    OWNER_NAME_LABEL, SERVICE_ACCOUNT_NAME_ANNOTATION, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
    SERVICE_ACCOUNT_UID_ANNOTATION,
};
use serde_json::{Value, json};

use super::deletion::{self, DELETION_POLICY};
use crate::controllers::cluster_extension::{FROM_DEFAULT, KNOWN, UNKNOWN};

/// ConfigMap in the system namespace with what administrator and policies have to agree about.
pub(crate) const SETTINGS_CONFIG_MAP: &str = "olmv1-settings";
/// Its key for the account of extensions that name none: `[<namespace>/]<name>`.
pub(crate) const DEFAULT_ACCOUNT_KEY: &str = "default-service-account";
/// API group and version of policies and bindings.
const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The reason of a refusal for want of a right.
pub(super) const FORBIDDEN: &str = "Forbidden";

/// A policy that is bound under its own name.
pub(super) struct Policy {
    pub(super) name: &'static str,
    pub(super) resource: &'static str,
    pub(super) operations: &'static [&'static str],
    /// Whether it reads the settings.
    pub(super) with_settings: bool,
    pub(super) conditions: Vec<(&'static str, String)>,
    pub(super) variables: Vec<(&'static str, String)>,
    /// Why the API server says that it refuses.
    pub(super) reason: &'static str,
    /// Expression and, as an expression, the message.
    pub(super) validations: Vec<(String, String)>,
}

/// The operations by which an object comes to say what it says.
const WRITES: &[&str] = &["CREATE", "UPDATE"];

/// Names of the policies, which are also those of their bindings.
pub(crate) const NAMES: [&str; 5] = [
    EXTENSION_ACCOUNT,
    EXTENSION_ANNOTATIONS,
    EXTENSION_DEFAULT_ACCOUNT,
    OBJECT_SET_ACCOUNT,
    DELETION_POLICY,
];
const EXTENSION_ACCOUNT: &str = "clusterextension-account.olm.operatorframework.io";
pub(crate) const EXTENSION_ANNOTATIONS: &str = "clusterextension-annotations.olm.operatorframework.io";
const EXTENSION_DEFAULT_ACCOUNT: &str = "clusterextension-default-account.olm.operatorframework.io";
const OBJECT_SET_ACCOUNT: &str = "clusterobjectset-account.olm.operatorframework.io";

/// Settings, policies and bindings, in the order they can be applied.
pub fn objects(system_namespace: &str) -> Vec<Value> {
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        // Without data: what the administrator sets is not taken back when the manifests are applied again.
        "metadata": {"name": SETTINGS_CONFIG_MAP, "namespace": system_namespace},
    });
    let policies = [
        extension_account(),
        extension_annotations(),
        extension_default_account(),
        object_set_account(),
        deletion::policy_in_force(),
    ];
    let mut objects = vec![settings];
    objects.extend(policies.iter().map(Policy::policy));
    objects.extend(policies.iter().map(|policy| policy.binding(system_namespace)));
    objects
}

impl Policy {
    fn policy(&self) -> Value {
        let conditions =
            self.conditions.iter().map(|(name, expression)| json!({"name": name, "expression": expression}));
        let variables =
            self.variables.iter().map(|(name, expression)| json!({"name": name, "expression": expression}));
        let validations = self.validations.iter().map(|(expression, message)| {
            json!({"expression": expression, "messageExpression": message, "reason": self.reason})
        });
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": [GROUP], "apiVersions": ["*"], "operations": self.operations,
                    "resources": [self.resource], "scope": "*",
                }],
            },
            "matchConditions": conditions.collect::<Vec<_>>(),
            "validations": validations.collect::<Vec<_>>(),
        });
        let variables: Vec<Value> = variables.collect();
        if !variables.is_empty() {
            spec["variables"] = variables.into();
        }
        if self.with_settings {
            spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        }
        json!({
            "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": self.name}, "spec": spec,
        })
    }

    fn binding(&self, system_namespace: &str) -> Value {
        let mut spec = json!({"policyName": self.name, "validationActions": ["Deny"]});
        if self.with_settings {
            // With Deny nobody could take a finalizer off an extension while the settings are away.
            spec["paramRef"] = json!({
                "name": SETTINGS_CONFIG_MAP, "namespace": system_namespace, "parameterNotFoundAction": "Allow",
            });
        }
        json!({
            "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": self.name}, "spec": spec,
        })
    }
}

const NOT_BEING_DELETED: &str = "not-being-deleted";

/// Lets pass what a deletion needs: finalizers and metadata. What stays for as long as the deletion is held is still
/// done as the account that the spec names, so the spec stays guarded.
fn not_being_deleted_or_edited() -> (&'static str, String) {
    let expression =
        "!has(object.metadata.deletionTimestamp) || oldObject == null || object.spec != oldObject.spec";
    (NOT_BEING_DELETED, expression.to_owned())
}

/// The map of annotations or labels of an object, empty when there is none.
pub(super) fn metadata_map(object: &str, field: &str) -> String {
    format!("(has({object}.metadata.{field}) ? {object}.metadata.{field} : {{}})")
}

/// The spec, and all annotations under our prefix.
fn extension_guarded() -> (&'static str, String) {
    let (new, old) = (metadata_map("object", "annotations"), metadata_map("oldObject", "annotations"));
    let expression = format!(
        "oldObject == null || object.spec != oldObject.spec || \
         {new}.exists(k, k.startsWith('{EXTENSIONS_PREFIX}') && !(k in {old} && {old}[k] == {new}[k])) || \
         {old}.exists(k, k.startsWith('{EXTENSIONS_PREFIX}') && !(k in {new}))"
    );
    ("guarded-part-changed", expression)
}

const DEFAULT_APPLIES: &str = "spec.serviceAccount.name (not set; the default account applies)";
const NAMES_ACCOUNT: &str = "has(object.spec.serviceAccount) && has(object.spec.serviceAccount.name) && \
                             object.spec.serviceAccount.name != ''";

/// Whether the requester may act as the account; two checks, the most that an expression's budget allows.
fn may_use(namespace: &str, name: &str) -> String {
    format!(
        "authorizer.group('').resource('serviceaccounts').namespace({namespace}).name({name})\
         .check('impersonate').allowed() || \
         authorizer.group('').resource('serviceaccounts').subresource('token').namespace({namespace}).name({name})\
         .check('create').allowed()"
    )
}

fn may_not_use(field: &str, namespace: &str, name: &str) -> String {
    format!(
        "'{field}: ' + request.userInfo.username + ' may not act as the service account \"' + {name} + \
         '\" in namespace \"' + {namespace} + '\": ask for the right to impersonate it, or to create its token'"
    )
}

/// Whether the extension names no account and has a record of the default one it began with, which then stays.
fn has_first_default() -> String {
    format!(
        "!({NAMES_ACCOUNT}) && '{FROM_DEFAULT}' in {}.split(' ')",
        value_of("object", "annotations", IDENTITY_ANNOTATION)
    )
}

/// The account that an extension names, or the default one that it began with. Neither depends on the settings, without
/// which the policy on the default account is not asked.
fn extension_account() -> Policy {
    let (namespace, name) = ("object.spec.namespace", "object.spec.serviceAccount.name");
    let (first_namespace, first_name) = ("variables.first[0]", "variables.first[size(variables.first) - 1]");
    Policy {
        name: EXTENSION_ACCOUNT,
        resource: "clusterextensions",
        operations: WRITES,
        with_settings: false,
        conditions: vec![
            not_being_deleted_or_edited(),
            extension_guarded(),
            ("names-an-account", format!("({NAMES_ACCOUNT}) || ({})", has_first_default())),
        ],
        variables: vec![(
            "first",
            format!("{}.split(' ')[0].split('/')", value_of("object", "annotations", IDENTITY_ANNOTATION)),
        )],
        reason: FORBIDDEN,
        validations: vec![
            (
                format!("!({NAMES_ACCOUNT}) || {}", may_use(namespace, name)),
                may_not_use("spec.serviceAccount.name", namespace, name),
            ),
            (
                format!("({NAMES_ACCOUNT}) || {}", may_use(first_namespace, first_name)),
                may_not_use(DEFAULT_APPLIES, first_namespace, first_name),
            ),
        ],
    }
}

/// Annotations under our prefix are known and have one of their values; those that stay as they were pass.
fn extension_annotations() -> Policy {
    let new = metadata_map("object", "annotations");
    let old =
        "(oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {})";
    let is_changed = format!("k.startsWith('{EXTENSIONS_PREFIX}') && !(k in {old} && {old}[k] == {new}[k])");
    let record = |object| value_of(object, "annotations", IDENTITY_ANNOTATION);
    let (recorded, is_new) = (record("object"), format!("{} != {}", record("object"), record("oldObject")));
    let names: Vec<String> = KNOWN.iter().map(|(name, _)| format!("'{name}'")).collect();
    let mut validations = vec![
        (
            "size(variables.unknown) == 0".to_owned(),
            format!("'annotation \"' + variables.unknown.join('\", \"') + '\" {UNKNOWN}'"),
        ),
        (
            format!("!has(object.metadata.deletionTimestamp) || {recorded} == {}", record("oldObject")),
            format!("'annotation \"{IDENTITY_ANNOTATION}\" stays as it is until the extension is gone'"),
        ),
    ];
    validations.extend(KNOWN.iter().filter_map(|(name, values)| {
        let value = format!("object.metadata.annotations['{name}']");
        let condition = values.condition(&value)?;
        Some((
            format!("!('{name}' in variables.changed) || {condition}"),
            format!("'annotation \"{name}\" cannot be \"' + {value} + '\": {}'", values.remedy()),
        ))
    }));
    Policy {
        name: EXTENSION_ANNOTATIONS,
        resource: "clusterextensions",
        operations: WRITES,
        with_settings: false,
        conditions: vec![
            // Until it is gone an extension acts as the record says.
            (
                NOT_BEING_DELETED,
                format!("!has(object.metadata.deletionTimestamp) || (oldObject != null && {is_new})"),
            ),
            (
                "annotations-changed",
                format!("{new}.exists(k, {is_changed}) || (oldObject != null && {is_new})"),
            ),
        ],
        variables: vec![
            ("changed", format!("{new}.filter(k, {is_changed})")),
            ("unknown", format!("variables.changed.filter(k, !(k in [{}]))", names.join(", "))),
        ],
        reason: "Invalid",
        validations,
    }
}

fn extension_default_account() -> Policy {
    let key = DEFAULT_ACCOUNT_KEY;
    let (namespace, name) = ("variables.accountNamespace", "variables.accountName");
    Policy {
        name: EXTENSION_DEFAULT_ACCOUNT,
        resource: "clusterextensions",
        operations: WRITES,
        with_settings: true,
        conditions: vec![
            not_being_deleted_or_edited(),
            extension_guarded(),
            ("names-no-account", format!("!({NAMES_ACCOUNT}) && !({})", has_first_default())),
        ],
        variables: vec![
            (
                "parts",
                format!(
                    "(has(params.data) && '{key}' in params.data ? params.data['{key}'] : '').split('/')"
                ),
            ),
            (
                "accountNamespace",
                "size(variables.parts) == 2 ? variables.parts[0] : params.metadata.namespace".to_owned(),
            ),
            ("accountName", "variables.parts[size(variables.parts) - 1]".to_owned()),
        ],
        reason: FORBIDDEN,
        validations: vec![
            (
                format!("{name} != ''"),
                format!(
                    "'spec.serviceAccount.name: not set, and the cluster has no default account: name a service \
                     account in namespace \"' + object.spec.namespace + '\", or set \"{key}\" in ConfigMap \"' + \
                     params.metadata.name + '\" of namespace \"' + params.metadata.namespace + '\"'"
                ),
            ),
            (
                format!("{name} == '' || {}", may_use(namespace, name)),
                may_not_use(DEFAULT_APPLIES, namespace, name),
            ),
        ],
    }
}

/// The value of an annotation or label, or the empty text.
fn value_of(object: &str, field: &str, key: &str) -> String {
    format!(
        "(has({object}.metadata.{field}) && '{key}' in {object}.metadata.{field} ? \
         {object}.metadata.{field}['{key}'] : '')"
    )
}

/// The references of an object to extensions.
fn extension_references(object: &str) -> String {
    format!(
        "(has({object}.metadata.ownerReferences) ? {object}.metadata.ownerReferences : [])\
         .filter(r, r.apiVersion.startsWith('{GROUP}/') && r.kind == 'ClusterExtension')"
    )
}

/// The spec, the account, the claim to belong to an extension, and what stays when it goes. Taking a reference away passes: the garbage
/// collector does so when owners are deleted without their dependents.
fn object_set_guarded() -> (&'static str, String) {
    let changed = [
        ("annotations", SERVICE_ACCOUNT_NAME_ANNOTATION),
        ("annotations", SERVICE_ACCOUNT_NAMESPACE_ANNOTATION),
        ("annotations", SERVICE_ACCOUNT_UID_ANNOTATION),
        ("annotations", DELETION_POLICY_ANNOTATION),
        ("labels", OWNER_KIND_LABEL),
        ("labels", OWNER_NAME_LABEL),
    ]
    .map(|(field, key)| {
        format!("{} != {}", value_of("object", field, key), value_of("oldObject", field, key))
    })
    .join(" || ");
    let new = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : [])";
    let old = "(has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : [])";
    let expression = format!(
        "oldObject == null || object.spec != oldObject.spec || {changed} || \
         !{new}.all(r, {old}.exists(o, o.uid == r.uid && o.kind == r.kind && o.name == r.name && \
         (!has(r.controller) || !r.controller || (has(o.controller) && o.controller))))"
    );
    ("guarded-part-changed", expression)
}

fn object_set_account() -> Policy {
    let (namespace, name) = ("variables.accountNamespace", "variables.accountName");
    let label = value_of("object", "labels", OWNER_NAME_LABEL);
    Policy {
        name: OBJECT_SET_ACCOUNT,
        resource: "clusterobjectsets",
        operations: WRITES,
        with_settings: false,
        conditions: vec![not_being_deleted_or_edited(), object_set_guarded()],
        variables: vec![
            ("accountNamespace", value_of("object", "annotations", SERVICE_ACCOUNT_NAMESPACE_ANNOTATION)),
            ("accountName", value_of("object", "annotations", SERVICE_ACCOUNT_NAME_ANNOTATION)),
            ("label", label),
            ("references", extension_references("object")),
            (
                "extension",
                "size(variables.references) == 1 ? variables.references[0].name : variables.label".to_owned(),
            ),
        ],
        reason: FORBIDDEN,
        validations: vec![
            (
                format!("{name} == '' || {namespace} == '' || {}", may_use(namespace, name)),
                may_not_use(
                    &format!("metadata.annotations[{SERVICE_ACCOUNT_NAME_ANNOTATION}]"),
                    namespace,
                    name,
                ),
            ),
            (
                // Without annotations the account is the owner's, which cannot be looked up here.
                format!(
                    "({name} != '' && {namespace} != '') || \
                     authorizer.group('').resource('serviceaccounts').subresource('token').check('create').allowed()"
                ),
                format!(
                    "'metadata.annotations: name the service account of this ClusterObjectSet in \
                     \"{SERVICE_ACCOUNT_NAME_ANNOTATION}\" and \"{SERVICE_ACCOUNT_NAMESPACE_ANNOTATION}\"'"
                ),
            ),
            (
                "size(variables.references) < 2 && (size(variables.references) == 0 || variables.label == '' || \
                 variables.label == variables.extension)"
                    .to_owned(),
                format!(
                    "'metadata: the owner references and the label \"{OWNER_NAME_LABEL}\" name different \
                     ClusterExtensions: a ClusterObjectSet belongs to one'"
                ),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_expression_asks_for_more_rights_than_its_budget_allows() {
        for object in objects("sys").iter().filter(|o| o["kind"] == "ValidatingAdmissionPolicy") {
            for validation in object["spec"]["validations"].as_array().unwrap() {
                let checks = validation["expression"].as_str().unwrap().matches(".check(").count();
                assert!(checks <= 2, "{validation}");
            }
        }
    }

    #[test]
    fn every_policy_is_bound_and_lets_deletions_pass() {
        let objects = objects("sys");
        for name in NAMES {
            let named =
                |kind: &str| objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
            let policy = named("ValidatingAdmissionPolicy").unwrap();
            assert_eq!(policy["spec"]["matchConditions"][0]["name"], "not-being-deleted");
            assert_eq!(named("ValidatingAdmissionPolicyBinding").unwrap()["spec"]["policyName"], name);
        }
    }
}
