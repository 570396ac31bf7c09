//! ClusterServiceVersions: the phases of an installed operator, and what is installed for it.
//!
//! [`step`] is the whole state machine: from the object, what is known of the cluster ([`View`]) and the time to the next
//! status and the effects. A fact that a row needs and that is not known is asked for, so that a reconcile looks up only
//! what its row needs. [`requirements`] and [`deployments`] evaluate two of the facts, [`install`] makes the objects.

pub mod advice;
pub mod chain;
pub mod conversion;
pub mod copied;
pub mod deployments;
pub mod disruption;
pub mod install;
mod install_status;
pub mod operator_condition;
pub mod phase;
pub mod requirements;
mod rows;
mod status;
mod step;
pub mod texts;
mod view;
pub mod webhooks;

pub use phase::Phase;
pub use step::{Again, Effect, Step, step};
pub use view::{
    ApiServices, Availability, Certificates, Fact, InstallFault, Installed, Replaced, Successor, View,
    Webhooks,
};

#[cfg(test)]
mod tests;
