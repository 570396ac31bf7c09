//! Our program on a real control plane, with something in between that does harm.
//!
//! Tests share one cluster, registry, proxy and program, one test at a time: the program sees the whole cluster.
//! `OLM_TEST_LONG=1` runs everything instead of a sample; `OLM_TEST_SEED` repeats the choices of an earlier run.

mod belongings;
mod chronicle;
mod csvs;
mod decoys;
mod endings;
mod extension;
mod injected;
mod kills;
mod leases;
mod objects;
mod perturbed;
mod snapshot;
mod theatre;
mod walks;
mod world;
