//! The CustomResourceDefinitions, as they are applied to a cluster.
//!
//! The schema comes from the types. What the types cannot express is corrected here: null is no value for any
//! field (upstream's schema does not know it), descriptions are folded, and which fields an object must have at its root.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet},
    v1alpha1::{ExtensionPlan, UpdatePolicy},
};

/// The definitions of every kind, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        definition(ClusterCatalog::crd(), &["metadata", "spec"]),
        // Upstream accepts these two without a spec. The types cannot hold such an object: code that lists
        // them tolerates objects that do not deserialize, as any others.
        definition(ClusterExtension::crd(), &[]),
        definition(ClusterObjectSet::crd(), &[]),
        definition(ExtensionPlan::crd(), &["metadata", "spec"]),
        definition(UpdatePolicy::crd(), &["metadata", "spec"]),
    ]
}

fn definition(mut crd: CustomResourceDefinition, required: &[&str]) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        correct(root);
        root.title = None;
        root.required =
            (!required.is_empty()).then(|| required.iter().map(|&field| field.to_owned()).collect());
        add_type_meta(root);
    }
    crd
}

fn correct(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    // Source lines are folded as in any documentation; a blank line stays a paragraph's end.
    schema.description = schema.description.as_deref().map(|text| {
        text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
    });
    if schema.enum_.is_some() {
        schema.enum_ =
            schema.enum_.take().map(|values| values.into_iter().filter(|value| !value.0.is_null()).collect());
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        correct(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        correct(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        correct(values);
    }
}

/// Adds what every Kubernetes object has; the API server checks it by itself, `kubectl explain` shows it.
pub fn add_type_meta(root: &mut JSONSchemaProps) {
    let described = |type_: &str, description: &str| JSONSchemaProps {
        type_: Some(type_.to_owned()),
        description: (!description.is_empty()).then(|| description.to_owned()),
        ..JSONSchemaProps::default()
    };
    let properties = root.properties.get_or_insert_default();
    properties.insert("apiVersion".to_owned(), described("string", "The version of this object's schema."));
    properties.insert("kind".to_owned(), described("string", "The kind of this object."));
    properties.insert("metadata".to_owned(), described("object", ""));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk<'a>(path: &str, schema: &'a JSONSchemaProps, visit: &mut dyn FnMut(&str, &'a JSONSchemaProps)) {
        visit(path, schema);
        for (name, property) in schema.properties.iter().flatten() {
            walk(&format!("{path}.{name}"), property, visit);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            walk(&format!("{path}[]"), items, visit);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            walk(&format!("{path}{{}}"), values, visit);
        }
    }

    #[test]
    fn schemas_are_structural_and_described() {
        for crd in all() {
            let root = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            walk(&crd.spec.names.kind, root, &mut |path, schema| {
                assert!(schema.type_.is_some(), "{path} has no type");
                assert!(schema.any_of.is_none() && schema.one_of.is_none(), "{path} has alternatives");
                assert_eq!(schema.nullable, None, "{path} may be null");
                let format = schema.format.as_deref().unwrap_or("int32");
                assert!(["int32", "int64", "date-time"].contains(&format), "{path} has format {format}");
                if !path.ends_with("[]") && !path.ends_with("{}") && !path.ends_with(".metadata") {
                    assert!(schema.description.is_some(), "{path} has no description");
                }
                for rule in schema.x_kubernetes_validations.iter().flatten() {
                    assert!(rule.message.is_some(), "{path}: the rule {} has no message", rule.rule);
                }
            });
        }
    }

    #[test]
    fn definitions_are_cluster_scoped_with_a_status_and_sorted() {
        let names: Vec<_> = all().into_iter().filter_map(|crd| crd.metadata.name).collect();
        assert_eq!(
            names,
            [
                "clustercatalogs.olm.operatorframework.io",
                "clusterextensions.olm.operatorframework.io",
                "clusterobjectsets.olm.operatorframework.io",
                "extensionplans.extensions.olm.operatorframework.io",
                "updatepolicies.extensions.olm.operatorframework.io",
            ]
        );
        for crd in all() {
            assert_eq!(crd.spec.scope, "Cluster");
            assert_eq!(crd.spec.versions.len(), 1);
            let version = &crd.spec.versions[0];
            assert!(version.served && version.storage);
            // Nothing of a plan changes.
            let has_status = version.subresources.as_ref().is_some_and(|all| all.status.is_some());
            assert_eq!(has_status, crd.spec.names.kind != "ExtensionPlan", "{}", crd.spec.names.kind);
            assert_eq!(
                crd.metadata.annotations.unwrap()[crate::names::GENERATOR_ANNOTATION],
                crate::names::GENERATOR_STANDARD
            );
        }
    }
}
