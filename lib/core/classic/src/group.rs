//! OperatorGroups: which namespaces the operators of a namespace serve, and which APIs they may provide there.
//!
//! [`targets`] decides on the namespaces, [`modes`] whether an operator can serve them, [`membership`] which group an
//! operator belongs to, [`provided`] whether two groups would provide the same API in the same namespace, [`roles`] has
//! the generated ClusterRoles, and [`status`] what is reported on a group.

pub mod membership;
pub mod modes;
pub mod provided;
pub mod roles;
pub mod status;
pub mod targets;
pub mod texts;

#[cfg(test)]
mod tests;
