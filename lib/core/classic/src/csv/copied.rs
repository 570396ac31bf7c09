//! Copies of operators in the namespaces that they serve: whether there are any, and what they are.

use olm_api_classic::{
    ClusterServiceVersion, ClusterServiceVersionStatus,
    names::{COPIED_FROM_LABEL, GROUP, GROUP_NAMESPACE_ANNOTATION, TARGETS_ANNOTATION},
};

use super::{
    chain::{is_copy, phase},
    phase::Phase,
    texts::{self, reason},
};
use crate::group::targets::{Namespaces, is_global, of_annotation};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Reasons of operators that serve no other namespace.
const NOT_COPIED: [&str; 7] = [
    reason::INVALID_MODES,
    reason::NO_TARGETS,
    reason::UNSUPPORTED_GROUP,
    reason::NO_GROUP,
    reason::TOO_MANY_GROUPS,
    reason::GROUP_CONFLICT,
    reason::STATIC_GROUP,
];

/// Whether an operator is copied: it serves its namespaces.
pub fn is_copied(csv: &ClusterServiceVersion) -> bool {
    let reason = csv.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default();
    !is_copy(csv) && phase(csv) != Phase::None && !NOT_COPIED.contains(&reason)
}

/// The namespaces in which copies are to be, of `all` that exist. None for an operator of all namespaces when copies of
/// those are `disabled`.
pub fn namespaces(csv: &ClusterServiceVersion, all: &Namespaces, disabled: bool) -> Namespaces {
    let annotation = csv.metadata.annotations.as_ref().and_then(|all| all.get(TARGETS_ANNOTATION));
    let (true, Some(annotation)) = (is_copied(csv), annotation) else { return Namespaces::new() };
    let (targets, own) = (of_annotation(annotation), csv.metadata.namespace.as_deref().unwrap_or_default());
    let is_all = is_global(&targets);
    if is_all && disabled {
        return Namespaces::new();
    }
    all.iter().filter(|name| *name != own && (is_all || targets.contains(*name))).cloned().collect()
}

/// The copy of an operator in a namespace, its status included.
pub fn copy(csv: &ClusterServiceVersion, namespace: &str) -> ClusterServiceVersion {
    let own = csv.metadata.namespace.clone().unwrap_or_default();
    let mut copy =
        ClusterServiceVersion::new(csv.metadata.name.as_deref().unwrap_or_default(), csv.spec.clone());
    copy.metadata.namespace = Some(namespace.to_owned());
    let mut annotations = csv.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key != TARGETS_ANNOTATION && key != LAST_APPLIED);
    copy.metadata.annotations = Some(annotations);
    let mut labels = csv.metadata.labels.clone().unwrap_or_default();
    let component = format!("{GROUP}/");
    labels.retain(|key, _| !key.starts_with(&component));
    labels.insert(COPIED_FROM_LABEL.to_owned(), own.clone());
    copy.metadata.labels = Some(labels);
    copy.status = Some(ClusterServiceVersionStatus {
        reason: Some(reason::COPIED.to_owned()),
        message: Some(texts::copied(&own)),
        ..csv.status.clone().unwrap_or_default()
    });
    copy
}

/// Whether a copy is to go: what it was copied from is gone, is in its namespace, is in conflict or does not serve it.
pub fn is_stale(copy: &ClusterServiceVersion, original: Option<&ClusterServiceVersion>) -> bool {
    let namespace = copy.metadata.namespace.as_deref().unwrap_or_default();
    let home = copy.metadata.annotations.as_ref().and_then(|all| all.get(GROUP_NAMESPACE_ANNOTATION));
    let (Some(home), Some(original)) = (home, original) else { return true };
    let here: Namespaces = [namespace.to_owned()].into();
    home == namespace || namespaces(original, &here, false).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn csv(targets: &str, reason: &str) -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {
                "name": "a", "namespace": "ops",
                "annotations": {"olm.targetNamespaces": targets, "olm.operatorNamespace": "ops", "x": "y"},
                "labels": {"operators.coreos.com/a.ops": "", "l": "m"},
            },
            "spec": {"displayName": "a", "install": {"strategy": "deployment"}},
            "status": {"phase": "Failed", "reason": reason, "message": "m"},
        }))
        .unwrap()
    }

    fn set(names: &[&str]) -> Namespaces {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn copies_are_in_the_other_namespaces_that_are_served() {
        let all = set(&["a", "b", "ops"]);
        assert_eq!(namespaces(&csv("", "ComponentUnhealthy"), &all, false), set(&["a", "b"]));
        assert_eq!(namespaces(&csv("", "ComponentUnhealthy"), &all, true), set(&[]));
        assert_eq!(namespaces(&csv("ops,b,gone", "ComponentUnhealthy"), &all, true), set(&["b"]));
        for reason in NOT_COPIED {
            assert_eq!(namespaces(&csv("", reason), &all, false), set(&[]), "{reason}");
        }
    }

    #[test]
    fn a_copy_points_home_and_serves_nothing_itself() {
        let original = csv("b", "ComponentUnhealthy");
        let copy = copy(&original, "b");
        assert_eq!(
            copy.metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(),
            ["olm.operatorNamespace", "x"]
        );
        assert_eq!(
            copy.metadata.labels.as_ref().unwrap().keys().collect::<Vec<_>>(),
            ["l", "olm.copiedFrom"]
        );
        let status = copy.status.clone().unwrap();
        assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Copied")));
        assert_eq!(
            status.message.as_deref(),
            Some("The operator is running in ops but is managing this namespace")
        );
        assert!(!is_copied(&copy), "copies are not copied");
        assert!(!is_stale(&copy, Some(&original)) && is_stale(&copy, None));
        assert!(is_stale(&copy, Some(&csv("c", "ComponentUnhealthy"))));
        assert!(is_stale(&copy, Some(&csv("b", reason::GROUP_CONFLICT))));
    }
}
