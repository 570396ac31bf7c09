//! Brings the bundles of a solution here and makes steps of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use olm_api_classic::{BundleLookup, CatalogSource, Step};
use olm_bundle::{Manifest, first_manifests};
use olm_bundles::{BundleError, Bundles, Deadlines, Loaded, NextPull, Requested};
use olm_classic_core::{
    plan::{PlanError, PlannedBundle, steps},
    registry_model::Property,
    resolve::{Bundle, Solution},
    subscription::{
        install_plan::{lookup, properties_text, subscription_step},
        outcome::Outcome,
        texts,
    },
};
use olm_image::{Digest, Puller};
use parking_lot::Mutex;

use super::snapshots::Read;
use crate::{SourceKey, sources::content};

/// Time to the next look at the pull Secrets of a catalog whose bundles cannot be pulled.
const CREDENTIALS_CHECK: Duration = Duration::from_secs(5);
/// Time to the next look how far a pull is: more often its progress is not written.
const PROGRESS_CHECK: Duration = Duration::from_secs(3);
/// Time to the next attempt where nothing says when.
const AGAIN: Duration = Duration::from_secs(30);
/// Upstream's place for the reason of a Job.
const PULL_FAILED: &str = "PullFailed";
/// Upstream's reason of a Job that took too long.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

/// What helps then.
const MORE_TIME: &str = "It has more time if the annotation operatorframework.io/bundle-unpack-timeout of the OperatorGroup, or the flag \
     --bundle-unpack-timeout, says so; else look whether the registry is slow.";

/// Bundles by the namespaces that need them.
pub(super) struct Unpacker {
    pub(super) client: Client,
    pub(super) puller: Puller,
    pub(super) bundles: Bundles,
    /// What each namespace has requested last.
    pub(super) wanted: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

/// What became of the bundles of a solution.
pub(super) enum Unpacked {
    /// All are here: the steps, and how the plan names the bundles.
    Done(Vec<Step>, Vec<BundleLookup>),
    /// Not all are: what is reported, and when to look again.
    Not(Outcome, Option<Duration>),
}

/// The catalogs of a namespace: the CatalogSources and what was read of them.
pub(super) type Catalogs = BTreeMap<SourceKey, (CatalogSource, Option<Arc<Read>>)>;

/// Why a bundle is not here.
enum Missing {
    /// What is waited for, and when to look how far it is.
    Waits(String, Option<Duration>),
    Failed(Arc<BundleError>, Option<Duration>),
    /// The Secrets of its catalog cannot be read.
    Credentials(String),
    Unusable(String),
}

/// The name of a job: the namespace first, which a slash ends.
fn job(namespace: &str, bundle: &Bundle) -> String {
    format!("{namespace}/{}/{}/{}", bundle.catalog_namespace, bundle.catalog, bundle.name)
}

impl Unpacker {
    /// The namespace needs no bundles any more.
    pub(super) fn release(&self, namespace: &str) {
        self.want(namespace, BTreeSet::new());
    }

    /// Notes what a namespace needs; what it needed before and does not any more is not pulled further.
    pub(super) fn want(&self, namespace: &str, jobs: BTreeSet<String>) {
        let mut wanted = self.wanted.lock();
        let before = wanted.remove(namespace).unwrap_or_default();
        for job in before.difference(&jobs) {
            self.bundles.release(job);
        }
        if !jobs.is_empty() {
            wanted.insert(namespace.to_owned(), jobs);
        }
    }

    /// The jobs of a solution.
    pub(super) fn jobs<'s>(
        namespace: &'s str,
        solution: &'s Solution,
    ) -> impl Iterator<Item = String> + use<'s> {
        solution.bundles.iter().filter(|bundle| !bundle.image.is_empty()).map(|bundle| job(namespace, bundle))
    }

    /// Steps of all bundles of a solution. All that are missing are pulled at the same time.
    /// `deadlines` are those of the namespace.
    pub(super) async fn unpack(
        &self,
        (namespace, deadlines): (&str, Deadlines),
        solution: &Solution,
        catalogs: &Catalogs,
    ) -> Unpacked {
        let mut all: Vec<Step> =
            solution.generated.iter().map(|one| subscription_step(namespace, one)).collect();
        let (mut lookups, mut missing) = (Vec::new(), Vec::new());
        for bundle in &solution.bundles {
            let key = SourceKey { namespace: bundle.catalog_namespace.clone(), name: bundle.catalog.clone() };
            let Some((source, Some(read))) = catalogs.get(&key) else { continue };
            let package = read.snapshot.packages.get(&bundle.package);
            let properties = package.and_then(|package| package.bundles.get(&bundle.name));
            let properties = properties.map(|one| one.properties.clone()).unwrap_or_default();
            let found = if bundle.image.is_empty() {
                of_catalog(namespace, bundle, Arc::clone(read), properties.clone()).await
            } else {
                self.of_image((namespace, deadlines), bundle, source, properties.clone()).await
            };
            match found {
                Ok(found) => all.extend(found),
                Err(reason) => missing.push((bundle, reason)),
            }
            if !bundle.image.is_empty() {
                lookups.push(lookup(bundle, &properties));
            }
        }
        if missing.is_empty() { Unpacked::Done(all, lookups) } else { not_unpacked(missing) }
    }

    async fn of_image(
        &self,
        (namespace, deadlines): (&str, Deadlines),
        bundle: &Bundle,
        source: &CatalogSource,
        properties: Vec<Property>,
    ) -> Result<Vec<Step>, Missing> {
        let secrets = content::pull_secrets(&self.client, source).await;
        let (puller, credentials) =
            content::puller(&self.client, &self.puller, &secrets).await.map_err(Missing::Credentials)?;
        let bundles = self.bundles.of_reader(&puller, &credentials).within(deadlines);
        match bundles.request(&job(namespace, bundle), &bundle.image).await {
            Requested::Loaded(loaded) => of_files(namespace, bundle, loaded, properties).await,
            Requested::Pulling { progress: None, .. } => {
                Err(Missing::Waits(format!("pulling {}", bundle.image), Some(PROGRESS_CHECK)))
            }
            Requested::Pulling { progress: Some(progress), .. } => {
                let text = format!("pulling {}: {progress}", bundle.image);
                Err(Missing::Waits(text, Some(PROGRESS_CHECK)))
            }
            Requested::Waiting(_) => Err(Missing::Waits(format!("{} waits for memory", bundle.image), None)),
            Requested::Failed { error, next } => {
                let again = match next {
                    Some(NextPull::Now) => None,
                    // Secrets are read one by one, not watched: those of all namespaces are not kept in memory.
                    Some(NextPull::After { wait, .. }) if !secrets.is_empty() => {
                        Some(wait.min(CREDENTIALS_CHECK))
                    }
                    Some(NextPull::After { wait, .. }) => Some(wait),
                    None => Some(AGAIN),
                };
                Err(Missing::Failed(error, again))
            }
        }
    }
}

/// What is reported of bundles that are not here: the first failure, else what is waited for.
fn not_unpacked(missing: Vec<(&Bundle, Missing)>) -> Unpacked {
    let (mut again, mut failed, mut waits) = (None::<Duration>, None, Vec::new());
    for (bundle, reason) in missing {
        let (outcome, wait) = match reason {
            Missing::Waits(text, wait) => {
                again = again.into_iter().chain(wait).min();
                waits.push(text);
                continue;
            }
            Missing::Failed(error, wait) => {
                let is_late = matches!(&*error, BundleError::DeadlineExceeded(_));
                let advice = if is_late { Some(MORE_TIME) } else { error.advice() };
                let advice = advice.map(|advice| format!(" {advice}")).unwrap_or_default();
                let cause = format!("{}: {error}", bundle.image);
                let job_reason = if is_late { DEADLINE_EXCEEDED } else { PULL_FAILED };
                (
                    Outcome::NotUnpacked {
                        reason: texts::UNPACK_FAILED,
                        message: texts::unpack_failed(job_reason, &cause),
                        explanation: format!("Bundle {} cannot be pulled: {cause}.{advice}", bundle.name),
                        is_retried: !error.is_terminal(),
                    },
                    wait,
                )
            }
            Missing::Credentials(cause) => (
                Outcome::NotUnpacked {
                    reason: texts::UNPACK_FAILED,
                    message: texts::unpack_failed(PULL_FAILED, &cause),
                    explanation: format!(
                        "Bundle {} cannot be pulled: {cause}: correct spec.secrets of CatalogSource {}/{}",
                        bundle.name, bundle.catalog_namespace, bundle.catalog
                    ),
                    is_retried: true,
                },
                Some(CREDENTIALS_CHECK),
            ),
            Missing::Unusable(text) => (
                Outcome::NotUnpacked {
                    reason: texts::UNPACKING_PREVENTED,
                    explanation: format!("{text}: the publisher of the catalog has to correct the bundle"),
                    message: text,
                    is_retried: false,
                },
                None,
            ),
        };
        again = again.into_iter().chain(wait).min();
        failed.get_or_insert(outcome);
    }
    Unpacked::Not(failed.unwrap_or_else(|| Outcome::Unpacking(waits.join("; "))), again)
}

/// The steps of a bundle that was pulled.
async fn of_files(
    namespace: &str,
    bundle: &Bundle,
    loaded: Loaded,
    properties: Vec<Property>,
) -> Result<Vec<Step>, Missing> {
    let mut planned = planned(namespace, bundle, &properties);
    planned.digest = loaded.pulled.digest();
    let work = move || {
        // Memory and note are kept until nothing of the bundle is in memory.
        let Loaded { files, memory: _memory, reading: _reading, .. } = loaded;
        planned.manifests = first_manifests(&files, &mut Vec::new());
        drop(files);
        steps(&planned)
    };
    finished(tokio::task::spawn_blocking(work).await)
}

/// The steps of a bundle that is in its catalog as a whole.
async fn of_catalog(
    namespace: &str,
    bundle: &Bundle,
    read: Arc<Read>,
    properties: Vec<Property>,
) -> Result<Vec<Step>, Missing> {
    let (mut planned, bundle) = (planned(namespace, bundle, &properties), bundle.clone());
    let work = move || {
        let found = read.catalog.bundle(&bundle.package, &bundle.channel, &bundle.name);
        let found = found.map_err(|error| Missing::Unusable(error.to_string()))?;
        let (manifests, digest) = manifests(&found.object).map_err(Missing::Unusable)?;
        (planned.manifests, planned.digest) = (manifests, digest);
        Ok(steps(&planned))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(steps)) => finished(Ok(steps)),
        Ok(Err(missing)) => Err(missing),
        Err(error) => finished(Err(error)),
    }
}

/// The manifests of a bundle that is in its catalog as a whole, and their digest.
///
/// # Errors
/// One is not JSON.
pub(crate) fn manifests(objects: &[String]) -> Result<(Vec<Manifest>, String), String> {
    let read = |(number, text): (usize, &String)| {
        let object = serde_json::from_str(text).map_err(|error| format!("object {number}: {error}"))?;
        Ok(Manifest { file: number.to_string(), object })
    };
    let all: Result<Vec<_>, String> = objects.iter().enumerate().map(read).collect();
    Ok((all?, Digest::of(objects.join("\n").as_bytes()).to_string()))
}

fn planned(namespace: &str, bundle: &Bundle, properties: &[Property]) -> PlannedBundle {
    PlannedBundle {
        namespace: namespace.to_owned(),
        name: bundle.name.clone(),
        replaces: bundle.replaces.clone(),
        properties: properties_text(properties),
        catalog: bundle.catalog.clone(),
        catalog_namespace: bundle.catalog_namespace.clone(),
        image: bundle.image.clone(),
        digest: String::new(),
        manifests: Vec::new(),
    }
}

fn finished(
    work: Result<Result<Vec<Step>, PlanError>, tokio::task::JoinError>,
) -> Result<Vec<Step>, Missing> {
    match work {
        Ok(steps) => steps.map_err(|error| Missing::Unusable(error.to_string())),
        // A panic is a fault of this program, which another attempt would have too.
        Err(error) => Err(Missing::Unusable(format!("internal: {error}"))),
    }
}
