//! The CustomResourceDefinitions, as they are applied to a cluster.
//!
//! The schema comes from the types. What the types cannot express is corrected here: null is no value for any field,
//! quantities may be numbers, conditions have the limits of Kubernetes, and which fields an object must have at its root.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use olm_api::crds::add_type_meta;
use serde_json::json;

use crate::{
    CatalogSource, ClusterServiceVersion, InstallPlan, OLMConfig, Operator, OperatorCondition, OperatorGroup,
    Subscription, operator_condition_v1, operator_group_v1alpha2,
};

/// A quantity as text.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// The reason of a condition.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// The type of a condition.
const TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Types of Kubernetes that server-side apply takes as a whole, or whose lists it takes so: their fields, whether the
/// object itself is meant, and the lists.
const ATOMIC: [(&[&str], bool, &[&str]); 5] = [
    (&["matchExpressions", "matchLabels"], true, &["matchExpressions"]),
    (&["key", "operator", "values"], false, &["values"]),
    (&["apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"], true, &[]),
    (
        &["apiGroups", "nonResourceURLs", "resourceNames", "resources", "verbs"],
        false,
        &["apiGroups", "nonResourceURLs", "resourceNames", "resources", "verbs"],
    ),
    (
        &["apiGroups", "apiVersions", "operations", "resources", "scope"],
        false,
        &["apiGroups", "apiVersions", "operations", "resources"],
    ),
];

/// The definitions of every kind, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let specified = &["metadata", "spec"][..];
    vec![
        definition(CatalogSource::crd(), specified),
        definition(ClusterServiceVersion::crd(), specified),
        definition(InstallPlan::crd(), specified),
        definition(OLMConfig::crd(), &["metadata"]),
        merged(
            definition(operator_condition_v1::OperatorCondition::crd(), &["metadata"]),
            definition(OperatorCondition::crd(), &["metadata"]),
        ),
        merged(
            definition(OperatorGroup::crd(), &["metadata"]),
            definition(operator_group_v1alpha2::OperatorGroup::crd(), &["metadata"]),
        ),
        definition(Operator::crd(), &[]),
        definition(Subscription::crd(), specified),
    ]
}

/// One definition with the versions of both. Which one is stored, [`definition`] has decided.
fn merged(mut one: CustomResourceDefinition, other: CustomResourceDefinition) -> CustomResourceDefinition {
    one.spec.versions.extend(other.spec.versions);
    one
}

fn definition(mut crd: CustomResourceDefinition, required: &[&str]) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    crd.spec.names.list_kind = Some(format!("{kind}List"));
    for version in &mut crd.spec.versions {
        version.storage =
            !matches!((kind.as_str(), version.name.as_str()), ("OperatorCondition", "v1") | (_, "v1alpha2"));
        let Some(root) = root(version) else { continue };
        correct("", root);
        root.title = None;
        root.required =
            (!required.is_empty()).then(|| required.iter().map(|&field| field.to_owned()).collect());
        add_type_meta(root);
        if kind == "OperatorGroup" {
            let spec = root.properties.get_or_insert_default().entry("spec".to_owned()).or_default();
            if spec.properties.as_ref().is_some_and(|all| all.contains_key("upgradeStrategy")) {
                spec.default = Some(JSON(json!({"upgradeStrategy": "Default"})));
            }
        }
    }
    crd
}

fn root(version: &mut CustomResourceDefinitionVersion) -> Option<&mut JSONSchemaProps> {
    version.schema.as_mut()?.open_api_v3_schema.as_mut()
}

/// Fields whose types are those of Kubernetes: `kubectl explain deployment` describes them, and a definition that did so too
/// would be too large for `kubectl apply`.
const DESCRIBED_ELSEWHERE: [&str; 8] =
    ["affinity", "env", "envFrom", "resources", "template", "tolerations", "volumeMounts", "volumes"];

/// Removes the descriptions of all that is in a schema.
fn undescribed(schema: &mut JSONSchemaProps) {
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        property.description = None;
        undescribed(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        items.description = None;
        undescribed(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        values.description = None;
        undescribed(values);
    }
}

/// Corrects the schema of the field `name` and what is in it.
fn correct(name: &str, schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if DESCRIBED_ELSEWHERE.contains(&name) {
        undescribed(schema);
    }
    schema.description = schema.description.as_deref().map(folded);
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    // What Go's int64 without a format is.
    if schema.type_.as_deref() == Some("integer") && schema.format.as_deref() == Some("int64") {
        schema.format = None;
    }
    if name == "memoryTarget" || name == "sizeLimit" || name == "divisor" {
        *schema = quantity(schema);
    }
    if schema.x_kubernetes_int_or_string == Some(true) || name == "targetPort" {
        int_or_string(schema);
    }
    declare_atomic(schema);
    for (field, property) in schema.properties.iter_mut().flat_map(|properties| properties.iter_mut()) {
        correct(field, property);
        if name == "template" && field == "metadata" {
            // Only what an author wrote is of interest, and some of it is null.
            let description = property.description.take();
            *property = JSONSchemaProps {
                type_: Some("object".to_owned()),
                description,
                x_kubernetes_preserve_unknown_fields: Some(true),
                ..JSONSchemaProps::default()
            };
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        correct("", items);
        let has_time = items.required.iter().flatten().any(|field| field == "lastTransitionTime");
        if name == "overrides" || (name == "conditions" && has_time) {
            limit_condition(items);
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        correct("", values);
        if ["limits", "requests"].contains(&name) {
            **values = quantity(values);
        }
    }
}

/// Marks what is one of the types in [`ATOMIC`].
fn declare_atomic(schema: &mut JSONSchemaProps) {
    let Some(properties) = schema.properties.as_mut() else { return };
    let (is_object, lists) = match ATOMIC.iter().find(|(fields, ..)| properties.keys().eq(fields.iter())) {
        Some((_, is_object, lists)) => (*is_object, *lists),
        None => return,
    };
    let atomic = || Some("atomic".to_owned());
    for list in lists {
        if let Some(list) = properties.get_mut(*list) {
            list.x_kubernetes_list_type = atomic();
        }
    }
    if is_object {
        schema.x_kubernetes_map_type = atomic();
    }
}

/// Source lines are folded as in any documentation; a blank line stays a paragraph's end.
fn folded(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

fn quantity(schema: &JSONSchemaProps) -> JSONSchemaProps {
    let mut quantity = JSONSchemaProps {
        description: schema.description.clone(),
        pattern: Some(QUANTITY.to_owned()),
        ..JSONSchemaProps::default()
    };
    int_or_string(&mut quantity);
    quantity
}

fn int_or_string(schema: &mut JSONSchemaProps) {
    let of = |type_: &str| JSONSchemaProps { type_: Some(type_.to_owned()), ..JSONSchemaProps::default() };
    (schema.type_, schema.format) = (None, None);
    schema.any_of = Some(vec![of("integer"), of("string")]);
    schema.x_kubernetes_int_or_string = Some(true);
}

/// Gives a condition of the common form, which is the one that must have a time but for overrides, the limits that Kubernetes
/// documents.
fn limit_condition(schema: &mut JSONSchemaProps) {
    let Some(properties) = schema.properties.as_mut() else { return };
    let mut limit = |field: &str, change: &dyn Fn(&mut JSONSchemaProps)| {
        if let Some(property) = properties.get_mut(field) {
            change(property);
        }
    };
    limit("message", &|message| message.max_length = Some(32_768));
    limit("observedGeneration", &|generation| {
        generation.format = Some("int64".to_owned());
        generation.minimum = Some(0.0);
    });
    limit("reason", &|reason| {
        (reason.min_length, reason.max_length) = (Some(1), Some(1024));
        reason.pattern = Some(REASON.to_owned());
    });
    limit("status", &|status| {
        status.enum_ = Some(["True", "False", "Unknown"].map(|value| JSON(json!(value))).into());
    });
    limit("type", &|type_| {
        type_.max_length = Some(316);
        type_.pattern = Some(TYPE.to_owned());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind; versions with whether they are stored; scope; short names; columns; fields that a spec must have.
    type Facts = (
        &'static str,
        &'static [(&'static str, bool)],
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
        &'static [&'static str],
    );

    const FACTS: [Facts; 8] = [
        (
            "CatalogSource",
            &[("v1alpha1", true)],
            "Namespaced",
            &["catsrc"],
            &["Display", "Type", "Publisher", "Age"],
            &["sourceType"],
        ),
        (
            "ClusterServiceVersion",
            &[("v1alpha1", true)],
            "Namespaced",
            &["csv", "csvs"],
            &["Display", "Version", "Release", "Replaces", "Phase"],
            &["displayName", "install"],
        ),
        (
            "InstallPlan",
            &[("v1alpha1", true)],
            "Namespaced",
            &["ip"],
            &["CSV", "Approval", "Approved"],
            &["approval", "approved", "clusterServiceVersionNames"],
        ),
        ("OLMConfig", &[("v1", true)], "Cluster", &[], &[], &[]),
        ("OperatorCondition", &[("v1", false), ("v2", true)], "Namespaced", &["condition"], &[], &[]),
        ("OperatorGroup", &[("v1", true), ("v1alpha2", false)], "Namespaced", &["og"], &[], &[]),
        ("Operator", &[("v1", true)], "Cluster", &[], &[], &[]),
        (
            "Subscription",
            &[("v1alpha1", true)],
            "Namespaced",
            &["sub", "subs"],
            &["Package", "Source", "Channel"],
            &["name", "source", "sourceNamespace"],
        ),
    ];

    #[test]
    fn the_definitions_are_upstreams() {
        let all = all();
        assert_eq!(all.len(), FACTS.len());
        for (crd, (kind, versions, scope, short, columns, required)) in all.iter().zip(FACTS) {
            let names = &crd.spec.names;
            assert_eq!((names.kind.as_str(), crd.spec.scope.as_str()), (kind, scope));
            assert_eq!(names.plural, format!("{}s", kind.to_lowercase()), "{kind}");
            assert_eq!(crd.spec.group, crate::names::GROUP);
            assert_eq!(names.categories.as_deref(), Some(&["olm".to_owned()][..]), "{kind}");
            assert_eq!(names.short_names.clone().unwrap_or_default(), short, "{kind}");
            let found: Vec<_> = crd.spec.versions.iter().map(|v| (v.name.as_str(), v.storage)).collect();
            assert_eq!(found, versions, "{kind}");
            for version in &crd.spec.versions {
                assert!(version.served && version.subresources.as_ref().unwrap().status.is_some(), "{kind}");
                let shown = version.additional_printer_columns.iter().flatten();
                assert_eq!(shown.map(|column| column.name.as_str()).collect::<Vec<_>>(), columns, "{kind}");
                let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
                let mut found =
                    schema.properties.as_ref().unwrap()["spec"].required.clone().unwrap_or_default();
                found.sort();
                assert_eq!(found, required, "{kind}");
            }
        }
    }

    fn at<'a>(crd: &'a CustomResourceDefinition, path: &[&str]) -> &'a JSONSchemaProps {
        let root = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        path.iter().fold(root, |schema, field| match (*field, &schema.items) {
            ("[]", Some(JSONSchemaPropsOrArray::Schema(items))) => items,
            (field, _) => &schema.properties.as_ref().unwrap()[field],
        })
    }

    #[test]
    fn what_types_cannot_express_is_as_upstream_has_it() {
        let all = all();
        let target = at(&all[0], &["spec", "grpcPodConfig", "memoryTarget"]);
        assert_eq!(
            (target.x_kubernetes_int_or_string, target.any_of.as_ref().unwrap().len()),
            (Some(true), 2)
        );
        assert_eq!(at(&all[0], &["spec", "priority"]).format, None);
        let reason = at(&all[0], &["status", "conditions", "[]", "reason"]);
        assert_eq!((reason.max_length, reason.pattern.as_deref()), (Some(1024), Some(REASON)));
        let template = ["spec", "install", "spec", "deployments", "[]", "spec", "template", "metadata"];
        assert_eq!(at(&all[1], &template).x_kubernetes_preserve_unknown_fields, Some(true));
        let release = at(&all[1], &["spec", "release"]);
        assert_eq!(
            (release.max_length, release.x_kubernetes_validations.as_ref().unwrap().len()),
            (Some(20), 2)
        );
        assert_eq!(at(&all[7], &["status"]).required.as_deref(), Some(&["lastUpdated".to_owned()][..]));
    }

    #[test]
    fn every_schema_is_structural_and_no_field_may_be_null() {
        fn check(path: &str, schema: &JSONSchemaProps) {
            assert_eq!(schema.nullable, None, "{path}");
            let any = schema.x_kubernetes_int_or_string == Some(true);
            assert!(schema.type_.is_some() || any, "{path} has no type");
            for (name, property) in schema.properties.iter().flatten() {
                check(&format!("{path}.{name}"), property);
            }
            if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
                check(&format!("{path}[]"), items);
            }
        }
        for crd in all() {
            for version in &crd.spec.versions {
                let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
                check(&crd.spec.names.kind, schema);
            }
        }
    }
}
