//! The vocabulary. Steps wait for what they state, with a deadline, and say what they saw instead.

mod catalogs;
mod extensions;
mod objects;
mod policies;
mod process;
mod revisions;
