//! What a reconcile of a ClusterExtension found out and how it ended, in one value. Status, Events and the time of the
//! next reconcile are made of it.

pub(crate) mod status;

use std::{fmt::Display, time::Duration};

use jiff::Timestamp;
use olm_api::names::PAUSED_ANNOTATION;
use olm_bundles::NextPull;
use olm_resolve::{AvailableUpdate, DeprecationStatus};
use thiserror::Error;

use crate::{
    cluster_extension::{
        decide::hold::Pending,
        observe::revisions::{BundleRecord, Revisions},
    },
    deletion_guard::GuardState,
    deletion_policy::extension::PolicyState,
    facts::platform::Verdict,
};

/// Why a reconcile ended early.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum StepError {
    /// The extension as it is cannot be worked on (for instance its ServiceAccount is missing).
    #[error("operation cannot proceed due to the following validation error(s): {}", .errors.join("\n"))]
    Validation {
        /// What is wrong, one line each.
        errors: Vec<String>,
        /// Whether only an edit helps.
        terminal: bool,
        /// What to do about it, where the errors do not say it.
        advice: Option<String>,
    },
    /// Nothing is installed yet, and nothing new may be begun.
    #[error("paused by the annotation {PAUSED_ANNOTATION}: nothing is installed before the pause ends")]
    Paused,
    /// What upstream left could not be taken over; it stays as it is.
    #[error("{text}")]
    Takeover {
        /// What is wrong, with the remedy.
        text: String,
        /// Whether only a person can help.
        terminal: bool,
    },
    /// The revisions could not be read.
    #[error("{0}")]
    Revisions(String),
    /// No bundle could be chosen.
    #[error("{text}")]
    Resolution {
        /// Upstream's text.
        text: String,
        /// Which bundles were rejected and why, for a person.
        explanation: Option<String>,
        /// When the answer without the catalogs that are waited for is taken.
        answer_at: Option<Timestamp>,
        /// Whether it may pass by itself: catalogs are waited for that no one has to correct.
        recovers: bool,
    },
    /// The chosen bundle could not be fetched, rendered or written.
    #[error("error for resolved bundle {:?} with version {:?}: {}", .bundle.name, .bundle.display_version(), .cause.text)]
    Bundle { bundle: BundleRecord, cause: Cause },
}

/// What went wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The text for the condition.
    pub(crate) text: String,
    /// How it can be resolved.
    pub(crate) kind: CauseKind,
    /// What is known beyond upstream's text, for a person.
    pub(crate) explanation: Option<String>,
    /// When the bundle is pulled again, if a pull failed.
    pub(crate) next_pull: Option<NextPull>,
}

/// How an error can be resolved.
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
    pub(crate) fn transient(text: impl Display) -> Self {
        Self { text: text.to_string(), kind: CauseKind::Transient, explanation: None, next_pull: None }
    }

    pub(crate) fn terminal(text: impl Display) -> Self {
        Self { kind: CauseKind::Terminal, ..Self::transient(text) }
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

    /// Whether it passes without anybody acting.
    pub(crate) fn recovers(&self) -> bool {
        matches!(self, Self::Resolution { recovers: true, .. })
    }

    /// Whether another configuration of the bundle is wanted.
    pub(crate) fn is_configuration(&self) -> bool {
        matches!(self, Self::Bundle { cause, .. } if cause.kind == CauseKind::InvalidConfiguration)
    }

    /// What is known beyond upstream's text, for a person; where it does not recover, a person has to act.
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

/// A revision that was just made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Created {
    pub(crate) name: String,
    pub(crate) bundle: BundleRecord,
    /// The catalog that has the bundle, unless it comes back without one.
    pub(crate) catalog: Option<String>,
    /// A sentence about the permissions that its bundle has beyond those of the one installed before.
    pub(crate) added_permissions: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Outcome {
    /// The latest revision is what is wanted; the other loop rolls it out.
    #[default]
    Settled,
    Created(Created),
    /// Namespace and ServiceAccount were recorded on the extension, whose event causes the next reconcile.
    Recorded,
    /// The bundle is being pulled; its arrival causes the next reconcile.
    Pulling {
        /// In a sentence.
        why: String,
        /// For how long it has been awaited.
        elapsed: Duration,
    },
    /// The update policy holds a change.
    Held(Pending),
    /// What the spec asks for is not known to be there: the installed bundle cannot be pulled.
    Away {
        why: String,
        /// When it is pulled again.
        next_pull: Option<NextPull>,
    },
    Failed(StepError),
}

/// What a reconcile found out, and how it ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    /// The revisions, once they were read.
    pub(crate) revisions: Option<Revisions>,
    /// Why they are not known, where something is wrong with the extension itself as well.
    pub(crate) unread: Option<StepError>,
    /// What the catalogs say about deprecation, once they were asked.
    pub(crate) deprecations: Option<DeprecationStatus>,
    /// What the catalogs say about newer versions, once they were asked.
    pub(crate) update: Option<AvailableUpdate>,
    /// A sentence about the bundle that was chosen.
    pub(crate) resolved: Option<String>,
    /// A sentence about an update that leads to another catalog.
    pub(crate) crossed: Option<String>,
    /// What the bundle says about updates of the platform, if that is known.
    pub(crate) platform: Option<Verdict>,
    /// When a pause ends, an answer is taken that a pause holds back, or a Secret is removed whose revision never came.
    pub(crate) resumes: Option<Timestamp>,
    /// What is known of the deletion policy.
    pub(crate) policy: PolicyState,
    /// What is known of the deletion guard.
    pub(crate) guard: GuardState,
    /// What is wrong with the admission policies that guard the ServiceAccounts.
    pub(crate) unguarded: Option<String>,
    /// Sentences for `Ready` about settings in force and candidates that were rejected.
    pub(crate) notes: Vec<String>,
    pub(crate) outcome: Outcome,
}

impl Report {
    /// The report of a reconcile that goes on with a decision, or ends without one.
    pub(crate) fn and<T>(self, result: Result<T, StepError>) -> (Self, Option<T>) {
        match result {
            Ok(value) => (self, Some(value)),
            Err(error) => (Self { outcome: Outcome::Failed(error), ..self }, None),
        }
    }

    pub(crate) fn error(&self) -> Option<&StepError> {
        if let Outcome::Failed(error) = &self.outcome { Some(error) } else { None }
    }

    /// The revision that was made in this reconcile.
    pub(crate) fn created(&self) -> Option<&Created> {
        if let Outcome::Created(created) = &self.outcome { Some(created) } else { None }
    }

    /// The change that the update policy holds.
    pub(crate) fn pending(&self) -> Option<&Pending> {
        if let Outcome::Held(pending) = &self.outcome { Some(pending) } else { None }
    }

    pub(crate) fn pulling(&self) -> Option<&str> {
        if let Outcome::Pulling { why, .. } = &self.outcome { Some(why) } else { None }
    }

    /// Why what the spec asks for is not known to be there, although nothing failed that upstream would report.
    pub(crate) fn away(&self) -> Option<&str> {
        if let Outcome::Away { why, .. } = &self.outcome { Some(why) } else { None }
    }

    /// Whether nothing is to be pulled. A reconcile that knows nothing leaves a pull alone.
    pub(crate) fn needs_no_pull(&self) -> bool {
        match &self.outcome {
            Outcome::Settled | Outcome::Created(_) | Outcome::Held(_) => true,
            Outcome::Away { next_pull, .. } => next_pull.is_none(),
            Outcome::Failed(error) => match error {
                StepError::Bundle { cause, .. } => cause.next_pull.is_none(),
                StepError::Paused | StepError::Resolution { .. } => true,
                StepError::Validation { .. } | StepError::Takeover { .. } | StepError::Revisions(_) => false,
            },
            Outcome::Recorded | Outcome::Pulling { .. } => false,
        }
    }
}
