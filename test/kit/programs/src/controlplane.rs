//! The programs of the control plane: where they are, built once if need be.
//!
//! `KUBEBUILDER_ASSETS` names a folder whose kube-apiserver, etcd and kubectl are used; all others are built from a Go
//! module into the user's cache.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{GoModule, Progress, variable};

/// The version the programs call themselves, that of the module's Kubernetes.
pub const VERSION: &str = "v1.36.3";

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
    /// The image registry of the distribution project.
    Registry,
}

/// What an API server needs, and what `setup-envtest` installs.
pub const API_SERVER: [Tool; 3] = [Tool::Etcd, Tool::ApiServer, Tool::Kubectl];
/// What makes Pods of Deployments, and removes what has lost its owner.
pub const CONTROLLERS: [Tool; 3] = [Tool::ControllerManager, Tool::Scheduler, Tool::Kwok];

impl Tool {
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
    /// Finds the programs, and builds those of `wanted` that are not there (some minutes, once). Blocks.
    pub fn locate(wanted: &[Tool]) -> Result<Self> {
        let this = Self::find()?;
        if !this.missing(wanted).is_empty() {
            Progress::during(|progress| this.build(wanted, progress))?;
        }
        Ok(this)
    }

    /// Looks where the programs are, and builds nothing.
    pub fn find() -> Result<Self> {
        Ok(Self { built: module(&[]).cache()?, assets: variable("KUBEBUILDER_ASSETS").map(PathBuf::from) })
    }

    #[cfg(test)]
    pub(crate) fn at(built: &Path, assets: Option<&Path>) -> Self {
        Self { built: built.to_owned(), assets: assets.map(Path::to_owned) }
    }

    /// The same for the demo, which also takes what `setup-envtest` installed when nothing was built.
    pub fn find_for_demo() -> Result<Self> {
        let mut this = Self::find()?;
        if this.assets.is_none() && !this.missing(&API_SERVER).is_empty() {
            this.assets = envtest_folders().iter().find_map(|folder| newest_assets(folder));
        }
        Ok(this)
    }

    /// The folder of kube-apiserver, etcd and kubectl, if they are not those that are built here.
    pub fn assets(&self) -> Option<&Path> {
        self.assets.as_deref()
    }

    /// The programs of `wanted` that are not there.
    pub fn missing(&self, wanted: &[Tool]) -> Vec<Tool> {
        wanted.iter().copied().filter(|&tool| !self.path(tool).is_file()).collect()
    }

    /// Builds the programs of `wanted` that are missing, and says how far that is. Blocks.
    pub fn build(&self, wanted: &[Tool], progress: &Progress) -> Result<()> {
        let given = |tool: Tool| self.assets.is_some() && API_SERVER.contains(&tool);
        if let Some(tool) = self.missing(wanted).into_iter().find(|&tool| given(tool)) {
            anyhow::bail!(
                "KUBEBUILDER_ASSETS must name a folder with etcd, kube-apiserver and kubectl: there is no {}",
                self.path(tool).display()
            );
        }
        let names: Vec<_> =
            wanted.iter().filter(|&&tool| !given(tool)).map(|tool| tool.file_name()).collect();
        module(&names).build(progress)
    }

    /// The path of a program.
    pub fn path(&self, tool: Tool) -> PathBuf {
        let given = self.assets.as_deref().filter(|_| API_SERVER.contains(&tool));
        given.unwrap_or(&self.built).join(tool.file_name())
    }
}

fn module<'a>(programs: &'a [&'a str]) -> GoModule<'a> {
    GoModule {
        folder: "kit/controlplane",
        programs,
        // etcd's command is the module go.etcd.io/etcd/server.
        renamed: &[("server", "etcd")],
        link_flags: format!("-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"),
        tags: "",
    }
}

/// Where `setup-envtest` installs by default.
fn envtest_folders() -> Vec<PathBuf> {
    let home = variable("HOME").map(PathBuf::from);
    let data = variable("XDG_DATA_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".local/share")));
    data.into_iter().map(|data| data.join("kubebuilder-envtest/k8s")).collect()
}

/// The folder of the newest version that is complete; folders are named as `1.36.0-linux-amd64`.
fn newest_assets(versions: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let complete =
        folders.filter(|folder| API_SERVER.iter().all(|tool| folder.join(tool.file_name()).is_file()));
    complete.max_by_key(|folder| {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let version = name.split('-').next().unwrap_or_default();
        version.split('.').map(|number| number.parse().unwrap_or(0)).collect::<Vec<u32>>()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn install(folder: &Path, tools: &[Tool]) {
        fs::create_dir_all(folder).unwrap();
        for tool in tools {
            fs::write(folder.join(tool.file_name()), "").unwrap();
        }
    }

    #[test]
    fn the_newest_complete_version_of_setup_envtest_is_taken() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(newest_assets(&root.path().join("none")), None);
        install(&root.path().join("1.9.0-linux-amd64"), &API_SERVER);
        install(&root.path().join("1.31.0-linux-amd64"), &API_SERVER);
        install(&root.path().join("1.36.0-linux-amd64"), &API_SERVER[..2]);
        assert_eq!(newest_assets(root.path()), Some(root.path().join("1.31.0-linux-amd64")));
    }

    #[test]
    fn given_programs_are_not_built() {
        let (built, assets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        install(assets.path(), &API_SERVER);
        install(built.path(), &[Tool::Kwok]);
        let tools = Tools::at(built.path(), Some(assets.path()));
        assert_eq!(tools.missing(&API_SERVER), []);
        assert_eq!(tools.missing(&CONTROLLERS), [Tool::ControllerManager, Tool::Scheduler]);
        fs::remove_file(assets.path().join("etcd")).unwrap();
        let error = Progress::during(|progress| tools.build(&API_SERVER, progress)).unwrap_err();
        assert!(error.to_string().starts_with("KUBEBUILDER_ASSETS must name a folder with etcd"), "{error}");
    }
}
