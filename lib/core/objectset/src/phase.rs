//! Phases: the order in which the objects of a revision are rolled out.
//!
//! Group and kind decide, by the table of kinds; all others are of the phase `deploy`.

use olm_object::{ObjectKey, PHASES, known_kind};
use serde_json::Value;

/// Objects that are rolled out together.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name, unique within the revision.
    pub name: String,
    /// The objects, in the order they are written.
    pub objects: Vec<Value>,
}

/// The phase of every kind that is not in the table.
const DEFAULT_PHASE: &str = "deploy";

/// Name of the phase that objects of this group and kind belong to.
pub fn phase_of(group: &str, kind: &str) -> &'static str {
    known_kind(group, kind).map_or(DEFAULT_PHASE, |known| known.phase)
}

/// Sorts objects into phases; empty phases are left out. The input's order does not matter.
pub fn assign(objects: Vec<Value>) -> Vec<Phase> {
    let mut keyed: Vec<(ObjectKey, Value)> = objects.into_iter().map(|o| (ObjectKey::of(&o), o)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    let mut phases: Vec<Phase> =
        PHASES.iter().map(|name| Phase { name: (*name).to_owned(), objects: Vec::new() }).collect();
    for (key, object) in keyed {
        let name = phase_of(&key.group, &key.kind);
        if let Some(phase) = phases.iter_mut().find(|p| p.name == name) {
            phase.objects.push(object);
        }
    }
    phases.retain(|p| !p.objects.is_empty());
    phases
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use olm_object::text;

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn phases_come_in_order_and_empty_ones_are_left_out() {
        let phases = assign(vec![
            object("apps/v1", "Deployment", "d"),
            object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w"),
            object("v1", "ServiceAccount", "b"),
            object("v1", "ServiceAccount", "a"),
            object("example.com/v1", "Widget", "x"),
        ]);
        let names: Vec<_> = phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["identity", "deploy", "admission"]);
        assert_eq!(ObjectKey::of(&phases[0].objects[0]).name, "a");
        assert_eq!(phases[1].objects.len(), 2);
    }

    /// Phases and kinds as operator-controller has them, and some that are in none of its lists.
    const LISTED: [(&str, &str); 13] = [
        ("namespaces", "v1 Namespace"),
        (
            "policies",
            "networking.k8s.io/v1 NetworkPolicy, policy/v1 PodDisruptionBudget, scheduling.k8s.io/v1 PriorityClass",
        ),
        ("identity", "v1 ServiceAccount"),
        ("configuration", "v1 ConfigMap, v1 Secret"),
        ("storage", "v1 PersistentVolume, v1 PersistentVolumeClaim, storage.k8s.io/v1 StorageClass"),
        ("crds", "apiextensions.k8s.io/v1 CustomResourceDefinition"),
        ("roles", "rbac.authorization.k8s.io/v1 ClusterRole, rbac.authorization.k8s.io/v1 Role"),
        (
            "bindings",
            "rbac.authorization.k8s.io/v1 ClusterRoleBinding, rbac.authorization.k8s.io/v1 RoleBinding",
        ),
        ("infrastructure", "v1 Service, cert-manager.io/v1 Certificate, cert-manager.io/v1 Issuer"),
        (
            "deploy",
            "v1 Pod, apps/v1 DaemonSet, apps/v1 Deployment, example.com/v1 Namespace, networking.k8s.io/v1 IngressClass",
        ),
        ("scaling", "autoscaling.k8s.io/v1 VerticalPodAutoscaler"),
        (
            "publish",
            "console.openshift.io/v1 ConsoleCLIDownload, console.openshift.io/v1 ConsoleLink, \
             console.openshift.io/v1 ConsolePlugin, console.openshift.io/v1 ConsoleQuickStart, \
             console.openshift.io/v1 ConsoleYAMLSample, monitoring.coreos.com/v1 PodMonitor, \
             monitoring.coreos.com/v1 PrometheusRule, monitoring.coreos.com/v1 ServiceMonitor, \
             networking.k8s.io/v1 Ingress, route.openshift.io/v1 Route",
        ),
        (
            "admission",
            "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration, \
             admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
        ),
    ];

    #[test]
    fn every_kind_of_upstream_is_in_its_phase_and_the_phases_are_in_its_order() {
        let kinds = LISTED.iter().rev().flat_map(|(_, kinds)| kinds.split(", "));
        let objects = kinds.filter_map(|kind| kind.split_once(' '));
        let objects = objects.map(|(version, kind)| object(version, kind, "x")).collect();
        let kind = |object: &Value| format!("{} {}", text(object, "/apiVersion"), text(object, "/kind"));
        let found: Vec<(String, String)> = assign(objects)
            .into_iter()
            .map(|phase| (phase.name, phase.objects.iter().map(kind).collect::<Vec<_>>().join(", ")))
            .collect();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(phase, kinds)| (phase.as_str(), kinds.as_str())).collect();
        assert_eq!(found, LISTED);
    }

    #[test]
    fn a_role_of_a_foreign_group_is_deployed_like_any_other_kind() {
        assert_eq!(phase_of("example.com", "Role"), "deploy");
        assert_eq!(phase_of("rbac.authorization.k8s.io", "Role"), "roles");
    }

    #[test]
    fn the_order_of_the_input_does_not_matter() {
        let mut objects: Vec<Value> = (0..20).map(|i| object("v1", "ConfigMap", &format!("c{i}"))).collect();
        let forward = assign(objects.clone());
        objects.reverse();
        assert_eq!(assign(objects), forward);
    }
}
