//! The permissions that a ServiceAccount is missing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
        SelfSubjectRulesReviewSpec,
    },
    rbac::v1::{ClusterRole, Role},
};
use kube::{
    Api, Client,
    api::{ApiResource, ListParams, PostParams},
};
use olm_object::{ObjectKey, Rule, defined_kinds};
use olm_rbac::{Held, Permission, Target};
use olm_runtime::{Discovery, DiscoveryError, Kind, api_text, bounded};
use serde_json::Value;

use crate::concurrently::{REQUESTS, concurrently};

/// A namespace without permissions of its own: reviews there show what is granted cluster-wide.
const NO_NAMESPACE: &str = "olm-preflight-no-such-namespace";
/// Most verbs confirmed with the API server; beyond it our own evaluation is taken as it is.
const CONFIRMED_PERMISSIONS_MAX: usize = 200;

/// What is done with the objects.
#[derive(Debug, Clone, Copy)]
pub enum Verbs<'a> {
    /// They are managed as the ClusterObjectSet of this name.
    Managed(&'a str),
    /// They are created, or read and replaced.
    Written,
}

/// The permissions that the ServiceAccount behind `client` is missing to write `objects`.
///
/// # Errors
/// The permissions could not be reviewed, or the cluster does not serve a kind.
pub async fn missing_permissions(
    client: &Client,
    controller: &Client,
    discovery: &Discovery,
    objects: &[&Value],
    verbs: Verbs<'_>,
) -> Result<Vec<Permission>, String> {
    let targets = targets(discovery, objects).await?;
    let asked = tokio::try_join!(referred_roles(controller, &targets), review(client, NO_NAMESPACE));
    let (roles, cluster) = asked?;
    let missing = |held: &Held| {
        let mut needed = match verbs {
            Verbs::Managed(revision) => olm_rbac::needed(&targets, revision),
            Verbs::Written => olm_rbac::needed_to_write(&targets),
        };
        needed.extend(olm_rbac::escalation_rules(&targets, held, &roles));
        olm_rbac::missing(&needed, held)
    };
    let mut held = Held { cluster, ..Held::default() };
    // Who has all of it in the whole cluster needs nothing in a namespace.
    if !missing(&held).is_empty() {
        let namespaces = targets.iter().map(|target| target.namespace.as_str());
        let namespaces: BTreeSet<&str> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
        for namespace in namespaces {
            held.namespaces.insert(namespace.to_owned(), review(client, namespace).await?);
        }
    }
    confirmed(client, missing(&held)).await
}

/// The resource of each object; kinds that CRDs among the objects define are known from these.
async fn targets<'a>(discovery: &Discovery, objects: &[&'a Value]) -> Result<Vec<Target<'a>>, String> {
    let defined = defined_kinds(objects.iter().copied());
    let mut targets = Vec::new();
    for object in objects.iter().copied() {
        let key = ObjectKey::of(object);
        let (resource, namespaced) = match discovery.kind(&key.api_version(), &key.kind).await {
            Ok(kind) => (kind.resource.plural, kind.namespaced),
            Err(DiscoveryError::Unknown { .. }) => {
                let of_crd = defined.get(&(key.group.clone(), key.kind.clone()));
                of_crd
                    .map(|of_crd| (of_crd.plural.clone(), of_crd.namespaced))
                    .ok_or_else(|| unknown_kind(&key))?
            }
            Err(error) => return Err(error.to_string()),
        };
        let namespace = if namespaced { key.namespace.clone() } else { String::new() };
        targets.push(Target { group: key.group, resource, namespace, name: key.name, object });
    }
    Ok(targets)
}

fn unknown_kind(key: &ObjectKey) -> String {
    format!(
        "the cluster does not serve kind {:?} of {:?}, which object {:?} of the bundle needs: install the operator or CRD that provides it first",
        key.kind,
        key.api_version(),
        key.name
    )
}

async fn review(client: &Client, namespace: &str) -> Result<Vec<Rule>, String> {
    let asked = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..Default::default()
    };
    let api: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let answer = bounded(api.create(&PostParams::default(), &asked)).await.map_err(|e| api_text(&e))?;
    let status = serde_json::to_value(answer.status).map_err(|e| e.to_string())?;
    let rules =
        |key: &str| status.get(key).and_then(Value::as_array).into_iter().flatten().map(Rule::of).collect();
    let (mut all, urls): (Vec<Rule>, Vec<Rule>) = (rules("resourceRules"), rules("nonResourceRules"));
    all.extend(urls);
    Ok(all)
}

/// Rules of roles that bindings refer to and that the revision does not bring itself.
async fn referred_roles(
    controller: &Client,
    targets: &[Target<'_>],
) -> Result<BTreeMap<(String, String, String), Vec<Rule>>, String> {
    let mut roles = BTreeMap::new();
    for target in targets.iter().filter(|t| t.resource.ends_with("rolebindings")) {
        let Some((kind, name)) = olm_rbac::role_reference(target.object) else { continue };
        let (resource, namespace) =
            if kind == "Role" { ("roles", target.namespace.as_str()) } else { ("clusterroles", "") };
        let place = (resource.to_owned(), namespace.to_owned(), name.clone());
        let shipped =
            targets.iter().any(|t| t.resource == resource && t.name == name && t.namespace == namespace);
        if shipped || roles.contains_key(&place) {
            continue;
        }
        let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
        let resource = if kind == "Role" {
            ApiResource::erase::<Role>(&())
        } else {
            ApiResource::erase::<ClusterRole>(&())
        };
        let api = Kind { resource, namespaced: kind == "Role" }.api(controller, namespace);
        let listed = bounded(api.list(&by_name)).await.map_err(|e| api_text(&e))?;
        let found = listed.items.first().map(serde_json::to_value).transpose().map_err(|e| e.to_string())?;
        roles.insert(place, found.as_ref().map(olm_rbac::rules_of).unwrap_or_default());
    }
    Ok(roles)
}

/// Asks the API server about each permission that seems to be missing: other authorizers may grant it.
async fn confirmed(client: &Client, missing: Vec<Permission>) -> Result<Vec<Permission>, String> {
    // A review asks for one resource and name. Rules with several come only where there are too many to ask for each.
    let verbs: usize = missing.iter().map(|needed| needed.rule.verbs.len()).sum();
    if verbs > CONFIRMED_PERMISSIONS_MAX || !missing.iter().all(|needed| needed.rule.is_about_one()) {
        return Ok(missing);
    }
    let asked = missing.into_iter().map(|needed| still_denied(client, needed)).collect();
    let checked: Result<Vec<Option<Permission>>, String> =
        concurrently(REQUESTS, asked).await.into_iter().collect();
    Ok(checked?.into_iter().flatten().collect())
}

async fn still_denied(client: &Client, needed: Permission) -> Result<Option<Permission>, String> {
    let mut denied = BTreeSet::new();
    for verb in &needed.rule.verbs {
        if !allowed(client, &needed, verb).await? {
            denied.insert(verb.clone());
        }
    }
    let rule = Rule { verbs: denied, ..needed.rule };
    Ok((!rule.verbs.is_empty()).then_some(Permission { namespace: needed.namespace, rule }))
}

async fn allowed(client: &Client, needed: &Permission, verb: &str) -> Result<bool, String> {
    let first = |items: &BTreeSet<String>| items.first().cloned();
    let resource = first(&needed.rule.resources);
    let (resource, subresource) = match resource.as_deref().and_then(|r| r.split_once('/')) {
        Some((resource, sub)) => (Some(resource.to_owned()), Some(sub.to_owned())),
        None => (resource, None),
    };
    if resource.is_none() {
        return Ok(false);
    }
    let asked = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: first(&needed.rule.api_groups),
                resource,
                subresource,
                name: first(&needed.rule.resource_names),
                namespace: Some(needed.namespace.clone()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = bounded(api.create(&PostParams::default(), &asked)).await.map_err(|e| api_text(&e))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
