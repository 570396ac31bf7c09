//! `olm version`: this program, the API server, and the controllers on the cluster.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use olm_runtime::bounded;
use serde::Serialize;

use crate::{
    catalogs::SYSTEM_NAMESPACE,
    cluster::{Cluster, controllers},
    output::{self, Format, columns},
};

/// The help text below the options.
pub(crate) const HELP: &str = "Examples:
  olm version
  olm version --client -o json";

/// Set by `make image` and `make release`: the same commit gives the same bytes.
const COMMIT: Option<&str> = option_env!("OLM_COMMIT");

/// `olm version`
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Do not ask the cluster
    #[arg(long)]
    client: bool,
    /// Namespace of the controllers
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    system_namespace: String,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client: &'static str,
    /// The commit that the program was built from, where the build names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
    /// The images of the controllers that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    controllers: Option<Vec<Controller>>,
}

#[derive(Debug, Serialize)]
struct Controller {
    name: String,
    image: String,
}

impl Version {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (client, commit) = (env!("CARGO_PKG_VERSION"), COMMIT.filter(|commit| !commit.is_empty()));
        let mut versions = Versions { client, commit, kubernetes: None, controllers: None };
        // This program's own version is printed whatever the cluster answers.
        let asked = if self.client { Ok(()) } else { self.ask(&mut versions).await };
        output::answer(out, self.output, &versions, Versions::text)?;
        asked.context("the versions on the cluster are not known (--client does not ask it)")
    }

    async fn ask(&self, versions: &mut Versions) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        versions.kubernetes = Some(bounded(client.apiserver_version()).await?.git_version);
        let running = controllers(&client, &self.system_namespace).await?;
        versions.controllers = Some(running.iter().filter_map(Controller::of).collect());
        Ok(())
    }
}

impl Controller {
    fn of(deployment: &Deployment) -> Option<Self> {
        let image = deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone();
        Some(Self { name: deployment.name_any(), image: image.unwrap_or_default() })
    }
}

impl Versions {
    fn text(&self) -> String {
        let mut rows = vec![["olm".to_owned(), self.client.to_owned()]];
        rows.extend(self.commit.map(|commit| ["commit".to_owned(), commit.to_owned()]));
        rows.extend(self.kubernetes.clone().map(|version| ["Kubernetes".to_owned(), version]));
        match &self.controllers {
            Some(none) if none.is_empty() => {
                rows.push(["controllers".to_owned(), "none are installed".to_owned()]);
            }
            Some(all) => rows.extend(all.iter().map(|one| [one.name.clone(), one.image.clone()])),
            None => {}
        }
        columns(&rows).trim_end().to_owned()
    }
}
