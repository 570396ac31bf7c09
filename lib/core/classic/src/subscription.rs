//! Subscriptions: what is shown of each, and what follows from a resolution of their namespace.
//!
//! A reconcile of a namespace brings each Subscription up to what is known ([`state`], [`health`], [`deprecation`],
//! [`orphan`]), resolves, decides for each part ([`decide`]), and reports ([`outcome`]). A status is only different from
//! before when something that it shows is.

pub mod conditions;
pub mod decide;
pub mod deprecation;
pub mod health;
pub mod install_plan;
pub mod orphan;
pub mod outcome;
pub mod state;
pub mod texts;
pub mod unpack;
