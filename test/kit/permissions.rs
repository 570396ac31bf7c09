//! ServiceAccounts with exactly the permissions that a bundle needs, as `olm bundle rbac` prints them.

use crate::prelude::*;
use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX};
use olm_object::Rule;
use olm_rbac::{Grant, Style, targets};
use olm_render::{Options, render, webhook_certificates};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rules for an account, by namespace; those of the whole cluster stand under the empty name.
pub struct Rules {
    install_namespace: String,
    rules: BTreeMap<String, Vec<Value>>,
}

impl Rules {
    /// Adds a rule in the install namespace.
    pub fn allow_in_namespace(&mut self, groups: &[&str], resources: &[&str], verbs: &[&str]) {
        let rule = json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        self.rules.entry(self.install_namespace.clone()).or_default().push(rule);
    }

    /// Takes a verb on a resource out of every rule that names it.
    pub fn withhold(&mut self, verb: &str, resource: &str) {
        let names =
            |rule: &Value| rule["resources"].as_array().is_some_and(|all| all.iter().any(|r| r == resource));
        for rule in self.rules.values_mut().flatten().filter(|rule| names(rule)) {
            if let Some(verbs) = rule["verbs"].as_array_mut() {
                verbs.retain(|one| one != verb);
            }
        }
        // A rule without verbs is no rule.
        for rules in self.rules.values_mut() {
            rules.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
        }
    }
}

/// Works the rules out that an account needs to install, upgrade and remove `bundles`, given as files.
///
/// # Errors
/// A bundle does not render, or holds a kind that is not known without a cluster.
pub fn rules_for(bundles: &[BundleFiles], install_namespace: &str) -> Result<Rules> {
    let render = |files| render(Bundle::read(files, MEMORY_BYTES_MAX)?, &Options::new(install_namespace));
    let rendered = bundles.iter().map(render).collect::<Result<Vec<_>, _>>();
    let rendered = rendered.context("rendering a bundle for its permissions")?;
    // Whoever makes the certificates of webhooks: the account may write what any provider needs.
    let written: Vec<Vec<Value>> = rendered
        .into_iter()
        .map(|bundle| {
            let secrets = webhook_certificates(&bundle.objects).into_iter().map(|certificate| {
                json!({"apiVersion": "v1", "kind": "Secret",
                       "metadata": {"name": certificate.secret, "namespace": certificate.namespace}})
            });
            let secrets: Vec<_> = secrets.collect();
            bundle.objects.into_iter().chain(secrets).collect()
        })
        .collect();
    let bundles = written.iter().map(|objects| targets(objects)).collect::<Result<Vec<_>, _>>()?;
    let grant = Grant::new(install_namespace, "", &bundles, Style::Exact);
    let values = |rules: &[Rule]| rules.iter().map(|rule| json!(rule)).collect();
    let rules = grant.rules().map(|(namespace, rules)| (namespace.to_owned(), values(rules))).collect();
    Ok(Rules { install_namespace: install_namespace.to_owned(), rules })
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
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
    for (place, rules) in &rules.rules {
        allow(client, place, &name, &json!(rules), &subject).await?;
    }
    Ok(())
}

/// Gives a subject a role of this name with these rules, in a namespace or, where that is empty, in the whole cluster.
///
/// # Errors
/// The API server's answer.
pub async fn allow(client: &Client, place: &str, name: &str, rules: &Value, subject: &Value) -> Result<()> {
    let api_version = format!("{RBAC}/v1");
    let (scope, kind, plural) = match place {
        "" => (None, "ClusterRole", "clusterroles"),
        place => (Some(place), "Role", "roles"),
    };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = scope {
        metadata["namespace"] = namespace.into();
    }
    let role = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules});
    apply(client, &role, &api_version, kind, plural, scope).await?;
    let binding_kind = format!("{kind}Binding");
    let binding = json!({
        "apiVersion": api_version, "kind": binding_kind, "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": [subject],
    });
    let plural = format!("{}bindings", plural.trim_end_matches('s'));
    apply(client, &binding, &api_version, &binding_kind, &plural, scope).await
}

/// The subject that is a user.
pub fn user(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "User", "name": name})
}

async fn apply(
    client: &Client,
    object: &Value,
    api_version: &str,
    kind: &str,
    plural: &str,
    namespace: Option<&str>,
) -> Result<()> {
    let resource = resource(api_version, kind, plural);
    let api: Api<kube::api::DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    api.patch(name, &PatchParams::apply("olm-test").force(), &Patch::Apply(object)).await?;
    Ok(())
}
