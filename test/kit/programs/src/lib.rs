//! What tests and the demo need from the machine: the Go programs, built where they are missing, and data, reported where
//! they are absent.
//!
//! Has few dependencies, because it is compiled before everything else: [`demo`] then builds Go and Rust programs side
//! by side and shows how far they are.

pub mod cargo;
pub mod controlplane;
pub mod data;
pub mod demo;
mod go_module;
mod progress;

pub use go_module::GoModule;
pub use progress::Progress;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// A variable of the environment; an empty one counts as none.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The path of a program in `PATH`.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let folders = variable("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The folder `test`, beneath which the Go modules are.
fn test_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
