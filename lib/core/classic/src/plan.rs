//! InstallPlans: the objects that install bundles ([`steps`]), and how far each plan is ([`begin`], [`finish`]).

mod account;
mod advance;
mod collect;
pub mod crds;
mod digest;
mod hashes;
pub mod object;
mod permissions;
mod reference;
mod steps;
pub mod texts;

pub use account::{AccountError, account};
pub use advance::{
    Action, Failure, Outcome, RETRY_TIMEOUT, View, begin, finish, is_approved, is_stalled, problem, ready,
    report,
};
pub use collect::{PLANS_MAX, collectable, is_superseded};
pub use digest::{add_seal, digest, seal, sealed_text};
pub use reference::{Content, Reference};
pub use steps::{PlanError, PlannedBundle, PlannedObject, objects, steps};

#[cfg(test)]
mod tests;
