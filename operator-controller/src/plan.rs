//! The plan of an extension's next revision, to be read only: decided as in the controller's reconcile, and not carried
//! out. Nothing is written to the cluster.

use std::{path::PathBuf, sync::Arc, time::Duration};

use catalogd::CatalogReader;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource,
    api::ListParams,
    runtime::{
        reflector::{Store, store},
        watcher::Event,
    },
};
use olm_api::{
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet},
    v1alpha1::UpdatePolicy,
};
use olm_bundle::MEMORY_BYTES_MAX;
use olm_bundles::Bundles;
use olm_fbc::Property;
use olm_image::Puller;
use olm_object::ObjectKey;
use olm_plan::Plan;
use olm_resolve::{RejectedCandidate, Resolution};
use olm_runtime::{
    AccountRef, Accounts, ClientError, Discovery, Edits, Guarded, MemoryBudget, Newest, SystemClock,
    api_text, bounded,
};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::{
    admission::SETTINGS_CONFIG_MAP,
    cluster_extension::{Context, catalog_answer, propose},
    cluster_object_set::observe::content::load,
    config::Gates,
    events::Events,
    facts::{
        catalogs::Catalogs,
        content_secrets::ContentSecrets,
        custom_resources::CustomResources,
        namespaces::Namespaces,
        platform::Platform,
        policies::Guard,
        settings::{self, Settings},
        update_policies::UpdatePolicies,
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
    /// Whether what the bundle requires must be installed for there to be a plan, as the controller has it.
    pub checks_dependencies: bool,
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
    /// A new revision, unless the plan says that something is in the way.
    Revision(Box<NewRevision>),
}

/// A revision that would be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRevision {
    /// Its plan.
    pub plan: Plan,
    /// The version of its bundle, without the release.
    pub version: String,
    /// The properties of its bundle in the catalog.
    pub properties: Vec<Property>,
    /// Everything the ServiceAccount writes for it, Secrets of webhook certificates included.
    pub objects: Vec<Value>,
}

/// The answer of the catalogs for an extension.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogAnswer {
    /// The bundle, or why there is none.
    pub chosen: Result<Resolution, String>,
    /// The other bundles of the package, the closest first.
    pub rejected: Vec<RejectedCandidate>,
    /// The catalogs that may be used and have the package, or cannot be read.
    pub catalogs: Vec<String>,
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
    /// The bundle does not take the extension's configuration.
    #[error("{0}")]
    Configuration(String),
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

    /// What the controller would do next for an extension, which need not exist, and need not be as the cluster has it.
    ///
    /// # Errors
    /// No plan can be made for it: the controller's own texts say why.
    pub async fn next(&self, extension: &ClusterExtension) -> Result<Next, PlanError> {
        let default_account = self.default_account(extension).await?;
        next(&self.context(default_account).await?, extension).await
    }

    /// The bundle that the catalogs have for an extension, whatever is installed or paused, and those they have not.
    ///
    /// # Errors
    /// The catalogs cannot be read.
    pub async fn resolution(&self, extension: &ClusterExtension) -> Result<CatalogAnswer, PlanError> {
        catalog_answer(&self.context(None).await?, extension).await.map_err(PlanError::Stopped)
    }

    /// That bundle, and what the controller would do next.
    ///
    /// # Errors
    /// The cluster cannot be read.
    pub async fn explain(
        &self,
        extension: &ClusterExtension,
    ) -> Result<(Result<CatalogAnswer, String>, Result<Next, PlanError>), PlanError> {
        let default_account = self.default_account(extension).await;
        let context = self.context(default_account.as_ref().ok().cloned().flatten()).await?;
        let answer = catalog_answer(&context, extension).await;
        let next = match default_account {
            Ok(_) => Box::pin(next(&context, extension)).await,
            Err(error) => Err(error),
        };
        Ok((answer, next))
    }

    /// The objects of a revision, in the order in which they are applied.
    ///
    /// # Errors
    /// Its content cannot be read.
    pub async fn objects(&self, revision: &ClusterObjectSet) -> Result<Vec<ObjectKey>, PlanError> {
        let client = self.accounts.controller();
        let contents = ContentSecrets::new(client.clone(), &self.surroundings.system_namespace);
        let phases = load(revision, &contents, Some(&client)).await;
        let phases = phases.map_err(|error| PlanError::Stopped(error.to_string()))?;
        let items = phases.iter().flat_map(|phase| &phase.items);
        Ok(items.map(|item| item.known.key.clone()).collect())
    }

    async fn context(&self, default_account: Option<AccountRef>) -> Result<Context, PlanError> {
        let client = self.accounts.controller();
        let catalogs = known::<ClusterCatalog>(&client, "ClusterCatalogs").await?;
        let sets = known::<ClusterObjectSet>(&client, "ClusterObjectSets").await?;
        // Who may not read them is shown the extensions that the bundle itself would need.
        let extensions = known::<ClusterExtension>(&client, "ClusterExtensions").await;
        let extensions = extensions.unwrap_or_else(|_| store().0);
        let catalogs =
            // A catalog that was never served is not waited for: the plan is made without it and says so.
            Catalogs::new(catalogs, self.surroundings.catalogs.clone(), Duration::ZERO);
        // Who may not read them is shown a plan that says so.
        let policies = known::<UpdatePolicy>(&client, "UpdatePolicies").await.ok();
        let mut registry = Registry::default();
        Ok(Context {
            namespaces: Namespaces::default(),
            accounts: self.accounts.clone(),
            discovery: Discovery::new(client.clone()),
            catalogs,
            bundles: self.bundles.clone(),
            events: Events::new(client.clone(), ""),
            sets,
            extensions,
            newest_set: Newest::default(),
            written_sets: Arc::default(),
            contents: ContentSecrets::new(client, &self.surroundings.system_namespace),
            // A plan wakes no reconcile.
            custom_resources: CustomResources::new(|_| {}),
            installed: Arc::default(),
            platform: Arc::new(Platform::register(&mut registry)),
            features: self.surroundings.gates.features(ProviderSetting::Auto),
            settings: Settings::new(default_account),
            guard: Guard::new(&mut registry),
            update_policies: policies.map_or_else(UpdatePolicies::default, UpdatePolicies::known),
            edits: Edits::default(),
            system_namespace: self.surroundings.system_namespace.clone(),
            clock: Arc::new(SystemClock),
            only_plans: true,
            checks_dependencies: self.surroundings.checks_dependencies,
        })
    }

    /// The account of an extension that names none.
    async fn default_account(&self, extension: &ClusterExtension) -> Result<Option<AccountRef>, PlanError> {
        if extension.spec.service_account.is_some() {
            return Ok(None);
        }
        let client = self.accounts.controller();
        let api: Api<ConfigMap> = Api::namespaced(client, &self.surroundings.system_namespace);
        let map = bounded(api.get_opt(SETTINGS_CONFIG_MAP)).await;
        let map = map.map_err(|e| read(format!("ConfigMap {SETTINGS_CONFIG_MAP:?}"), &e))?;
        Ok(map.as_ref().and_then(settings::account_of))
    }
}

async fn next(context: &Context, extension: &ClusterExtension) -> Result<Next, PlanError> {
    propose(context, extension).await.map_err(|error| {
        // The controller's own words, with what it knows beyond them.
        let text = match error.explanation() {
            Some(more) => format!("{error}\n{more}"),
            None => error.to_string(),
        };
        if error.is_configuration() { PlanError::Configuration(text) } else { PlanError::Stopped(text) }
    })
}

fn read(what: String, error: &kube::Error) -> PlanError {
    PlanError::Read { what, cause: api_text(error) }
}

/// All objects of a kind as they are now, in the form in which the steps look them up.
async fn known<K>(client: &Client, what: &str) -> Result<Store<Guarded<K>>, PlanError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let api: Api<Guarded<K>> = Api::all(client.clone());
    let listed = bounded(api.list(&ListParams::default())).await.map_err(|e| read(what.to_owned(), &e))?;
    let (reader, mut writer) = store();
    writer.apply_watcher_event(&Event::Init);
    for object in listed.items {
        writer.apply_watcher_event(&Event::InitApply(object));
    }
    writer.apply_watcher_event(&Event::InitDone);
    Ok(reader)
}
