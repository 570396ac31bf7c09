//! Our program on a real control plane, with real images in a real registry.
//!
//! Tests share one cluster, registry and program; each has a catalog, a namespace and names of its own.

mod admission;
mod asked;
mod bad_input;
mod catalogs;
mod cluster_catalogs;
mod crd_upgrades;
mod created_first;
mod deletion_policy;
mod depending;
mod extension_tables;
mod hostile;
mod kinds;
mod kstatus;
mod leader;
mod leftovers;
mod marks;
mod modes;
mod permissions;
mod plan;
mod planted;
mod platform;
mod pods;
mod process;
mod pulls;
mod recreated;
mod remedies;
mod resolving;
mod restarts;
mod restricted_accounts;
mod returning;
mod set_tables;
mod starts;
mod status_columns;
mod transcript;
mod update_policies;
mod updates;
mod waiting;
mod webhooks;
