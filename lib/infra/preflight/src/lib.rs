//! What is checked before objects are written, so that nothing is half applied: the permissions of the ServiceAccount, and
//! the custom resources that a changed definition would affect.

mod concurrently;
mod permissions;
pub mod stored_objects;

pub use concurrently::{REQUESTS, concurrently};
pub use permissions::{Verbs, missing_permissions};
