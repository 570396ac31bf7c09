//! Our program on a real control plane, with something in between that does harm.
//!
//! Tests share one cluster, registry, proxy and program, one test at a time: the program sees the whole cluster.
//! `OLM_TEST_LONG=1` runs everything instead of a sample; `OLM_TEST_SEED` repeats the choices of an earlier run.

mod bystanders;
mod csvs;
mod endings;
mod extension;
mod history;
mod injected;
mod kills;
mod leases;
mod lives;
mod objects;
mod perturbed;
mod plans;
mod random_changes;
mod runner;
mod snapshot;
mod user_objects;
mod world;
