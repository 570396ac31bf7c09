//! Bills of materials, in the format CycloneDX, by cargo-cyclonedx.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::programs::{PROGRAMS, Platform, output};

/// How cargo-cyclonedx names its files.
const SUFFIX: &str = "_bin.cdx.json";

/// Writes `<program>.cdx.json` for each program into `folder`. `time` is in seconds since 1970.
///
/// # Errors
/// cargo-cyclonedx fails.
pub(crate) fn write(root: &Path, platform: &Platform, time: u64, folder: &Path) -> anyhow::Result<()> {
    remove(root).context("removing what an interrupted run left")?;
    let mut command =
        cargo(&["cyclonedx", "--quiet", "--format=json", "--describe=binaries", "--spec-version=1.5"]);
    command.args(["--no-build-deps", "--target", platform.target]);
    let written = output(command.current_dir(root).env("SOURCE_DATE_EPOCH", time.to_string()));
    let collected = written.and_then(|_| collect(root, folder));
    remove(root)?;
    collected
}

/// Removes what cargo-cyclonedx writes: a file for each program, beside the manifest of its package.
fn remove(root: &Path) -> anyhow::Result<()> {
    for package in package_folders(root)? {
        for file in fs::read_dir(&package)? {
            let path = file?.path();
            if path.to_string_lossy().ends_with(SUFFIX) {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

fn collect(root: &Path, folder: &Path) -> anyhow::Result<()> {
    for program in &PROGRAMS {
        let path = root.join(program.folder).join(format!("{}{SUFFIX}", program.name));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // Packages of the workspace are named by their folders.
        let text = text.replace(&root.display().to_string(), "/src");
        fs::write(folder.join(format!("{}.cdx.json", program.name)), text)?;
    }
    Ok(())
}

/// The folders of all packages of the workspace.
fn package_folders(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut command = cargo(&["metadata", "--no-deps", "--locked", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&output(command.current_dir(root))?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let manifests = packages.iter().filter_map(|package| package["manifest_path"].as_str());
    Ok(manifests.filter_map(|manifest| Path::new(manifest).parent()).map(Path::to_owned).collect())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}
