//! The manifests: rendered by kustomize and helm, and applied to real API servers. What a manifest installs has fixed
//! names in the whole cluster, so each test that applies one has a control plane of its own.

mod alerts;
mod followed;
mod images_alone;
mod installed;
mod lived;
mod reference;
mod released;
mod rendered;
mod rendering;
mod started;
mod superseding;
