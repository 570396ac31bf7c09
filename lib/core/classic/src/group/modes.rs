//! Whether an operator can serve the namespaces of its group.

use std::collections::BTreeSet;

use olm_api_classic::InstallMode;

use super::{
    targets::{Namespaces, is_global},
    texts,
};

/// A type of install mode that is listed twice.
///
/// # Errors
/// The list, as Go prints it.
pub fn unique(modes: &[InstallMode]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    if modes.iter().all(|mode| seen.insert(mode.type_.as_str())) {
        return Ok(());
    }
    let list: Vec<_> = modes.iter().map(|mode| format!("{{{} {}}}", mode.type_, mode.supported)).collect();
    Err(format!("InstallMode list contains duplicates, cannot make set: [{}]", list.join(" ")))
}

/// Whether an operator in `own` that supports `modes` can serve `targets`.
///
/// # Errors
/// The install mode that it would need.
pub fn supports(modes: &[InstallMode], own: &str, targets: &Namespaces) -> Result<(), String> {
    let check = |mode: &str, namespaces: &str| {
        let supported = modes.iter().any(|one| one.type_ == mode && one.supported);
        if supported { Ok(()) } else { Err(texts::unsupported(mode, namespaces)) }
    };
    let mut names = targets.iter();
    match (names.next(), names.next()) {
        (None, _) => Err(texts::NO_NAMESPACES.to_owned()),
        (Some(only), None) if only == own => check("OwnNamespace", "own namespace"),
        (Some(only), None) if only.is_empty() => check("AllNamespaces", "all namespaces"),
        (Some(_), None) => check("SingleNamespace", "one namespace"),
        (Some(_), Some(_)) => {
            check("MultiNamespace", &format!("{} namespaces", targets.len()))?;
            if targets.contains(own) {
                check("OwnNamespace", "own namespace")?;
            }
            if is_global(targets) { Err(texts::ALL_AMONG_OTHERS.to_owned()) } else { Ok(()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(supported: &[&str]) -> Vec<InstallMode> {
        let mode = |name: &&str| InstallMode { type_: (*name).to_owned(), supported: true };
        supported.iter().map(mode).collect()
    }

    /// The rows of the table of install modes, each with what it needs and what it says without it.
    #[test]
    fn every_row_of_install_modes_against_targets() {
        let all = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let none = "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces";
        let own = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
        let rows: [(&[&str], Option<&str>, &str); 7] = [
            (&[], None, none),
            (&["own"], Some("OwnNamespace"), own),
            (
                &[""],
                Some("AllNamespaces"),
                "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces",
            ),
            (
                &["a"],
                Some("SingleNamespace"),
                "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace",
            ),
            (
                &["a", "b", "c"],
                Some("MultiNamespace"),
                "MultiNamespace InstallModeType not supported, cannot configure to watch 3 namespaces",
            ),
            (&["a", "own"], Some("OwnNamespace"), own),
            (&["", "a"], None, texts::ALL_AMONG_OTHERS),
        ];
        for (targets, needed, message) in rows {
            let targets: Namespaces = targets.iter().map(|name| (*name).to_owned()).collect();
            let without: Vec<_> = all.into_iter().filter(|mode| needed != Some(*mode)).collect();
            assert_eq!(supports(&modes(&without), "own", &targets), Err(message.to_owned()), "{targets:?}");
            let with = supports(&modes(&all), "own", &targets);
            assert_eq!(with.is_ok(), needed.is_some(), "{targets:?}: {with:?}");
        }
    }

    #[test]
    fn a_mode_that_is_listed_as_unsupported_or_not_at_all_is_unsupported() {
        let targets: Namespaces = ["own".to_owned()].into();
        let listed = [InstallMode { type_: "OwnNamespace".to_owned(), supported: false }];
        assert!(supports(&listed, "own", &targets).is_err() && supports(&[], "own", &targets).is_err());
    }

    #[test]
    fn modes_that_are_listed_twice_are_printed() {
        let message = "InstallMode list contains duplicates, cannot make set: [{AllNamespaces true} {AllNamespaces true}]";
        assert_eq!(unique(&modes(&["AllNamespaces", "AllNamespaces"])), Err(message.to_owned()));
        assert_eq!(unique(&modes(&["AllNamespaces", "OwnNamespace"])), Ok(()));
    }
}
