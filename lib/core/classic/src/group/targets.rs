//! The namespaces of a group.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use olm_api_classic::OperatorGroupSpec;

use super::texts;

/// Prefix of the label of every namespace that a group selects; the group's UID follows.
pub const NAMESPACE_LABEL_PREFIX: &str = "olm.operatorgroup.uid/";
/// The name that stands for all namespaces.
pub const ALL: &str = "";

/// The namespaces of a group: names, or the empty name alone for all.
pub type Namespaces = BTreeSet<String>;

/// The selector of a group, if it counts: it is not empty, and no namespaces are named.
pub fn selector(spec: &OperatorGroupSpec) -> Option<&LabelSelector> {
    if spec.target_namespaces.as_ref().is_some_and(|names| !names.is_empty()) {
        return None;
    }
    spec.selector.as_ref().filter(|selector| {
        selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
            || selector.match_expressions.as_ref().is_some_and(|expressions| !expressions.is_empty())
    })
}

/// The namespaces that a group selects. `matching` are those that its [`selector`] matches.
///
/// # Errors
/// The empty name is among the target namespaces.
pub fn targets(
    spec: &OperatorGroupSpec,
    matching: impl FnOnce() -> Namespaces,
) -> Result<Namespaces, String> {
    match spec.target_namespaces.as_deref().unwrap_or_default() {
        [] if selector(spec).is_some() => Ok(matching()),
        [] => Ok([ALL.to_owned()].into()),
        names if names.iter().any(|name| name == ALL) => Err(texts::targets_all(names)),
        names => Ok(names.iter().cloned().collect()),
    }
}

/// Whether the namespaces are all.
pub fn is_global(targets: &Namespaces) -> bool {
    targets.contains(ALL)
}

/// The value of the annotation with the namespaces, sorted. None for no namespace: an empty text means all.
pub fn annotation(targets: &Namespaces) -> Option<String> {
    (!targets.is_empty()).then(|| targets.iter().map(String::as_str).collect::<Vec<_>>().join(","))
}

/// The namespaces of an annotation.
pub fn of_annotation(value: &str) -> Namespaces {
    value.split(',').map(str::to_owned).collect()
}

/// The labels of groups that a namespace is to have: the UIDs of the groups that select it and not all namespaces.
pub fn namespace_labels<'g>(
    namespace: &str,
    groups: impl IntoIterator<Item = (&'g str, &'g Namespaces)>,
) -> BTreeSet<String> {
    let selecting =
        groups.into_iter().filter(|(_, targets)| !is_global(targets) && targets.contains(namespace));
    selecting.map(|(uid, _)| format!("{NAMESPACE_LABEL_PREFIX}{uid}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(names: &[&str], label: Option<&str>) -> OperatorGroupSpec {
        let selector = LabelSelector {
            match_labels: label.map(|label| [(label.to_owned(), String::new())].into()),
            ..LabelSelector::default()
        };
        OperatorGroupSpec {
            target_namespaces: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            selector: Some(selector),
            ..OperatorGroupSpec::default()
        }
    }

    fn set(names: &[&str]) -> Namespaces {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_win_over_the_selector_and_nothing_means_all() {
        let matching = || set(&["m"]);
        assert_eq!(targets(&spec(&["b", "a"], Some("l")), matching), Ok(set(&["a", "b"])));
        assert_eq!(targets(&spec(&[], Some("l")), matching), Ok(set(&["m"])));
        assert_eq!(
            targets(&spec(&[], None), matching),
            Ok(set(&[""])),
            "an empty selector selects nothing by itself"
        );
        let error = "TargetNamespaces cannot contain NamespaceAll: [a ]";
        assert_eq!(targets(&spec(&["a", ""], None), matching), Err(error.to_owned()));
    }

    #[test]
    fn the_annotation_is_sorted_absent_for_none_and_empty_for_all() {
        assert_eq!(annotation(&set(&["b", "a"])).as_deref(), Some("a,b"));
        assert_eq!(annotation(&set(&[])), None);
        assert_eq!(annotation(&set(&[""])).as_deref(), Some(""));
        assert!(is_global(&of_annotation("")) && of_annotation("a,b") == set(&["a", "b"]));
    }

    #[test]
    fn namespaces_are_labelled_by_the_groups_that_name_them() {
        let (some, all) = (set(&["a", "b"]), set(&[""]));
        let groups = [("u1", &some), ("u2", &all)];
        assert_eq!(namespace_labels("a", groups), set(&["olm.operatorgroup.uid/u1"]));
        assert!(namespace_labels("c", groups).is_empty());
    }
}
