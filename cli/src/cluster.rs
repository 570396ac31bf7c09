//! The cluster that a command asks: by `--kubeconfig` and `--context`, else as kubectl finds it.

pub(crate) mod catalogs;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client, Config, Resource, ResourceExt, api::ListParams, config::AuthInfo};
use olm_runtime::{bounded, cluster_config, connect};

/// The cluster, and the user on it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster options")]
pub(crate) struct Cluster {
    /// Kubeconfig of the cluster. Default: KUBECONFIG, ~/.kube/config, or the Pod's ServiceAccount
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use instead of the current one
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    server: Option<String>,
    /// Bearer token to authenticate with, instead of the kubeconfig's credentials
    #[arg(long, value_name = "TOKEN", help_heading = "Cluster")]
    token: Option<String>,
    /// User to act as, which needs permission to impersonate
    #[arg(long = "as", value_name = "USER", help_heading = "Cluster")]
    acting_as: Option<String>,
    /// Group to act as; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "acting_as", help_heading = "Cluster")]
    as_groups: Vec<String>,
}

impl Cluster {
    /// Whether a flag names the cluster.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.server.is_some()
    }

    /// A client for the cluster.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Ok(connect(self.config().await?)?)
    }

    /// The configuration for a client.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let config = cluster_config(self.kubeconfig.as_deref(), self.context.as_deref()).await;
        let mut config = match &self.context {
            Some(context) => config.with_context(|| format!("--context {context}"))?,
            None => config?,
        };
        if let Some(server) = &self.server {
            config.cluster_url = server.parse().with_context(|| format!("--server {server}"))?;
        }
        if let Some(token) = &self.token {
            // Nothing else that the kubeconfig would authenticate with is sent along.
            let mut auth: AuthInfo = serde_json::from_value(serde_json::json!({"token": token}))?;
            auth.impersonate = config.auth_info.impersonate.take();
            auth.impersonate_groups = config.auth_info.impersonate_groups.take();
            config.auth_info = auth;
        }
        config.auth_info.impersonate = self.acting_as.clone().or(config.auth_info.impersonate);
        if !self.as_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.as_groups.clone());
        }
        Ok(config)
    }
}

/// The label of the controllers' Deployments.
pub(crate) const CONTROLLERS: &str = "app.kubernetes.io/part-of=olm";

/// The Deployments of the controllers that are not scaled to nothing.
pub(crate) async fn controllers(client: &Client, namespace: &str) -> anyhow::Result<Vec<Deployment>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let listed = bounded(api.list(&ListParams::default().labels(CONTROLLERS))).await;
    let mut found = listed.with_context(|| format!("listing Deployments in namespace {namespace}"))?.items;
    found.retain(|one| one.spec.as_ref().is_none_or(|spec| spec.replicas != Some(0)));
    Ok(found)
}

/// The same of a kind that a cluster may not serve.
pub(crate) async fn list_if_served<K>(client: &Client) -> anyhow::Result<Option<Vec<K>>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match list(client).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.downcast_ref().is_some_and(is_not_found) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// All objects of a kind, by name.
pub(crate) async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let listed = bounded(api.list(&ListParams::default())).await;
    let mut items = listed.with_context(|| format!("listing {}s", K::kind(&())))?.items;
    items.sort_by_key(ResourceExt::name_any);
    Ok(items)
}
