//! The programs of the control plane: where they are, built once if need be.
//!
//! `test/kit/controlplane` is a Go module that only names published commands; `go build tool` builds them into
//! the user's cache, in a folder named after the module's checksums. `KUBEBUILDER_ASSETS` names a folder
//! whose kube-apiserver, etcd and kubectl are used instead.

use std::path::PathBuf;

use anyhow::Result;

use crate::go_module::GoModule;

/// The version the programs call themselves, that of the module's Kubernetes.
pub(crate) const VERSION: &str = "v1.36.3";

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
        let programs = Self::programs();
        let built = GoModule {
            folder: "kit/controlplane",
            programs: &programs,
            // etcd's command is the module go.etcd.io/etcd/server.
            renamed: &[("server", Tool::Etcd.file_name())],
            link_flags: format!("-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"),
            tags: "",
        }
        .built()?;
        Ok(Self { built, assets })
    }

    fn programs() -> Vec<&'static str> {
        Tool::ALL.iter().map(|tool| tool.file_name()).collect()
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
