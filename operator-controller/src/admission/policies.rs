//! The policies and their bindings, as they stand in the manifests, with every default written out so that they
//! can be compared with what the API server returns.

use olm_api::names::{EXTENSIONS_PREFIX, GROUP, IDENTITY_ANNOTATION, TAKEN_OVER_ANNOTATION};
use serde_json::{Value, json};

use super::{
    deletion::{self, DELETION_POLICY},
    sets::{self, OBJECT_SET_ACCOUNT, OBJECT_SET_DEFAULT_ACCOUNT, OBJECT_SET_OWNER},
};
use crate::cluster_extension::{FROM_DEFAULT, KNOWN, UNKNOWN};

/// ConfigMap in the system namespace with what administrator and policies have to agree about.
pub(crate) const SETTINGS_CONFIG_MAP: &str = "olmv1-settings";
/// Its key for the account of extensions that name none: `[<namespace>/]<name>`.
pub(crate) const DEFAULT_ACCOUNT_KEY: &str = "default-service-account";
/// API group and version of policies and bindings.
const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The right to make revisions of an extension, which the controller alone has: a verb on a subresource that does not
/// exist.
pub(crate) const OWN_VERB: &str = "own";
/// Its subresource of `clusterextensions`.
pub(crate) const OWN_SUBRESOURCE: &str = "revisions";

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

/// Names of the policies, which are also those of their bindings.
pub(crate) const NAMES: [&str; 8] = [
    EXTENSION_ACCOUNT,
    EXTENSION_ANNOTATIONS,
    EXTENSION_DEFAULT_ACCOUNT,
    EXTENSION_RECORDS,
    OBJECT_SET_ACCOUNT,
    OBJECT_SET_DEFAULT_ACCOUNT,
    OBJECT_SET_OWNER,
    DELETION_POLICY,
];
const EXTENSION_ACCOUNT: &str = "clusterextension-account.olm.operatorframework.io";
pub(crate) const EXTENSION_ANNOTATIONS: &str = "clusterextension-annotations.olm.operatorframework.io";
const EXTENSION_DEFAULT_ACCOUNT: &str = "clusterextension-default-account.olm.operatorframework.io";
pub(crate) const EXTENSION_RECORDS: &str = "clusterextension-records.olm.operatorframework.io";

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
        extension_records(),
        sets::account(),
        sets::default_account(),
        sets::owner(),
        deletion::policy_in_force(),
    ];
    let mut objects = vec![settings];
    objects.extend(policies.iter().map(Policy::policy));
    objects.extend(policies.iter().map(|policy| policy.binding(system_namespace)));
    objects
}

impl Policy {
    /// A policy on writes of a resource, which asks for a right.
    pub(super) fn new(name: &'static str, resource: &'static str) -> Self {
        Self {
            name,
            resource,
            operations: &["CREATE", "UPDATE"],
            with_settings: false,
            conditions: Vec::new(),
            variables: Vec::new(),
            reason: "Forbidden",
            validations: Vec::new(),
        }
    }

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
pub(super) fn not_being_deleted_or_edited() -> (&'static str, String) {
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
pub(super) fn may_use(namespace: &str, name: &str) -> String {
    format!(
        "authorizer.group('').resource('serviceaccounts').namespace({namespace}).name({name})\
         .check('impersonate').allowed() || \
         authorizer.group('').resource('serviceaccounts').subresource('token').namespace({namespace}).name({name})\
         .check('create').allowed()"
    )
}

pub(super) fn may_not_use(field: &str, namespace: &str, name: &str) -> String {
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
        conditions: vec![
            not_being_deleted_or_edited(),
            extension_guarded(),
            ("names-an-account", format!("({NAMES_ACCOUNT}) || ({})", has_first_default())),
        ],
        variables: vec![(
            "first",
            format!("{}.split(' ')[0].split('/')", value_of("object", "annotations", IDENTITY_ANNOTATION)),
        )],
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
        ..Policy::new(EXTENSION_ACCOUNT, "clusterextensions")
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
        ..Policy::new(EXTENSION_ANNOTATIONS, "clusterextensions")
    }
}

/// Namespace and name of the default account, from the settings; without one the name is empty.
pub(super) fn default_account_variables() -> Vec<(&'static str, String)> {
    let key = DEFAULT_ACCOUNT_KEY;
    vec![
        (
            "parts",
            format!("(has(params.data) && '{key}' in params.data ? params.data['{key}'] : '').split('/')"),
        ),
        (
            "accountNamespace",
            "size(variables.parts) == 2 ? variables.parts[0] : params.metadata.namespace".to_owned(),
        ),
        ("accountName", "variables.parts[size(variables.parts) - 1]".to_owned()),
    ]
}

/// What the controller records on an extension is written by nobody else.
fn extension_records() -> Policy {
    let value = |object: &str| value_of(object, "annotations", TAKEN_OVER_ANNOTATION);
    Policy {
        conditions: vec![
            (NOT_BEING_DELETED, "!has(object.metadata.deletionTimestamp)".to_owned()),
            (
                "record-changed",
                format!("{} != (oldObject == null ? '' : {})", value("object"), value("oldObject")),
            ),
        ],
        validations: vec![(
            may_own("object.metadata.name"),
            format!(
                "'metadata.annotations[{TAKEN_OVER_ANNOTATION}]: only the controller writes it, and ' + \
                 request.userInfo.username + ' may not: leave it as it is'"
            ),
        )],
        ..Policy::new(EXTENSION_RECORDS, "clusterextensions")
    }
}

/// Whether the requester may make revisions of the extension. The subresource exists for this question only: who has all
/// verbs on extensions does not have it by that.
pub(super) fn may_own(extension: &str) -> String {
    format!(
        "authorizer.group('{GROUP}').resource('clusterextensions').subresource('{OWN_SUBRESOURCE}')\
         .name({extension}).check('{OWN_VERB}').allowed()"
    )
}

/// The value of an annotation or label, or the empty text.
pub(super) fn value_of(object: &str, field: &str, key: &str) -> String {
    format!(
        "(has({object}.metadata.{field}) && '{key}' in {object}.metadata.{field} ? \
         {object}.metadata.{field}['{key}'] : '')"
    )
}

fn extension_default_account() -> Policy {
    let key = DEFAULT_ACCOUNT_KEY;
    let (namespace, name) = ("variables.accountNamespace", "variables.accountName");
    Policy {
        with_settings: true,
        conditions: vec![
            not_being_deleted_or_edited(),
            extension_guarded(),
            ("names-no-account", format!("!({NAMES_ACCOUNT}) && !({})", has_first_default())),
        ],
        variables: default_account_variables(),
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
        ..Policy::new(EXTENSION_DEFAULT_ACCOUNT, "clusterextensions")
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
            // Nobody turns a set that is being deleted into a revision; finalizers claim nothing.
            if name != OBJECT_SET_OWNER {
                assert_eq!(policy["spec"]["matchConditions"][0]["name"], "not-being-deleted");
            }
            assert_eq!(named("ValidatingAdmissionPolicyBinding").unwrap()["spec"]["policyName"], name);
        }
    }
}
