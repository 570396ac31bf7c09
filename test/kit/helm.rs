//! Helm, which renders and installs the chart in tests.

use std::path::PathBuf;

use anyhow::Result;

use olm_test_programs::GoModule;

/// The version of Kubernetes that the chart is rendered for: without a cluster helm takes one of its build.
pub const KUBE_VERSION: &str = "1.36.3";

/// The path of `helm`, built if it is not there (two minutes, once). Blocks.
pub fn helm() -> Result<PathBuf> {
    let link_flags = "-s -w".to_owned();
    let module = GoModule { folder: "kit/helm", programs: &["helm"], renamed: &[], link_flags, tags: "" };
    Ok(module.built()?.join("helm"))
}
