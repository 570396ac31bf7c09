//! The content server as clients see it: bytes on a TCP connection, limits included.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails and speaks like the test itself"
)]

mod clients;
mod compression;
mod conditions;
mod contract;
mod graphql;
mod images;
mod swarm;
mod wire;
mod world;
