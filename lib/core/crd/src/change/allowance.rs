//! Changes that an administrator accepts one by one: `<definition>:<path>:<check>`.
//!
//! Entries are separated by commas or white space. The path is that of the finding, which is the same for all
//! versions of a definition; names of properties may hold colons, names of definitions and checks may not.

use std::{collections::BTreeSet, fmt};

use thiserror::Error;

use super::{Check, Finding, Reason, Report, Verdict};
use crate::limits::ALLOWANCES_MAX;

/// A change that is accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowance {
    /// Name of the definition.
    pub definition: String,
    /// The path of the finding, for instance `^.spec.size`.
    pub path: String,
    /// The check that found it.
    pub check: Check,
}

impl Allowance {
    /// The entry that accepts a finding.
    pub fn of(definition: &str, finding: &Finding) -> Self {
        Self { definition: definition.to_owned(), path: finding.path.clone(), check: finding.check }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.definition, self.path, self.check)
    }
}

/// A list of accepted changes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AllowanceError {
    /// An entry does not have three parts.
    #[error(
        "entry {0:?} is not of the form <CRD name>:<path>:<check>, as in widgets.example.com:^.spec.size:maximum"
    )]
    Malformed(String),
    /// The entry names no check.
    #[error("entry {entry:?} names the unknown check {check:?}: it must be one of {known}")]
    NoSuchCheck {
        /// The entry.
        entry: String,
        /// The name in place of the check.
        check: String,
        /// The names of all checks.
        known: String,
    },
    /// There are too many entries.
    #[error("there are more than {0} entries: set enforcement to None instead for this upgrade")]
    TooMany(usize),
}

/// The changes that are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowances(BTreeSet<Allowance>);

impl Allowances {
    /// Reads a list of entries.
    ///
    /// # Errors
    /// An entry is malformed, or there are too many.
    pub fn parse(text: &str) -> Result<Self, AllowanceError> {
        let mut allowances = BTreeSet::new();
        for entry in text.split(|c: char| c == ',' || c.is_whitespace()).filter(|entry| !entry.is_empty()) {
            allowances.insert(parse(entry)?);
            if allowances.len() > ALLOWANCES_MAX {
                return Err(AllowanceError::TooMany(ALLOWANCES_MAX));
            }
        }
        Ok(Self(allowances))
    }

    /// The entries, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Allowance> {
        self.0.iter()
    }

    /// Accepts findings of the report on `definition`, and returns the entries that were needed for it.
    pub fn apply(&self, definition: &str, report: &mut Report) -> BTreeSet<Allowance> {
        let mut used = BTreeSet::new();
        for finding in report.findings.iter_mut().filter(|finding| finding.verdict == Verdict::Refused) {
            let allowance = Allowance::of(definition, finding);
            if self.0.contains(&allowance) {
                *finding = finding.clone().because(Reason::Accepted);
                used.insert(allowance);
            }
        }
        used
    }
}

fn parse(entry: &str) -> Result<Allowance, AllowanceError> {
    let malformed = || AllowanceError::Malformed(entry.to_owned());
    let (definition, rest) = entry.split_once(':').ok_or_else(malformed)?;
    let (path, check) = rest.rsplit_once(':').ok_or_else(malformed)?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    let has_name = definition.contains('.') && definition.chars().all(is_name);
    let has_path = path.contains('^') || path.starts_with("spec.") || path.starts_with("status.");
    if !has_name || !has_path {
        return Err(malformed());
    }
    let Some(check) = Check::ALL.iter().copied().find(|known| known.as_str() == check) else {
        return Err(AllowanceError::NoSuchCheck {
            entry: entry.to_owned(),
            check: check.to_owned(),
            known: Check::ALL.iter().map(|check| check.as_str()).collect::<Vec<_>>().join(", "),
        });
    };
    Ok(Allowance { definition: definition.to_owned(), path: path.to_owned(), check })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Allowance, AllowanceError, Allowances, Check, Policy, compare};

    #[test]
    fn lists_have_commas_or_white_space() {
        let text =
            " a.b:^.spec.x:maximum,a.b:v1.^.y:existingFieldRemoval\n a.b:spec.scope:scope,, a.b:^.s:o:type ";
        let allowances = Allowances::parse(text).unwrap();
        let entries: Vec<_> = allowances.iter().map(ToString::to_string).collect();
        assert_eq!(
            entries,
            [
                "a.b:^.s:o:type",
                "a.b:^.spec.x:maximum",
                "a.b:spec.scope:scope",
                "a.b:v1.^.y:existingFieldRemoval"
            ]
        );
        assert_eq!(Allowances::parse("").unwrap(), Allowances::default());
    }

    #[test]
    fn malformed_entries_are_rejected_with_an_explanation() {
        for entry in
            ["all", "a.b", "a.b:^.x", "a:^.x:type", "A.b:^.x:type", "a.b:x:type", ":^.x:type", "a.b:type"]
        {
            let error = Allowances::parse(entry).unwrap_err();
            assert_eq!(error, AllowanceError::Malformed(entry.to_owned()));
        }
        let error = Allowances::parse("a.b:^.x:everything").unwrap_err().to_string();
        assert!(error.contains("unknown check \"everything\": it must be one of default, "), "{error}");
        let many: Vec<_> = (0..300).map(|i| format!("a.b:^.x{i}:type")).collect();
        assert_eq!(Allowances::parse(&many.join(",")).unwrap_err(), AllowanceError::TooMany(200));
    }

    #[test]
    fn accepted_findings_do_not_block_the_upgrade() {
        let definition = |most: u32| {
            json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {
                "x": {"maximum": most}, "y": {"maximum": most}}}}}]}})
        };
        let mut report = compare(&definition(5), &definition(4), Policy::Ours).unwrap();
        let allowances =
            Allowances::parse("a.b:^.x:maximum a.b:^.y:minimum other.b:^.y:maximum a.b:^.z:maximum").unwrap();
        let used: Vec<_> = allowances.apply("a.b", &mut report).into_iter().collect();
        let x = Allowance { definition: "a.b".into(), path: "^.x".into(), check: Check::Maximum };
        assert_eq!(used, [x]);
        let left: Vec<_> = report.refused().map(|finding| finding.path.as_str()).collect();
        assert_eq!(left, ["^.y"]);
    }
}
