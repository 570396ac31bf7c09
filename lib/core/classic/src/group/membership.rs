//! The group that an operator belongs to, and how its ClusterServiceVersion says so.

use std::collections::BTreeMap;

use olm_api_classic::{OperatorGroup, UpgradeStrategy, names};
use serde_json::{Value, json};

use super::{
    provided::{Apis, apis_of},
    targets::{self, Namespaces},
};

/// The groups of a namespace, as far as they matter to its operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// There is none.
    None,
    /// There is more than one.
    Several,
    /// There is one, whose namespaces have not been found yet.
    Unsettled,
    /// There is one.
    Of(Group),
}

/// A group, as its operators see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// The namespaces that it selects.
    pub targets: Namespaces,
    /// The selector by which it finds them, if it has one.
    pub selector: Option<Value>,
    /// Whether its list of provided APIs is left as it is.
    pub is_static: bool,
    /// The APIs that its annotation lists.
    pub provided: Apis,
    /// Whether a failed operator may be replaced.
    pub fails_forward: bool,
    /// The ServiceAccount in whose name operators are installed.
    pub service_account: Option<String>,
}

impl Group {
    /// What matters of a group.
    pub fn of(group: &OperatorGroup) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let spec = &group.spec;
        let namespaces = group.status.as_ref().map(|status| status.namespaces.iter().cloned().collect());
        let annotations = group.metadata.annotations.as_ref();
        let provided = annotations.and_then(|all| all.get(names::PROVIDED_APIS_ANNOTATION));
        Self {
            name: text(&group.metadata.name),
            namespace: text(&group.metadata.namespace),
            uid: text(&group.metadata.uid),
            targets: namespaces.unwrap_or_default(),
            selector: targets::selector(spec).map(|selector| json!(selector)),
            is_static: spec.static_provided_apis.unwrap_or_default(),
            provided: provided.map(|text| apis_of(text)).unwrap_or_default(),
            fails_forward: spec.upgrade_strategy == UpgradeStrategy::TechPreviewUnsafeFailForward,
            service_account: spec.service_account_name.clone().filter(|name| !name.is_empty()),
        }
    }

    /// The annotations of an operator of this group. One without a value is to be absent.
    pub fn annotations(&self) -> BTreeMap<&'static str, Option<String>> {
        [
            (names::GROUP_ANNOTATION, Some(self.name.clone())),
            (names::GROUP_NAMESPACE_ANNOTATION, Some(self.namespace.clone())),
            (names::TARGETS_ANNOTATION, targets::annotation(&self.targets)),
        ]
        .into()
    }
}

/// The membership that the groups of a namespace amount to.
pub fn membership<'g>(groups: impl IntoIterator<Item = &'g OperatorGroup>) -> Membership {
    let mut groups = groups.into_iter();
    match (groups.next(), groups.next()) {
        (None, _) => Membership::None,
        (Some(_), Some(_)) => Membership::Several,
        (Some(group), None) => {
            let found = group.status.as_ref().is_some_and(|status| status.last_updated.is_some());
            if found { Membership::Of(Group::of(group)) } else { Membership::Unsettled }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use olm_api_classic::{OperatorGroupSpec, OperatorGroupStatus};

    use super::*;

    fn group(name: &str, namespaces: Option<&[&str]>) -> OperatorGroup {
        let mut group = OperatorGroup::new(name, OperatorGroupSpec::default());
        group.metadata.namespace = Some("ops".to_owned());
        group.status = namespaces.map(|names| OperatorGroupStatus {
            namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            last_updated: Some(Time(Timestamp::UNIX_EPOCH)),
            ..OperatorGroupStatus::default()
        });
        group
    }

    #[test]
    fn an_operator_belongs_to_the_only_group_whose_namespaces_are_known() {
        assert_eq!(membership([]), Membership::None);
        assert_eq!(membership([&group("a", None)]), Membership::Unsettled);
        assert_eq!(membership([&group("a", None), &group("b", None)]), Membership::Several);
        assert!(matches!(membership([&group("a", Some(&[]))]), Membership::Of(_)));
    }

    #[test]
    fn a_group_that_selects_nothing_leaves_no_annotation_with_namespaces() {
        let annotations = |names: &[&str]| Group::of(&group("g", Some(names))).annotations();
        assert_eq!(annotations(&["b", "a"])["olm.targetNamespaces"].as_deref(), Some("a,b"));
        assert_eq!(annotations(&[])["olm.targetNamespaces"], None);
        assert_eq!(annotations(&[""])["olm.targetNamespaces"].as_deref(), Some(""));
        assert_eq!(annotations(&[])["olm.operatorGroup"].as_deref(), Some("g"));
    }
}
