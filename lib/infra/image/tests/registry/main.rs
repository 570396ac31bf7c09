//! The puller against a registry in this process that can misbehave.

mod failures;
mod login;
mod ordinary;
mod server;
