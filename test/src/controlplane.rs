//! The programs of the control plane: where they are, built once if need be.
//!
//! `test/controlplane` is a Go module that only names published commands; `go build tool` builds them into
//! the user's cache, in a folder named after the module's checksums. `KUBEBUILDER_ASSETS` names a folder
//! whose kube-apiserver, etcd and kubectl are used instead.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The version the programs call themselves, that of the module's Kubernetes.
const VERSION: &str = "v1.36.3";

/// A program of the control plane, or one that tests use beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, namespaces, service accounts, workloads.
    ControllerManager,
    /// Gives pods a node.
    Scheduler,
    /// Plays the nodes.
    Kwok,
    /// The command line.
    Kubectl,
    /// The image registry.
    Registry,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::Kubectl,
        Self::Registry,
    ];

    /// The program's file name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
            Self::Registry => "registry",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Tools {
    built: PathBuf,
    assets: Option<PathBuf>,
}

impl Tools {
    /// Finds the programs, and builds them if they are not there (some minutes, once). Blocks.
    pub fn locate() -> Result<Self> {
        let assets =
            std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from);
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane");
        let built = cache_folder()?.join(checksum(&module.join("go.sum"))?);
        if !complete(&built) {
            build(&module, &built)?;
        }
        Ok(Self { built, assets })
    }

    /// The path of a program.
    pub fn path(&self, tool: Tool) -> PathBuf {
        let given = match tool {
            Tool::Etcd | Tool::ApiServer | Tool::Kubectl => self.assets.as_deref(),
            _ => None,
        };
        given.unwrap_or(&self.built).join(tool.file_name())
    }
}

fn cache_folder() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("olm/controlplane"))
}

/// The first 16 hexadecimal digits of a file's SHA-256: new versions of anything get a new folder.
fn checksum(path: &Path) -> Result<String> {
    let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let digest = Sha256::digest(&content);
    Ok(digest[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

fn complete(folder: &Path) -> bool {
    Tool::ALL.iter().all(|tool| folder.join(tool.file_name()).is_file())
}

fn build(module: &Path, folder: &Path) -> Result<()> {
    let cache = folder.parent().context("the cache folder has no parent")?;
    fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
    // Two test processes at once build once: the second waits here and then finds the folder.
    let lock = File::create(cache.join(".lock"))?;
    lock.lock()?;
    if complete(folder) {
        return Ok(());
    }
    // Not with a print macro: libtest would keep it to itself, for some minutes.
    writeln!(std::io::stderr(), "building the control plane into {} (once, some minutes)", folder.display())?;
    let partial = tempfile::Builder::new().prefix(".partial-").tempdir_in(cache)?;
    let mut go = Command::new("go");
    go.current_dir(module).args(["build", "-trimpath", "-ldflags"]);
    go.arg(format!("-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"));
    go.arg("-o").arg(partial.path()).arg("tool");
    match go.status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("`go build tool` in {} failed: {status}", module.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "the tests' control plane is built with Go, which is not installed: install Go 1.26 or later \
             (https://go.dev/dl), or set KUBECONFIG to the kubeconfig of a cluster the tests may use"
        ),
        Err(error) => return Err(error).context("running go"),
    }
    // etcd's command is the module go.etcd.io/etcd/server.
    fs::rename(partial.path().join("server"), partial.path().join(Tool::Etcd.file_name()))?;
    if !complete(partial.path()) {
        bail!("`go build tool` did not build every program of {}", module.display());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(partial.keep(), folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_is_named_after_the_modules_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go.sum");
        fs::write(&file, "abc").unwrap();
        assert_eq!(checksum(&file).unwrap(), "ba7816bf8f01cfea");
        assert!(!complete(folder.path()));
    }
}
