//! How much of a bundle is rendered.

/// Most bytes of annotations that the CSV gives to the pods of all Deployments: an object may have 256 KiB, the largest
/// known bundle has 12 Deployments.
pub(crate) const POD_ANNOTATIONS_BYTES_MAX: usize = 16 << 20;

/// Most Deployments, webhooks and permissions of a CSV, of each: the largest known bundle has 12 Deployments. What is
/// rendered of one takes a hundred times its own bytes.
pub(crate) const DEFINITIONS_MAX: usize = 2_000;
