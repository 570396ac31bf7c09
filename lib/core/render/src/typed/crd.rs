//! CustomResourceDefinitions (apiextensions.k8s.io/v1).
//!
//! Field names, types and what is always written, as Kubernetes 1.36 has them.

use super::{
    Fields,
    Kind::{
        Bool, Bytes, Float, Int32, Int64, List, Map, Object, ObjectOrBool, ObjectOrList, ObjectOrTexts, Raw,
        Text, Time,
    },
    Presence::{Always, Optional, Pointer},
    meta::OBJECT_META,
};

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_COLUMN_DEFINITION: Fields = Fields::new(&[
    ("description", Optional, Text), ("format", Optional, Text), ("jsonPath", Always, Text), ("name", Always, Text),
    ("priority", Optional, Int32), ("type", Always, Text),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_CONVERSION: Fields = Fields::new(&[
    ("strategy", Always, Text), ("webhook", Pointer, Object(&WEBHOOK_CONVERSION)),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_DEFINITION: Fields = Fields::new(&[
    ("apiVersion", Optional, Text), ("kind", Optional, Text), ("metadata", Always, Object(&OBJECT_META)),
    ("spec", Always, Object(&CUSTOM_RESOURCE_DEFINITION_SPEC)),
    ("status", Always, Object(&CUSTOM_RESOURCE_DEFINITION_STATUS)),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_DEFINITION_CONDITION: Fields = Fields::new(&[
    ("lastTransitionTime", Always, Time), ("message", Optional, Text), ("observedGeneration", Optional, Int64),
    ("reason", Optional, Text), ("status", Always, Text), ("type", Always, Text),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_DEFINITION_NAMES: Fields = Fields::new(&[
    ("categories", Optional, List(&Text)), ("kind", Always, Text), ("listKind", Optional, Text),
    ("plural", Always, Text), ("shortNames", Optional, List(&Text)), ("singular", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_DEFINITION_SPEC: Fields = Fields::new(&[
    ("conversion", Pointer, Object(&CUSTOM_RESOURCE_CONVERSION)), ("group", Always, Text),
    ("names", Always, Object(&CUSTOM_RESOURCE_DEFINITION_NAMES)), ("preserveUnknownFields", Optional, Bool),
    ("scope", Always, Text), ("versions", Always, List(&Object(&CUSTOM_RESOURCE_DEFINITION_VERSION))),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_DEFINITION_STATUS: Fields = Fields::new(&[
    ("acceptedNames", Always, Object(&CUSTOM_RESOURCE_DEFINITION_NAMES)),
    ("conditions", Always, List(&Object(&CUSTOM_RESOURCE_DEFINITION_CONDITION))),
    ("observedGeneration", Optional, Int64), ("storedVersions", Always, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_DEFINITION_VERSION: Fields = Fields::new(&[
    ("additionalPrinterColumns", Optional, List(&Object(&CUSTOM_RESOURCE_COLUMN_DEFINITION))),
    ("deprecated", Optional, Bool), ("deprecationWarning", Pointer, Text), ("name", Always, Text),
    ("schema", Pointer, Object(&CUSTOM_RESOURCE_VALIDATION)),
    ("selectableFields", Optional, List(&Object(&SELECTABLE_FIELD))), ("served", Always, Bool),
    ("storage", Always, Bool), ("subresources", Pointer, Object(&CUSTOM_RESOURCE_SUBRESOURCES)),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_SUBRESOURCES: Fields = Fields::new(&[
    ("scale", Pointer, Object(&CUSTOM_RESOURCE_SUBRESOURCE_SCALE)),
    ("status", Pointer, Object(&CUSTOM_RESOURCE_SUBRESOURCE_STATUS)),
]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_SUBRESOURCE_SCALE: Fields = Fields::new(&[
    ("labelSelectorPath", Pointer, Text), ("specReplicasPath", Always, Text), ("statusReplicasPath", Always, Text),
]);

pub(super) static CUSTOM_RESOURCE_SUBRESOURCE_STATUS: Fields = Fields::new(&[]);

#[rustfmt::skip]
pub(super) static CUSTOM_RESOURCE_VALIDATION: Fields = Fields::new(&[
    ("openAPIV3Schema", Pointer, Object(&JSON_SCHEMA_PROPS)),
]);

#[rustfmt::skip]
pub(super) static EXTERNAL_DOCUMENTATION: Fields = Fields::new(&[
    ("description", Optional, Text), ("url", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static JSON_SCHEMA_PROPS: Fields = Fields::new(&[
    ("$ref", Pointer, Text), ("$schema", Optional, Text),
    ("additionalItems", Pointer, ObjectOrBool(&JSON_SCHEMA_PROPS)),
    ("additionalProperties", Pointer, ObjectOrBool(&JSON_SCHEMA_PROPS)),
    ("allOf", Optional, List(&Object(&JSON_SCHEMA_PROPS))), ("anyOf", Optional, List(&Object(&JSON_SCHEMA_PROPS))),
    ("default", Pointer, Raw), ("definitions", Optional, Map(&Object(&JSON_SCHEMA_PROPS))),
    ("dependencies", Optional, Map(&ObjectOrTexts(&JSON_SCHEMA_PROPS))), ("description", Optional, Text),
    ("enum", Optional, List(&Raw)), ("example", Pointer, Raw), ("exclusiveMaximum", Optional, Bool),
    ("exclusiveMinimum", Optional, Bool), ("externalDocs", Pointer, Object(&EXTERNAL_DOCUMENTATION)),
    ("format", Optional, Text), ("id", Optional, Text), ("items", Pointer, ObjectOrList(&JSON_SCHEMA_PROPS)),
    ("maxItems", Pointer, Int64), ("maxLength", Pointer, Int64), ("maxProperties", Pointer, Int64),
    ("maximum", Pointer, Float), ("minItems", Pointer, Int64), ("minLength", Pointer, Int64),
    ("minProperties", Pointer, Int64), ("minimum", Pointer, Float), ("multipleOf", Pointer, Float),
    ("not", Pointer, Object(&JSON_SCHEMA_PROPS)), ("nullable", Optional, Bool),
    ("oneOf", Optional, List(&Object(&JSON_SCHEMA_PROPS))), ("pattern", Optional, Text),
    ("patternProperties", Optional, Map(&Object(&JSON_SCHEMA_PROPS))),
    ("properties", Optional, Map(&Object(&JSON_SCHEMA_PROPS))), ("required", Optional, List(&Text)),
    ("title", Optional, Text), ("type", Optional, Text), ("uniqueItems", Optional, Bool),
    ("x-kubernetes-embedded-resource", Optional, Bool), ("x-kubernetes-int-or-string", Optional, Bool),
    ("x-kubernetes-list-map-keys", Optional, List(&Text)), ("x-kubernetes-list-type", Pointer, Text),
    ("x-kubernetes-map-type", Pointer, Text), ("x-kubernetes-preserve-unknown-fields", Pointer, Bool),
    ("x-kubernetes-validations", Optional, List(&Object(&VALIDATION_RULE))),
]);

#[rustfmt::skip]
pub(super) static SELECTABLE_FIELD: Fields = Fields::new(&[
    ("jsonPath", Always, Text),
]);

#[rustfmt::skip]
pub(super) static SERVICE_REFERENCE: Fields = Fields::new(&[
    ("name", Always, Text), ("namespace", Always, Text), ("path", Pointer, Text), ("port", Pointer, Int32),
]);

#[rustfmt::skip]
pub(super) static VALIDATION_RULE: Fields = Fields::new(&[
    ("fieldPath", Optional, Text), ("message", Optional, Text), ("messageExpression", Optional, Text),
    ("optionalOldSelf", Pointer, Bool), ("reason", Pointer, Text), ("rule", Always, Text),
]);

#[rustfmt::skip]
pub(super) static WEBHOOK_CLIENT_CONFIG: Fields = Fields::new(&[
    ("caBundle", Optional, Bytes), ("service", Pointer, Object(&SERVICE_REFERENCE)), ("url", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static WEBHOOK_CONVERSION: Fields = Fields::new(&[
    ("clientConfig", Pointer, Object(&WEBHOOK_CLIENT_CONFIG)), ("conversionReviewVersions", Always, List(&Text)),
]);
