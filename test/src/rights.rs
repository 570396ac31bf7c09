//! ServiceAccounts with exactly the rights that a bundle needs.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use olm_objectset::ObjectKey;
use olm_render::{Options, render};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The rules an account needs to manage the objects that `bundles` render to: cluster-wide ones, and those in
/// the install namespace.
pub struct Rules {
    cluster: Vec<Value>,
    namespace: Vec<Value>,
}

impl Rules {
    /// Adds a rule in the install namespace.
    pub fn allow_in_namespace(&mut self, groups: &[&str], resources: &[&str], verbs: &[&str]) {
        self.namespace.push(json!({"apiGroups": groups, "resources": resources, "verbs": verbs}));
    }
}

/// Works the rules out, for bundles given as files.
///
/// # Errors
/// A bundle does not render.
pub fn rules_for(
    bundles: &[olm_render::BundleFiles],
    install_namespace: &str,
    extension: &str,
) -> Result<Rules> {
    let mut cluster = BTreeSet::new();
    let mut namespace = BTreeSet::new();
    // Names of revisions are known: the first few are enough for a test.
    let revisions: Vec<String> = (1..=20).map(|n| format!("{extension}-{n}")).collect();
    cluster.insert(
        json!({
            "apiGroups": ["olm.operatorframework.io"], "resources": ["clusterobjectsets/finalizers"],
            "resourceNames": revisions, "verbs": ["update"],
        })
        .to_string(),
    );
    for files in bundles {
        let rendered =
            render(files, &Options::new(install_namespace)).context("rendering a bundle for its rights")?;
        let kinds = plurals(&rendered.objects);
        for object in &rendered.objects {
            let key = ObjectKey::of(object);
            let rules = if key.namespace.is_empty() { &mut cluster } else { &mut namespace };
            let resource = plural(&key, &kinds);
            for rule in [
                json!({"apiGroups": [key.group], "resources": [resource], "verbs": ["create"]}),
                json!({"apiGroups": [key.group], "resources": [resource], "resourceNames": [key.name],
                       "verbs": ["get", "update", "patch", "delete"]}),
            ] {
                rules.insert(rule.to_string());
            }
            if key.group == RBAC {
                for rule in object.get("rules").and_then(Value::as_array).into_iter().flatten() {
                    rules.insert(rule.to_string());
                }
                if let Some(rule) = binding_of_a_foreign_role(object, &rendered.objects) {
                    rules.insert(rule.to_string());
                }
            }
        }
    }
    let parse =
        |rules: BTreeSet<String>| rules.iter().map(|r| serde_json::from_str(r)).collect::<Result<_, _>>();
    Ok(Rules { cluster: parse(cluster)?, namespace: parse(namespace)? })
}

/// The right to bind a role that the bundle does not bring itself.
fn binding_of_a_foreign_role(binding: &Value, objects: &[Value]) -> Option<Value> {
    let kind = binding.pointer("/roleRef/kind")?.as_str()?;
    let name = binding.pointer("/roleRef/name")?.as_str()?;
    let shipped = objects.iter().map(ObjectKey::of).any(|key| key.kind == kind && key.name == name);
    let resource = format!("{}s", kind.to_lowercase());
    (!shipped).then(
        || json!({"apiGroups": [RBAC], "resources": [resource], "resourceNames": [name], "verbs": ["bind"]}),
    )
}

/// Plurals of kinds that the bundle's own CRDs bring.
fn plurals(objects: &[Value]) -> Vec<(String, String)> {
    objects
        .iter()
        .filter(|o| ObjectKey::of(o).kind == "CustomResourceDefinition")
        .filter_map(|o| {
            let names = o.pointer("/spec/names")?;
            Some((names.get("kind")?.as_str()?.to_owned(), names.get("plural")?.as_str()?.to_owned()))
        })
        .collect()
}

fn plural(key: &ObjectKey, known: &[(String, String)]) -> String {
    if let Some((_, plural)) = known.iter().find(|(kind, _)| *kind == key.kind) {
        return plural.clone();
    }
    let lower = key.kind.to_lowercase();
    match lower.as_str() {
        "networkpolicy" => "networkpolicies".to_owned(),
        "priorityclass" | "storageclass" | "ingress" => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

/// Creates the ServiceAccount, in a namespace that exists.
///
/// # Errors
/// The API server's answer.
pub async fn create_account(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
    apply(client, &account, "v1", "ServiceAccount", "serviceaccounts", Some(namespace)).await
}

/// Grants `rules` to the ServiceAccount.
///
/// # Errors
/// The API server's answer.
pub async fn grant(client: &Client, namespace: &str, account: &str, rules: &Rules) -> Result<()> {
    let name = format!("{namespace}-{account}");
    let api_version = format!("{RBAC}/v1");
    let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    for (scope, kind, plural, rules) in [
        (None, "ClusterRole", "clusterroles", &rules.cluster),
        (Some(namespace), "Role", "roles", &rules.namespace),
    ] {
        let mut metadata = json!({"name": name});
        if let Some(namespace) = scope {
            metadata["namespace"] = namespace.into();
        }
        let role = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules});
        apply(client, &role, &api_version, kind, plural, scope).await?;
        let binding_kind = format!("{kind}Binding");
        let binding = json!({
            "apiVersion": api_version, "kind": binding_kind, "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": subject,
        });
        let plural = format!("{}bindings", plural.trim_end_matches('s'));
        apply(client, &binding, &api_version, &binding_kind, &plural, scope).await?;
    }
    Ok(())
}

async fn apply(
    client: &Client,
    object: &Value,
    api_version: &str,
    kind: &str,
    plural: &str,
    namespace: Option<&str>,
) -> Result<()> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = kube::api::ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let api: Api<kube::api::DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    api.patch(name, &PatchParams::apply("olm-test").force(), &Patch::Apply(object)).await?;
    Ok(())
}
