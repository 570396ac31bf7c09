//! ClusterServiceVersions (operators.coreos.com/v1alpha1) and the user's deployment configuration.
//!
//! Imitated: operator-framework/api `pkg/operators/v1alpha1`. A status is read like the rest, and not used.

use super::{
    Fields, Kind,
    Kind::{Bool, Int32, IntOrString, List, Map, Object, Raw, Text, Time},
    Presence,
    Presence::{Always, Nullable, Optional, Pointer},
    kubernetes::{
        AFFINITY, DEPLOYMENT_SPEC, ENV_FROM_SOURCE, ENV_VAR, LABEL_SELECTOR, OBJECT_META, POLICY_RULE,
        RESOURCE_REQUIREMENTS, RULE_WITH_OPERATIONS, TOLERATION, VOLUME, VOLUME_MOUNT,
    },
};

pub(super) static CLUSTER_SERVICE_VERSION: Fields = Fields::new(&[], &[
    ("apiVersion", Optional, Text), ("kind", Optional, Text), ("metadata", Always, Object(&OBJECT_META)),
    ("spec", Always, Object(&SPEC)), ("status", Always, Object(&STATUS)),
]);

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

static INSTALL: Fields = Fields::new(&[], &[
    ("spec", Always, Object(&STRATEGY)), ("strategy", Always, Text),
]);

static STRATEGY: Fields = Fields::new(&[], &[
    ("clusterPermissions", Optional, List(&Object(&PERMISSIONS))),
    ("deployments", Always, List(&Object(&STRATEGY_DEPLOYMENT))),
    ("permissions", Optional, List(&Object(&PERMISSIONS))),
]);

static STRATEGY_DEPLOYMENT: Fields = Fields::new(&[], &[
    ("label", Optional, Map(&Text)), ("name", Always, Text), ("spec", Always, Object(&DEPLOYMENT_SPEC)),
]);

static PERMISSIONS: Fields = Fields::new(&[], &[
    ("rules", Always, List(&Object(&POLICY_RULE))), ("serviceAccountName", Always, Text),
]);

static WEBHOOK: Fields = Fields::new(&[], &[
    ("admissionReviewVersions", Always, List(&Text)), ("containerPort", Optional, Int32),
    ("conversionCRDs", Optional, List(&Text)), ("deploymentName", Optional, Text),
    ("failurePolicy", Pointer, Text), ("generateName", Always, Text), ("matchPolicy", Pointer, Text),
    ("objectSelector", Pointer, Object(&LABEL_SELECTOR)), ("reinvocationPolicy", Pointer, Text),
    ("rules", Optional, List(&Object(&RULE_WITH_OPERATIONS))), ("sideEffects", Nullable, Text),
    ("targetPort", Pointer, IntOrString), ("timeoutSeconds", Pointer, Int32), ("type", Always, Text),
    ("webhookPath", Pointer, Text),
]);

/// CustomResourceDefinitions that an operator owns and requires.
pub static CRD_DEFINITIONS: Fields = Fields::named("v1alpha1.CustomResourceDefinitions", &[
    ("owned", Optional, List(&Object(&CRD_DESCRIPTION))), ("required", Optional, List(&Object(&CRD_DESCRIPTION))),
]);

/// API services that an operator owns and requires.
pub static API_SERVICE_DEFINITIONS: Fields = Fields::named("v1alpha1.APIServiceDefinitions", &[
    ("owned", Optional, List(&Object(&API_SERVICE_DESCRIPTION))),
    ("required", Optional, List(&Object(&API_SERVICE_DESCRIPTION))),
]);

static CRD_DESCRIPTION: Fields = Fields::named("v1alpha1.CRDDescription", &[
    ("name", Always, Text), ("version", Always, Text), ("kind", Always, Text), ("displayName", Optional, Text),
    ("description", Optional, Text), ("resources", Optional, List(&Object(&RESOURCE_REFERENCE))),
    ("statusDescriptors", Optional, List(&Object(&STATUS_DESCRIPTOR))),
    ("specDescriptors", Optional, List(&Object(&SPEC_DESCRIPTOR))),
    ("actionDescriptors", Optional, List(&Object(&ACTION_DESCRIPTOR))),
]);

static API_SERVICE_DESCRIPTION: Fields = Fields::named("v1alpha1.APIServiceDescription", &[
    ("name", Always, Text), ("group", Always, Text), ("version", Always, Text), ("kind", Always, Text),
    ("deploymentName", Optional, Text), ("containerPort", Optional, Int32), ("displayName", Optional, Text),
    ("description", Optional, Text), ("resources", Optional, List(&Object(&RESOURCE_REFERENCE))),
    ("statusDescriptors", Optional, List(&Object(&STATUS_DESCRIPTOR))),
    ("specDescriptors", Optional, List(&Object(&SPEC_DESCRIPTOR))),
    ("actionDescriptors", Optional, List(&Object(&ACTION_DESCRIPTOR))),
]);

static STATUS: Fields = Fields::new(&[], &[
    ("certsLastUpdated", Pointer, Time), ("certsRotateAt", Pointer, Time),
    ("cleanup", Always, Object(&CLEANUP_STATUS)), ("conditions", Optional, List(&Object(&CONDITION))),
    ("lastTransitionTime", Pointer, Time), ("lastUpdateTime", Pointer, Time), ("message", Optional, Text),
    ("phase", Optional, Text), ("reason", Optional, Text),
    ("requirementStatus", Optional, List(&Object(&REQUIREMENT_STATUS))),
]);

static CLEANUP_STATUS: Fields = Fields::new(&[], &[("pendingDeletion", Optional, List(&Object(&RESOURCE_LIST)))]);

static RESOURCE_LIST: Fields = Fields::new(&[], &[
    ("group", Always, Text), ("instances", Always, List(&Object(&RESOURCE_INSTANCE))), ("kind", Always, Text),
]);

static RESOURCE_INSTANCE: Fields = Fields::new(&[], &[("name", Always, Text), ("namespace", Optional, Text)]);

static CONDITION: Fields = Fields::new(&[], &[
    ("lastTransitionTime", Pointer, Time), ("lastUpdateTime", Pointer, Time), ("message", Optional, Text),
    ("phase", Optional, Text), ("reason", Optional, Text),
]);

static REQUIREMENT_STATUS: Fields = Fields::new(&[], &[
    ("dependents", Optional, List(&Object(&DEPENDENT_STATUS))), ("group", Always, Text), ("kind", Always, Text),
    ("message", Always, Text), ("name", Always, Text), ("status", Always, Text), ("uuid", Optional, Text),
    ("version", Always, Text),
]);

static DEPENDENT_STATUS: Fields = Fields::new(&[], &[
    ("group", Always, Text), ("kind", Always, Text), ("message", Optional, Text), ("status", Always, Text),
    ("uuid", Optional, Text), ("version", Always, Text),
]);

static STATUS_DESCRIPTOR: Fields = Fields::named("v1alpha1.StatusDescriptor", DESCRIPTOR);
static SPEC_DESCRIPTOR: Fields = Fields::named("v1alpha1.SpecDescriptor", DESCRIPTOR);
static ACTION_DESCRIPTOR: Fields = Fields::named("v1alpha1.ActionDescriptor", DESCRIPTOR);
const DESCRIPTOR: &[(&str, Presence, Kind)] = &[
    ("path", Always, Text), ("displayName", Optional, Text), ("description", Optional, Text),
    ("x-descriptors", Optional, List(&Text)), ("value", Optional, Raw),
];

static RESOURCE_REFERENCE: Fields = Fields::named("v1alpha1.APIResourceReference", &[
    ("name", Always, Text), ("kind", Always, Text), ("version", Always, Text),
]);

static CLEANUP: Fields = Fields::new(&[], &[("enabled", Always, Bool)]);

static ICON: Fields = Fields::new(&[], &[("base64data", Always, Text), ("mediatype", Always, Text)]);

/// Whether an operator can watch namespaces in one of the ways there are.
pub static INSTALL_MODE: Fields = Fields::named("v1alpha1.InstallMode", &[("type", Always, Text), ("supported", Always, Bool)]);

/// A link, or a provider.
pub static LINK: Fields = Fields::named("v1alpha1.AppLink", &[("name", Optional, Text), ("url", Optional, Text)]);

/// A maintainer of an operator.
pub static MAINTAINER: Fields = Fields::named("v1alpha1.Maintainer", &[("name", Optional, Text), ("email", Optional, Text)]);

/// A kind of Kubernetes.
pub static GROUP_VERSION_KIND: Fields = Fields::named("v1.GroupVersionKind", &[
    ("group", Always, Text), ("version", Always, Text), ("kind", Always, Text),
]);

static RELATED_IMAGE: Fields = Fields::new(&[], &[("image", Always, Text), ("name", Always, Text)]);

/// Absent members must stay apart from empty ones, so all are pointers here.
pub(super) static DEPLOYMENT_CONFIG: Fields = Fields::new(&[], &[
    ("affinity", Pointer, Object(&AFFINITY)), ("annotations", Pointer, Map(&Text)),
    ("env", Pointer, List(&Object(&ENV_VAR))), ("envFrom", Pointer, List(&Object(&ENV_FROM_SOURCE))),
    ("nodeSelector", Pointer, Map(&Text)), ("resources", Pointer, Object(&RESOURCE_REQUIREMENTS)),
    ("tolerations", Pointer, List(&Object(&TOLERATION))),
    ("volumeMounts", Pointer, List(&Object(&VOLUME_MOUNT))), ("volumes", Pointer, List(&Object(&VOLUME))),
]);
