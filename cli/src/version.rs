//! `olm version`: this program, the API server, and the controllers on the cluster.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_runtime::bounded;
use serde::Serialize;

use crate::{
    cluster::Cluster,
    output::{self, Format, columns},
};

/// The controllers' label in their manifests.
const CONTROLLERS: &str = "app.kubernetes.io/part-of=olm";

/// `olm version`
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Do not ask the cluster
    #[arg(long)]
    client: bool,
    /// Namespace of the controllers
    #[arg(long, value_name = "NAMESPACE", default_value = "olmv1-system")]
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
        let mut versions =
            Versions { client: env!("CARGO_PKG_VERSION"), kubernetes: None, controllers: None };
        // This program's own version is printed whatever the cluster answers.
        let asked = if self.client { Ok(()) } else { self.ask(&mut versions).await };
        output::answer(out, self.output, &versions, Versions::text)?;
        asked.context("the versions on the cluster are not known (--client does not ask it)")
    }

    async fn ask(&self, versions: &mut Versions) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        versions.kubernetes = Some(bounded(client.apiserver_version()).await?.git_version);
        versions.controllers = Some(controllers(&client, &self.system_namespace).await?);
        Ok(())
    }
}

/// The controllers that are not scaled to nothing.
async fn controllers(client: &Client, namespace: &str) -> anyhow::Result<Vec<Controller>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let listed = bounded(api.list(&ListParams::default().labels(CONTROLLERS))).await;
    let listed = listed.with_context(|| format!("listing Deployments in namespace {namespace}"))?;
    let found = listed.items.into_iter().filter_map(|deployment| {
        let spec = deployment.spec.as_ref()?;
        let image = spec.template.spec.as_ref()?.containers.first()?.image.clone();
        (spec.replicas != Some(0))
            .then(|| Controller { name: deployment.name_any(), image: image.unwrap_or_default() })
    });
    Ok(found.collect())
}

impl Versions {
    fn text(&self) -> String {
        let mut rows = vec![["olm".to_owned(), self.client.to_owned()]];
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
