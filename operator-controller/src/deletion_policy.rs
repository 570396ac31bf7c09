//! The deletion policy: asked for on an extension, carried out by its revisions.

pub(crate) mod extension;
pub(crate) mod revision;
