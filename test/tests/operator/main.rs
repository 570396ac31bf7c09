//! Our program on a real control plane, with real images in a real registry.
//!
//! Tests share one cluster, registry and program; each has a catalog, a namespace and names of its own.

mod admission;
mod bad_input;
mod catalogs;
mod leader;
mod modes;
mod real_bundles;
mod restarts;
mod rights;
mod sets;
mod updates;
mod webhooks;
mod world;
