//! The generated messages, and their descriptors.

/// The messages of the registry API.
#[expect(missing_docs, reason = "the names are the contract; the protocol file has what there is to say")]
#[allow(clippy::pedantic, reason = "it is written by a generator")]
pub mod api {
    include!("generated/api.rs");
}

/// The messages of the health service.
#[expect(missing_docs, reason = "they are those of every gRPC server")]
#[allow(clippy::pedantic, reason = "it is written by a generator")]
pub mod health {
    include!("generated/grpc.health.v1.rs");
}

/// What reflection answers with.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
