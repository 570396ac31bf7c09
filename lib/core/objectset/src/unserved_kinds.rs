//! Kinds that a cluster does not serve: optional ones are left out, all others are needed.
//!
//! Optional kinds only observe or decorate an operator: dashboards, alerts, links of a console, hints for a scaler. The
//! operator works without them.

use std::collections::BTreeMap;

use olm_api::names::UNKNOWN_KINDS_ANNOTATION;
use olm_object::{DefinedKind, ObjectKey, known_kind, provider};

/// The treatment of objects of optional kinds that the cluster does not serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownKinds {
    /// They are left out until their kind arrives.
    #[default]
    LeaveOut,
    /// They stop the roll-out.
    Block,
}

impl UnknownKinds {
    /// The treatment that the value of [`UNKNOWN_KINDS_ANNOTATION`] selects.
    pub fn from_annotation(annotation: Option<&str>) -> Self {
        if annotation == Some("Block") { Self::Block } else { Self::LeaveOut }
    }
}

/// The consequence for a roll-out when the cluster does not serve the kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnservedKind {
    /// A CustomResourceDefinition of the same revision defines the kind: the roll-out waits for it.
    Awaited,
    /// The object is left out until the kind arrives.
    LeftOut,
    /// The roll-out cannot continue.
    Blocks,
}

fn is_optional(group: &str, kind: &str) -> bool {
    known_kind(group, kind).is_some_and(|known| known.optional)
}

/// The consequence when the cluster does not serve the kind of `object`, in a revision that itself `defines` kinds.
pub fn unserved_kind(
    object: &ObjectKey,
    defines: &BTreeMap<(String, String), DefinedKind>,
    policy: UnknownKinds,
) -> UnservedKind {
    if defines.contains_key(&(object.group.clone(), object.kind.clone())) {
        UnservedKind::Awaited
    } else if policy == UnknownKinds::LeaveOut && is_optional(&object.group, &object.kind) {
        UnservedKind::LeftOut
    } else {
        UnservedKind::Blocks
    }
}

/// The message about a kind that is not served and needed.
pub fn unserved_kind_report(object: &ObjectKey) -> String {
    let mut message = format!("no matches for kind {:?} in version {:?}", object.kind, object.api_version());
    if let Some(provider) = provider(&object.group) {
        message.push_str(": it comes with ");
        message.push_str(provider);
    }
    if is_optional(&object.group, &object.kind) {
        message.push_str(" and would be left out but for the annotation ");
        message.push_str(UNKNOWN_KINDS_ANNOTATION);
    }
    message
}

#[cfg(test)]
mod tests {
    use olm_object::defined_kinds;
    use serde_json::json;

    use super::*;

    fn key(api_version: &str, kind: &str) -> ObjectKey {
        ObjectKey::of(
            &json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}}),
        )
    }

    #[test]
    fn unknown_kinds_are_awaited_left_out_or_block() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "monitoring.coreos.com", "names": {"kind": "PodMonitor"}},
        });
        let defines = defined_kinds([&crd]);
        let rows = [
            ("monitoring.coreos.com/v1", "ServiceMonitor", UnservedKind::LeftOut, UnservedKind::Blocks),
            ("monitoring.coreos.com/v1", "PodMonitor", UnservedKind::Awaited, UnservedKind::Awaited),
            ("monitoring.coreos.com/v1", "Prometheus", UnservedKind::Blocks, UnservedKind::Blocks),
            ("console.openshift.io/v1", "ConsoleYAMLSample", UnservedKind::LeftOut, UnservedKind::Blocks),
            ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", UnservedKind::LeftOut, UnservedKind::Blocks),
            ("cert-manager.io/v1", "Certificate", UnservedKind::Blocks, UnservedKind::Blocks),
            ("example.com/v1", "ServiceMonitor", UnservedKind::Blocks, UnservedKind::Blocks),
        ];
        for (version, kind, by_default, when_asked) in rows {
            let key = key(version, kind);
            assert_eq!(
                unserved_kind(&key, &defines, UnknownKinds::from_annotation(None)),
                by_default,
                "{key}"
            );
            assert_eq!(
                unserved_kind(&key, &defines, UnknownKinds::from_annotation(Some("Block"))),
                when_asked,
                "{key}"
            );
        }
    }

    #[test]
    fn the_provider_of_a_kind_is_named_where_it_is_known() {
        assert_eq!(
            unserved_kind_report(&key("cert-manager.io/v1", "Issuer")),
            "no matches for kind \"Issuer\" in version \"cert-manager.io/v1\": it comes with cert-manager"
        );
        assert_eq!(
            unserved_kind_report(&key("example.com/v1", "Thing")),
            "no matches for kind \"Thing\" in version \"example.com/v1\""
        );
        assert_eq!(
            unserved_kind_report(&key("monitoring.rhobs/v1", "Probe")),
            "no matches for kind \"Probe\" in version \"monitoring.rhobs/v1\": it comes with observability-operator \
             and would be left out but for the annotation extensions.olm.operatorframework.io/unknown-kinds"
        );
    }
}
