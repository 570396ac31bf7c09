//! What a pass over a ClusterExtension found out, step by step. Steps record facts; `status` turns them into
//! conditions.

pub(crate) mod status;

use std::{fmt, time::Duration};

use olm_api::names::PAUSED_ANNOTATION;
use olm_object::names::is_subdomain;
use olm_resolve::DeprecationStatus;
use olm_runtime::Next;

use crate::cluster_extension::observe::revisions::{BundleRecord, Revisions};
use crate::{bundles::NextPull, platform::Verdict};

/// Why a pass ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepError {
    /// The extension as it stands cannot be worked on (for instance its ServiceAccount is missing).
    Validation {
        /// What is wrong, one line each.
        errors: Vec<String>,
        /// Whether only an edit can heal it.
        terminal: bool,
        /// What to do about it, where the errors do not say it.
        advice: Option<String>,
    },
    /// Nothing is installed yet, and nothing new may be begun.
    Paused,
    /// What the original left could not be taken over; it stays as it is.
    Takeover {
        /// What is wrong, with the remedy.
        text: String,
        /// Whether only a person can heal it.
        terminal: bool,
    },
    /// The revisions could not be read.
    Revisions(String),
    /// No bundle could be chosen.
    Resolution {
        /// The original's text.
        text: String,
        /// What was looked at and why it did not do, for a person.
        explanation: Option<String>,
    },
    /// The chosen bundle could not be fetched, rendered or written.
    Bundle {
        /// The bundle in question.
        bundle: BundleRecord,
        /// What went wrong.
        cause: Cause,
    },
}

/// What went wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The text for the condition.
    pub(crate) text: String,
    /// How it can heal.
    pub(crate) kind: CauseKind,
    /// What is known beyond the original's text, for a person.
    pub(crate) explanation: Option<String>,
}

/// How an error can heal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CauseKind {
    /// By itself: it is tried again.
    Transient,
    /// By another spec or another catalog.
    Terminal,
    /// By another configuration.
    InvalidConfiguration,
}

impl Cause {
    pub(crate) fn transient(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), kind: CauseKind::Transient, explanation: None }
    }

    pub(crate) fn terminal(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), kind: CauseKind::Terminal, explanation: None }
    }

    pub(crate) fn explained(self, explanation: Option<String>) -> Self {
        Self { explanation, ..self }
    }
}

impl StepError {
    /// This error together with an `earlier` one about the extension itself.
    pub(crate) fn after(self, earlier: Option<&Self>) -> Self {
        match (self, earlier) {
            (
                Self::Validation { errors, terminal, advice },
                Some(Self::Validation { errors: earlier, terminal: also, advice: first }),
            ) => Self::Validation {
                errors: earlier.iter().cloned().chain(errors).collect(),
                terminal: terminal || *also,
                advice: first.clone().or(advice),
            },
            (_, Some(earlier)) => earlier.clone(),
            (error, None) => error,
        }
    }

    /// Whether trying again is of no use until something changes.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Validation { terminal, .. } | Self::Takeover { terminal, .. } => *terminal,
            Self::Paused => true,
            Self::Revisions(_) | Self::Resolution { .. } => false,
            Self::Bundle { cause, .. } => cause.kind != CauseKind::Transient,
        }
    }
}

impl StepError {
    /// What is known beyond upstream's text, for a person; only there where a person has to act.
    pub(crate) fn explanation(&self) -> Option<&str> {
        match self {
            Self::Resolution { explanation, .. } | Self::Bundle { cause: Cause { explanation, .. }, .. } => {
                explanation.as_deref()
            }
            Self::Validation { advice, .. } => advice.as_deref(),
            Self::Paused | Self::Takeover { .. } | Self::Revisions(_) => None,
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Validation { errors, .. } => write!(
                f,
                "operation cannot proceed due to the following validation error(s): {}",
                errors.join("\n")
            ),
            Self::Paused => write!(
                f,
                "paused by the annotation {PAUSED_ANNOTATION}: nothing is installed before the pause ends"
            ),
            Self::Revisions(text) | Self::Takeover { text, .. } | Self::Resolution { text, .. } => {
                f.write_str(text)
            }
            Self::Bundle { bundle, cause } => write!(
                f,
                "error for resolved bundle {:?} with version {:?}: {}",
                bundle.name,
                bundle.display_version(),
                cause.text
            ),
        }
    }
}

impl BundleRecord {
    /// Refuses a name that no status can hold: the bundle would be installed, and nobody would ever hear of it.
    ///
    /// # Errors
    /// The name is no DNS1123 subdomain.
    pub(crate) fn check_name(&self) -> Result<(), Cause> {
        if is_subdomain(&self.name) {
            return Ok(());
        }
        Err(Cause::terminal(
            "the name of the bundle is not a valid DNS1123 subdomain, as status.install.bundle.name has to be: give the bundle another name in its catalog",
        ))
    }

    /// The version as shown to people, the release included.
    pub(crate) fn display_version(&self) -> String {
        match self.release.as_deref() {
            Some(release) if !release.is_empty() => format!("{}+{release}", self.version),
            _ => self.version.clone(),
        }
    }
}

/// A revision that was just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Created {
    pub(crate) name: String,
    pub(crate) bundle: BundleRecord,
    /// A sentence about the permissions that its bundle has beyond those of the one installed before.
    pub(crate) added_permissions: Option<String>,
}

impl Progress {
    /// What a reconcile asks for next that failed for the reason `error`, when a pull decides about it.
    pub(crate) fn next_pull(&self, error: &str) -> Option<Next> {
        Some(match self.next_pull? {
            NextPull::Now => Next::Await,
            NextPull::After { wait, is_new: true } => Next::RetryAfter(error.to_owned(), wait),
            NextPull::After { wait, is_new: false } => Next::After(wait),
        })
    }
}

/// The facts of one pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    /// The revisions, once they were read.
    pub(crate) revisions: Option<Revisions>,
    /// What the catalogs say about deprecation, once they were asked.
    pub(crate) deprecations: Option<DeprecationStatus>,
    /// A sentence about the bundle that was chosen.
    pub(crate) resolved: Option<String>,
    /// The revision that was made in this pass.
    pub(crate) created: Option<Created>,
    /// A sentence about an update that leads to another catalog.
    pub(crate) crossed: Option<String>,
    /// What the bundle says about updates of the platform, if that is known.
    pub(crate) platform: Option<Verdict>,
    /// Why what the spec asks for is not known to be there although nothing failed that the original would tell: the
    /// pass is tried again.
    pub(crate) waits_for_content: Option<String>,
    /// A sentence about the bundle that is being pulled; its arrival causes the next reconcile.
    pub(crate) pulling: Option<String>,
    /// When a pull that failed is made again.
    pub(crate) next_pull: Option<NextPull>,
    /// When to look again although nothing happened.
    pub(crate) look_again: Option<Duration>,
    /// Sentences for `Ready` about settings that are in force or things that were passed over.
    pub(crate) notes: Vec<String>,
    /// Whether the record of namespace and ServiceAccount was written, whose event brings the next reconcile.
    pub(crate) recorded: bool,
    /// What is wrong with the admission policies that guard the accounts.
    pub(crate) unguarded: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_status_can_hold_is_refused() {
        let named = |name: &str| BundleRecord {
            name: name.to_owned(),
            package: "p".to_owned(),
            version: "1.0.0".to_owned(),
            release: None,
            reference: "r".to_owned(),
        };
        for name in ["a", "a.v1.0.0", "a-b.v1.0.0-2", "0.1", &"a".repeat(253)] {
            assert_eq!(named(name).check_name(), Ok(()), "{name}");
        }
        for name in
            ["", "A.v1.0.0", "a.v1.0.0+2", "a_b", "a..b", ".a", "a.", "-a", "a-.b", "ü", &"a".repeat(254)]
        {
            assert!(named(name).check_name().is_err_and(|e| e.kind == CauseKind::Terminal), "{name}");
        }
    }
}
