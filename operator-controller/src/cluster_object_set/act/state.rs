//! The state of one object after it was brought to what it is to be, and what the states of a phase come to.

use std::fmt::Display;

use olm_object::ObjectKey;
use olm_objectset::{Workload, probe_failure};
use olm_plan::DryRunVerdict;
use olm_runtime::{api_text, is_namespace_missing, is_namespace_terminating};

use crate::cluster_object_set::{
    checks::Check,
    observe::siblings::OtherOwner,
    report::{Obstacle, Outcome, Unhealthy, short_name},
};

/// Objects that a sentence names.
const NAMED_MAX: usize = 3;

/// What an object waits for that was deleted and that something still holds.
const BEING_DELETED: &str = "is being deleted, and will be created again afterwards";

/// How an object was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    Applied,
}

/// What became of an object.
#[derive(Debug, Clone)]
pub(super) struct Brought {
    pub(super) key: ObjectKey,
    pub(super) state: State,
    pub(super) change: Option<Change>,
}

/// The state of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Healthy,
    /// The messages of its probes, and the way to its Pods where it is a workload.
    Unhealthy(Vec<String>, Option<Box<Workload>>),
    /// Probes have nothing to report yet; what it waits for.
    Waits(String),
    /// It is being deleted, and will be created again afterwards.
    Deleting,
    Collision {
        report: String,
        /// Whether the other owner is a ClusterObjectSet.
        with_set: bool,
        /// The other owner, if there is one.
        owner: Option<OtherOwner>,
    },
    Failed {
        error: String,
        obstacle: Option<Obstacle>,
        /// Whether the API server will not have the object, rather than has no answer now.
        is_refusal: bool,
    },
}

impl State {
    /// An object that fails for a reason of our own.
    pub(super) fn failed(key: &ObjectKey, why: impl Display, obstacle: Option<Obstacle>) -> Self {
        Self::Failed { error: format!("Object {key}: {why}"), obstacle, is_refusal: false }
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Failed { is_refusal: true, .. })
    }
}

pub(super) fn health(check: Check) -> State {
    match check.waits {
        _ if !check.failures.is_empty() => State::Unhealthy(check.failures, check.workload),
        Some(waits) => State::Waits(waits),
        None => State::Healthy,
    }
}

pub(super) fn failed(key: &ObjectKey, error: &kube::Error) -> State {
    let verdict = match error {
        kube::Error::Api(status) => Some(DryRunVerdict::of_refusal(status.code, &status.message)),
        _ => None,
    };
    State::Failed {
        error: format!("Object {key}: {}", api_text(error)),
        obstacle: obstacle(key, error),
        is_refusal: matches!(verdict, Some(DryRunVerdict::Refused(_))),
    }
}

/// What is in the way, where it does not pass by itself.
fn obstacle(key: &ObjectKey, error: &kube::Error) -> Option<Obstacle> {
    let kube::Error::Api(status) = error else { return None };
    if is_namespace_missing(status) {
        let text =
            format!("Namespace {:?} does not exist: create it, or delete the extension.", key.namespace);
        return Some(Obstacle::Missing(text));
    }
    if is_namespace_terminating(status) {
        return Some(Obstacle::Missing(format!(
            "Namespace {:?} is being deleted: create it again once it is gone, or delete the extension.",
            key.namespace
        )));
    }
    status.is_forbidden().then_some(Obstacle::Forbidden)
}

/// Sums a phase up: errors come before collisions, collisions before failed probes.
pub(super) fn summary(phase: usize, objects: &[Brought]) -> Outcome {
    let (mut errors, mut obstacle) = (Vec::new(), None);
    let (mut collisions, mut owners, mut with_set) = (Vec::new(), Vec::new(), false);
    let (mut failures, mut unhealthy, mut waits, mut awaits_deletion) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    for Brought { key, state, .. } in objects {
        match state {
            State::Healthy => {}
            State::Failed { error, obstacle: found, .. } => {
                errors.push(error.as_str());
                obstacle = obstacle.or(found.clone());
            }
            State::Collision { report, with_set: is_set, owner } => {
                collisions.push(report.as_str());
                owners.push((key, owner.as_ref()));
                with_set |= is_set;
            }
            State::Unhealthy(messages, workload) => {
                // Of failed probes the first is reported, as upstream does.
                if failures.is_empty() {
                    failures.push(probe_failure(key, messages));
                }
                let (object, failures, workload) = (key.clone(), messages.clone(), workload.clone());
                unhealthy.push(Unhealthy { object, failures, workload, finding: None });
            }
            State::Waits(text) => waits.push(probe_failure(key, std::slice::from_ref(text))),
            State::Deleting => {
                waits.push(probe_failure(key, &[BEING_DELETED.to_owned()]));
                awaits_deletion = true;
            }
        }
    }
    match obstacle {
        Some(obstacle) => Outcome::Stuck { message: errors.join("\n"), obstacle },
        None if !errors.is_empty() => Outcome::Retrying(errors.join("\n")),
        None if !collisions.is_empty() => Outcome::Stuck {
            message: format!("revision object collisions in phase {phase}\n{}", collisions.join("\n\n")),
            obstacle: Obstacle::Collision { with_set, remedy: collision_remedy(&owners) },
        },
        None if failures.is_empty() && waits.is_empty() => Outcome::Complete,
        None => Outcome::Incomplete { failures, unhealthy, waits, awaits_deletion },
    }
}

/// Whose the objects are, in words, and what to do about it: about the first one and all that have the same owner.
fn collision_remedy(objects: &[(&ObjectKey, Option<&OtherOwner>)]) -> String {
    let owner = objects.first().and_then(|(_, owner)| *owner);
    let siblings: Vec<_> = objects.iter().filter(|(_, other)| *other == owner).collect();
    let first: Vec<_> = siblings.iter().take(NAMED_MAX).map(|(key, _)| short_name(key)).collect();
    let more = siblings.len() - first.len();
    let names = first.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() };
    let (belongs, exists) = if siblings.len() == 1 { ("belongs", "exists") } else { ("belong", "exist") };
    match owner {
        Some(OtherOwner::Extension(name)) => {
            format!("{names} {belongs} to ClusterExtension {name}: remove one of the two extensions.")
        }
        Some(OtherOwner::Object(owner)) => format!(
            "{names} {belongs} to {owner}: delete that owner or this extension, or what is not needed of its objects."
        ),
        None => format!(
            "{names} {exists} already, not made by this extension: delete what is not needed, or remove this extension."
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, state: State) -> Brought {
        let key =
            ObjectKey::of(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
        Brought { key, state, change: None }
    }

    #[test]
    fn a_phase_is_summed_up_by_its_worst_object() {
        let healthy = object("a", State::Healthy);
        let unhealthy = object("b", State::Unhealthy(vec!["x".into(), "y".into()], None));
        let second = object("c", State::Unhealthy(vec!["z".into()], None));
        let owner = Some(OtherOwner::Extension("e".to_owned()));
        let collision = object("d", State::Collision { report: "Object D".into(), with_set: true, owner });
        let failed = |name, why, obstacle| {
            let error = format!("Object {name}: {why}");
            object(name, State::Failed { error, obstacle, is_refusal: false })
        };
        let failure = failed("e", "forbidden", Some(Obstacle::Forbidden));
        assert_eq!(summary(0, std::slice::from_ref(&healthy)), Outcome::Complete);
        let incomplete = |failures: &[&str], waits: &[&str], awaits_deletion| Outcome::Incomplete {
            failures: failures.iter().map(ToString::to_string).collect(),
            unhealthy: Vec::new(),
            waits: waits.iter().map(ToString::to_string).collect(),
            awaits_deletion,
        };
        let of_all = |items: &[&Brought]| summary(3, &items.iter().map(|i| (*i).clone()).collect::<Vec<_>>());
        let of = |items: &[&Brought]| {
            let mut outcome = of_all(items);
            if let Outcome::Incomplete { unhealthy, .. } = &mut outcome {
                unhealthy.clear();
            }
            outcome
        };
        let all = of_all(&[&healthy, &unhealthy, &second]);
        let lines: Vec<String> = all.unhealthy().iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["ConfigMap b: x and y", "ConfigMap c: z"]);
        assert_eq!(
            of(&[&healthy, &unhealthy, &second]),
            incomplete(&["Object ConfigMap.v1 b: x and y"], &[], false)
        );
        // What no probe has a verdict about yet is kept apart.
        let waiting = object("f", State::Waits("waits for its kind".into()));
        let waits = ["Object ConfigMap.v1 f: waits for its kind"];
        assert_eq!(of(&[&healthy, &waiting]), incomplete(&[], &waits, false));
        assert_eq!(of(&[&waiting, &second]), incomplete(&["Object ConfigMap.v1 c: z"], &waits, false));
        let waits = ["Object ConfigMap.v1 g: is being deleted, and will be created again afterwards"];
        assert_eq!(of(&[&healthy, &object("g", State::Deleting)]), incomplete(&[], &waits, true));
        let stuck = |message: &str, obstacle| Outcome::Stuck { message: message.into(), obstacle };
        assert_eq!(
            of(&[&unhealthy, &collision]),
            stuck(
                "revision object collisions in phase 3\nObject D",
                Obstacle::Collision {
                    with_set: true,
                    remedy: "ConfigMap d belongs to ClusterExtension e: remove one of the two extensions."
                        .into(),
                }
            )
        );
        let other = failed("g", "timeout", None);
        assert_eq!(
            of(&[&collision, &other, &failure]),
            stuck("Object g: timeout\nObject e: forbidden", Obstacle::Forbidden)
        );
        assert_eq!(of(&[&other]), Outcome::Retrying("Object g: timeout".into()));
    }
}
