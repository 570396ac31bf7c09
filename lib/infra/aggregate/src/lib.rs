//! An aggregated API server: what kube-apiserver forwards the requests of an APIService to.
//!
//! It serves one kind of namespaced objects that can be read ([`Resource`]): get, list and watch with label and
//! field selectors, tables for kubectl, discovery, OpenAPI, subresources. Who asks is what the front proxy
//! (kube-apiserver) says, whose certificate is verified, or what a client certificate or token proves; what they may is
//! asked of the API server. Nothing here knows which kind it is.

mod accept;
mod authentication;
mod discovery;
mod failure;
mod openapi;
mod registration;
mod request;
mod resource;
mod selector;
mod server;
mod table;
mod watching;
mod written;

pub use failure::Failure;
pub use registration::Registration;
pub use resource::{Column, Listing, Names, Object, Resource};
pub use server::ApiServer;
pub use table::age;
