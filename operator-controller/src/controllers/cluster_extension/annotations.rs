//! The annotations by which an extension asks for what goes beyond upstream's API: one table, one line each.
//!
//! A name under our prefix that is not in the table is refused, and so is a value that is not one of its own: a
//! slip of the pen must not look like a setting.

use kube::ResourceExt;
use olm_api::{
    names::{
        ALLOW_CRD_CHANGES_ANNOTATION, DELETION_POLICY_ANNOTATION, DEPENDENCIES_ANNOTATION, EXTENSIONS_PREFIX,
        MAJOR_UPDATES_ANNOTATION, REINSTALL_ANNOTATION, SAME_CATALOG_ANNOTATION, UNKNOWN_KINDS_ANNOTATION,
    },
    v1::ClusterExtension,
};
use olm_objectset::UnknownKinds;
use olm_resolve::{DependencyHandling, MajorUpdates, SameCatalog};

/// Which values an annotation may have.
#[derive(Debug, Clone, Copy)]
enum Values {
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Text that is checked where it is used, and told there.
    Any,
}

/// The annotations that are known.
const KNOWN: &[(&str, Values)] = &[
    (ALLOW_CRD_CHANGES_ANNOTATION, Values::Any),
    (DELETION_POLICY_ANNOTATION, Values::OneOf(&["Delete", "RetainCRDs", "Orphan"])),
    (DEPENDENCIES_ANNOTATION, Values::OneOf(&["Refuse"])),
    (MAJOR_UPDATES_ANNOTATION, Values::OneOf(&["Block"])),
    (REINSTALL_ANNOTATION, Values::Any),
    (SAME_CATALOG_ANNOTATION, Values::OneOf(&["Required"])),
    (UNKNOWN_KINDS_ANNOTATION, Values::OneOf(&["Block"])),
];

/// What is wrong with the extension's annotations, one sentence each.
pub(super) fn refused(extension: &ClusterExtension) -> Vec<String> {
    let asked = extension.annotations().iter().filter(|(name, _)| name.starts_with(EXTENSIONS_PREFIX));
    asked
        .filter_map(|(name, value)| match KNOWN.iter().find(|(known, _)| known == name) {
            None => Some(format!("annotation {name:?} is not supported by this version: remove it")),
            Some((_, Values::OneOf(values))) if !values.contains(&value.as_str()) => Some(format!(
                "annotation {name:?} cannot be {value:?}: set it to {}, or remove it",
                either(values)
            )),
            Some(_) => None,
        })
        .collect()
}

fn either(values: &[&str]) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" or ")
}

fn is_set(extension: &ClusterExtension, name: &str) -> bool {
    extension.annotations().contains_key(name)
}

/// What is to happen with declared dependencies.
pub(super) fn dependencies(extension: &ClusterExtension) -> DependencyHandling {
    if is_set(extension, DEPENDENCIES_ANNOTATION) {
        DependencyHandling::Refuse
    } else {
        DependencyHandling::Accept
    }
}

/// Whether updates may lead to another major version.
pub(super) fn major_updates(extension: &ClusterExtension) -> MajorUpdates {
    if is_set(extension, MAJOR_UPDATES_ANNOTATION) { MajorUpdates::Block } else { MajorUpdates::Allow }
}

/// Whether updates may cross catalogs.
pub(super) fn same_catalog(extension: &ClusterExtension) -> SameCatalog {
    if is_set(extension, SAME_CATALOG_ANNOTATION) { SameCatalog::Required } else { SameCatalog::Preferred }
}

/// What is to happen with objects of optional kinds that the cluster does not serve.
pub(super) fn unknown_kinds(extension: &ClusterExtension) -> UnknownKinds {
    UnknownKinds::asked(extension.annotations().get(UNKNOWN_KINDS_ANNOTATION).map(String::as_str))
}

/// The token of the last reinstallation that was asked for.
pub(super) fn reinstall(extension: &ClusterExtension) -> Option<&str> {
    extension.annotations().get(REINSTALL_ANNOTATION).map(String::as_str)
}

/// A sentence about the settings in force, when there are any.
pub(super) fn in_force(extension: &ClusterExtension) -> Option<String> {
    let all: Vec<String> = extension
        .annotations()
        .iter()
        // The deletion policy is told once the revisions have it in force.
        .filter(|(name, _)| name.as_str() != DELETION_POLICY_ANNOTATION)
        .filter(|(name, _)| KNOWN.iter().any(|(known, v)| known == name && matches!(v, Values::OneOf(_))))
        .map(|(name, value)| format!("{}: {value}", name.trim_start_matches(EXTENSIONS_PREFIX)))
        .collect();
    (!all.is_empty()).then(|| format!("In force by annotation: {}.", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn extension(annotations: &[(&str, &str)]) -> ClusterExtension {
        let mut extension = ClusterExtension::new("ext", olm_api::v1::ClusterExtensionSpec::default());
        let prefixed =
            |(name, value): &(&str, &str)| (format!("{EXTENSIONS_PREFIX}{name}"), (*value).to_owned());
        let mut all: BTreeMap<String, String> = annotations.iter().map(prefixed).collect();
        all.insert("example.com/major-updates".to_owned(), "whatever".to_owned());
        extension.metadata.annotations = Some(all);
        extension
    }

    #[test]
    fn only_known_names_and_values_are_taken() {
        assert!(refused(&extension(&[])).is_empty());
        let fine = [("major-updates", "Block"), ("same-catalog", "Required"), ("reinstall", "2026-11-21")];
        assert!(refused(&extension(&fine)).is_empty());
        let told = refused(&extension(&[("major-updates", "block"), ("majorupdates", "Block")]));
        assert_eq!(
            told,
            [
                "annotation \"extensions.olm.operatorframework.io/major-updates\" cannot be \"block\": set it to \"Block\", or remove it",
                "annotation \"extensions.olm.operatorframework.io/majorupdates\" is not supported by this version: remove it",
            ]
        );
    }

    #[test]
    fn settings_in_force_are_told() {
        assert_eq!(in_force(&extension(&[("reinstall", "1")])), None);
        let asked = extension(&[("same-catalog", "Required"), ("major-updates", "Block")]);
        assert_eq!(
            in_force(&asked).as_deref(),
            Some("In force by annotation: major-updates: Block, same-catalog: Required.")
        );
        assert_eq!(major_updates(&asked), MajorUpdates::Block);
        assert_eq!(same_catalog(&asked), SameCatalog::Required);
        assert_eq!(dependencies(&asked), DependencyHandling::Accept);
    }
}
