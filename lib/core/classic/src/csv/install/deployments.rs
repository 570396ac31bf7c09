//! The Deployments of an operator.

use k8s_openapi::api::apps::v1::Deployment;
use olm_api_classic::{
    ClusterServiceVersion, StrategyDeployment, SubscriptionConfig, names::DEPLOYMENT_HASH_LABEL,
};
use olm_render::{VolumeOrder, apply_deployment_config, certificate_name, mount_certificates};
use serde_json::{Map, Value, json};

use super::{key, owner};
use crate::{csv::deployments::Wanted, group::roles::owner_labels, hashes};

/// Annotation of Pods and of the Secret with their certificate: the hash of its authority.
pub const CA_HASH_ANNOTATION: &str = "olmcahash";
/// The variable by which an operator finds its OperatorCondition.
const CONDITION_VARIABLE: &str = "OPERATOR_CONDITION_NAME";

/// The variables of a proxy, and the fields with their values.
const PROXY: [(&str, &str); 3] =
    [("HTTP_PROXY", "httpProxy"), ("HTTPS_PROXY", "httpsProxy"), ("NO_PROXY", "noProxy")];

/// What is added to the Deployments of the strategy.
#[derive(Debug, Clone, Default)]
pub struct Additions<'a> {
    /// The configuration of the Subscription, if one has installed the operator.
    pub config: Option<&'a SubscriptionConfig>,
    /// The variables of the cluster's proxy.
    pub proxy: Vec<(&'static str, String)>,
    /// The hash of the authority of each Deployment that serves webhooks or APIs, by name.
    pub authorities: std::collections::BTreeMap<String, String>,
}

/// The variables that lead Pods to a cluster's proxy, from OpenShift's object `cluster` of the kind Proxy.
pub fn proxy_variables(proxy: &Value) -> Vec<(&'static str, String)> {
    let value = |(name, field): (&'static str, &str)| {
        let value = proxy["status"][field].as_str().filter(|value| !value.is_empty())?;
        Some((name, value.to_owned()))
    };
    PROXY.into_iter().filter_map(value).collect()
}

/// The Deployments of an operator, in the order of its strategy.
///
/// # Errors
/// A Deployment of the strategy cannot be written: the text names it.
pub fn deployments(
    csv: &ClusterServiceVersion,
    additions: &Additions<'_>,
) -> Result<Vec<Deployment>, String> {
    let all = csv.spec.install.spec.iter().flat_map(|spec| &spec.deployments);
    all.map(|one| {
        let object = object(csv, one, additions);
        serde_json::from_value(object).map_err(|error| format!("deployment {}: {error}", one.name))
    })
    .collect()
}

/// The names of Deployments with the hashes of their specs.
pub fn wanted(deployments: &[Deployment]) -> Vec<Wanted> {
    let wanted = |deployment: &Deployment| {
        let (name, labels) = (&deployment.metadata.name, &deployment.metadata.labels);
        let hash = labels.as_ref().and_then(|labels| labels.get(DEPLOYMENT_HASH_LABEL));
        Wanted { name: name.clone().unwrap_or_default(), hash: hash.cloned().unwrap_or_default() }
    };
    deployments.iter().map(wanted).collect()
}

fn object(csv: &ClusterServiceVersion, one: &StrategyDeployment, additions: &Additions<'_>) -> Value {
    let (namespace, name) = key(csv);
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": one.name, "namespace": namespace, "ownerReferences": [owner(csv)]},
        "spec": one.spec,
    });
    object["spec"]["revisionHistoryLimit"] = 1.into();
    annotate(&mut object, csv, additions.authorities.get(&one.name));
    if additions.authorities.contains_key(&one.name) {
        mount_certificates(&mut object, &certificate_name(&one.name), VolumeOrder::ApiServiceFirst);
        let pod = &mut object["spec"]["template"]["spec"];
        // Permissions are bound to a ServiceAccount by name.
        if pod["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
            pod["serviceAccountName"] = "default".into();
        }
    }
    apply_deployment_config(&mut object, &configuration(additions));
    set_variable(&mut object, CONDITION_VARIABLE, name);
    let hash = hashes::of_json(&object["spec"], true);
    let mut labels = one.label.clone().unwrap_or_default();
    labels.extend(owner_labels("ClusterServiceVersion", namespace, name));
    labels.insert(DEPLOYMENT_HASH_LABEL.to_owned(), hash);
    object["metadata"]["labels"] = json!(labels);
    object
}

/// The configuration of the Subscription with the variables of the proxy, unless it sets one of those.
fn configuration(additions: &Additions<'_>) -> Map<String, Value> {
    let mut config = match additions.config.map(|config| json!(config)) {
        Some(Value::Object(config)) => config,
        _ => Map::new(),
    };
    let set = config.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_set = set.iter().any(|one| PROXY.iter().any(|(name, _)| one["name"] == *name));
    if !additions.proxy.is_empty() && !is_set {
        let proxy = additions.proxy.iter().map(|(name, value)| json!({"name": name, "value": value}));
        config.insert("env".to_owned(), set.into_iter().chain(proxy).collect());
    }
    config
}

/// Puts the annotations of the operator on the Pods, where the downward API finds the namespaces.
fn annotate(object: &mut Value, csv: &ClusterServiceVersion, authority: Option<&String>) {
    let template = &mut object["spec"]["template"];
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    let metadata = &mut template["metadata"];
    let mut annotations = match metadata.get_mut("annotations").map(Value::take) {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    let own = csv.metadata.annotations.iter().flatten();
    annotations.extend(own.map(|(key, value)| (key.clone(), value.as_str().into())));
    if let Some(authority) = authority {
        annotations.insert(CA_HASH_ANNOTATION.to_owned(), authority.as_str().into());
    }
    metadata["annotations"] = annotations.into();
}

fn set_variable(object: &mut Value, name: &str, value: &str) {
    let containers = object.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if !container["env"].is_array() {
            container["env"] = json!([]);
        }
        let Some(env) = container["env"].as_array_mut() else { continue };
        env.retain(|one| one["name"] != name);
        env.push(json!({"name": name, "value": value}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "op.v1", "namespace": "ops", "uid": "u", "annotations": {"olm.targetNamespaces": "a", "x": "csv"}},
            "spec": {"displayName": "a", "install": {"strategy": "deployment", "spec": {"deployments": [{
                "name": "op", "label": {"l": "m"},
                "spec": {"selector": {"matchLabels": {"app": "op"}}, "template": {
                    "metadata": {"labels": {"app": "op"}, "annotations": {"x": "pod", "y": "pod"}},
                    "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "OPERATOR_CONDITION_NAME", "value": "other"}]}]},
                }},
            }]}}},
        }))
        .unwrap()
    }

    fn one(additions: &Additions<'_>) -> Value {
        json!(deployments(&csv(), additions).unwrap()[0])
    }

    #[test]
    fn a_deployment_has_upstreams_labels_annotations_and_environment() {
        let object = one(&Additions::default());
        assert_eq!(object["metadata"]["labels"]["olm.owner"], "op.v1");
        assert_eq!(object["metadata"]["labels"]["l"], "m");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(object["spec"]["revisionHistoryLimit"], 1);
        let template = &object["spec"]["template"];
        assert_eq!(
            template["metadata"]["annotations"],
            json!({"olm.targetNamespaces": "a", "x": "csv", "y": "pod"})
        );
        let env = json!([{"name": "OPERATOR_CONDITION_NAME", "value": "op.v1"}]);
        assert_eq!(template["spec"]["containers"][0]["env"], env);
        assert!(template["spec"]["serviceAccountName"].is_null());
    }

    #[test]
    fn the_configuration_of_the_subscription_and_the_certificate_change_the_hash() {
        let config: SubscriptionConfig = serde_json::from_value(
            json!({"env": [{"name": "A", "value": "b"}], "annotations": {"x": "sub", "z": "sub"}}),
        )
        .unwrap();
        let plain = one(&Additions::default());
        let configured = one(&Additions { config: Some(&config), ..Additions::default() });
        assert_eq!(configured["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "b");
        let annotations = &configured["spec"]["template"]["metadata"]["annotations"];
        assert_eq!((&annotations["x"], &annotations["z"]), (&json!("csv"), &json!("sub")));
        let authorities = [("op".to_owned(), "hash".to_owned())].into();
        let serving = one(&Additions { authorities, ..Additions::default() });
        let pod = &serving["spec"]["template"];
        assert_eq!(pod["metadata"]["annotations"]["olmcahash"], "hash");
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["volumes"][0]["secret"]["secretName"], "op-service-cert");
        let hash = |object: &Value| object["metadata"]["labels"]["olm.deployment-spec-hash"].clone();
        assert!(hash(&plain) != hash(&configured) && hash(&plain) != hash(&serving));
        assert_eq!(hash(&plain), hash(&one(&Additions::default())));
    }

    #[test]
    fn the_proxy_of_the_cluster_is_used_unless_the_subscription_sets_one() {
        let proxy = proxy_variables(&json!({
            "spec": {"httpsProxy": "http://wanted"}, "status": {"httpProxy": "http://p", "httpsProxy": "", "noProxy": "n"},
        }));
        assert_eq!(proxy, [("HTTP_PROXY", "http://p".to_owned()), ("NO_PROXY", "n".to_owned())]);
        assert!(proxy_variables(&json!({})).is_empty());
        let names = |env: Value| -> Vec<String> {
            let config: SubscriptionConfig = serde_json::from_value(json!({"env": env})).unwrap();
            let additions = Additions { config: Some(&config), proxy: proxy.clone(), ..Additions::default() };
            let object = one(&additions);
            let env = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
            env.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        let all = ["A", "HTTP_PROXY", "NO_PROXY", "OPERATOR_CONDITION_NAME"];
        assert_eq!(names(json!([{"name": "A", "value": "b"}])), all);
        let own = ["HTTPS_PROXY", "OPERATOR_CONDITION_NAME"];
        assert_eq!(names(json!([{"name": "HTTPS_PROXY", "value": ""}])), own);
    }
}
