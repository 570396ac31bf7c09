//! One CatalogSource: observe its content, act on the cluster, report.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use catalogd::{CatalogStore, CatalogdError, Fetcher, Generation, in_progress};
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use olm_api_classic::{CatalogSource, names::SERVE_ANNOTATION};
use olm_classic_core::source::{
    polling::{self, Polling},
    service,
    status::{Health, Report, Server, status},
    target::{Target, target},
    template::{self, Resolution},
    texts,
};
use olm_image::{Puller, Reference};
use olm_runtime::{Chance, Clock, Job, Next, ObjectWriter, PANIC_REPORT};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Interest, Options, SourceMetrics, act,
    content::{self, FetchJobs},
    now,
    replicas::Replicas,
    servers::{Place, Servers, VISIT_INTERVAL, Visits},
    version::Version,
};
use crate::{Content, Contents, SourceKey, readings::Readings};

/// Time to the next look at the pull Secrets of a source whose image cannot be pulled.
const CREDENTIALS_CHECK: Duration = Duration::from_secs(5);

/// Everything a reconcile needs.
#[derive(Clone)]
pub(super) struct Reconciler {
    pub(super) client: Client,
    pub(super) store: Arc<CatalogStore>,
    pub(super) contents: Contents,
    pub(super) readings: Readings,
    pub(super) replicas: Replicas,
    pub(super) puller: Puller,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) jobs: FetchJobs,
    pub(super) servers: Arc<Servers>,
    pub(super) visits: Visits,
    /// What became of the last Pod that polled, if it came to nothing.
    pub(super) failed_polls: Arc<Mutex<BTreeMap<SourceKey, String>>>,
    pub(super) objects: Arc<ObjectWriter<CatalogSource>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) chance: Chance,
    pub(super) version: Version,
    pub(super) metrics: SourceMetrics,
    pub(super) options: Options,
    pub(super) leader: watch::Receiver<bool>,
}

/// One reconcile of a source.
pub(super) struct Reconcile<'a> {
    pub(super) source: &'a CatalogSource,
    pub(super) key: SourceKey,
    pub(super) slot: String,
    pub(super) report: Report,
    /// Whether another image is served from now on.
    pub(super) is_new_image: bool,
    pub(super) interests: BTreeSet<Interest>,
}

impl Reconcile<'_> {
    /// Reports the Service that clients use, which wakes the source from then on.
    pub(super) fn set_server(&mut self, service: &str, state: &'static str) {
        let namespace = self.key.namespace.clone();
        self.interests.insert(Interest::Object(format!("{namespace}/{service}")));
        let address = service::address(service, &namespace);
        let service = Some((service.to_owned(), namespace));
        self.report.server = Some(Server { service, address, state, is_new: self.is_new_image });
    }
}

impl olm_runtime::Reconciler for Reconciler {
    type Object = CatalogSource;
    type Interest = Interest;

    const CONDITION: &'static str = "Ready";

    fn state(source: &CatalogSource) -> Option<(&str, &str)> {
        let conditions = &source.status.as_ref()?.conditions;
        let ready = conditions.iter().find(|condition| condition.type_ == Self::CONDITION)?;
        Some((&ready.status, &ready.reason))
    }

    /// Reconciles one source, as far as that is this replica's part.
    async fn reconcile(&self, source: &CatalogSource) -> (Next, BTreeSet<Interest>) {
        if let Some(left) = self.objects.behind(source) {
            return (Next::After(left), BTreeSet::from([Interest::Part]));
        }
        let key = SourceKey::of(source);
        if source.metadata.deletion_timestamp.is_some() {
            self.forget(&key);
            return (Next::Await, BTreeSet::new());
        }
        let interests = [Interest::Part, Interest::Job(key.to_string()), Interest::Object(key.to_string())];
        let interests = BTreeSet::from(interests);
        let template =
            template::of_source(source, self.version.get().as_ref(), |text| Reference::parse(text).is_ok());
        let templated = match self.templated(source, template.as_ref()).await {
            Ok(templated) => templated,
            Err(error) => return (Next::Retry(format!("setting spec.image: {error}")), interests),
        };
        let source = templated.as_ref().unwrap_or(source);
        let report = Report { template, ..Report::default() };
        let slot = content::slot(&key);
        let mut reconcile = Reconcile { source, slot, key, report, is_new_image: false, interests };
        let next = Box::pin(self.run(&mut reconcile)).await;
        self.report_left_out(&mut reconcile).await;
        self.offer(&reconcile);
        if !matches!(reconcile.report.health, Health::Pending(_)) {
            self.contents.tried(&reconcile.key);
        }
        let state = reconcile.report.server.as_ref().map(|server| server.state);
        self.metrics.set(&reconcile.key, state == Some(texts::READY));
        let next = match self.write(&reconcile).await {
            Ok(()) => next,
            Err(error) => Next::Retry(format!("writing status: {error}")),
        };
        (next, reconcile.interests)
    }

    /// Reports on the source that its reconcile panicked.
    async fn report_panic(&self, source: &CatalogSource) {
        let mut after = source.status.clone().unwrap_or_default();
        let report = Report { health: Health::Failed(PANIC_REPORT.to_owned()), ..Report::default() };
        after.conditions = status(&after, &report, source.metadata.generation, now(&self.clock)).conditions;
        if self.leads()
            && let Err(error) = self.objects.set_status(source, after).await
        {
            tracing::warn!(source = %SourceKey::of(source), error, "reporting a panic");
        }
    }
}

impl Reconciler {
    /// The source with the image that its template makes, if it has another one: the leader writes it.
    async fn templated(
        &self,
        source: &CatalogSource,
        template: Option<&Resolution>,
    ) -> Result<Option<CatalogSource>, String> {
        let Some(Resolution::Image(image)) = template else { return Ok(None) };
        if source.spec.image.as_ref() == Some(image) {
            return Ok(None);
        }
        if self.leads() {
            let written = act::set_image(&self.client, source, image).await?;
            if let Some(written) = &written {
                self.objects.wrote(written);
            }
            return Ok(written);
        }
        let mut source = source.clone();
        source.spec.image = Some(image.clone());
        Ok(Some(source))
    }

    /// Forgets a source that is gone, and its content.
    pub(super) fn forget(&self, key: &SourceKey) {
        let slot = content::slot(key);
        // First: a job must not install content after the removal.
        self.jobs.release(&key.to_string());
        self.visits.release(&key.to_string());
        self.servers.forget(&slot);
        self.failed_polls.lock().remove(key);
        self.fetcher.forget(&slot);
        self.readings.forget(&slot);
        self.contents.set(key, None);
        self.contents.tried(key);
        self.metrics.forget(key);
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.remove(&slot) {
                tracing::warn!(slot, %error, "content of a deleted CatalogSource stays until the next start");
            }
        });
    }

    pub(super) fn leads(&self) -> bool {
        *self.leader.borrow()
    }

    async fn run(&self, reconcile: &mut Reconcile<'_>) -> Next {
        let annotation = reconcile.source.annotations().get(SERVE_ANNOTATION).map(String::as_str);
        let target = target(&reconcile.source.spec, annotation, self.options.pods);
        // What was read for another spec must not come after what is read for this one.
        let name = reconcile.key.to_string();
        if !matches!(target, Ok(Target::Image { in_pod: false, .. })) {
            self.jobs.release(&name);
        }
        if matches!(target, Ok(Target::ConfigMap(_)) | Err(_)) {
            self.visits.release(&name);
        }
        let invalid = polling::polling(reconcile.source).and_then(|polling| polling.error);
        reconcile.report.problem = invalid.map(|message| (texts::INVALID_INTERVAL, message));
        match target {
            Err(message) => {
                let advice =
                    "Correct spec: a grpc source needs image or address, a configmap source needs configMap.";
                reconcile.report.health = self.failed(reconcile, format!("{message}. {advice}"));
                reconcile.report.problem = Some((texts::SPEC_INVALID, message));
                Next::Await
            }
            Ok(Target::ConfigMap(name)) => self.config_map(reconcile, &name).await,
            Ok(Target::Image { reference, in_pod: true }) => self.pod(reconcile, &reference).await,
            Ok(Target::Image { reference, in_pod: false }) => self.image(reconcile, &reference).await,
            Ok(Target::Address(address)) => self.address(reconcile, &address),
        }
    }

    async fn image(&self, reconcile: &mut Reconcile<'_>, reference: &str) -> Next {
        let now = now(&self.clock);
        let polling = polling::polling(reconcile.source).filter(|_| !reference.contains('@'));
        let held = self.store.generation(&reconcile.slot);
        // Newer content is there before it is noted which it is.
        let resolution = self.store.resolution(&reconcile.slot);
        let is_other = resolution.as_ref().is_some_and(|known| known.source != reference);
        let resolved = resolution.filter(|known| known.source == reference);
        let noted = resolved.as_ref().map(|known| known.reference.as_str());
        let is_held = noted.is_some() && noted == held.as_deref().map(Generation::reference);
        let wait = polling.as_ref().map(|polling| polling::next_check(reconcile.source, polling, now));
        let name = reconcile.key.to_string();
        if is_held && wait != Some(Duration::ZERO) && !self.jobs.is_wanted(&name) {
            return self.settled(reconcile, polling.as_ref(), now).await;
        }
        let secrets = content::pull_secrets(&self.client, reconcile.source).await;
        let (registry, credentials) = match self.registry(reconcile, &secrets).await {
            Ok(found) => found,
            Err(cause) => {
                let cause = texts::ensure_failed(&cause);
                let _ = self.trouble(reconcile, texts::REGISTRY_SERVER, cause.clone());
                return Next::RetryWithin(cause, CREDENTIALS_CHECK);
            }
        };
        // With other credentials it is another job: what failed is not held back any longer.
        let job = format!("{} {reference} {credentials}", reconcile.slot);
        let request = self.jobs.request(&name, &job, |context| {
            let (slot, source) = (reconcile.slot.clone(), reference.to_owned());
            Arc::clone(&self.fetcher).fetch(slot, source, registry, context)
        });
        match request {
            Job::Done(fetched) => {
                self.visits.release(&name);
                reconcile.is_new_image = is_other;
                let polled_at = fetched.resolution.polled_at;
                if polling.is_some() && resolved.is_some() {
                    reconcile.report.polled = Some(polled_at);
                }
                let (store, slot) = (Arc::clone(&self.store), reconcile.slot.clone());
                let noted =
                    tokio::task::spawn_blocking(move || store.set_resolution(&slot, &fetched.resolution));
                if let Ok(Err(error)) = noted.await {
                    return Next::Retry(error.to_string());
                }
                self.settled(reconcile, polling.as_ref(), now).await
            }
            Job::Running { failed: Some(error), .. } if error.is_no_catalog() => {
                self.pod(reconcile, reference).await
            }
            // It ran in a Pod when it was read last, and probably does again.
            Job::Running { .. } if held.as_deref().is_some_and(|held| !content::is_of_image(held)) => {
                Next::After(VISIT_INTERVAL)
            }
            Job::Running { elapsed, progress, failed } => {
                let (message, again) = in_progress(reference, elapsed, progress.as_ref(), failed.is_some());
                if message.is_none() && failed.is_none() && held.is_some() {
                    // Most checks are over before there is anything to report.
                    let _ = self.settled(reconcile, polling.as_ref(), now).await;
                    return Next::After(again);
                }
                let text = message.unwrap_or_else(|| format!("{reference}: waiting for the registry"));
                self.pending(reconcile, &text, failed.as_deref()).await.unwrap_or(Next::After(again))
            }
            Job::Failed { error, .. } if error.is_no_catalog() => self.pod(reconcile, reference).await,
            Job::Failed { error, wait, is_new } => {
                // Secrets are read one by one, not watched: that would take permission to list those of all namespaces.
                let wait = if secrets.is_empty() { wait } else { wait.min(CREDENTIALS_CHECK) };
                self.not_pulled(reconcile, &error, wait, is_new).await
            }
        }
    }

    /// The image cannot be pulled, or is no good.
    async fn not_pulled(
        &self,
        reconcile: &mut Reconcile<'_>,
        error: &CatalogdError,
        wait: Duration,
        is_new: bool,
    ) -> Next {
        let text = error.to_string();
        let advice = error.advice().map(|advice| format!(" {advice}")).unwrap_or_default();
        reconcile.report.health = self.failed(reconcile, format!("{text}.{advice}"));
        let next = match (error.is_terminal(), is_new) {
            (true, _) => Next::Blocked(text),
            (false, true) => Next::RetryAfter(text, wait),
            (false, false) => Next::After(wait),
        };
        let state = self.state_of_earlier(reconcile);
        self.serve(reconcile, state).await.unwrap_or(next)
    }

    /// The content of the source is here.
    async fn settled(
        &self,
        reconcile: &mut Reconcile<'_>,
        polling: Option<&Polling>,
        now: Timestamp,
    ) -> Next {
        let held = self.store.generation(&reconcile.slot);
        let reference = held.as_deref().map(Generation::reference).unwrap_or_default();
        reconcile.report.health = Health::Serving(format!("Serving {reference}."));
        let next = polling.map_or(Next::Await, |polling| {
            let left = match reconcile.report.polled {
                Some(_) => polling.interval,
                None => polling::next_check(reconcile.source, polling, now),
            };
            Next::After(polling::jittered(left, self.chance.fraction()).max(Duration::from_secs(1)))
        });
        self.serve(reconcile, texts::READY).await.unwrap_or(next)
    }

    /// Content is on its way. A failure of the last attempt stays reported.
    async fn pending(
        &self,
        reconcile: &mut Reconcile<'_>,
        text: &str,
        failed: Option<&CatalogdError>,
    ) -> Option<Next> {
        let has_earlier = self.store.generation(&reconcile.slot).is_some();
        reconcile.report.health = match failed {
            Some(error) => self.failed(reconcile, format!("{error}. Another attempt runs.")),
            None if has_earlier => Health::ServingEarlier(format!("Newer content is being pulled: {text}.")),
            None => Health::Pending(format!("Pulling {text}.")),
        };
        let state = if has_earlier { texts::READY } else { texts::CONNECTING };
        self.serve(reconcile, state).await
    }

    /// The registry as credentials in Secrets see it, within the disk of the source's namespace, and a text that changes with
    /// the credentials.
    async fn registry(
        &self,
        reconcile: &Reconcile<'_>,
        secrets: &[(String, String)],
    ) -> Result<(Arc<Puller>, String), String> {
        let (puller, credentials) = content::puller(&self.client, &self.puller, secrets).await?;
        Ok((Arc::new(puller.with_disk(self.store.disk_of(&reconcile.slot))), credentials))
    }

    /// Reads the content of a registry server, and reports what became of it. `server` reports the state of the connection.
    pub(super) fn visit(
        &self,
        reconcile: &mut Reconcile<'_>,
        place: Place,
        advice: &str,
        server: impl Fn(&mut Reconcile<'_>, &'static str),
    ) -> Next {
        let (name, address) = (reconcile.key.to_string(), place.address.clone());
        let job = format!("{name} {address} {}", place.pod.as_deref().unwrap_or_default());
        let job = self.visits.request(&name, &job, |context| {
            let visit = Arc::clone(&self.servers).visit(reconcile.key.clone(), place, context.cancelled);
            async move { Ok(visit.await) }
        });
        match job {
            Job::Done(Ok(left_out)) => {
                server(reconcile, texts::READY);
                let text = format!("Serving the content of the registry server at {address}.");
                reconcile.report.health = Health::Serving(text).with(left_out);
                Next::After(VISIT_INTERVAL)
            }
            Job::Done(Err(unread)) => {
                server(reconcile, unread.state);
                reconcile.report.health = self.failed(reconcile, format!("{}. {advice}", unread.text));
                Next::After(unread.again)
            }
            Job::Running { .. } => {
                let connection =
                    reconcile.source.status.as_ref().and_then(|status| status.connection_state.as_ref());
                let known = connection.filter(|known| known.address.as_ref() == Some(&address));
                let state = known.and_then(|known| texts::state(&known.last_observed_state));
                server(reconcile, state.unwrap_or(texts::CONNECTING));
                if state.is_none() {
                    reconcile.report.health = Health::Pending(format!("Connecting to {address}."));
                }
                Next::Await
            }
            Job::Failed { error, wait, .. } => Next::RetryAfter(error.to_string(), wait),
        }
    }

    /// Reports the packages that are left out of the content that is served.
    async fn report_left_out(&self, reconcile: &mut Reconcile<'_>) {
        let Some(held) = self.store.generation(&reconcile.slot).filter(|_| self.leads()) else { return };
        if !matches!(reconcile.report.health, Health::Serving(_)) {
            return;
        }
        let (readings, slot) = (self.readings.clone(), reconcile.slot.clone());
        let read = tokio::task::spawn_blocking(move || readings.left_out(&slot, &held)).await;
        let health = std::mem::take(&mut reconcile.report.health);
        reconcile.report.health = match read.map_err(|error| error.to_string()).flatten() {
            Ok(left_out) => health.with(left_out),
            Err(problem) => Health::Failed(format!("The content cannot be read: {problem}.")),
        };
    }

    /// Makes the Service and reports it; what is to happen instead if that fails.
    pub(super) async fn serve(&self, reconcile: &mut Reconcile<'_>, state: &'static str) -> Option<Next> {
        let ensured = match service::name(&reconcile.key.name) {
            Ok(name) if self.leads() => {
                let own = self.options.advertised;
                let advertised = own.map(|own| (own, self.replicas.addresses(own)));
                let made =
                    act::ensure_service(&self.client, reconcile.source, &name, advertised, false).await;
                made.map(|()| name)
            }
            other => other,
        };
        match ensured {
            Ok(name) => {
                reconcile.set_server(&name, state);
                None
            }
            Err(cause) => {
                let what = format!("service: {}", reconcile.key.name);
                let message = texts::ensure_failed(&texts::ensuring(&what, &cause));
                Some(self.trouble(reconcile, texts::REGISTRY_SERVER, message))
            }
        }
    }

    /// Reports a problem that upstream reports too. It is tried again.
    pub(super) fn trouble(
        &self,
        reconcile: &mut Reconcile<'_>,
        reason: &'static str,
        message: String,
    ) -> Next {
        reconcile.report.health = self.failed(reconcile, format!("{message}."));
        reconcile.report.problem = Some((reason, message.clone()));
        Next::Retry(message)
    }

    /// What is wrong, and whether earlier content is served all the same.
    pub(super) fn failed(&self, reconcile: &Reconcile<'_>, text: String) -> Health {
        match self.store.generation(&reconcile.slot) {
            Some(held) => Health::ServingEarlier(format!("{text} Still serving {}.", held.reference())),
            None => Health::Failed(text),
        }
    }

    pub(super) fn state_of_earlier(&self, reconcile: &Reconcile<'_>) -> &'static str {
        if self.store.generation(&reconcile.slot).is_some() { texts::READY } else { texts::TRANSIENT_FAILURE }
    }

    /// Offers the content that is here to the other parts of the process.
    fn offer(&self, reconcile: &Reconcile<'_>) {
        let content = self
            .store
            .generation(&reconcile.slot)
            .map(|generation| Content { source: Arc::new(reconcile.source.clone()), generation });
        self.contents.set(&reconcile.key, content);
    }

    async fn write(&self, reconcile: &Reconcile<'_>) -> Result<(), String> {
        if !self.leads() {
            return Ok(());
        }
        let before = reconcile.source.status.clone().unwrap_or_default();
        let after =
            status(&before, &reconcile.report, reconcile.source.metadata.generation, now(&self.clock));
        self.objects.set_status(reconcile.source, after).await.map(|_| ())
    }
}
