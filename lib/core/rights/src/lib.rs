//! What a ServiceAccount must be allowed to do for an extension.
//!
//! [`needed`] and [`granted`] list the rules that a revision's objects require, [`missing`] compares them with
//! the rules an account holds, [`report`] tells the difference. [`Grant`] goes the other way: it makes the roles
//! and bindings that give an account just these rules, and [`dangers`] says what whoever gets them can do.
//!
//! Rules are compared as they are: the combinations that one stands for are listed only to be reported, and so far.
//!
//! Pure: which resource serves a kind, and which rules are held, is told by the caller.

mod compact;
mod danger;
mod grant;
mod limits;
mod need;
mod part;
mod report;
mod resources;
mod rule;

pub use danger::{Danger, dangers, webhooks_on_pods};
pub use grant::{Grant, Style};
pub use need::{Held, Needed, Target, granted, missing, needed, role_reference, rules_of};
pub use part::Comparison;
pub use report::report;
pub use resources::{UnknownKind, known_resources, targets};
pub use rule::Rule;
