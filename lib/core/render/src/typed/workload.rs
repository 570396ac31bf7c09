//! Deployments, pods and their containers (apps/v1, core/v1).
//!
//! Field names, types and what is always written, as Kubernetes 1.36 has them.

use super::{
    Fields,
    Kind::{Bool, Int32, Int64, IntOrString, List, Map, Object, Quantity, Text},
    Presence::{Always, Nullable, Optional, Pointer},
    meta::{LABEL_SELECTOR, OBJECT_META},
    scheduling::{
        AFFINITY, HOST_ALIAS, POD_DNS_CONFIG, POD_OS, POD_READINESS_GATE, POD_RESOURCE_CLAIM,
        POD_SCHEDULING_GATE, POD_SCHEDULING_GROUP, TOLERATION, TOPOLOGY_SPREAD_CONSTRAINT,
    },
    volume::VOLUME,
};

#[rustfmt::skip]
pub(super) static APP_ARMOR_PROFILE: Fields = Fields::new(&[
    ("localhostProfile", Pointer, Text), ("type", Always, Text),
]);

#[rustfmt::skip]
pub(super) static CAPABILITIES: Fields = Fields::new(&[
    ("add", Optional, List(&Text)), ("drop", Optional, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static CONFIG_MAP_ENV_SOURCE: Fields = Fields::new(&[
    ("name", Optional, Text), ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static CONFIG_MAP_KEY_SELECTOR: Fields = Fields::new(&[
    ("key", Always, Text), ("name", Optional, Text), ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static CONTAINER: Fields = Fields::new(&[
    ("args", Optional, List(&Text)), ("command", Optional, List(&Text)), ("env", Optional, List(&Object(&ENV_VAR))),
    ("envFrom", Optional, List(&Object(&ENV_FROM_SOURCE))), ("image", Optional, Text),
    ("imagePullPolicy", Optional, Text), ("lifecycle", Pointer, Object(&LIFECYCLE)),
    ("livenessProbe", Pointer, Object(&PROBE)), ("name", Always, Text),
    ("ports", Optional, List(&Object(&CONTAINER_PORT))), ("readinessProbe", Pointer, Object(&PROBE)),
    ("resizePolicy", Optional, List(&Object(&CONTAINER_RESIZE_POLICY))),
    ("resources", Always, Object(&RESOURCE_REQUIREMENTS)), ("restartPolicy", Pointer, Text),
    ("restartPolicyRules", Optional, List(&Object(&CONTAINER_RESTART_RULE))),
    ("securityContext", Pointer, Object(&SECURITY_CONTEXT)), ("startupProbe", Pointer, Object(&PROBE)),
    ("stdin", Optional, Bool), ("stdinOnce", Optional, Bool), ("terminationMessagePath", Optional, Text),
    ("terminationMessagePolicy", Optional, Text), ("tty", Optional, Bool),
    ("volumeDevices", Optional, List(&Object(&VOLUME_DEVICE))),
    ("volumeMounts", Optional, List(&Object(&VOLUME_MOUNT))), ("workingDir", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static CONTAINER_PORT: Fields = Fields::new(&[
    ("containerPort", Always, Int32), ("hostIP", Optional, Text), ("hostPort", Optional, Int32),
    ("name", Optional, Text), ("protocol", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static CONTAINER_RESIZE_POLICY: Fields = Fields::new(&[
    ("resourceName", Always, Text), ("restartPolicy", Always, Text),
]);

#[rustfmt::skip]
pub(super) static CONTAINER_RESTART_RULE: Fields = Fields::new(&[
    ("action", Optional, Text), ("exitCodes", Pointer, Object(&CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
]);

#[rustfmt::skip]
pub(super) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Fields = Fields::new(&[
    ("operator", Optional, Text), ("values", Optional, List(&Int32)),
]);

#[rustfmt::skip]
pub(super) static DEPLOYMENT_SPEC: Fields = Fields::new(&[
    ("minReadySeconds", Optional, Int32), ("paused", Optional, Bool), ("progressDeadlineSeconds", Pointer, Int32),
    ("replicas", Pointer, Int32), ("revisionHistoryLimit", Pointer, Int32),
    ("selector", Nullable, Object(&LABEL_SELECTOR)), ("strategy", Always, Object(&DEPLOYMENT_STRATEGY)),
    ("template", Always, Object(&POD_TEMPLATE_SPEC)),
]);

#[rustfmt::skip]
pub(super) static DEPLOYMENT_STRATEGY: Fields = Fields::new(&[
    ("rollingUpdate", Pointer, Object(&ROLLING_UPDATE_DEPLOYMENT)), ("type", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static ENV_FROM_SOURCE: Fields = Fields::new(&[
    ("configMapRef", Pointer, Object(&CONFIG_MAP_ENV_SOURCE)), ("prefix", Optional, Text),
    ("secretRef", Pointer, Object(&SECRET_ENV_SOURCE)),
]);

#[rustfmt::skip]
pub(super) static ENV_VAR: Fields = Fields::new(&[
    ("name", Always, Text), ("value", Optional, Text), ("valueFrom", Pointer, Object(&ENV_VAR_SOURCE)),
]);

#[rustfmt::skip]
pub(super) static ENV_VAR_SOURCE: Fields = Fields::new(&[
    ("configMapKeyRef", Pointer, Object(&CONFIG_MAP_KEY_SELECTOR)),
    ("fieldRef", Pointer, Object(&OBJECT_FIELD_SELECTOR)), ("fileKeyRef", Pointer, Object(&FILE_KEY_SELECTOR)),
    ("resourceFieldRef", Pointer, Object(&RESOURCE_FIELD_SELECTOR)),
    ("secretKeyRef", Pointer, Object(&SECRET_KEY_SELECTOR)),
]);

#[rustfmt::skip]
pub(super) static EPHEMERAL_CONTAINER: Fields = Fields::new(&[
    ("args", Optional, List(&Text)), ("command", Optional, List(&Text)), ("env", Optional, List(&Object(&ENV_VAR))),
    ("envFrom", Optional, List(&Object(&ENV_FROM_SOURCE))), ("image", Optional, Text),
    ("imagePullPolicy", Optional, Text), ("lifecycle", Pointer, Object(&LIFECYCLE)),
    ("livenessProbe", Pointer, Object(&PROBE)), ("name", Always, Text),
    ("ports", Optional, List(&Object(&CONTAINER_PORT))), ("readinessProbe", Pointer, Object(&PROBE)),
    ("resizePolicy", Optional, List(&Object(&CONTAINER_RESIZE_POLICY))),
    ("resources", Always, Object(&RESOURCE_REQUIREMENTS)), ("restartPolicy", Pointer, Text),
    ("restartPolicyRules", Optional, List(&Object(&CONTAINER_RESTART_RULE))),
    ("securityContext", Pointer, Object(&SECURITY_CONTEXT)), ("startupProbe", Pointer, Object(&PROBE)),
    ("stdin", Optional, Bool), ("stdinOnce", Optional, Bool), ("targetContainerName", Optional, Text),
    ("terminationMessagePath", Optional, Text), ("terminationMessagePolicy", Optional, Text), ("tty", Optional, Bool),
    ("volumeDevices", Optional, List(&Object(&VOLUME_DEVICE))),
    ("volumeMounts", Optional, List(&Object(&VOLUME_MOUNT))), ("workingDir", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static EXEC_ACTION: Fields = Fields::new(&[
    ("command", Optional, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static FILE_KEY_SELECTOR: Fields = Fields::new(&[
    ("key", Always, Text), ("optional", Pointer, Bool), ("path", Always, Text), ("volumeName", Always, Text),
]);

#[rustfmt::skip]
pub(super) static GRPC_ACTION: Fields = Fields::new(&[
    ("port", Always, Int32), ("service", Nullable, Text),
]);

#[rustfmt::skip]
pub(super) static HTTP_GET_ACTION: Fields = Fields::new(&[
    ("host", Optional, Text), ("httpHeaders", Optional, List(&Object(&HTTP_HEADER))), ("path", Optional, Text),
    ("port", Always, IntOrString), ("scheme", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static HTTP_HEADER: Fields = Fields::new(&[
    ("name", Always, Text), ("value", Always, Text),
]);

#[rustfmt::skip]
pub(super) static LIFECYCLE: Fields = Fields::new(&[
    ("postStart", Pointer, Object(&LIFECYCLE_HANDLER)), ("preStop", Pointer, Object(&LIFECYCLE_HANDLER)),
    ("stopSignal", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static LIFECYCLE_HANDLER: Fields = Fields::new(&[
    ("exec", Pointer, Object(&EXEC_ACTION)), ("httpGet", Pointer, Object(&HTTP_GET_ACTION)),
    ("sleep", Pointer, Object(&SLEEP_ACTION)), ("tcpSocket", Pointer, Object(&TCP_SOCKET_ACTION)),
]);

#[rustfmt::skip]
pub(super) static LOCAL_OBJECT_REFERENCE: Fields = Fields::new(&[
    ("name", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static OBJECT_FIELD_SELECTOR: Fields = Fields::new(&[
    ("apiVersion", Optional, Text), ("fieldPath", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POD_SECURITY_CONTEXT: Fields = Fields::new(&[
    ("appArmorProfile", Pointer, Object(&APP_ARMOR_PROFILE)), ("fsGroup", Pointer, Int64),
    ("fsGroupChangePolicy", Pointer, Text), ("runAsGroup", Pointer, Int64), ("runAsNonRoot", Pointer, Bool),
    ("runAsUser", Pointer, Int64), ("seLinuxChangePolicy", Pointer, Text),
    ("seLinuxOptions", Pointer, Object(&SE_LINUX_OPTIONS)), ("seccompProfile", Pointer, Object(&SECCOMP_PROFILE)),
    ("supplementalGroups", Optional, List(&Int64)), ("supplementalGroupsPolicy", Pointer, Text),
    ("sysctls", Optional, List(&Object(&SYSCTL))),
    ("windowsOptions", Pointer, Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
]);

#[rustfmt::skip]
pub(super) static POD_SPEC: Fields = Fields::new(&[
    ("activeDeadlineSeconds", Pointer, Int64), ("affinity", Pointer, Object(&AFFINITY)),
    ("automountServiceAccountToken", Pointer, Bool), ("containers", Always, List(&Object(&CONTAINER))),
    ("dnsConfig", Pointer, Object(&POD_DNS_CONFIG)), ("dnsPolicy", Optional, Text),
    ("enableServiceLinks", Pointer, Bool), ("ephemeralContainers", Optional, List(&Object(&EPHEMERAL_CONTAINER))),
    ("hostAliases", Optional, List(&Object(&HOST_ALIAS))), ("hostIPC", Optional, Bool),
    ("hostNetwork", Optional, Bool), ("hostPID", Optional, Bool), ("hostUsers", Pointer, Bool),
    ("hostname", Optional, Text), ("hostnameOverride", Pointer, Text),
    ("imagePullSecrets", Optional, List(&Object(&LOCAL_OBJECT_REFERENCE))),
    ("initContainers", Optional, List(&Object(&CONTAINER))), ("nodeName", Optional, Text),
    ("nodeSelector", Optional, Map(&Text)), ("os", Pointer, Object(&POD_OS)), ("overhead", Optional, Map(&Quantity)),
    ("preemptionPolicy", Pointer, Text), ("priority", Pointer, Int32), ("priorityClassName", Optional, Text),
    ("readinessGates", Optional, List(&Object(&POD_READINESS_GATE))),
    ("resourceClaims", Optional, List(&Object(&POD_RESOURCE_CLAIM))),
    ("resources", Pointer, Object(&RESOURCE_REQUIREMENTS)), ("restartPolicy", Optional, Text),
    ("runtimeClassName", Pointer, Text), ("schedulerName", Optional, Text),
    ("schedulingGates", Optional, List(&Object(&POD_SCHEDULING_GATE))),
    ("schedulingGroup", Pointer, Object(&POD_SCHEDULING_GROUP)),
    ("securityContext", Pointer, Object(&POD_SECURITY_CONTEXT)), ("serviceAccount", Optional, Text),
    ("serviceAccountName", Optional, Text), ("setHostnameAsFQDN", Pointer, Bool),
    ("shareProcessNamespace", Pointer, Bool), ("subdomain", Optional, Text),
    ("terminationGracePeriodSeconds", Pointer, Int64), ("tolerations", Optional, List(&Object(&TOLERATION))),
    ("topologySpreadConstraints", Optional, List(&Object(&TOPOLOGY_SPREAD_CONSTRAINT))),
    ("volumes", Optional, List(&Object(&VOLUME))),
]);

#[rustfmt::skip]
pub(super) static POD_TEMPLATE_SPEC: Fields = Fields::new(&[
    ("metadata", Always, Object(&OBJECT_META)), ("spec", Always, Object(&POD_SPEC)),
]);

#[rustfmt::skip]
pub(super) static PROBE: Fields = Fields::new(&[
    ("exec", Pointer, Object(&EXEC_ACTION)), ("failureThreshold", Optional, Int32),
    ("grpc", Pointer, Object(&GRPC_ACTION)), ("httpGet", Pointer, Object(&HTTP_GET_ACTION)),
    ("initialDelaySeconds", Optional, Int32), ("periodSeconds", Optional, Int32),
    ("successThreshold", Optional, Int32), ("tcpSocket", Pointer, Object(&TCP_SOCKET_ACTION)),
    ("terminationGracePeriodSeconds", Pointer, Int64), ("timeoutSeconds", Optional, Int32),
]);

#[rustfmt::skip]
pub(super) static RESOURCE_CLAIM: Fields = Fields::new(&[
    ("name", Always, Text), ("request", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static RESOURCE_FIELD_SELECTOR: Fields = Fields::new(&[
    ("containerName", Optional, Text), ("divisor", Always, Quantity), ("resource", Always, Text),
]);

#[rustfmt::skip]
pub(super) static RESOURCE_REQUIREMENTS: Fields = Fields::new(&[
    ("claims", Optional, List(&Object(&RESOURCE_CLAIM))), ("limits", Optional, Map(&Quantity)),
    ("requests", Optional, Map(&Quantity)),
]);

#[rustfmt::skip]
pub(super) static ROLLING_UPDATE_DEPLOYMENT: Fields = Fields::new(&[
    ("maxSurge", Pointer, IntOrString), ("maxUnavailable", Pointer, IntOrString),
]);

#[rustfmt::skip]
pub(super) static SECCOMP_PROFILE: Fields = Fields::new(&[
    ("localhostProfile", Pointer, Text), ("type", Always, Text),
]);

#[rustfmt::skip]
pub(super) static SECRET_ENV_SOURCE: Fields = Fields::new(&[
    ("name", Optional, Text), ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static SECRET_KEY_SELECTOR: Fields = Fields::new(&[
    ("key", Always, Text), ("name", Optional, Text), ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static SECURITY_CONTEXT: Fields = Fields::new(&[
    ("allowPrivilegeEscalation", Pointer, Bool), ("appArmorProfile", Pointer, Object(&APP_ARMOR_PROFILE)),
    ("capabilities", Pointer, Object(&CAPABILITIES)), ("privileged", Pointer, Bool), ("procMount", Pointer, Text),
    ("readOnlyRootFilesystem", Pointer, Bool), ("runAsGroup", Pointer, Int64), ("runAsNonRoot", Pointer, Bool),
    ("runAsUser", Pointer, Int64), ("seLinuxOptions", Pointer, Object(&SE_LINUX_OPTIONS)),
    ("seccompProfile", Pointer, Object(&SECCOMP_PROFILE)),
    ("windowsOptions", Pointer, Object(&WINDOWS_SECURITY_CONTEXT_OPTIONS)),
]);

#[rustfmt::skip]
pub(super) static SE_LINUX_OPTIONS: Fields = Fields::new(&[
    ("level", Optional, Text), ("role", Optional, Text), ("type", Optional, Text), ("user", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static SLEEP_ACTION: Fields = Fields::new(&[
    ("seconds", Always, Int64),
]);

#[rustfmt::skip]
pub(super) static SYSCTL: Fields = Fields::new(&[
    ("name", Always, Text), ("value", Always, Text),
]);

#[rustfmt::skip]
pub(super) static TCP_SOCKET_ACTION: Fields = Fields::new(&[
    ("host", Optional, Text), ("port", Always, IntOrString),
]);

#[rustfmt::skip]
pub(super) static TYPED_LOCAL_OBJECT_REFERENCE: Fields = Fields::new(&[
    ("apiGroup", Nullable, Text), ("kind", Always, Text), ("name", Always, Text),
]);

#[rustfmt::skip]
pub(super) static TYPED_OBJECT_REFERENCE: Fields = Fields::new(&[
    ("apiGroup", Nullable, Text), ("kind", Always, Text), ("name", Always, Text), ("namespace", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static VOLUME_DEVICE: Fields = Fields::new(&[
    ("devicePath", Always, Text), ("name", Always, Text),
]);

#[rustfmt::skip]
pub(super) static VOLUME_MOUNT: Fields = Fields::new(&[
    ("mountPath", Always, Text), ("mountPropagation", Pointer, Text), ("name", Always, Text),
    ("readOnly", Optional, Bool), ("recursiveReadOnly", Pointer, Text), ("subPath", Optional, Text),
    ("subPathExpr", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static WINDOWS_SECURITY_CONTEXT_OPTIONS: Fields = Fields::new(&[
    ("gmsaCredentialSpec", Pointer, Text), ("gmsaCredentialSpecName", Pointer, Text), ("hostProcess", Pointer, Bool),
    ("runAsUserName", Pointer, Text),
]);
