//! Metadata, selectors, RBAC rules and admission rules.
//!
//! Field names, types and what is always written, as Kubernetes 1.36 has them.

use super::{
    Fields,
    Kind::{Bool, Int64, List, Map, Object, Raw, Text, Time},
    Presence::{Always, Optional, Pointer},
};

#[rustfmt::skip]
pub(super) static LABEL_SELECTOR: Fields = Fields::new(&[
    ("matchExpressions", Optional, List(&Object(&LABEL_SELECTOR_REQUIREMENT))), ("matchLabels", Optional, Map(&Text)),
]);

#[rustfmt::skip]
pub(super) static LABEL_SELECTOR_REQUIREMENT: Fields = Fields::new(&[
    ("key", Always, Text), ("operator", Always, Text), ("values", Optional, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static MANAGED_FIELDS_ENTRY: Fields = Fields::new(&[
    ("apiVersion", Optional, Text), ("fieldsType", Optional, Text), ("fieldsV1", Pointer, Raw),
    ("manager", Optional, Text), ("operation", Optional, Text), ("subresource", Optional, Text),
    ("time", Pointer, Time),
]);

#[rustfmt::skip]
pub(super) static OBJECT_META: Fields = Fields::new(&[
    ("annotations", Optional, Map(&Text)), ("creationTimestamp", Optional, Time),
    ("deletionGracePeriodSeconds", Pointer, Int64), ("deletionTimestamp", Pointer, Time),
    ("finalizers", Optional, List(&Text)), ("generateName", Optional, Text), ("generation", Optional, Int64),
    ("labels", Optional, Map(&Text)), ("managedFields", Optional, List(&Object(&MANAGED_FIELDS_ENTRY))),
    ("name", Optional, Text), ("namespace", Optional, Text),
    ("ownerReferences", Optional, List(&Object(&OWNER_REFERENCE))), ("resourceVersion", Optional, Text),
    ("selfLink", Optional, Text), ("uid", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static OWNER_REFERENCE: Fields = Fields::new(&[
    ("apiVersion", Always, Text), ("blockOwnerDeletion", Pointer, Bool), ("controller", Pointer, Bool),
    ("kind", Always, Text), ("name", Always, Text), ("uid", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POLICY_RULE: Fields = Fields::new(&[
    ("apiGroups", Optional, List(&Text)), ("nonResourceURLs", Optional, List(&Text)),
    ("resourceNames", Optional, List(&Text)), ("resources", Optional, List(&Text)), ("verbs", Always, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static RULE_WITH_OPERATIONS: Fields = Fields::new(&[
    ("apiGroups", Optional, List(&Text)), ("apiVersions", Optional, List(&Text)),
    ("operations", Optional, List(&Text)), ("resources", Optional, List(&Text)), ("scope", Pointer, Text),
]);
