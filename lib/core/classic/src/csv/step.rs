//! One step of the state machine: what the rows come to, as a status and effects.

use jiff::{SignedDuration, Timestamp};
use olm_api_classic::{ClusterServiceVersion, ClusterServiceVersionStatus, RequirementStatus};

use super::{
    Certificates, Phase, View, rows,
    status::{Target, differs, set},
    view::Fact,
};
use crate::group::{membership::Group, provided::Apis};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A fact is needed: it is to be looked up, and the step made again.
    Ask(Fact),
    /// The operator gets the annotations of its OperatorGroup.
    Annotate(Box<Group>),
    /// The OperatorGroup lists these APIs.
    Provide(Apis),
    /// The operator's Deployments are deleted.
    DeleteDeployments,
    /// The ClusterRoles of the operator's APIs are made.
    EnsureApiRoles,
    /// The upgrade is counted.
    CountUpgrade,
    /// The object is deleted.
    Delete,
    /// An Event is published.
    Event {
        /// Whether it is a warning.
        is_warning: bool,
        /// The reason.
        reason: &'static str,
        /// The message.
        message: String,
    },
}

/// When the next step is made, if nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// Not at all.
    Await,
    /// After this time.
    After(SignedDuration),
    /// With backoff: the text says what failed.
    Retry(String),
    /// When the object changes: the text says what is wrong with it.
    Blocked(String),
}

/// What a step comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The status after it.
    pub status: ClusterServiceVersionStatus,
    /// What is to be done before the status is written.
    pub effects: Vec<Effect>,
    /// When the next step is made.
    pub again: Again,
}

/// What a row says.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) target: Option<Target>,
    pub(super) requirements: Option<Vec<RequirementStatus>>,
    pub(super) certificates: Option<Certificates>,
    pub(super) effects: Vec<Effect>,
    pub(super) again: Again,
}

impl Outcome {
    /// The phase stays.
    pub(super) fn stay() -> Self {
        Self {
            target: None,
            requirements: None,
            certificates: None,
            effects: Vec::new(),
            again: Again::Await,
        }
    }

    /// The phase is this one.
    pub(super) fn to(phase: Phase, reason: &'static str, message: impl Into<String>) -> Self {
        Self { target: Some(Target { phase, reason, message: message.into() }), ..Self::stay() }
    }

    pub(super) fn with(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    pub(super) fn again(self, again: Again) -> Self {
        Self { again, ..self }
    }

    pub(super) fn requirements(self, list: &[RequirementStatus]) -> Self {
        Self { requirements: Some(list.to_vec()), ..self }
    }
}

/// The step that is due for an operator.
pub fn step(csv: &ClusterServiceVersion, view: &View, now: Timestamp) -> Step {
    let mut status = csv.status.clone().unwrap_or_default();
    let outcome = match rows::outcome(csv, view, now) {
        Ok(outcome) => outcome,
        Err(fact) => return Step { status, effects: vec![Effect::Ask(fact)], again: Again::Await },
    };
    let Outcome { target, requirements, certificates, mut effects, again } = outcome;
    if let Some(target) = target.filter(|target| differs(&status, target)) {
        set(&mut status, &target, now);
        let is_warning = target.phase == Phase::Failed;
        effects.push(Effect::Event { is_warning, reason: target.reason, message: target.message });
    }
    if let Some(requirements) = requirements {
        status.requirement_status = requirements;
    }
    if let Some(Certificates { updated, rotate_at }) = certificates {
        status.certs_last_updated = Some(Time(updated));
        status.certs_rotate_at = Some(Time(rotate_at));
    }
    Step { status, effects, again }
}
