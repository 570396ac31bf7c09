//! Packs programs into container images without a container engine.
//!
//! An image holds the static program, certificates of public authorities, and nothing else that could run. The same
//! programs give the same bytes: no times, no names of machines, and the certificates are those of a locked
//! dependency, not of the machine.

mod elf;
mod rootfs;

pub use elf::static_architecture;
pub use rootfs::{PROGRAMS, Program, certificates, image};
