//! The programs of a release, and the platforms they are built for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// A program with its package.
pub(crate) struct Program {
    /// Name of the binary.
    pub(crate) name: &'static str,
    /// Name of its package.
    package: &'static str,
    /// Folder of its package.
    pub(crate) folder: &'static str,
}

/// All programs that are released.
pub(crate) const PROGRAMS: [Program; 4] = [
    Program { name: "operator-controller", package: "operator-controller", folder: "operator-controller" },
    Program { name: "catalogd", package: "catalogd", folder: "catalogd" },
    Program { name: "olm-classic", package: "olm-classic", folder: "classic" },
    Program { name: CLI, package: "olm-cli", folder: "cli" },
];
/// The command for people, which krew installs too.
pub(crate) const CLI: &str = "olm";

/// A platform that programs are built for.
#[derive(Debug)]
pub(crate) struct Platform {
    /// Name of the platform for the compiler.
    pub(crate) target: &'static str,
    /// Architecture as images and krew name it.
    pub(crate) architecture: &'static str,
    /// The C compiler that links for it on other machines.
    linker: &'static str,
}

/// All platforms, in the order of their architectures.
pub(crate) const PLATFORMS: [Platform; 2] = [
    Platform { target: "x86_64-unknown-linux-gnu", architecture: "amd64", linker: "x86_64-linux-gnu-gcc" },
    Platform { target: "aarch64-unknown-linux-gnu", architecture: "arm64", linker: "aarch64-linux-gnu-gcc" },
];

impl Platform {
    /// Explains why nothing can be built for the platform on this machine; nothing if it can.
    pub(crate) fn obstacle(&self) -> anyhow::Result<Option<String>> {
        if self.is_host()? {
            return Ok(None);
        }
        let libraries =
            output(Command::new("rustc").args(["--print", "target-libdir", "--target", self.target]));
        if !libraries.is_ok_and(|folder| Path::new(folder.trim()).is_dir()) {
            return Ok(Some(format!(
                "because the compiler's libraries are missing (rustup target add {})",
                self.target
            )));
        }
        let linker = Command::new(self.linker).arg("--version").stdout(Stdio::null()).status();
        let works = linker.is_ok_and(|status| status.success());
        Ok((!works).then(|| format!("because the linker {} is missing", self.linker)))
    }

    /// Whether its programs run on this machine.
    pub(crate) fn is_host(&self) -> anyhow::Result<bool> {
        let host = format!("host: {}", self.target);
        Ok(output(Command::new("rustc").arg("-vV"))?.lines().any(|line| line == host))
    }

    /// The variable that names the linker to cargo.
    fn linker_variable(&self) -> String {
        format!("CARGO_TARGET_{}_LINKER", self.target.to_uppercase().replace('-', "_"))
    }
}

/// Builds the programs, and returns the folder they are in.
///
/// # Errors
/// The build fails.
pub(crate) fn build(
    root: &Path,
    platform: &Platform,
    profile: &str,
    commit: &str,
) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--locked", "--target", platform.target, "--profile", profile]);
    cargo.env("OLM_COMMIT", commit);
    for program in &PROGRAMS {
        cargo.args(["--package", program.package, "--bin", program.name]);
    }
    if platform.is_host()? {
        // As the Makefile builds it: with another set of packages much would be compiled a second time, with other features.
        cargo.args(["--package", env!("CARGO_PKG_NAME"), "--bin", env!("CARGO_PKG_NAME")]);
    } else {
        cargo.env(platform.linker_variable(), platform.linker);
    }
    let status = cargo.status().context("running cargo build")?;
    ensure!(status.success(), "cargo build for {} failed", platform.target);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    // The one profile whose folder has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(root.join(target).join(platform.target).join(folder))
}

/// What a command writes to its standard output.
///
/// # Errors
/// It cannot be run, or fails; the error has what it wrote to standard error.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("running {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("output that is not text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_without_compiler_or_linker_is_left_out_with_the_reason() {
        let unknown = Platform { target: "nowhere", architecture: "none", linker: "nowhere-gcc" };
        let obstacle = unknown.obstacle().unwrap().unwrap();
        assert!(obstacle.contains("rustup target add nowhere"), "{obstacle}");
        let host = PLATFORMS.iter().filter(|one| one.target.starts_with(std::env::consts::ARCH));
        assert!(host.clone().all(|one| one.obstacle().unwrap().is_none()));
        assert_eq!(PLATFORMS[1].linker_variable(), "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
    }
}
