//! Copies of operators in the namespaces that they serve: whether there are any, and what they are.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use olm_api_classic::{
    ClusterServiceVersion, ClusterServiceVersionSpec, ClusterServiceVersionStatus, OLMConfig,
    names::{COPIED_FROM_LABEL, GROUP, GROUP_NAMESPACE_ANNOTATION, TARGETS_ANNOTATION},
};
use serde_json::json;

use super::{
    chain::{is_copy, phase},
    phase::Phase,
    texts::{self, reason},
};
use crate::{
    group::targets::{Namespaces, is_global, of_annotation},
    hashes,
};

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

/// The name of the only OLMConfig that counts.
pub const CONFIG: &str = "cluster";
/// The condition of the OLMConfig, and the reason of the Event, that say that copies are not made.
pub const DISABLED: &str = "DisabledCopiedCSVs";
/// Annotations of copies in memory, which no API server would accept: the digests of what was written.
const DIGEST: &str = "/digest";
const STATUS_DIGEST: &str = "/status-digest";

/// Whether operators for all namespaces are left without copies. Upstream copies them unless told otherwise.
pub fn is_disabled(config: Option<&OLMConfig>) -> bool {
    config.and_then(|config| config.spec.features.as_ref()?.disable_copied_csvs).unwrap_or(true)
}

/// Whether an operator is for all namespaces.
pub fn is_for_all(csv: &ClusterServiceVersion) -> bool {
    let annotation = csv.metadata.annotations.as_ref().and_then(|all| all.get(TARGETS_ANNOTATION));
    annotation.is_some_and(|annotation| is_global(&of_annotation(annotation)))
}

/// What a copy says, in short: two are the same if their digests are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Of spec, labels and annotations.
    pub object: String,
    /// Of the status.
    pub status: String,
}

impl Digest {
    /// The digest of a copy as it is to be, or as it was read.
    pub fn of(copy: &ClusterServiceVersion) -> Self {
        let annotations = copy.metadata.annotations.iter().flatten().collect::<Vec<_>>();
        let labels = copy.metadata.labels.iter().flatten().collect::<Vec<_>>();
        let object = json!([copy.spec, labels, annotations]);
        Self { object: hashes::of_json(&object, false), status: hashes::of_json(&json!(copy.status), false) }
    }

    /// The digest of a copy that [`trim`] has made smaller.
    pub fn of_trimmed(copy: &ClusterServiceVersion) -> Self {
        let annotation = |name: &str| {
            copy.metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned().unwrap_or_default()
        };
        Self { object: annotation(DIGEST), status: annotation(STATUS_DIGEST) }
    }
}

/// Leaves of a copy what is read of it in memory: there may be one in each namespace.
pub fn trim(csv: &mut ClusterServiceVersion) {
    if !is_copy(csv) {
        return;
    }
    let Digest { object, status } = Digest::of(csv);
    csv.spec = ClusterServiceVersionSpec::default();
    csv.metadata.labels.iter_mut().for_each(|labels| labels.retain(|key, _| key == COPIED_FROM_LABEL));
    let annotations = csv.metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| key == GROUP_NAMESPACE_ANNOTATION);
    annotations.extend([(DIGEST.to_owned(), object), (STATUS_DIGEST.to_owned(), status)]);
    csv.status = csv.status.take().map(|status| ClusterServiceVersionStatus {
        phase: status.phase,
        reason: status.reason,
        ..ClusterServiceVersionStatus::default()
    });
}

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

/// Whether a copy is to go: what it was copied from is gone, is in its namespace, is in conflict or does not serve it; or
/// it is for all namespaces, and copies of those are `disabled`.
pub fn is_stale(
    copy: &ClusterServiceVersion,
    original: Option<&ClusterServiceVersion>,
    disabled: bool,
) -> bool {
    let namespace = copy.metadata.namespace.as_deref().unwrap_or_default();
    let home = copy.metadata.annotations.as_ref().and_then(|all| all.get(GROUP_NAMESPACE_ANNOTATION));
    let (Some(home), Some(original)) = (home, original) else { return true };
    let here: Namespaces = [namespace.to_owned()].into();
    home == namespace || namespaces(original, &here, disabled).is_empty()
}

/// The conditions of the OLMConfig: whether copies of operators for all namespaces are disabled, and whether what exists
/// agrees with that.
pub fn conditions(config: &OLMConfig, agrees: bool, now: Timestamp) -> Vec<Condition> {
    let disabled = is_disabled(Some(config));
    let (reason, message) = match (disabled, agrees) {
        (false, true) => ("CopiedCSVsEnabled", texts::message::COPIES_COMPLETE),
        (false, false) => ("CopiedCSVsEnabled", texts::message::COPIES_MISSING),
        (true, true) => ("CopiedCSVsDisabled", texts::message::COPIES_GONE),
        (true, false) => ("CopiedCSVsDisabled", texts::message::COPIES_LEFT),
    };
    let status = if disabled && agrees { "True" } else { "False" };
    let mut all = config.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let known = all.iter().position(|one| one.type_ == DISABLED).map(|at| all.remove(at));
    let since = known.filter(|known| known.status == status).map(|known| known.last_transition_time);
    all.push(Condition {
        type_: DISABLED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: config.metadata.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    });
    all
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
        let is_stale = |original: Option<&ClusterServiceVersion>| super::is_stale(&copy, original, true);
        assert!(!is_stale(Some(&original)) && is_stale(None));
        assert!(is_stale(Some(&csv("c", "ComponentUnhealthy"))));
        assert!(is_stale(Some(&csv("b", reason::GROUP_CONFLICT))));
        let global = csv("", "ComponentUnhealthy");
        assert!(is_stale(Some(&global)) && !super::is_stale(&copy, Some(&global), false));
    }

    #[test]
    fn a_copy_in_memory_is_small_and_known_by_its_digest() {
        let original = csv("b", "ComponentUnhealthy");
        let wanted = copy(&original, "b");
        let mut read = wanted.clone();
        read.metadata.resource_version = Some("7".to_owned());
        trim(&mut read);
        assert_eq!(Digest::of_trimmed(&read), Digest::of(&wanted));
        assert_eq!(
            Digest::of(&copy(&original, "c")),
            Digest::of(&wanted),
            "it is the same in each namespace"
        );
        assert!(read.spec.display_name.is_empty() && !is_stale(&read, Some(&original), true));
        let mut other = original.clone();
        other.spec.version = Some("2.0.0".to_owned());
        let newer = Digest::of(&copy(&other, "b"));
        assert_ne!(newer.object, Digest::of(&wanted).object);
        assert_eq!(newer.status, Digest::of(&wanted).status);
        let mut own = original.clone();
        trim(&mut own);
        assert_eq!(own, original, "what is no copy stays as it is");
    }

    #[test]
    fn the_condition_says_what_is_wanted_and_whether_it_is_so() {
        let config = |disabled: Option<bool>| -> OLMConfig {
            serde_json::from_value(json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig",
                "metadata": {"name": "cluster", "generation": 2},
                "spec": {"features": {"disableCopiedCSVs": disabled}},
            }))
            .unwrap()
        };
        assert!(
            is_disabled(None) && is_disabled(Some(&config(None))) && !is_disabled(Some(&config(Some(false))))
        );
        let rows = [
            (
                Some(false),
                true,
                "False CopiedCSVsEnabled Copied CSVs are enabled and present across the cluster",
            ),
            (
                Some(false),
                false,
                "False CopiedCSVsEnabled Copied CSVs are enabled and at least one copied CSVs is missing",
            ),
            (
                Some(true),
                true,
                "True CopiedCSVsDisabled Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode",
            ),
            (
                None,
                false,
                "False CopiedCSVsDisabled Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode",
            ),
        ];
        for (disabled, agrees, wanted) in rows {
            let mut config = config(disabled);
            let first = conditions(&config, agrees, Timestamp::UNIX_EPOCH);
            let [one] = first.as_slice() else { panic!("{first:?}") };
            assert_eq!(format!("{} {} {}", one.status, one.reason, one.message), wanted);
            config.status.get_or_insert_default().conditions = first.clone();
            let later = conditions(&config, agrees, Timestamp::from_second(9).unwrap());
            assert_eq!(later, first, "the time stays");
        }
    }
}
