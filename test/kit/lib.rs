//! What the tests run against: a real Kubernetes control plane, a real registry, and programs of ours.
//!
//! Everything listens on loopback and nothing outlives the test process: programs are started by a
//! supervisor of their own ([`process`]), which ends them when the test process is gone, however it went.

pub mod bundle;
pub mod catalog;
pub mod catalog_server;
pub mod catalogd;
pub mod classic;
pub mod cli;
pub mod cluster;
pub mod distribution;
pub mod extension;
pub mod faults;
pub mod grpc;
pub mod helm;
pub mod images;
pub mod instance;
pub mod kstatus;
pub mod kubectl;
pub mod long;
pub mod objects;
pub mod operator;
pub mod permissions;
pub mod permissions_used;
pub mod pki;
pub mod prelude;
pub mod process;
pub mod promtool;
pub mod proxy;
pub mod requests;
pub mod sample_operator;
pub mod scenario;
pub mod scrape;
pub mod secret_certificate;
pub mod supervisor;
pub mod takeover;
#[path = "../tools/mod.rs"]
pub mod tools;
pub mod upstream;
pub mod wait;
mod watchdog;
pub mod world;

pub use olm_test_programs::data;

// Selects the features that tests want of common crates also where only programs are built, so that both share one build.
// The test `programs_and_tests_are_built_from_the_same_crates` compares them.
use cucumber as _;
use proptest as _;

/// A registry in memory, for everything but tests of registries themselves; those use [`distribution`].
pub mod registry {
    pub use olm_test_registry::Registry;
}
