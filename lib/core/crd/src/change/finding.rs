//! Findings of a comparison.
//!
//! A finding's [`Display`](std::fmt::Display) is the line that operator-controller prints for it. Findings that
//! crdify reports and [`Policy::Ours`] does not object to stay in the report as allowed ones, with the reason.

use std::{collections::BTreeSet, fmt};

use olm_text::one_line;
use serde::{Serialize, Serializer};
use serde_json::Value;

use olm_go::Quoted;

/// The set of changes that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Exactly those that crdify refuses.
    Upstream,
    /// Those that crdify refuses, without its false alarms.
    Ours,
}

/// The two schemas that were compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The definition as a whole.
    Crd,
    /// A version of the live definition with the same version of the new one.
    Version(String),
    /// Two served versions of the new definition; objects written at one are read at the other.
    ServedPair {
        /// The version that sorts first in Kubernetes' order.
        older: String,
        /// The version that sorts last.
        newer: String,
    },
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crd => Ok(()),
            Self::Version(version) => f.write_str(version),
            Self::ServedPair { older, newer } => write!(f, "{older} -> {newer}"),
        }
    }
}

/// The text of [`Display`](fmt::Display), empty for the definition as a whole.
impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

macro_rules! checks {
    ($($check:ident = $name:literal,)*) => {
        /// A check, by its name in crdify.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[expect(missing_docs, reason = "the variants are the names of the checks")]
        pub enum Check {
            $(#[serde(rename = $name)] $check,)*
        }

        impl Check {
            /// All checks, sorted by name.
            pub const ALL: &[Self] = &[$(Self::$check,)*];

            /// The name in findings.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$check => $name,)*
                }
            }
        }
    };
}

checks! {
    Default = "default",
    Description = "description",
    Enum = "enum",
    ExistingFieldRemoval = "existingFieldRemoval",
    MaxItems = "maxItems",
    MaxLength = "maxLength",
    MaxProperties = "maxProperties",
    Maximum = "maximum",
    MinItems = "minItems",
    MinLength = "minLength",
    MinProperties = "minProperties",
    Minimum = "minimum",
    Nullable = "nullable",
    OneOf = "oneOf",
    Pattern = "pattern",
    Required = "required",
    Scope = "scope",
    StoredVersionRemoval = "storedVersionRemoval",
    Type = "type",
    Unhandled = "unhandled",
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a finding blocks the upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// It blocks the upgrade.
    Refused,
    /// It does not block it; [`Finding::reason`] says why.
    Allowed,
}

/// The reason of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Reason {
    /// A rule says that stored objects or clients can break.
    Incompatible,
    /// No rule understands the change.
    NotUnderstood,
    /// The live definition's served versions already differ in this way.
    AlreadyServed,
    /// A default of the API is written out, or no longer written out.
    ExplicitDefault,
    /// The schemas below the member changed; each change is checked at its own path.
    ComparedBelow,
    /// An administrator has accepted it.
    Accepted,
}

impl Reason {
    /// The verdict that follows from the reason.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Incompatible | Self::NotUnderstood => Verdict::Refused,
            Self::AlreadyServed | Self::ExplicitDefault | Self::ComparedBelow | Self::Accepted => {
                Verdict::Allowed
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incompatible => "stored objects or clients may break",
            Self::NotUnderstood => "no rule says that the change is safe",
            Self::AlreadyServed => "the served versions on the cluster already differ in this way",
            Self::ExplicitDefault => "the value is the API's default",
            Self::ComparedBelow => "the schemas below are compared at their own paths",
            Self::Accepted => "an administrator has accepted it",
        })
    }
}

/// What a refused change endangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Danger {
    /// Stored objects: they may become invalid, lose fields or be read with other values. Objects that are written
    /// afterwards are rejected if they do not fit.
    Objects,
    /// More than that: whether objects can be read at all, or what becomes of objects that are written afterwards.
    Structural,
}

/// One change that crdify objects to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The two schemas that were compared.
    pub scope: Scope,
    /// The property, `^` being the root of the version's schema. For the whole definition: the
    /// member that changed, or `<version>.<property>` of a removed property.
    pub path: String,
    /// The check that found it.
    pub check: Check,
    /// The value on the live side, null if absent. For [`Check::Unhandled`] an object of the members that differ.
    pub old: Value,
    /// The value on the new side, in the same form.
    pub new: Value,
    /// Whether it blocks the upgrade; follows from `reason`.
    pub verdict: Verdict,
    /// The reason of the verdict.
    pub reason: Reason,
    /// The change in crdify's words (in ours for [`Check::Unhandled`]), without scope, path and check.
    pub text: String,
}

impl Finding {
    /// Findings on the whole definition have no property to be sorted by.
    fn sort_key(&self) -> (&Scope, &str, &str, &str, Reason) {
        let path = match self.scope {
            Scope::Crd => "",
            Scope::Version(_) | Scope::ServedPair { .. } => &self.path,
        };
        (&self.scope, path, self.check.as_str(), &self.text, self.reason)
    }

    pub(crate) fn new(
        scope: Scope,
        path: &str,
        check: Check,
        (old, new): (Value, Value),
        reason: Reason,
        text: String,
    ) -> Self {
        Self { scope, path: path.to_owned(), check, old, new, verdict: reason.verdict(), reason, text }
    }

    /// What the change endangers.
    pub fn danger(&self) -> Danger {
        match (&self.scope, self.check) {
            (Scope::Version(_), _) | (Scope::Crd, Check::ExistingFieldRemoval) => Danger::Objects,
            // Between served versions objects may lose fields without an error, today's and tomorrow's.
            (Scope::Crd | Scope::ServedPair { .. }, _) => Danger::Structural,
        }
    }

    /// The same finding with another reason, and the verdict that follows from it.
    pub(crate) fn because(mut self, reason: Reason) -> Self {
        self.verdict = reason.verdict();
        self.reason = reason;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Scope::Crd => write!(f, "{}: {}", self.check, self.text),
            scope => write!(f, "{scope}: {}: {}: {}", one_line(&self.path), self.check, self.text),
        }
    }
}

/// All findings of a comparison, sorted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The findings, allowed ones included.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        Self { findings }
    }

    /// The findings that block the upgrade.
    pub fn refused(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.verdict == Verdict::Refused)
    }

    /// Whether a finding blocks the upgrade.
    pub fn is_refused(&self) -> bool {
        self.refused().next().is_some()
    }

    /// The versions whose stored objects the refused findings are about; none where only the definition as a
    /// whole is refused.
    pub fn versions_refused(&self) -> BTreeSet<String> {
        let mut versions = BTreeSet::new();
        for finding in self.refused() {
            match &finding.scope {
                Scope::Version(version) => {
                    versions.insert(version.clone());
                }
                Scope::ServedPair { older, newer } => versions.extend([older.clone(), newer.clone()]),
                Scope::Crd if finding.check == Check::ExistingFieldRemoval => {
                    versions.extend(finding.path.split_once(".^").map(|(version, _)| version.to_owned()));
                }
                Scope::Crd => {}
            }
        }
        versions
    }

    /// Upstream's message for the definition `name`: all refused findings, one a line, or `None` if there are none.
    /// Messages of several definitions are joined with a newline.
    pub fn message(&self, name: &str) -> Option<String> {
        let lines: Vec<String> = self.refused().map(ToString::to_string).collect();
        let message = || format!("validating upgrade for CRD {}: {}", Quoted(name), lines.join("\n"));
        (!lines.is_empty()).then(message)
    }
}
