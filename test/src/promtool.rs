//! Prometheus' promtool, which runs the tests of the alerts.

use std::path::PathBuf;

use anyhow::Result;

use crate::go_module::GoModule;

/// The path of `promtool`, built if it is not there (two minutes, once). Blocks.
pub fn promtool() -> Result<PathBuf> {
    let link_flags = "-s -w".to_owned();
    // Without the clients of two dozen clouds, which would double it.
    let tags = "remove_all_sd";
    let module = GoModule { name: "promtool", programs: &["promtool"], renamed: &[], link_flags, tags };
    Ok(module.built()?.join("promtool"))
}
