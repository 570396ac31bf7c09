//! Permissions that a ServiceAccount needs for an extension.
//!
//! [`needed`] and [`escalation_rules`] list the permissions that a revision's objects require, [`missing`] compares them
//! with the rules a ServiceAccount holds, [`report`] words the difference. [`Grant`] is the reverse: it makes the roles
//! and bindings that give a ServiceAccount just these permissions, and [`dangers`] lists the powers that come with them.
//!
//! Rules are compared as they are: the combinations that one stands for are listed only to be reported, and so far.
//!
//! Pure: the caller brings the rules that are held, and the resources that serve kinds beyond the table of kinds.

mod compact;
mod dangers;
mod grant;
mod limits;
mod part;
mod report;
mod required;
mod targets;

pub use dangers::{Danger, dangers, webhooks_on_pods};
pub use grant::{Grant, Style};
pub use part::Comparison;
pub use report::{lines, report};
pub use required::{
    Held, Permission, Target, escalation_rules, missing, needed, needed_to_write, role_reference, rules_of,
};
pub use targets::{UnknownKind, known_resources, targets};
