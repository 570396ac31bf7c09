//! The registry API of OLM Classic, which is gRPC: a server over the catalogs of this process, and a client for the
//! servers of others.
//!
//! One server answers for many catalogs, distinguished by the authority of a request: the name of the Service that the
//! client connected to. Within a cluster it speaks plain HTTP/2, as upstream's does. Messages are generated
//! from `proto` with `make grpc`; methods are a table in `service.rs`.

mod catalog;
mod client;
mod connections;
mod convert;
mod dial;
pub mod limits;
mod messages;
mod server;
mod service;

pub use catalog::ReadError;
pub use client::{ClientError, RegistryClient};
pub use dial::Proxy;
pub use messages::{api, health};
pub use server::{ServeError, serve};
pub use service::{RegistryServer, Sources, service_of};
