//! Objects of APIs that Kubernetes has removed: they cannot be created on the clusters of today.

use olm_semver::Version;
use serde_json::Value;

use super::Input;

/// An API that was removed: its apiVersion, its kinds, the minor version of Kubernetes 1 without it, what to use instead.
type Removed = (&'static str, &'static [&'static str], u64, &'static str);

const WORKLOADS: &[&str] = &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];

/// The removals that Kubernetes' own guide lists. New kinds came later in some of the versions, so kinds are named.
const REMOVED: [Removed; 24] = [
    ("extensions/v1beta1", WORKLOADS, 16, "apps/v1"),
    ("extensions/v1beta1", &["NetworkPolicy"], 16, "networking.k8s.io/v1"),
    ("extensions/v1beta1", &["PodSecurityPolicy"], 16, "Pod Security Admission"),
    ("apps/v1beta1", WORKLOADS, 16, "apps/v1"),
    ("apps/v1beta2", WORKLOADS, 16, "apps/v1"),
    (
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
        22,
        "admissionregistration.k8s.io/v1",
    ),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"], 22, "apiextensions.k8s.io/v1"),
    ("apiregistration.k8s.io/v1beta1", &["APIService"], 22, "apiregistration.k8s.io/v1"),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"], 22, "certificates.k8s.io/v1"),
    ("coordination.k8s.io/v1beta1", &["Lease"], 22, "coordination.k8s.io/v1"),
    ("extensions/v1beta1", &["Ingress"], 22, "networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"], 22, "networking.k8s.io/v1"),
    (
        "rbac.authorization.k8s.io/v1beta1",
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        22,
        "rbac.authorization.k8s.io/v1",
    ),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"], 22, "scheduling.k8s.io/v1"),
    (
        "storage.k8s.io/v1beta1",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
        22,
        "storage.k8s.io/v1",
    ),
    ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"], 25, "autoscaling/v2"),
    ("batch/v1beta1", &["CronJob"], 25, "batch/v1"),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"], 25, "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", &["Event"], 25, "events.k8s.io/v1"),
    ("node.k8s.io/v1beta1", &["RuntimeClass"], 25, "node.k8s.io/v1"),
    ("policy/v1beta1", &["PodDisruptionBudget"], 25, "policy/v1"),
    ("policy/v1beta1", &["PodSecurityPolicy"], 25, "Pod Security Admission"),
    ("autoscaling/v2beta2", &["HorizontalPodAutoscaler"], 26, "autoscaling/v2"),
    ("storage.k8s.io/v1beta1", &["CSIStorageCapacity"], 27, "storage.k8s.io/v1"),
];

/// Objects that no Kubernetes version takes which the operator is for.
pub(super) fn everywhere(input: &Input<'_>) -> Vec<String> {
    sentences(input, |lowest, removed| lowest.is_some_and(|lowest| lowest >= removed))
}

/// Objects that only the older ones of these versions take.
pub(super) fn later(input: &Input<'_>) -> Vec<String> {
    sentences(input, |lowest, removed| lowest.is_none_or(|lowest| lowest < removed))
}

fn sentences(input: &Input<'_>, is_wanted: impl Fn(Option<u64>, u64) -> bool) -> Vec<String> {
    let lowest = lowest_minor(input);
    let text = |object: &Value, field: &str| olm_object::text(object, field).to_owned();
    let found = input.manifests.iter().filter_map(|object| {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let is_it = |one: &&Removed| one.0 == version && one.1.contains(&kind.as_str());
        let (.., removed, instead) = REMOVED.iter().find(is_it)?;
        is_wanted(lowest, *removed).then(|| {
            format!(
                "{kind} {:?}: Kubernetes 1.{removed} and later do not have {version}: use {instead}",
                text(object, "/metadata/name")
            )
        })
    });
    found.collect()
}

/// The minor version of `spec.minKubeVersion`.
fn lowest_minor(input: &Input<'_>) -> Option<u64> {
    let text = input.spec.text("minKubeVersion").trim();
    let plain = text.strip_prefix('v').unwrap_or(text);
    let forms = [plain.to_owned(), format!("{plain}.0")];
    let version = forms.iter().find_map(|text| text.parse::<Version>().ok())?;
    Some(if version.major() > 1 { u64::MAX } else { version.minor() })
}
