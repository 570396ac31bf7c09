//! How large a bundle may be.

use olm_yaml::Limits;

/// Most files of one bundle: the largest known bundle has 120.
pub(crate) const FILES_MAX: usize = 4_000;
/// Most bytes of all files of one bundle: real ones stay below 10 MB, etcd takes 1.5 MB an object.
pub(crate) const BUNDLE_BYTES_MAX: usize = 64 << 20;
/// Most objects of one bundle: the largest known one has 300.
pub(crate) const OBJECTS_MAX: usize = 10_000;

/// The limits of one file of a bundle.
pub(crate) const FILE: Limits = Limits {
    bytes: BUNDLE_BYTES_MAX,
    documents: OBJECTS_MAX,
    // CRD schemas reach 60 levels; typed conversion recurses.
    depth: 200,
    nodes: 4 << 20,
    expanded_bytes: 2 * BUNDLE_BYTES_MAX,
};

/// Most bytes of annotations that the CSV gives to the pods of all Deployments: an object may have 256 KiB, the largest
/// known bundle has 12 Deployments.
pub(crate) const POD_ANNOTATIONS_BYTES_MAX: usize = 16 << 20;

/// Most Deployments, webhooks and permissions of a CSV, of each: the largest known bundle has 12 Deployments. What is
/// rendered of one takes a hundred times its own bytes.
pub(crate) const DEFINITIONS_MAX: usize = 2_000;
