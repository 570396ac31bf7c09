//! olm-classic against a real control plane.

mod bad_sources;
mod bad_subscriptions;
mod cli;
mod cluster_catalogs;
mod credentials;
mod csvs;
mod examples;
mod groups;
mod idle;
mod install_plans;
mod kills;
mod memory;
mod namespace_scope;
mod operators;
mod packages;
mod pods;
mod replicas;
mod servers;
mod sources;
mod subscriptions;
mod tenant;
mod world;
