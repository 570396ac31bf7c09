//! The ClusterRoles that are made for users of an operator: those of a group gather those of its APIs.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use olm_api_classic::names::{MANAGED_LABEL, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

use super::{membership::Group, provided::Api};
use crate::hashes;

/// What users may do, and the verbs for that.
pub const LEVELS: [(&str, &[&str]); 3] = [
    ("admin", &["*"]),
    ("edit", &["create", "update", "patch", "delete"]),
    ("view", &["get", "list", "watch"]),
];
/// Longest name of an object.
const NAME_BYTES_MAX: usize = 253;
const AGGREGATE_PREFIX: &str = "olm.opgroup.permissions/aggregate-to-";

/// The label by which the ClusterRole of a group finds those of an API.
fn aggregation_label(api: &Api, level: &str) -> String {
    format!("{AGGREGATE_PREFIX}{}-{level}", api.hash())
}

/// The name of a group's ClusterRole.
pub fn group_role_name(namespace: &str, group: &str, level: &str) -> String {
    let hash = hashes::sha224(format!("{namespace}/{group}/{level}").as_bytes());
    let (prefix, suffix) = ("olm.og.", format!(".{level}-{hash}"));
    let room = NAME_BYTES_MAX.saturating_sub(prefix.len() + suffix.len());
    // Names of objects are ASCII.
    let name = group.get(..room.min(group.len())).unwrap_or(group);
    format!("{prefix}{name}{suffix}")
}

/// The labels of what belongs to an object of OLM and is not in its namespace.
pub fn owner_labels(kind: &str, namespace: &str, name: &str) -> BTreeMap<String, String> {
    [
        (MANAGED_LABEL.to_owned(), "true".to_owned()),
        (OWNER_LABEL.to_owned(), name.to_owned()),
        (OWNER_KIND_LABEL.to_owned(), kind.to_owned()),
        (OWNER_NAMESPACE_LABEL.to_owned(), namespace.to_owned()),
    ]
    .into()
}

/// The ClusterRoles of a group: each gathers the roles of the APIs that the group provides. Kubernetes keeps what it has
/// gathered when there is nothing to gather any more, so that a role without APIs says that it has no rules.
pub fn group_roles(group: &Group) -> Vec<ClusterRole> {
    LEVELS
        .iter()
        .map(|(level, _)| {
            let mut labels: Vec<_> = group.provided.iter().map(|api| aggregation_label(api, level)).collect();
            labels.sort_unstable();
            let selectors: Vec<_> = labels.into_iter().map(selector).collect();
            let aggregation_rule = (!selectors.is_empty())
                .then_some(AggregationRule { cluster_role_selectors: Some(selectors) });
            let rules = aggregation_rule.is_none().then(Vec::new);
            ClusterRole {
                metadata: ObjectMeta {
                    name: Some(group_role_name(&group.namespace, &group.name, level)),
                    labels: Some(owner_labels("OperatorGroup", &group.namespace, &group.name)),
                    ..ObjectMeta::default()
                },
                aggregation_rule,
                rules,
            }
        })
        .collect()
}

fn selector(label: String) -> LabelSelector {
    LabelSelector { match_labels: Some([(label, "true".to_owned())].into()), match_expressions: None }
}

/// A resource of an API that an operator provides: by a CustomResourceDefinition or by a server.
#[derive(Debug, Clone)]
pub struct ProvidedResource {
    /// The API.
    pub api: Api,
    /// The plural name.
    pub plural: String,
    /// The beginning of the roles' names: that of the definition, or the plural.
    pub prefix: String,
    /// The object that provides it, which the roles go with.
    pub owner: OwnerReference,
    /// Whether that is a CustomResourceDefinition.
    pub is_crd: bool,
}

/// The ClusterRoles of an API that an operator provides.
pub fn api_roles(resource: &ProvidedResource) -> Vec<ClusterRole> {
    let rule = |verbs: &[&str], group: &str, plural: &str, name: Option<&str>| PolicyRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![plural.to_owned()]),
        resource_names: name.map(|name| vec![name.to_owned()]),
        non_resource_urls: None,
    };
    let mut roles: Vec<_> = LEVELS
        .iter()
        .map(|(level, verbs)| {
            role(resource, level, level, rule(verbs, &resource.api.group, &resource.plural, None))
        })
        .collect();
    if resource.is_crd {
        let definitions = ("apiextensions.k8s.io", "customresourcedefinitions");
        let rule = rule(&["get"], definitions.0, definitions.1, Some(&resource.prefix));
        roles.push(role(resource, "crdview", "view", rule));
    }
    roles
}

fn role(resource: &ProvidedResource, suffix: &str, level: &str, rule: PolicyRule) -> ClusterRole {
    let labels = [
        (MANAGED_LABEL.to_owned(), "true".to_owned()),
        (aggregation_label(&resource.api, level), "true".to_owned()),
        (format!("rbac.authorization.k8s.io/aggregate-to-{level}"), "true".to_owned()),
    ];
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}-{suffix}", resource.prefix, resource.api.version)),
            labels: Some(labels.into()),
            owner_references: Some(vec![resource.owner.clone()]),
            ..ObjectMeta::default()
        },
        rules: Some(vec![rule]),
        aggregation_rule: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::provided::apis_of;

    #[test]
    fn the_roles_of_a_group_are_upstreams() {
        let group = Group {
            name: "g1".to_owned(),
            namespace: "st-nogroup".to_owned(),
            provided: apis_of("ReqTwo.v1.st.io,ReqOne.v1.st.io"),
            ..Group::default()
        };
        let roles = group_roles(&group);
        let admin = &roles[0];
        let name = admin.metadata.name.as_deref();
        assert_eq!(name, Some("olm.og.g1.admin-wlKYlds2DrldoAmCRwTi6hK39LKKZURLZsSdy"));
        assert_eq!(admin.metadata.labels.as_ref().unwrap()["olm.owner.kind"], "OperatorGroup");
        let selectors = admin.aggregation_rule.as_ref().unwrap().cluster_role_selectors.as_ref().unwrap();
        let labels: Vec<_> =
            selectors.iter().flat_map(|selector| selector.match_labels.as_ref().unwrap().keys()).collect();
        assert_eq!(
            labels,
            [
                "olm.opgroup.permissions/aggregate-to-94bdc291f574091b-admin",
                "olm.opgroup.permissions/aggregate-to-a61b01983833da6d-admin"
            ]
        );
        let empty = group_roles(&Group { provided: apis_of(""), ..group });
        assert!(empty.iter().all(|role| role.aggregation_rule.is_none()), "it would gather every role");
        assert!(empty.iter().all(|role| role.rules == Some(Vec::new())), "what it gathered before is over");
        assert!(roles.iter().all(|role| role.rules.is_none()), "Kubernetes fills them in");
    }

    #[test]
    fn the_name_of_a_long_group_is_cut_to_what_an_object_may_have() {
        let name = group_role_name("ops", &"g".repeat(253), "admin");
        assert_eq!(name.len(), 253);
        assert!(name.ends_with(&hashes::sha224(format!("ops/{}/admin", "g".repeat(253)).as_bytes())));
    }

    #[test]
    fn the_roles_of_an_api_are_upstreams() {
        let resource = ProvidedResource {
            api: apis_of("ReqOne.v1.st.io").pop_first().unwrap(),
            plural: "reqones".to_owned(),
            prefix: "reqones.st.io".to_owned(),
            owner: OwnerReference::default(),
            is_crd: true,
        };
        let roles = api_roles(&resource);
        let names: Vec<_> = roles.iter().map(|role| role.metadata.name.as_deref().unwrap()).collect();
        let wanted = [
            "reqones.st.io-v1-admin",
            "reqones.st.io-v1-edit",
            "reqones.st.io-v1-view",
            "reqones.st.io-v1-crdview",
        ];
        assert_eq!(names, wanted);
        let labels = |at: usize| roles[at].metadata.labels.as_ref().unwrap();
        assert_eq!(labels(0)["olm.opgroup.permissions/aggregate-to-a61b01983833da6d-admin"], "true");
        assert_eq!(labels(3)["rbac.authorization.k8s.io/aggregate-to-view"], "true");
        assert_eq!(
            roles[3].rules.as_ref().unwrap()[0].resource_names,
            Some(vec!["reqones.st.io".to_owned()])
        );
        let verbs = |at: usize| roles[at].rules.as_ref().unwrap()[0].verbs.join(" ");
        assert_eq!([0, 1, 2, 3].map(verbs), ["*", "create update patch delete", "get list watch", "get"]);
        for (at, level) in ["admin", "edit", "view", "view"].into_iter().enumerate() {
            for label in ["rbac.authorization.k8s.io/", "olm.opgroup.permissions/"] {
                let prefix = format!("{label}aggregate-to-");
                let found: Vec<_> = labels(at).keys().filter(|key| key.starts_with(&prefix)).collect();
                assert!(found.len() == 1 && found[0].ends_with(level), "{at}: {found:?}");
            }
        }
        let served = api_roles(&ProvidedResource { is_crd: false, ..resource });
        assert_eq!(served.len(), 3, "what a server provides has no definition to look at");
    }
}
