//! ClusterServiceVersions (operators.coreos.com/v1alpha1) and the user's deployment configuration.
//!
//! Imitated: operator-framework/api `pkg/operators/v1alpha1`. A status is read like the rest, and not used.

use super::{
    Fields,
    Kind::{Bool, Int32, IntOrString, List, Map, Object, Raw, Text, Time},
    Presence::{Always, Nullable, Optional, Pointer},
    kubernetes::{
        AFFINITY, DEPLOYMENT_SPEC, ENV_FROM_SOURCE, ENV_VAR, LABEL_SELECTOR, OBJECT_META, POLICY_RULE,
        RESOURCE_REQUIREMENTS, RULE_WITH_OPERATIONS, TOLERATION, VOLUME, VOLUME_MOUNT,
    },
};

#[rustfmt::skip]
pub(super) static CLUSTER_SERVICE_VERSION: Fields = Fields::new(&[], &[
    ("apiVersion", Optional, Text), ("kind", Optional, Text), ("metadata", Always, Object(&OBJECT_META)),
    ("spec", Always, Object(&SPEC)), ("status", Always, Object(&STATUS)),
]);

#[rustfmt::skip]
static SPEC: Fields = Fields::new(&[], &[
    ("annotations", Optional, Map(&Text)), ("apiservicedefinitions", Always, Object(&API_SERVICE_DEFINITIONS)),
    ("cleanup", Always, Object(&CLEANUP)),
    ("customresourcedefinitions", Always, Object(&CRD_DEFINITIONS)), ("description", Optional, Text),
    ("displayName", Always, Text), ("icon", Optional, List(&Object(&ICON))), ("install", Always, Object(&INSTALL)),
    ("installModes", Optional, List(&Object(&INSTALL_MODE))), ("keywords", Optional, List(&Text)),
    ("labels", Optional, Map(&Text)), ("links", Optional, List(&Object(&LINK))),
    ("maintainers", Optional, List(&Object(&MAINTAINER))), ("maturity", Optional, Text),
    ("minKubeVersion", Optional, Text), ("nativeAPIs", Optional, List(&Object(&GROUP_VERSION_KIND))),
    ("provider", Always, Object(&LINK)), ("relatedImages", Optional, List(&Object(&RELATED_IMAGE))),
    ("replaces", Optional, Text), ("selector", Pointer, Object(&LABEL_SELECTOR)), ("skips", Optional, List(&Text)),
    ("version", Pointer, Text), ("webhookdefinitions", Optional, List(&Object(&WEBHOOK))),
]);

#[rustfmt::skip]
static INSTALL: Fields = Fields::new(&[], &[
    ("spec", Always, Object(&STRATEGY)), ("strategy", Always, Text),
]);

#[rustfmt::skip]
static STRATEGY: Fields = Fields::new(&[], &[
    ("clusterPermissions", Optional, List(&Object(&PERMISSIONS))),
    ("deployments", Always, List(&Object(&STRATEGY_DEPLOYMENT))),
    ("permissions", Optional, List(&Object(&PERMISSIONS))),
]);

#[rustfmt::skip]
static STRATEGY_DEPLOYMENT: Fields = Fields::new(&[], &[
    ("label", Optional, Map(&Text)), ("name", Always, Text), ("spec", Always, Object(&DEPLOYMENT_SPEC)),
]);

#[rustfmt::skip]
static PERMISSIONS: Fields = Fields::new(&[], &[
    ("rules", Always, List(&Object(&POLICY_RULE))), ("serviceAccountName", Always, Text),
]);

#[rustfmt::skip]
static WEBHOOK: Fields = Fields::new(&[], &[
    ("admissionReviewVersions", Always, List(&Text)), ("containerPort", Optional, Int32),
    ("conversionCRDs", Optional, List(&Text)), ("deploymentName", Optional, Text),
    ("failurePolicy", Pointer, Text), ("generateName", Always, Text), ("matchPolicy", Pointer, Text),
    ("objectSelector", Pointer, Object(&LABEL_SELECTOR)), ("reinvocationPolicy", Pointer, Text),
    ("rules", Optional, List(&Object(&RULE_WITH_OPERATIONS))), ("sideEffects", Nullable, Text),
    ("targetPort", Pointer, IntOrString), ("timeoutSeconds", Pointer, Int32), ("type", Always, Text),
    ("webhookPath", Pointer, Text),
]);

#[rustfmt::skip]
static CRD_DEFINITIONS: Fields = Fields::new(&[], &[
    ("owned", Optional, List(&Object(&CRD_DESCRIPTION))), ("required", Optional, List(&Object(&CRD_DESCRIPTION))),
]);

#[rustfmt::skip]
static API_SERVICE_DEFINITIONS: Fields = Fields::new(&[], &[
    ("owned", Optional, List(&Object(&API_SERVICE_DESCRIPTION))),
    ("required", Optional, List(&Object(&API_SERVICE_DESCRIPTION))),
]);

#[rustfmt::skip]
static CRD_DESCRIPTION: Fields = Fields::new(&[], &[
    ("actionDescriptors", Optional, List(&Object(&DESCRIPTOR))), ("description", Optional, Text),
    ("displayName", Optional, Text), ("kind", Always, Text), ("name", Always, Text),
    ("resources", Optional, List(&Object(&RESOURCE_REFERENCE))),
    ("specDescriptors", Optional, List(&Object(&DESCRIPTOR))),
    ("statusDescriptors", Optional, List(&Object(&DESCRIPTOR))), ("version", Always, Text),
]);

#[rustfmt::skip]
static API_SERVICE_DESCRIPTION: Fields = Fields::new(&[], &[
    ("actionDescriptors", Optional, List(&Object(&DESCRIPTOR))), ("containerPort", Optional, Int32),
    ("deploymentName", Optional, Text), ("description", Optional, Text), ("displayName", Optional, Text),
    ("group", Always, Text), ("kind", Always, Text), ("name", Always, Text),
    ("resources", Optional, List(&Object(&RESOURCE_REFERENCE))),
    ("specDescriptors", Optional, List(&Object(&DESCRIPTOR))),
    ("statusDescriptors", Optional, List(&Object(&DESCRIPTOR))), ("version", Always, Text),
]);

#[rustfmt::skip]
static STATUS: Fields = Fields::new(&[], &[
    ("certsLastUpdated", Pointer, Time), ("certsRotateAt", Pointer, Time),
    ("cleanup", Always, Object(&CLEANUP_STATUS)), ("conditions", Optional, List(&Object(&CONDITION))),
    ("lastTransitionTime", Pointer, Time), ("lastUpdateTime", Pointer, Time), ("message", Optional, Text),
    ("phase", Optional, Text), ("reason", Optional, Text),
    ("requirementStatus", Optional, List(&Object(&REQUIREMENT_STATUS))),
]);

#[rustfmt::skip]
static CLEANUP_STATUS: Fields = Fields::new(&[], &[("pendingDeletion", Optional, List(&Object(&RESOURCE_LIST)))]);

#[rustfmt::skip]
static RESOURCE_LIST: Fields = Fields::new(&[], &[
    ("group", Always, Text), ("instances", Always, List(&Object(&RESOURCE_INSTANCE))), ("kind", Always, Text),
]);

#[rustfmt::skip]
static RESOURCE_INSTANCE: Fields = Fields::new(&[], &[("name", Always, Text), ("namespace", Optional, Text)]);

#[rustfmt::skip]
static CONDITION: Fields = Fields::new(&[], &[
    ("lastTransitionTime", Pointer, Time), ("lastUpdateTime", Pointer, Time), ("message", Optional, Text),
    ("phase", Optional, Text), ("reason", Optional, Text),
]);

#[rustfmt::skip]
static REQUIREMENT_STATUS: Fields = Fields::new(&[], &[
    ("dependents", Optional, List(&Object(&DEPENDENT_STATUS))), ("group", Always, Text), ("kind", Always, Text),
    ("message", Always, Text), ("name", Always, Text), ("status", Always, Text), ("uuid", Optional, Text),
    ("version", Always, Text),
]);

#[rustfmt::skip]
static DEPENDENT_STATUS: Fields = Fields::new(&[], &[
    ("group", Always, Text), ("kind", Always, Text), ("message", Optional, Text), ("status", Always, Text),
    ("uuid", Optional, Text), ("version", Always, Text),
]);

#[rustfmt::skip]
static DESCRIPTOR: Fields = Fields::new(&[], &[
    ("description", Optional, Text), ("displayName", Optional, Text), ("path", Always, Text),
    ("value", Optional, Raw), ("x-descriptors", Optional, List(&Text)),
]);

#[rustfmt::skip]
static RESOURCE_REFERENCE: Fields = Fields::new(&[], &[
    ("kind", Always, Text), ("name", Always, Text), ("version", Always, Text),
]);

#[rustfmt::skip]
static CLEANUP: Fields = Fields::new(&[], &[("enabled", Always, Bool)]);

#[rustfmt::skip]
static ICON: Fields = Fields::new(&[], &[("base64data", Always, Text), ("mediatype", Always, Text)]);

#[rustfmt::skip]
static INSTALL_MODE: Fields = Fields::new(&[], &[("supported", Always, Bool), ("type", Always, Text)]);

#[rustfmt::skip]
static LINK: Fields = Fields::new(&[], &[("name", Optional, Text), ("url", Optional, Text)]);

#[rustfmt::skip]
static MAINTAINER: Fields = Fields::new(&[], &[("email", Optional, Text), ("name", Optional, Text)]);

#[rustfmt::skip]
static GROUP_VERSION_KIND: Fields = Fields::new(&[], &[
    ("group", Always, Text), ("kind", Always, Text), ("version", Always, Text),
]);

#[rustfmt::skip]
static RELATED_IMAGE: Fields = Fields::new(&[], &[("image", Always, Text), ("name", Always, Text)]);

/// Absent members must stay apart from empty ones, so all are pointers here.
#[rustfmt::skip]
pub(super) static DEPLOYMENT_CONFIG: Fields = Fields::new(&[], &[
    ("affinity", Pointer, Object(&AFFINITY)), ("annotations", Pointer, Map(&Text)),
    ("env", Pointer, List(&Object(&ENV_VAR))), ("envFrom", Pointer, List(&Object(&ENV_FROM_SOURCE))),
    ("nodeSelector", Pointer, Map(&Text)), ("resources", Pointer, Object(&RESOURCE_REQUIREMENTS)),
    ("tolerations", Pointer, List(&Object(&TOLERATION))),
    ("volumeMounts", Pointer, List(&Object(&VOLUME_MOUNT))), ("volumes", Pointer, List(&Object(&VOLUME))),
]);
