//! olm-classic against a real control plane.

mod bad_sources;
mod bad_subscriptions;
mod cli;
mod cluster_catalogs;
mod components;
mod conversions;
mod copies;
mod credentials;
mod csv_metrics;
mod csvs;
mod groups;
mod install_plans;
mod kills;
mod memory;
mod namespace_scope;
mod operators;
mod packages;
mod pods;
mod proxies;
mod replicas;
mod servers;
mod service_accounts;
mod sources;
mod subscriptions;
mod tenant;
mod world;
