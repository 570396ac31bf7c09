//! Certificates of servers that need no other program: made here, kept in a Secret, and renewed without a moment in which
//! clients cannot check them.
//!
//! A Secret keeps the pair that serves, the pair that serves next, and the authorities that clients have to trust
//! ([`Content`]). [`Content::step`] says what is due, [`Content::after`] what the Secret keeps afterwards; who reads and
//! writes the Secret, and publishes the authorities, is the caller's. The key of an authority is never stored: each pair
//! has an authority of its own, and both authorities are trusted while one pair takes the other's place.

mod issue;
mod rotation;
mod secret;

pub use issue::{IssueError, Issued, Pair, Unusable, Wanted, certified_key, issue};
pub use rotation::{Content, Step};
pub use secret::{AUTHORITIES_KEY, new_secret};
