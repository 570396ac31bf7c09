//! The annotations by which an extension asks for what goes beyond upstream's API: one table, one line each.
//!
//! A name under our prefix that is not in the table is refused, and so is a value that is not one of its own: a
//! slip of the pen must not look like a setting. The admission policy on annotations is made of the same table.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{
    names::{
        ALLOW_CRD_CHANGES_ANNOTATION, APPROVED_PLAN_ANNOTATION, CRD_CHANGE_MODE_ANNOTATION,
        DELETION_GUARD_ANNOTATION, DELETION_POLICY_ANNOTATION, DEPENDENCIES_ANNOTATION, EXTENSIONS_PREFIX,
        IDENTITY_ANNOTATION, MAJOR_UPDATES_ANNOTATION, PAUSED_ANNOTATION, REINSTALL_ANNOTATION,
        REQUIRED_BY_ANNOTATION, RETRY_ANNOTATION, ROLLBACK_TO_ANNOTATION, SAME_CATALOG_ANNOTATION,
        UNKNOWN_KINDS_ANNOTATION,
    },
    v1::ClusterExtension,
};
use olm_objectset::UnknownKinds;
use olm_resolve::{DependencyHandling, MajorUpdates, SameCatalog};
use olm_text::did_you_mean;
use regex::Regex;

use crate::cluster_extension::observe::identity::FORM;

/// Which values an annotation may have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    OneOf(&'static [&'static str]),
    /// The number of a revision, from 1 on.
    Revision,
    /// `true`, or a time.
    TrueOrTime,
    /// The digest of a plan.
    Digest,
    /// A record that the controller writes, with its form.
    Record(&'static str),
    /// Text that is checked where it is used, and reported there.
    Any,
}

/// The annotations that are known.
pub(crate) const KNOWN: &[(&str, Values)] = &[
    (ALLOW_CRD_CHANGES_ANNOTATION, Values::Any),
    (APPROVED_PLAN_ANNOTATION, Values::Digest),
    (CRD_CHANGE_MODE_ANNOTATION, Values::OneOf(&["Strict", CHECK_OBJECTS])),
    (DELETION_GUARD_ANNOTATION, Values::OneOf(&["Block"])),
    (DELETION_POLICY_ANNOTATION, Values::OneOf(&["Delete", "RetainCRDs", "Orphan"])),
    (DEPENDENCIES_ANNOTATION, Values::OneOf(&[REFUSE, INSTALL, INSTALL_AND_REMOVE])),
    (IDENTITY_ANNOTATION, Values::Record(FORM)),
    (MAJOR_UPDATES_ANNOTATION, Values::OneOf(&["Block"])),
    (PAUSED_ANNOTATION, Values::TrueOrTime),
    (REINSTALL_ANNOTATION, Values::Any),
    (RETRY_ANNOTATION, Values::Any),
    (REQUIRED_BY_ANNOTATION, Values::Record("^[a-z0-9.-]{1,253}/[0-9A-Za-z-]{1,64}$")),
    (ROLLBACK_TO_ANNOTATION, Values::Revision),
    (SAME_CATALOG_ANNOTATION, Values::OneOf(&["Required"])),
    (UNKNOWN_KINDS_ANNOTATION, Values::OneOf(&["Block"])),
];

/// The value of [`CRD_CHANGE_MODE_ANNOTATION`] with which stored objects decide.
pub(crate) const CHECK_OBJECTS: &str = "CheckObjects";

/// The values of [`DEPENDENCIES_ANNOTATION`].
const REFUSE: &str = "Refuse";
const INSTALL: &str = "Install";
const INSTALL_AND_REMOVE: &str = "InstallAndRemove";

/// What follows the name of an annotation that is not in the table.
pub(crate) const UNKNOWN: &str = "is not supported by this version: remove it";

impl Values {
    /// The form that they have, as a regular expression; none where any text is one.
    fn form(self) -> Option<Cow<'static, str>> {
        match self {
            Self::OneOf(values) => Some(format!("^({})$", values.join("|")).into()),
            Self::Revision => Some("^[1-9][0-9]{0,17}$".into()),
            Self::TrueOrTime => Some(
                "^(true|[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]([.][0-9]{1,9})?\
                 (Z|[+-][0-2][0-9]:[0-5][0-9]))$"
                    .into(),
            ),
            Self::Digest => Some("^sha256:[0-9a-f]{64}$".into()),
            Self::Record(form) => Some(form.into()),
            Self::Any => None,
        }
    }

    /// Whether `value` has the form.
    fn fit(self, value: &str) -> bool {
        static FORMS: LazyLock<BTreeMap<String, Regex>> = LazyLock::new(|| {
            let patterns = KNOWN.iter().filter_map(|(_, values)| values.form());
            let compiled = |form: Cow<'static, str>| Some((form.to_string(), Regex::new(&form).ok()?));
            patterns.filter_map(compiled).collect()
        });
        self.form().is_none_or(|form| FORMS.get(&*form).is_some_and(|form| form.is_match(value)))
    }

    /// Whether `value` is one of them. Not every text in the form of a time is one.
    fn allow(self, value: &str) -> bool {
        let is_time = || value == "true" || time(value).is_some();
        self.fit(value) && (!matches!(self, Self::TrueOrTime) || is_time())
    }

    /// The remedy for another value.
    pub(crate) fn remedy(self) -> String {
        let wanted = match self {
            Self::OneOf(values) => {
                values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" or ")
            }
            Self::Revision => "the number of a revision".to_owned(),
            Self::TrueOrTime => "\"true\" or a time such as \"2030-01-31T08:00:00Z\"".to_owned(),
            Self::Digest => "the digest of a plan, \"sha256:\" and 64 digits".to_owned(),
            Self::Any => "another value".to_owned(),
            Self::Record(_) => return "remove it, and the controller writes it".to_owned(),
        };
        format!("set it to {wanted}, or remove it")
    }

    /// A condition in the Common Expression Language on the expression `value`; nothing where all pass. It may
    /// pass a little more than the check here, never less.
    pub(crate) fn condition(self, value: &str) -> Option<String> {
        self.form().map(|form| format!("{value}.matches('{form}')"))
    }
}

/// What is wrong with the extension's annotations, one sentence each.
pub(crate) fn refused(extension: &ClusterExtension) -> Vec<String> {
    let asked = extension.annotations().iter().filter(|(name, _)| name.starts_with(EXTENSIONS_PREFIX));
    asked
        .filter_map(|(name, value)| match KNOWN.iter().find(|(known, _)| known == name) {
            None => {
                let known = KNOWN.iter().map(|(known, _)| short(known));
                let meant = did_you_mean(short(name), known).map(|meant| format!(". {meant}"));
                Some(format!("annotation {name:?} {UNKNOWN}{}", meant.unwrap_or_default()))
            }
            Some((_, values)) if !values.allow(value) => {
                Some(format!("annotation {name:?} cannot be {value:?}: {}", values.remedy()))
            }
            Some(_) => None,
        })
        .collect()
}

/// The name of one of our annotations without the prefix that all of them have.
pub(crate) fn short(name: &str) -> &str {
    name.trim_start_matches(EXTENSIONS_PREFIX)
}

fn revision(value: &str) -> Option<i64> {
    value.parse().ok().filter(|_| Values::Revision.fit(value))
}

/// A time as RFC 3339 has it; other forms that could be read are none.
fn time(value: &str) -> Option<Timestamp> {
    value.parse().ok().filter(|_| Values::TrueOrTime.fit(value))
}

fn is_set(extension: &ClusterExtension, name: &str) -> bool {
    extension.annotations().contains_key(name)
}

/// What is to happen with declared dependencies.
pub(crate) fn dependencies(extension: &ClusterExtension) -> DependencyHandling {
    match extension.annotations().get(DEPENDENCIES_ANNOTATION) {
        Some(value) if value == REFUSE => DependencyHandling::Refuse,
        _ => DependencyHandling::Accept,
    }
}

/// Whether extensions are created for what the bundle requires.
pub(crate) fn installs_dependencies(extension: &ClusterExtension) -> bool {
    let value = extension.annotations().get(DEPENDENCIES_ANNOTATION);
    value.is_some_and(|value| [INSTALL, INSTALL_AND_REMOVE].contains(&value.as_str()))
}

/// Name and UID of the extension that this one was created for, if it was.
pub(crate) fn required_by(extension: &ClusterExtension) -> Option<(&str, &str)> {
    extension.annotations().get(REQUIRED_BY_ANNOTATION)?.split_once('/')
}

/// A sentence about why an extension was created that no user has.
pub(crate) fn origin(extension: &ClusterExtension) -> Option<String> {
    let (name, _) = required_by(extension)?;
    Some(format!("Created because the bundle of ClusterExtension {name:?} requires it."))
}

/// The UID of the extension that this one was created for, if it is removed when nothing needs it any more.
pub(crate) fn removed_with(extension: &ClusterExtension) -> Option<&str> {
    let value = extension.annotations().get(DEPENDENCIES_ANNOTATION);
    let (_, uid) = required_by(extension)?;
    Some(uid).filter(|_| value.is_some_and(|value| value == INSTALL_AND_REMOVE))
}

/// Whether updates may lead to another major version.
pub(crate) fn major_updates(extension: &ClusterExtension) -> MajorUpdates {
    if is_set(extension, MAJOR_UPDATES_ANNOTATION) { MajorUpdates::Block } else { MajorUpdates::Allow }
}

/// Whether stored objects decide about CRD changes that endanger nothing else.
pub(crate) fn objects_decide(extension: &ClusterExtension) -> bool {
    extension.annotations().get(CRD_CHANGE_MODE_ANNOTATION).is_some_and(|mode| mode == CHECK_OBJECTS)
}

/// Whether the extension may only be deleted when it has no custom resources.
pub(crate) fn is_guarded(extension: &ClusterExtension) -> bool {
    is_set(extension, DELETION_GUARD_ANNOTATION)
}

/// Whether updates may cross catalogs.
pub(crate) fn same_catalog(extension: &ClusterExtension) -> SameCatalog {
    if is_set(extension, SAME_CATALOG_ANNOTATION) { SameCatalog::Required } else { SameCatalog::Preferred }
}

/// What is to happen with objects of optional kinds that the cluster does not serve.
pub(crate) fn unknown_kinds(extension: &ClusterExtension) -> UnknownKinds {
    UnknownKinds::from_annotation(extension.annotations().get(UNKNOWN_KINDS_ANNOTATION).map(String::as_str))
}

/// The token of the last reinstallation that was asked for.
pub(crate) fn reinstall(extension: &ClusterExtension) -> Option<&str> {
    extension.annotations().get(REINSTALL_ANNOTATION).map(String::as_str)
}

/// The revision whose objects are to come back.
pub(crate) fn rollback_to(extension: &ClusterExtension) -> Option<i64> {
    extension.annotations().get(ROLLBACK_TO_ANNOTATION).and_then(|value| revision(value))
}

/// How long no new revision is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    UntilRemoved,
    Until(Timestamp),
}

/// The pause that is in force at `now`.
pub(crate) fn pause(extension: &ClusterExtension, now: Timestamp) -> Option<Pause> {
    let value = extension.annotations().get(PAUSED_ANNOTATION)?;
    if value == "true" {
        return Some(Pause::UntilRemoved);
    }
    time(value).filter(|end| *end > now).map(Pause::Until)
}

/// Whether the extension is paused at `now`: the annotation of a pause that is over says nothing.
pub fn is_paused(extension: &ClusterExtension, now: Timestamp) -> bool {
    pause(extension, now).is_some()
}

/// A sentence about the settings in force, when there are any.
pub(crate) fn in_force(extension: &ClusterExtension) -> Option<String> {
    let all: Vec<String> = extension
        .annotations()
        .iter()
        // The deletion policy is reported once the revisions have it in force.
        .filter(|(name, _)| name.as_str() != DELETION_POLICY_ANNOTATION)
        .filter(|(name, _)| KNOWN.iter().any(|(known, v)| known == name && matches!(v, Values::OneOf(_))))
        .map(|(name, value)| format!("{}: {value}", short(name)))
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
        let reported = refused(&extension(&[("major-updates", "block"), ("majorupdates", "Block")]));
        assert_eq!(
            reported,
            [
                "annotation \"extensions.olm.operatorframework.io/major-updates\" cannot be \"block\": set it to \"Block\", or remove it",
                "annotation \"extensions.olm.operatorframework.io/majorupdates\" is not supported by this version: remove it. Did you mean major-updates?",
            ]
        );
        let paused = refused(&extension(&[("pause", "true")]));
        assert!(
            paused[0].ends_with("/pause\" is not supported by this version: remove it. Did you mean paused?"),
            "{paused:?}"
        );
        let other = refused(&extension(&[("colour", "blue")]));
        assert!(other[0].ends_with("remove it"), "{other:?}");
    }

    #[test]
    fn revisions_are_numbers_from_one_on() {
        for good in ["1", "12", "999999999999999999"] {
            assert!(refused(&extension(&[("rollback-to", good)])).is_empty(), "{good}");
        }
        for bad in ["", "0", "01", "-1", "+1", "1.0", "one", "ext-1", "1 ", "1000000000000000000"] {
            let reported = refused(&extension(&[("rollback-to", bad)]));
            assert_eq!(reported.len(), 1, "{bad:?}");
            assert!(
                reported[0].ends_with(&format!(
                    "cannot be {bad:?}: set it to the number of a revision, or remove it"
                ))
            );
        }
        assert_eq!(rollback_to(&extension(&[("rollback-to", "12")])), Some(12));
        assert_eq!(rollback_to(&extension(&[])), None);
    }

    #[test]
    fn a_pause_lasts_until_its_time() {
        for good in ["true", "2030-01-31T08:00:00Z", "2030-01-31T08:00:00.5+02:00"] {
            assert!(refused(&extension(&[("paused", good)])).is_empty(), "{good}");
        }
        for bad in [
            "",
            "True",
            "yes",
            "false",
            "1",
            "2030-01-31",
            "2030-01-31 08:00:00Z",
            "2030-01-31T08:00Z",
            "2030-02-30T08:00:00Z",
            "2030-01-31T08:00:00",
            "2030-01-31T08:00:00Z[UTC]",
            "2030-01-31T08:00:00é",
        ] {
            assert_eq!(refused(&extension(&[("paused", bad)])).len(), 1, "{bad:?}");
        }
        let end: Timestamp = "2030-01-31T08:00:00Z".parse().unwrap();
        let paused = extension(&[("paused", "2030-01-31T10:00:00+02:00")]);
        assert_eq!(pause(&paused, Timestamp::UNIX_EPOCH), Some(Pause::Until(end)));
        assert_eq!(pause(&paused, end), None);
        assert!(is_paused(&paused, Timestamp::UNIX_EPOCH) && !is_paused(&paused, end));
        assert_eq!(pause(&extension(&[("paused", "true")]), end), Some(Pause::UntilRemoved));
        assert_eq!(pause(&extension(&[]), end), None);
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
        for (value, wanted) in
            [("Refuse", (true, false)), ("Install", (false, true)), ("InstallAndRemove", (false, true))]
        {
            let asked = extension(&[("dependencies", value)]);
            let refuses = dependencies(&asked) == DependencyHandling::Refuse;
            assert_eq!((refuses, installs_dependencies(&asked)), wanted, "{value}");
            assert_eq!(removed_with(&asked), None, "{value}");
        }
        let created = extension(&[("dependencies", "InstallAndRemove"), ("required-by", "needy/u-1")]);
        assert_eq!(removed_with(&created), Some("u-1"));
        assert!(refused(&created).is_empty());
        assert_eq!(refused(&extension(&[("required-by", "needy")])).len(), 1);
    }
}
