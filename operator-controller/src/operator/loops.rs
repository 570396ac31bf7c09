//! What only the leader does: both controllers, the facts that they depend on, and who wakes whom.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use olm_api::{
    names::{MANAGED_BY, MANAGED_BY_LABEL, OWNER_UID_ANNOTATION, PROGRAM_FIELD_MANAGER},
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet},
    v1alpha1::UpdatePolicy,
};
use olm_bundles::Bundles;
use olm_runtime::{
    AccountRef, Accounts, BackoffLimits, Chance, Clock, ControllerSettings, Discovery, Edits, Metrics,
    ObjectWriter, Reconciler, Source, WatchManager, run_controller,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster_extension::{self, Extensions},
    cluster_object_set::{self, ObjectSets},
    content::Content,
    events::Events,
    facts::{
        self,
        catalogs::{self, Catalogs},
        content_secrets::ContentSecrets,
        custom_resources::CustomResources,
        installed::{self, Installed},
        kinds::Kinds,
        namespaces::Namespaces,
        platform::Platform,
        policies::{self, Guard},
        rbac,
        settings::Settings,
        update_policies::UpdatePolicies,
    },
    interest::{Interest, Interests},
    metrics::DriftRepairs,
    update_policy::Policies,
    webhook_certificates,
};

/// The names of the controllers in logs and metrics, upstream's.
const EXTENSIONS: &str = "controller-operator-cluster-extension-controller";
const OBJECT_SETS: &str = "clusterobjectset";
const UPDATE_POLICIES: &str = "updatepolicy";

/// The controllers, before they run: functions of clients, a clock and a source of jitter.
pub(crate) struct Loops {
    pub(crate) accounts: Accounts,
    pub(crate) content: Content,
    pub(crate) bundles: Bundles,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Guard,
    pub(crate) platform: Arc<Platform>,
    pub(crate) repairs: DriftRepairs,
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
}

/// What the administrator has chosen.
pub(crate) struct Options {
    pub(crate) system_namespace: String,
    /// Name of this process in Events.
    pub(crate) identity: String,
    /// The account of extensions that name none, instead of the one of the settings.
    pub(crate) default_account: Option<AccountRef>,
    pub(crate) catalog_deadline: Duration,
    pub(crate) features: cluster_extension::Features,
    pub(crate) certificate_lifetime: Duration,
    /// Extensions worked on at the same time, and revisions likewise.
    pub(crate) concurrency: u16,
}

impl Loops {
    /// Runs until `stop`. Nothing is reconciled before the facts are ready.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let (client, chance, interests) = (self.accounts.controller(), &self.chance, Interests::default());
        let fires = || interests.clone();
        let extensions = Source::<ClusterExtension>::all(client.clone(), chance);
        let changed = fires();
        let extensions = extensions.observed(move |_| changed.fire(&Interest::Extensions));
        let changed = fires();
        let policies = Source::<UpdatePolicy>::all(client.clone(), chance);
        let policies = policies.observed(move |_| changed.fire(&Interest::UpdatePolicies));
        let sets = installed::revisions(client.clone(), chance, fires());
        let catalogs = Source::<ClusterCatalog>::all(client.clone(), chance);
        let kinds = Kinds::default();
        let mut context = self.extension_context((&extensions, &sets, &catalogs), &interests);
        let (all_policies, all) = (policies.store.clone(), extensions.store.clone());
        context.update_policies = UpdatePolicies::new(all_policies, all, fires());
        let (update_policies, policies_listed) = (context.update_policies.clone(), policies.listed());
        let set_context = self.set_context(&context, &interests);
        let (settings, discovery) = (context.settings.clone(), context.discovery.clone());
        let (contents, namespaces) = (context.contents.clone(), context.namespaces.clone());
        let listed = [extensions.listed().boxed(), sets.listed().boxed(), catalogs.listed().boxed()];
        let ready = self.ready(listed, &context).shared();
        let policies = policies.gated(ready.clone());
        let (extensions, sets) = (extensions.gated(ready.clone()), sets.gated(ready));
        let (known, namespace) = (catalogs.store.clone(), &self.options.system_namespace);
        let policies_changed = || interests.fire(&Interest::Policies);
        tokio::join!(
            // In this order, so that the same events have the same outcome.
            biased;
            self.content.follow(known, stop.clone()),
            catalogs::follow(catalogs, &self.content, fires(), stop.clone()),
            kinds.follow(client.clone(), chance, discovery, fires(), stop.clone()),
            self.platform.follow(client.clone(), chance, &kinds, fires(), stop.clone()),
            settings.follow(client.clone(), chance, namespace, fires(), stop.clone()),
            contents.follow(chance, fires(), stop.clone()),
            namespaces.follow(client.clone(), chance, fires(), stop.clone()),
            update_policies.follow(policies_listed, client.clone(), chance, stop.clone()),
            policies::run(
                client.clone(),
                chance,
                namespace,
                self.guard.clone(),
                context.events.clone(),
                policies_changed,
                stop.clone()
            ),
            rbac::run(client, chance, self.accounts.clone(), fires(), stop.clone()),
            self.run_controller(
                UPDATE_POLICIES,
                (policies, Policies::new(context.clone())),
                &interests,
                stop.clone()
            ),
            self.run_controller(EXTENSIONS, (extensions, Extensions::new(context)), &interests, stop.clone()),
            self.run_controller(OBJECT_SETS, (sets, ObjectSets(set_context)), &interests, stop.clone()),
        );
    }

    /// Ends when enough is known of the cluster to work on it.
    fn ready(
        &self,
        [extensions, sets, catalogs]: [BoxFuture<'static, ()>; 3],
        context: &cluster_extension::Context,
    ) -> impl Future<Output = ()> + Send + use<> {
        let needed = [("ClusterExtensions", extensions), ("ClusterObjectSets", sets)];
        let (settings, contents) = (context.settings.clone(), context.contents.clone());
        let (guard, platform) = (self.guard.clone(), self.platform.clone());
        let namespaces = context.namespaces.clone();
        let update_policies = context.update_policies.clone();
        let others = [
            ("ClusterCatalogs", catalogs),
            ("the content of revisions", async move { contents.ready().await }.boxed()),
            ("the namespaces", async move { namespaces.ready().await }.boxed()),
            ("the settings", async move { settings.ready().await }.boxed()),
            ("the admission policies", async move { guard.ready().await }.boxed()),
            ("the update policies", async move { update_policies.ready().await }.boxed()),
            ("the version of the platform", async move { platform.ready().await }.boxed()),
        ];
        facts::ready(needed, others)
    }

    fn extension_context(
        &self,
        (extensions, sets, catalogs): (
            &Source<ClusterExtension>,
            &Source<ClusterObjectSet>,
            &Source<ClusterCatalog>,
        ),
        interests: &Interests,
    ) -> cluster_extension::Context {
        let (client, options, fires) = (self.accounts.controller(), &self.options, interests.clone());
        let ended = Arc::new(move |extension: &str| fires.fire(&Interest::Job(extension.to_owned())));
        let fires = interests.clone();
        let counted = move |extension: &str| fires.fire(&Interest::CustomResources(extension.to_owned()));
        cluster_extension::Context {
            accounts: self.accounts.clone(),
            discovery: Discovery::new(client.clone()),
            catalogs: Catalogs::new(catalogs.store.clone(), self.content.reader(), options.catalog_deadline),
            bundles: self.bundles.clone().pulling_by_jobs(ended, &self.chance),
            events: Events::new(client, &options.identity),
            sets: sets.store.clone(),
            extensions: extensions.store.clone(),
            newest_set: sets.newest.clone(),
            written_sets: Arc::default(),
            contents: ContentSecrets::new(self.accounts.controller(), &options.system_namespace),
            custom_resources: CustomResources::new(counted),
            installed: Arc::new(Installed::new(interests.clone())),
            namespaces: Namespaces::default(),
            platform: self.platform.clone(),
            features: options.features,
            settings: Settings::new(options.default_account.clone()),
            guard: self.guard.clone(),
            update_policies: UpdatePolicies::default(),
            edits: Edits::default(),
            system_namespace: options.system_namespace.clone(),
            clock: self.clock.clone(),
            only_plans: false,
            checks_dependencies: true,
        }
    }

    /// What the controller of revisions needs: much of it is shared with the one of extensions.
    fn set_context(
        &self,
        shared: &cluster_extension::Context,
        interests: &Interests,
    ) -> cluster_object_set::Context {
        let (client, fires) = (self.accounts.controller(), interests.clone());
        let managed = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
        let changed = Arc::new(move |owner| fires.fire(&Interest::Owned(owner)));
        cluster_object_set::Context {
            accounts: shared.accounts.clone(),
            discovery: shared.discovery.clone(),
            watches: WatchManager::new(
                client.clone(),
                &managed,
                OWNER_UID_ANNOTATION,
                changed,
                self.chance.clone(),
            ),
            sets: shared.sets.clone(),
            contents: shared.contents.clone(),
            events: shared.events.clone(),
            settings: shared.settings.clone(),
            edits: shared.edits.clone(),
            guard: shared.guard.clone(),
            repairs: self.repairs.clone(),
            preflight_permissions: shared.features.preflight_permissions,
            certificate_lifetime: self.options.certificate_lifetime,
            clock: shared.clock.clone(),
            checks: cluster_object_set::Checks::default(),
            certificates: webhook_certificates::Memory::default(),
            objects: ObjectWriter::new(client.clone(), PROGRAM_FIELD_MANAGER, shared.clock.clone()),
        }
    }

    async fn run_controller<R: Reconciler<Interest = Interest>>(
        &self,
        name: &'static str,
        (source, reconciler): (Source<R::Object>, R),
        interests: &Interests,
        stop: CancellationToken,
    ) {
        let (concurrency, chance) = (self.options.concurrency, self.chance.clone());
        let settings = ControllerSettings { name, concurrency, backoff: BackoffLimits::default(), chance };
        run_controller(settings, source, interests, self.metrics.controller(name), stop, reconciler).await;
    }
}
