//! The plan of an extension's next revision, to be read only: decided as in the controller's reconcile, and not carried
//! out. Nothing is written to the cluster.

use std::{path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::DeserializeGuard,
    runtime::{
        reflector::{Store, store},
        watcher::Event,
    },
};
use olm_api::v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_bundle::MEMORY_BYTES_MAX;
use olm_image::Puller;
use olm_plan::Plan;
use olm_runtime::{Accounts, ClientError, Discovery, MemoryBudget, Newest, SystemClock, api_text, bounded};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::{
    admission::SETTINGS_CONFIG_MAP,
    bundles::Bundles,
    cluster_extension::{Context, propose},
    config::Gates,
    content::CatalogReader,
    events::Events,
    facts::{
        catalogs::Catalogs,
        content_secrets::ContentSecrets,
        platform::Platform,
        policies::Guard,
        settings::{self, Settings},
    },
    webhook_certificates::ProviderSetting,
};

/// What a plan is made with.
pub struct Surroundings {
    /// The cluster, with the credentials of the user.
    pub cluster: kube::Config,
    /// Pulls bundles.
    pub puller: Puller,
    /// Reads the content of the cluster's catalogs.
    pub catalogs: Arc<dyn CatalogReader>,
    /// Folder for bundles that are pulled.
    pub folder: PathBuf,
    /// Where revisions' Secrets and the settings live.
    pub system_namespace: String,
    /// The controller's feature gates.
    pub gates: Gates,
}

/// What the controller would do next for an extension.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// No new revision.
    Nothing {
        /// Why, in a sentence.
        why: String,
        /// What else is to be said.
        notes: Vec<String>,
    },
    /// A new revision, unless the plan says that something stands in the way.
    Revision(Box<Plan>),
}

/// Why there is no plan.
#[derive(Debug, Error)]
pub enum PlanError {
    /// No client for the cluster.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Something of the cluster could not be read.
    #[error("reading {what}: {cause}")]
    Read {
        /// What.
        what: String,
        /// The API server's answer.
        cause: String,
    },
    /// The folder for bundles cannot be used.
    #[error("folder {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The controller would not come to a plan either.
    #[error("{0}")]
    Stopped(String),
}

/// Makes plans.
pub struct Planner {
    surroundings: Surroundings,
    accounts: Accounts,
    bundles: Bundles,
}

impl Planner {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// The cluster's configuration or the folder cannot be used.
    pub fn new(surroundings: Surroundings) -> Result<Self, PlanError> {
        let accounts = Accounts::new(&surroundings.cluster)?;
        let folder = surroundings.folder.clone();
        let bundles = Bundles::new(&surroundings.puller, folder.clone(), MemoryBudget::new(MEMORY_BYTES_MAX))
            .map_err(|source| PlanError::Folder { path: folder.display().to_string(), source })?;
        Ok(Self { surroundings, accounts, bundles })
    }

    /// What the controller would do next for the extension `name`.
    ///
    /// # Errors
    /// There is no such extension, or no plan can be made for it: the controller's own texts say why.
    pub async fn next(&self, name: &str) -> Result<Next, PlanError> {
        let client = self.accounts.controller();
        let extensions: Api<ClusterExtension> = Api::all(client.clone());
        let extension = bounded(extensions.get(name)).await;
        let extension = extension.map_err(|e| read(format!("ClusterExtension {name:?}"), &e))?;
        let catalogs = known::<ClusterCatalog>(&client, "ClusterCatalogs").await?;
        let sets = known::<ClusterObjectSet>(&client, "ClusterObjectSets").await?;
        let catalogs =
            // A catalog that was never served is not waited for: the plan is made without it and says so.
            Catalogs::new(catalogs, self.surroundings.catalogs.clone(), Duration::ZERO);
        let discovery = Discovery::new(client.clone());
        let default_account = match &extension.spec.service_account {
            Some(_) => None,
            None => self.default_account(&client).await?,
        };
        let (mut registry, default) = (Registry::default(), default_account.clone());
        let context = Context {
            accounts: self.accounts.clone(),
            discovery,
            catalogs,
            bundles: self.bundles.clone(),
            events: Events::new(client.clone(), ""),
            sets,
            newest_set: Newest::default(),
            written_sets: Arc::default(),
            contents: ContentSecrets::new(client.clone(), &self.surroundings.system_namespace),
            // A plan wakes no reconcile.
            installed: Arc::default(),
            platform: Arc::new(Platform::register(&mut registry)),
            features: self.surroundings.gates.features(ProviderSetting::Auto),
            settings: Settings::new(default),
            guard: Guard::new(&mut registry),
            system_namespace: self.surroundings.system_namespace.clone(),
            clock: Arc::new(SystemClock),
            only_plans: true,
        };
        propose(&context, &extension, default_account.as_ref()).await.map_err(|error| {
            // The controller's own words, with what it knows beyond them.
            PlanError::Stopped(match error.explanation() {
                Some(more) => format!("{error}\n{more}"),
                None => error.to_string(),
            })
        })
    }

    /// The account of extensions that name none.
    async fn default_account(&self, client: &Client) -> Result<Option<olm_runtime::AccountRef>, PlanError> {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &self.surroundings.system_namespace);
        let map = bounded(api.get_opt(SETTINGS_CONFIG_MAP)).await;
        let map = map.map_err(|e| read(format!("ConfigMap {SETTINGS_CONFIG_MAP:?}"), &e))?;
        Ok(map.as_ref().and_then(settings::account_of))
    }
}

fn read(what: String, error: &kube::Error) -> PlanError {
    PlanError::Read { what, cause: api_text(error) }
}

/// All objects of a kind as they are now, in the form in which the steps look them up.
async fn known<K>(client: &Client, what: &str) -> Result<Store<DeserializeGuard<K>>, PlanError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
    let listed = bounded(api.list(&ListParams::default())).await.map_err(|e| read(what.to_owned(), &e))?;
    let (reader, mut writer) = store();
    writer.apply_watcher_event(&Event::Init);
    for object in listed.items {
        writer.apply_watcher_event(&Event::InitApply(object));
    }
    writer.apply_watcher_event(&Event::InitDone);
    Ok(reader)
}
