//! What stands behind webhooks and APIServices: Services, permissions, the configurations and the APIServices.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use olm_api_classic::{
    ApiServiceDescription, ClusterServiceVersion, WebhookDescription, WebhookType, names::MANAGED_LABEL,
};
use olm_render::{certificate_name, service_name};
use serde_json::{Value, json};

use super::{key, owner};
use crate::{
    group::{
        membership::Group,
        roles::owner_labels,
        targets::{NAMESPACE_LABEL_PREFIX, is_global},
    },
    hashes,
};

/// Label of a webhook configuration: the name that its description has.
pub const WEBHOOK_NAME_LABEL: &str = "olm.webhook-description-generate-name";
/// Label of a webhook configuration: the hash of its description, and of the namespaces that it is for.
pub const WEBHOOK_HASH_LABEL: &str = "olm.webhook-description-hash";
/// The namespace in which is said whom kube-apiserver forwards requests as.
pub const SYSTEM_NAMESPACE: &str = "kube-system";
/// The port of a Service whose description names none.
const PORT: i32 = 443;

/// A Deployment that serves webhooks or APIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub deployment: String,
    /// Its Service.
    pub service: String,
    /// The Secret with its certificate.
    pub secret: String,
    /// The names that the certificate is for.
    pub names: Vec<String>,
    /// The ServiceAccount of its Pods.
    pub account: String,
}

fn services(csv: &ClusterServiceVersion) -> impl Iterator<Item = &ApiServiceDescription> {
    csv.spec.apiservicedefinitions.iter().flat_map(|all| &all.owned)
}

fn webhooks(csv: &ClusterServiceVersion) -> impl Iterator<Item = &WebhookDescription> {
    csv.spec.webhookdefinitions.iter().flatten()
}

/// The Deployments of an operator that serve webhooks or APIs, in the order of its strategy.
pub fn servers(csv: &ClusterServiceVersion) -> Vec<Server> {
    let named: BTreeSet<&str> = services(csv)
        .filter_map(|service| service.deployment_name.as_deref())
        .chain(webhooks(csv).filter_map(|webhook| webhook.deployment_name.as_deref()))
        .collect();
    let namespace = key(csv).0;
    let all = csv.spec.install.spec.iter().flat_map(|spec| &spec.deployments);
    all.filter(|one| named.contains(one.name.as_str()))
        .map(|one| {
            let service = service_name(&one.name);
            let host = format!("{service}.{namespace}");
            let account = one.spec.template.spec.as_ref().and_then(|pod| pod.service_account_name.clone());
            Server {
                deployment: one.name.clone(),
                secret: certificate_name(&one.name),
                names: vec![host.clone(), format!("{host}.svc"), format!("{host}.svc.cluster.local")],
                account: account.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()),
                service,
            }
        })
        .collect()
}

/// Whether the status asks for other certificates: their time has come, or the one that was set is over.
pub fn is_rotation_due(csv: &ClusterServiceVersion, now: Timestamp) -> bool {
    let at = csv.status.as_ref().and_then(|status| status.certs_rotate_at.as_ref());
    at.is_some_and(|at| at.0 <= now) && !servers(csv).is_empty()
}

/// The Service in front of a server.
pub fn service(csv: &ClusterServiceVersion, server: &Server) -> Service {
    let mut ports: BTreeMap<i32, Value> = BTreeMap::new();
    let of_server = |name: &Option<String>| name.as_deref() == Some(server.deployment.as_str());
    for one in services(csv).filter(|one| of_server(&one.deployment_name)) {
        let port = one.container_port.filter(|port| *port > 0).unwrap_or(PORT);
        ports.insert(port, port.into());
    }
    for one in webhooks(csv).filter(|one| of_server(&one.deployment_name)) {
        let target = one.target_port.as_ref().map_or(one.container_port.into(), |target| json!(target));
        ports.insert(one.container_port, target);
    }
    let ports: Vec<_> = ports
        .into_iter()
        .map(|(port, target)| json!({"name": port.to_string(), "port": port, "targetPort": target}))
        .collect();
    let strategy = csv.spec.install.spec.iter().flat_map(|spec| &spec.deployments);
    let deployment = strategy.into_iter().find(|one| one.name == server.deployment);
    let selector = deployment.and_then(|one| one.spec.selector.match_labels.clone());
    let object = json!({
        "metadata": {
            "name": server.service, "namespace": key(csv).0,
            "labels": {MANAGED_LABEL: "true"}, "ownerReferences": [owner(csv)],
        },
        "spec": {"ports": ports, "selector": selector},
    });
    serde_json::from_value(object).unwrap_or_default()
}

/// The permissions of a server: to read its certificate, and, if it serves APIs, to have requests reviewed.
pub fn permissions(csv: &ClusterServiceVersion, server: &Server) -> Vec<Value> {
    let (namespace, name) = key(csv);
    let subject = json!({"kind": "ServiceAccount", "name": server.account, "namespace": namespace});
    let rbac = "rbac.authorization.k8s.io";
    let owned = json!({
        "name": server.secret, "namespace": namespace,
        "labels": {MANAGED_LABEL: "true"}, "ownerReferences": [owner(csv)],
    });
    let mut all = vec![
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": owned, "rules": [
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [server.secret], "verbs": ["get"]},
        ]}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": owned, "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": server.secret},
        }),
    ];
    if services(csv).any(|one| one.deployment_name.as_deref() == Some(server.deployment.as_str())) {
        let labels = owner_labels("ClusterServiceVersion", namespace, name);
        all.push(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": delegator_name(server), "labels": labels},
            "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:auth-delegator"},
        }));
        all.push(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
            "metadata": {
                "name": reader_name(server), "namespace": SYSTEM_NAMESPACE, "labels": labels,
            },
            "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        }));
    }
    all
}

/// The name of the ClusterRoleBinding that lets a server of APIs have requests reviewed.
pub fn delegator_name(server: &Server) -> String {
    format!("{}-system:auth-delegator", server.service)
}

/// The name of the RoleBinding that lets it read whom kube-apiserver forwards requests as.
pub fn reader_name(server: &Server) -> String {
    format!("{}-auth-reader", server.service)
}

/// The APIServices of an operator. `bundles` has the authority of each server in base64, by Deployment.
pub fn api_services(csv: &ClusterServiceVersion, bundles: &BTreeMap<String, String>) -> Vec<Value> {
    let (namespace, name) = key(csv);
    let labels = owner_labels("ClusterServiceVersion", namespace, name);
    services(csv)
        .filter_map(|one| {
            let deployment = one.deployment_name.as_deref()?;
            let port = one.container_port.filter(|port| *port > 0).unwrap_or(PORT);
            Some(json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{}.{}", one.version, one.group), "labels": labels},
                "spec": {
                    "group": one.group, "version": one.version,
                    "groupPriorityMinimum": 2000, "versionPriority": 15,
                    "caBundle": bundles.get(deployment)?,
                    "service": {"namespace": namespace, "name": service_name(deployment), "port": port},
                },
            }))
        })
        .collect()
}

/// The labels by which the configuration of a webhook is found, without its hash.
pub fn webhook_labels(csv: &ClusterServiceVersion, webhook: &WebhookDescription) -> BTreeMap<String, String> {
    let (namespace, name) = key(csv);
    let mut labels = owner_labels("ClusterServiceVersion", namespace, name);
    labels.insert(WEBHOOK_NAME_LABEL.to_owned(), webhook.generate_name.clone());
    labels
}

/// The namespaces that the webhooks of a group's operators are for: those that its selector finds, or that have its label.
fn namespace_selector(group: &Group) -> Option<Value> {
    let labelled = || {
        let label = format!("{NAMESPACE_LABEL_PREFIX}{}", group.uid);
        (!is_global(&group.targets)).then(|| json!({"matchLabels": {label: ""}}))
    };
    group.selector.clone().or_else(labelled)
}

/// The hash of a configuration. What others write into one, as operators do that renew their certificates themselves, has
/// no part in it.
pub fn webhook_hash(webhook: &WebhookDescription, group: &Group) -> String {
    hashes::of_json(&json!([webhook, namespace_selector(group)]), true)
}

/// The configuration of an admission webhook, without a name: that is made up by the API server. None for other types, and
/// without the authority of its server in base64.
pub fn webhook_configuration(
    csv: &ClusterServiceVersion,
    webhook: &WebhookDescription,
    group: &Group,
    bundle: &str,
) -> Option<Value> {
    let kind = match webhook.type_ {
        WebhookType::ValidatingAdmissionWebhook => "ValidatingWebhookConfiguration",
        WebhookType::MutatingAdmissionWebhook => "MutatingWebhookConfiguration",
        WebhookType::ConversionWebhook => return None,
    };
    let mut labels = webhook_labels(csv, webhook);
    labels.insert(WEBHOOK_HASH_LABEL.to_owned(), webhook_hash(webhook, group));
    let mut body = json!({
        "name": webhook.generate_name,
        "clientConfig": {
            "service": {
                "namespace": key(csv).0, "name": service_name(webhook.deployment_name.as_deref()?),
                "port": webhook.container_port,
            },
            "caBundle": bundle,
        },
        "sideEffects": webhook.side_effects, "admissionReviewVersions": webhook.admission_review_versions,
    });
    if let Some(path) = &webhook.webhook_path {
        body["clientConfig"]["service"]["path"] = path.as_str().into();
    }
    let reinvocation = webhook.reinvocation_policy.as_ref();
    let reinvocation = reinvocation.filter(|_| webhook.type_ == WebhookType::MutatingAdmissionWebhook);
    for (field, value) in [
        ("rules", webhook.rules.as_ref().map(|rules| json!(rules))),
        ("failurePolicy", webhook.failure_policy.as_ref().map(|value| json!(value))),
        ("matchPolicy", webhook.match_policy.as_ref().map(|value| json!(value))),
        ("objectSelector", webhook.object_selector.as_ref().map(|value| json!(value))),
        ("timeoutSeconds", webhook.timeout_seconds.map(|value| json!(value))),
        ("reinvocationPolicy", reinvocation.map(|value| json!(value))),
    ] {
        if let Some(value) = value {
            body[field] = value;
        }
    }
    if let Some(selector) = namespace_selector(group) {
        body["namespaceSelector"] = selector;
    }
    Some(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"generateName": format!("{}-", webhook.generate_name), "labels": labels},
        "webhooks": [body],
    }))
}

#[cfg(test)]
mod tests {
    use olm_api_classic::ClusterServiceVersionSpec;

    use super::*;

    fn csv() -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "op.v1", "namespace": "ops", "uid": "u"},
            "spec": {
                "displayName": "a",
                "install": {"strategy": "deployment", "spec": {"deployments": [
                    {"name": "plain", "spec": {"selector": {}, "template": {}}},
                    {"name": "op.server", "spec": {"selector": {"matchLabels": {"app": "op"}}, "template": {}}},
                ]}},
                "webhookdefinitions": [{
                    "type": "MutatingAdmissionWebhook", "generateName": "m.st.io", "deploymentName": "op.server",
                    "targetPort": 9443, "sideEffects": "None", "admissionReviewVersions": ["v1"], "webhookPath": "/v",
                }],
                "apiservicedefinitions": {"owned": [
                    {"name": "widgets", "group": "own.st.io", "version": "v1", "kind": "Widget",
                     "deploymentName": "op.server", "containerPort": 5443},
                ]},
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_server_has_one_service_that_all_who_call_it_name() {
        let csv = csv();
        let [server] = servers(&csv).try_into().unwrap();
        assert_eq!(
            (server.service.as_str(), server.secret.as_str()),
            ("op-server-service", "op-server-service-cert")
        );
        assert_eq!(server.names[2], "op-server-service.ops.svc.cluster.local");
        let service = json!(service(&csv, &server));
        let ports = json!([
            {"name": "443", "port": 443, "targetPort": 9443}, {"name": "5443", "port": 5443, "targetPort": 5443},
        ]);
        assert_eq!(
            (&service["spec"]["ports"], &service["spec"]["selector"]),
            (&ports, &json!({"app": "op"}))
        );
        let bundles = [("op.server".to_owned(), "Q0E=".to_owned())].into();
        let api = api_services(&csv, &bundles).pop().unwrap();
        assert_eq!(api["metadata"]["name"], "v1.own.st.io");
        assert_eq!(api["spec"]["service"]["name"], service["metadata"]["name"]);
        assert_eq!(permissions(&csv, &server).len(), 4);
    }

    #[test]
    fn a_webhook_reaches_the_namespaces_of_the_group_alone() {
        let csv = csv();
        let webhook = webhooks(&csv).next().unwrap();
        let mut group = Group { uid: "u1".to_owned(), targets: ["a".to_owned()].into(), ..Group::default() };
        let of = |group: &Group| webhook_configuration(&csv, webhook, group, "Q0E=").unwrap();
        let object = of(&group);
        assert_eq!(object["metadata"]["generateName"], "m.st.io-");
        assert_eq!(object["metadata"]["labels"]["olm.webhook-description-generate-name"], "m.st.io");
        let body = &object["webhooks"][0];
        assert_eq!(body["namespaceSelector"], json!({"matchLabels": {"olm.operatorgroup.uid/u1": ""}}));
        assert_eq!(body["clientConfig"]["service"]["name"], "op-server-service");
        let selector = json!({"matchLabels": {"team": "a"}});
        let selecting = Group { selector: Some(selector.clone()), ..group.clone() };
        assert_eq!(of(&selecting)["webhooks"][0]["namespaceSelector"], selector);
        let hash = |object: &Value| object["metadata"]["labels"][WEBHOOK_HASH_LABEL].clone();
        assert_ne!(hash(&of(&selecting)), hash(&object), "other namespaces are another configuration");
        group.targets = [String::new()].into();
        assert!(of(&group)["webhooks"][0].get("namespaceSelector").is_none());
    }

    #[test]
    fn certificates_are_due_when_the_time_in_the_status_has_come() {
        let mut csv = csv();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        assert!(!is_rotation_due(&csv, now), "without a time");
        let mut at = |second| {
            let time = Timestamp::from_second(second).unwrap();
            csv.status.get_or_insert_default().certs_rotate_at =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
            let due = is_rotation_due(&csv, now);
            (
                due,
                is_rotation_due(
                    &ClusterServiceVersion { spec: ClusterServiceVersionSpec::default(), ..csv.clone() },
                    now,
                ),
            )
        };
        assert_eq!(
            [at(1), at(1_800_000_000), at(1_800_000_001)],
            [(true, false), (true, false), (false, false)]
        );
    }
}
