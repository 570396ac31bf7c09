//! The commands of `olm`, as a person runs them.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod authoring;
mod bundle;
mod catalog;
mod crd;
mod pack;
mod program;
mod rbac;
mod resolve;
mod serve;
