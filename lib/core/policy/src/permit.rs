//! Whether a change may be rolled out now.

use std::collections::BTreeSet;

use jiff::{Timestamp, tz::TimeZone};
use olm_api::v1alpha1::Approval;

use crate::{calendar::Entry, policy::Policy};

/// What makes an extension change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its first installation.
    Install,
    /// Another version, or another configuration of the same.
    Update,
    /// A person asked for an earlier revision. It needs the approval of any other change, and waits for nothing else: it is
    /// the way out when something is broken.
    Rollback,
}

/// What a person should see before a plan is rolled out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// The major version changes.
    MajorVersion {
        /// The installed one.
        from: u64,
        /// The new one.
        to: u64,
    },
    /// The operator gains dangerous permissions: what it may do then, a clause each.
    Permissions(Vec<String>),
    /// Findings on these CustomResourceDefinitions.
    Crds(Vec<String>),
    /// These extensions are created with it.
    Dependencies(Vec<String>),
}

/// A change that is planned.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// What makes it.
    pub kind: Kind,
    /// The version, as people read it.
    pub version: &'a str,
    /// The digest of its plan.
    pub digest: &'a str,
    /// The time since which its version has been possible.
    pub first_possible: Timestamp,
    /// What a person should see.
    pub risks: &'a [Risk],
    /// The digest that is approved.
    pub approved: Option<&'a str>,
}

/// The other extensions for which the policy is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// Those that roll out, or are about to.
    pub rolling_out: BTreeSet<String>,
    /// Those whose latest roll-out missed its deadline.
    pub failed: BTreeSet<String>,
}

/// Whether the digest that is approved is that of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approved {
    /// None is.
    Nothing,
    /// Another one is: the plan changed since.
    Another(String),
}

/// What a change waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    /// A person.
    Approval {
        /// The digest of the plan to approve.
        digest: String,
        /// Why approval is needed, unless it always is.
        risks: Vec<Risk>,
        /// What is approved instead.
        approved: Approved,
    },
    /// A window.
    Window {
        /// When the next one opens, and by the clock of which time zone; nothing if none opens soon.
        opens: Option<(Timestamp, TimeZone)>,
    },
    /// Its minimum age.
    Age {
        /// When it has it.
        until: Timestamp,
    },
    /// Others to have rolled out.
    Concurrency {
        /// Those that roll out.
        names: Vec<String>,
        /// How many may at the same time.
        max: i32,
    },
    /// Another one whose roll-out failed.
    Halted {
        /// Its name.
        name: String,
    },
    /// The policy to be corrected.
    Invalid {
        /// What is wrong with it.
        why: String,
    },
    /// The policies to be known.
    Unknown,
}

/// The decision on a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Permit {
    /// It may be rolled out now.
    Now,
    /// It waits.
    Wait {
        /// For all of this.
        waits: Vec<Wait>,
        /// When this is worth another look by time alone.
        look_again: Option<Timestamp>,
    },
}

impl Permit {
    /// Whether nothing happens before a person acts.
    pub fn needs_a_person(&self) -> bool {
        let is_for_a_person = |wait: &Wait| matches!(wait, Wait::Approval { .. } | Wait::Invalid { .. });
        matches!(self, Self::Wait { waits, .. } if waits.iter().any(is_for_a_person))
    }
}

/// Whether the policy lets a change be rolled out at `now`.
pub fn permit(policy: &Policy, change: &Change<'_>, others: &Others, now: Timestamp) -> Permit {
    if change.kind == Kind::Install && !policy.installs {
        return Permit::Now;
    }
    let mut waits: Vec<Wait> = approval(policy, change).into_iter().collect();
    let mut look_again = None;
    if change.kind != Kind::Rollback {
        let mut look =
            |at: Timestamp| look_again = Some(look_again.map_or(at, |known: Timestamp| known.min(at)));
        let age = policy.minimum_age.and_then(|age| change.first_possible.checked_add(age).ok());
        if let Some(until) = age.filter(|until| *until > now) {
            waits.push(Wait::Age { until });
            look(until);
        }
        if let Entry::Closed { opens, look_again } = policy.calendar.entry(now) {
            waits.push(Wait::Window { opens });
            look(look_again);
        }
        waits.extend(turn(policy, others));
    }
    if waits.is_empty() { Permit::Now } else { Permit::Wait { waits, look_again } }
}

fn approval(policy: &Policy, change: &Change<'_>) -> Option<Wait> {
    let (is_needed, risks) = match policy.approval {
        Approval::Automatic => (false, &[][..]),
        Approval::Manual => (true, &[][..]),
        Approval::OnRisk => (!change.risks.is_empty(), change.risks),
    };
    if !is_needed || change.approved == Some(change.digest) {
        return None;
    }
    let approved = change.approved.filter(|approved| !approved.is_empty());
    Some(Wait::Approval {
        digest: change.digest.to_owned(),
        risks: risks.to_vec(),
        approved: approved.map_or(Approved::Nothing, |approved| Approved::Another(approved.to_owned())),
    })
}

/// What the other extensions keep it from.
fn turn(policy: &Policy, others: &Others) -> Option<Wait> {
    let concurrency = policy.concurrency.as_ref()?;
    if let Some(name) = others.failed.first().filter(|_| concurrency.halt_on_failure) {
        return Some(Wait::Halted { name: name.clone() });
    }
    let most = usize::try_from(concurrency.max).unwrap_or_default();
    (others.rolling_out.len() >= most).then(|| Wait::Concurrency {
        names: others.rolling_out.iter().cloned().collect(),
        max: concurrency.max,
    })
}
