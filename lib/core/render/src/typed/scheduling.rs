//! Where pods run and how they are known (core/v1).
//!
//! Field names, types and what is always written, as Kubernetes 1.36 has them.

use super::{
    Fields,
    Kind::{Int32, Int64, List, Object, Text},
    Presence::{Always, Optional, Pointer},
    meta::LABEL_SELECTOR,
};

#[rustfmt::skip]
pub(super) static AFFINITY: Fields = Fields::new(&[
    ("nodeAffinity", Pointer, Object(&NODE_AFFINITY)), ("podAffinity", Pointer, Object(&POD_AFFINITY)),
    ("podAntiAffinity", Pointer, Object(&POD_ANTI_AFFINITY)),
]);

#[rustfmt::skip]
pub(super) static HOST_ALIAS: Fields = Fields::new(&[
    ("hostnames", Optional, List(&Text)), ("ip", Always, Text),
]);

#[rustfmt::skip]
pub(super) static NODE_AFFINITY: Fields = Fields::new(&[
    ("preferredDuringSchedulingIgnoredDuringExecution", Optional, List(&Object(&PREFERRED_SCHEDULING_TERM))),
    ("requiredDuringSchedulingIgnoredDuringExecution", Pointer, Object(&NODE_SELECTOR)),
]);

#[rustfmt::skip]
pub(super) static NODE_SELECTOR: Fields = Fields::new(&[
    ("nodeSelectorTerms", Always, List(&Object(&NODE_SELECTOR_TERM))),
]);

#[rustfmt::skip]
pub(super) static NODE_SELECTOR_REQUIREMENT: Fields = Fields::new(&[
    ("key", Always, Text), ("operator", Always, Text), ("values", Optional, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static NODE_SELECTOR_TERM: Fields = Fields::new(&[
    ("matchExpressions", Optional, List(&Object(&NODE_SELECTOR_REQUIREMENT))),
    ("matchFields", Optional, List(&Object(&NODE_SELECTOR_REQUIREMENT))),
]);

#[rustfmt::skip]
pub(super) static POD_AFFINITY: Fields = Fields::new(&[
    ("preferredDuringSchedulingIgnoredDuringExecution", Optional, List(&Object(&WEIGHTED_POD_AFFINITY_TERM))),
    ("requiredDuringSchedulingIgnoredDuringExecution", Optional, List(&Object(&POD_AFFINITY_TERM))),
]);

#[rustfmt::skip]
pub(super) static POD_AFFINITY_TERM: Fields = Fields::new(&[
    ("labelSelector", Pointer, Object(&LABEL_SELECTOR)), ("matchLabelKeys", Optional, List(&Text)),
    ("mismatchLabelKeys", Optional, List(&Text)), ("namespaceSelector", Pointer, Object(&LABEL_SELECTOR)),
    ("namespaces", Optional, List(&Text)), ("topologyKey", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POD_ANTI_AFFINITY: Fields = Fields::new(&[
    ("preferredDuringSchedulingIgnoredDuringExecution", Optional, List(&Object(&WEIGHTED_POD_AFFINITY_TERM))),
    ("requiredDuringSchedulingIgnoredDuringExecution", Optional, List(&Object(&POD_AFFINITY_TERM))),
]);

#[rustfmt::skip]
pub(super) static POD_DNS_CONFIG: Fields = Fields::new(&[
    ("nameservers", Optional, List(&Text)), ("options", Optional, List(&Object(&POD_DNS_CONFIG_OPTION))),
    ("searches", Optional, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static POD_DNS_CONFIG_OPTION: Fields = Fields::new(&[
    ("name", Optional, Text), ("value", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static POD_OS: Fields = Fields::new(&[
    ("name", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POD_READINESS_GATE: Fields = Fields::new(&[
    ("conditionType", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POD_RESOURCE_CLAIM: Fields = Fields::new(&[
    ("name", Always, Text), ("resourceClaimName", Pointer, Text), ("resourceClaimTemplateName", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static POD_SCHEDULING_GATE: Fields = Fields::new(&[
    ("name", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POD_SCHEDULING_GROUP: Fields = Fields::new(&[
    ("podGroupName", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static PREFERRED_SCHEDULING_TERM: Fields = Fields::new(&[
    ("preference", Always, Object(&NODE_SELECTOR_TERM)), ("weight", Always, Int32),
]);

#[rustfmt::skip]
pub(super) static TOLERATION: Fields = Fields::new(&[
    ("effect", Optional, Text), ("key", Optional, Text), ("operator", Optional, Text),
    ("tolerationSeconds", Pointer, Int64), ("value", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static TOPOLOGY_SPREAD_CONSTRAINT: Fields = Fields::new(&[
    ("labelSelector", Pointer, Object(&LABEL_SELECTOR)), ("matchLabelKeys", Optional, List(&Text)),
    ("maxSkew", Always, Int32), ("minDomains", Pointer, Int32), ("nodeAffinityPolicy", Pointer, Text),
    ("nodeTaintsPolicy", Pointer, Text), ("topologyKey", Always, Text), ("whenUnsatisfiable", Always, Text),
]);

#[rustfmt::skip]
pub(super) static WEIGHTED_POD_AFFINITY_TERM: Fields = Fields::new(&[
    ("podAffinityTerm", Always, Object(&POD_AFFINITY_TERM)), ("weight", Always, Int32),
]);
