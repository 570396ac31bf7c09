//! The puller against a registry in this process that can misbehave.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod failures;
mod hostile;
mod login;
mod ordinary;
mod server;
mod slow;
mod trust;
