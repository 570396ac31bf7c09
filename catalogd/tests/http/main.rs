//! The content server as clients see it: bytes on a TCP connection, limits included.

mod clients;
mod compression;
mod conditions;
mod contract;
mod graphql;
mod images;
mod swarm;
mod world;
