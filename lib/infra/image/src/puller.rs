//! Pulling: from a reference to the wanted files of an image.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    digest::Digest,
    disk::DiskBudget,
    downloaded::DownloadedImage,
    error::{PullError, SourceError},
    files::{FileError, Files},
    keyring::Keyring,
    layers::{Layer, LayerError, receive},
    limits::{CONFIG_BYTES_MAX, Concurrency, Limits, Timeouts},
    manifest::{Descriptor, Document, ManifestError, Platform, choose, labels, parse},
    places::{Place, Places},
    policy::Policy,
    progress::{OnProgress, Progress},
    reference::{CanonicalReference, Reference, Repository},
    registries::{Config, Endpoint, candidates},
    registry::{OciRegistry, Registry, RegistryError, check_certificates, digest_mismatch, too_large},
    rooms::Rooms,
    select::{Refusal, Select},
    speed::Meter,
    spool::{Extent, Spool},
};
use bytes::Bytes;
use parking_lot::RwLock;

/// Bytes between two calls of a progress callback within a layer.
const PROGRESS_STEP_BYTES: u64 = 1 << 20;

/// The credentials in force; all clones see a replacement at once.
#[derive(Clone, Default)]
pub struct SharedKeyring(Arc<RwLock<Arc<Keyring>>>);

impl SharedKeyring {
    /// Puts other credentials in force.
    pub fn set(&self, keyring: Keyring) {
        *self.0.write() = Arc::new(keyring);
    }

    /// The credentials in force.
    pub fn get(&self) -> Arc<Keyring> {
        Arc::clone(&self.0.read())
    }
}

/// What a puller needs to know.
#[derive(Clone)]
pub struct PullerConfig {
    /// Folder for spool files; must exist. They have no names there.
    pub spool_dir: PathBuf,
    /// `registries.conf`, read again for every pull; it may be absent.
    pub registries_conf: Option<PathBuf>,
    /// Hosts (with port) that are insecure whatever the registries configuration says of them.
    pub insecure_hosts: BTreeSet<String>,
    /// `policy.json`, read again for every pull; when absent every image is accepted.
    pub policy: Option<PathBuf>,
    /// Folder with certificates for registries (`--pull-cas-dir`).
    pub cas_dir: Option<PathBuf>,
    /// Credentials.
    pub keyring: SharedKeyring,
    /// What an image may hold.
    pub limits: Limits,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How much of pulls may run at the same time.
    pub concurrency: Concurrency,
    /// The disk that spool files and the caller's caches share.
    pub disk: DiskBudget,
}

impl PullerConfig {
    /// Anonymous, without registries configuration, with the default limits.
    pub fn new(spool_dir: impl Into<PathBuf>) -> Self {
        Self {
            spool_dir: spool_dir.into(),
            registries_conf: None,
            insecure_hosts: BTreeSet::new(),
            policy: None,
            cas_dir: None,
            keyring: SharedKeyring::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            concurrency: Concurrency::default(),
            disk: DiskBudget::default(),
        }
    }

    /// Whether the folder of certificates can be used as it is now; it is read again for every request.
    ///
    /// # Errors
    /// The text names the file that cannot be used.
    pub fn check_certificates(&self) -> Result<(), RegistryError> {
        self.cas_dir.as_deref().map_or(Ok(()), check_certificates)
    }
}

/// The wanted part of an image.
#[derive(Debug, Clone)]
pub struct PulledImage {
    /// What was pulled. The digest is that of the index when there is one, and the repository is the one asked
    /// for, also when a mirror delivered.
    pub reference: CanonicalReference,
    /// Labels of the image's config.
    pub labels: BTreeMap<String, String>,
    /// The wanted files.
    pub files: Files,
}

/// Pulls images. Cheap to clone; clones share connections, tokens, places and room.
#[derive(Clone)]
pub struct Puller {
    config: Arc<PullerConfig>,
    registry: Arc<dyn Registry>,
    places: Arc<Places>,
    rooms: Arc<Rooms>,
}

impl Puller {
    /// A puller over HTTP(S).
    pub fn new(config: PullerConfig) -> Self {
        let registry = Arc::new(OciRegistry::new(&config));
        Self::with_registry(config, registry)
    }

    /// A puller over another registry adapter.
    pub fn with_registry(config: PullerConfig, registry: Arc<dyn Registry>) -> Self {
        let places = Arc::new(Places::new(config.concurrency.per_host));
        let least = config.timeouts.least_speed.bytes_per_second;
        let rooms = Arc::new(Rooms::new(config.concurrency.unpacking, least));
        Self { config: Arc::new(config), registry, places, rooms }
    }

    /// The same puller for images that may hold less (or more).
    #[must_use]
    pub fn limited(&self, limits: Limits) -> Self {
        let config = PullerConfig { limits, ..(*self.config).clone() };
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// A puller with credentials of its own, which shares places and room with this one, but neither connections nor tokens.
    #[must_use]
    pub fn with_keyring(&self, keyring: Keyring) -> Self {
        let shared = SharedKeyring::default();
        shared.set(keyring);
        let config = PullerConfig { keyring: shared, ..(*self.config).clone() };
        let registry = Arc::new(OciRegistry::new(&config));
        Self { config: Arc::new(config), registry, ..self.clone() }
    }

    /// Whether a registry delivers the content of a digest to these credentials: what is held already may only then be
    /// given to who asks with them.
    ///
    /// # Errors
    /// No registry delivers it.
    pub async fn check(&self, reference: &CanonicalReference) -> Result<(), PullError> {
        self.check_policy(reference).await?;
        self.head(reference.repository(), &reference.digest().to_string(), true).await.map(|_| ())
    }

    /// The same puller with spool files within another budget.
    #[must_use]
    pub fn with_disk(&self, disk: DiskBudget) -> Self {
        let config = PullerConfig { disk, ..(*self.config).clone() };
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// The credentials in force, to be replaced when pull secrets change.
    pub fn keyring(&self) -> &SharedKeyring {
        &self.config.keyring
    }

    pub(crate) fn registry(&self) -> &Arc<dyn Registry> {
        &self.registry
    }

    pub(crate) fn config(&self) -> &PullerConfig {
        &self.config
    }

    /// The content a reference stands for now. A digest stands for itself, without a request.
    ///
    /// # Errors
    /// No registry knows the tag, or the reference cannot be pulled.
    pub async fn resolve(&self, reference: &Reference) -> Result<CanonicalReference, PullError> {
        match (reference.tag(), reference.digest()) {
            (None, Some(digest)) => Ok(reference.at(digest.clone())),
            (Some(tag), None) => Ok(reference.at(self.head(reference.repository(), tag, false).await?)),
            (Some(_), Some(_)) => Err(PullError::Unpullable(
                "Docker references with both a tag and digest are currently not supported".to_owned(),
            )),
            (None, None) => Err(PullError::Unpullable(format!(
                "Docker reference {reference} has neither a tag nor a digest"
            ))),
        }
    }

    /// The digest of what a tag or digest names.
    async fn head(&self, repository: &Repository, tag: &str, by_digest: bool) -> Result<Digest, PullError> {
        let endpoints = self.endpoints(repository, by_digest).await.map_err(PullError::Source)?;
        let mut failed = Vec::new();
        for endpoint in endpoints {
            let place = self.places.take(&endpoint.host).await;
            let resolved = self.within_deadline(async { Ok(self.registry.resolve(&endpoint, tag).await) });
            let resolved = resolved.await?;
            drop(place);
            match resolved {
                Ok(digest) => return Ok(digest),
                Err(error) => failed.push((endpoint, error)),
            }
        }
        Err(PullError::Source(all_failed(failed)))
    }

    /// Pulls the part of an image that `select` asks for when it has seen the image's labels.
    ///
    /// # Errors
    /// The image cannot be had, is not wanted, or exceeds a limit.
    pub async fn pull<F>(&self, reference: &CanonicalReference, select: F) -> Result<PulledImage, PullError>
    where
        F: FnOnce(&BTreeMap<String, String>) -> Result<Select, Refusal> + Send,
    {
        self.pull_with_progress(reference, select, Arc::new(|_| {})).await
    }

    /// Like [`Puller::pull`], telling how far it is.
    ///
    /// # Errors
    /// As [`Puller::pull`].
    pub async fn pull_with_progress<F>(
        &self,
        reference: &CanonicalReference,
        select: F,
        on_progress: OnProgress,
    ) -> Result<PulledImage, PullError>
    where
        F: FnOnce(&BTreeMap<String, String>) -> Result<Select, Refusal> + Send,
    {
        let image = self.download(reference, select, on_progress).await?;
        let _room = self.rooms.take(image.room()).await;
        let unpacked = tokio::task::spawn_blocking(move || image.files().map(|files| (image.labels, files)));
        let interrupted = |_| PullError::Layer { index: 0, cause: LayerError::Interrupted };
        let (labels, files) = unpacked.await.map_err(interrupted)??;
        Ok(PulledImage { reference: reference.clone(), labels, files })
    }

    /// Brings an image here without unpacking it, to read the part that `select` asks for from it.
    ///
    /// # Errors
    /// The image cannot be had, or is not wanted.
    pub async fn download<F>(
        &self,
        reference: &CanonicalReference,
        select: F,
        on_progress: OnProgress,
    ) -> Result<DownloadedImage, PullError>
    where
        F: FnOnce(&BTreeMap<String, String>) -> Result<Select, Refusal> + Send,
    {
        let (endpoint, _place, manifest) = self.manifest(reference).await?;
        let layers = self.layers(&endpoint, &manifest, select, on_progress);
        self.within_deadline(Box::pin(layers)).await
    }

    /// The manifest of an image, with the first endpoint that has it. The place at that endpoint is for reading the
    /// rest of the image.
    pub(crate) async fn manifest(
        &self,
        reference: &CanonicalReference,
    ) -> Result<(Endpoint, Place, Bytes), PullError> {
        self.check_policy(reference).await?;
        let endpoints = self.endpoints(reference.repository(), true).await.map_err(PullError::Copy)?;
        let mut failed = Vec::new();
        for endpoint in endpoints {
            // Until the image is here, or this endpoint does not have it.
            let place = self.places.take(&endpoint.host).await;
            let digest = reference.digest();
            let manifest =
                self.within_deadline(async { Ok(self.registry.manifest(&endpoint, digest).await) });
            match manifest.await? {
                Ok(manifest) => return Ok((endpoint, place, manifest)),
                Err(error) => {
                    drop(place);
                    failed.push((endpoint, error));
                }
            }
        }
        Err(PullError::Copy(all_failed(failed)))
    }

    async fn within_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, PullError>>,
    ) -> Result<T, PullError> {
        let total = self.config.timeouts.total;
        tokio::time::timeout(total, work).await.unwrap_or_else(|_| Err(PullError::Deadline(total.as_secs())))
    }

    /// The image that a manifest describes.
    async fn layers<F>(
        &self,
        endpoint: &Endpoint,
        manifest: &[u8],
        select: F,
        on_progress: OnProgress,
    ) -> Result<DownloadedImage, PullError>
    where
        F: FnOnce(&BTreeMap<String, String>) -> Result<Select, Refusal> + Send,
    {
        let (config, layers) = self.image(endpoint, manifest).await.map_err(PullError::Copy)?;
        let mut meter = Meter::new(self.config.timeouts.least_speed);
        let config = self.config_blob(endpoint, &config, &mut meter).await.map_err(PullError::Copy)?;
        let labels = labels(&config).map_err(|error| PullError::Copy(error.into()))?;
        let select = select(&labels).map_err(PullError::Refused)?;
        let mut progress = Progress {
            bytes: 0,
            bytes_total: layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size)),
            layers: 0,
            layers_total: layers.len(),
        };
        on_progress(progress);
        let (mut spool, mut extents) = (self.spool(), Vec::new());
        for (index, descriptor) in layers.into_iter().enumerate() {
            let layer = Layer { index, digest: descriptor.digest, size: descriptor.size };
            extents.push(Extent { offset: spool.len(), length: layer.size });
            let reporting = (&mut progress, &on_progress);
            spool = self.layer(endpoint, spool, layer, &mut meter, reporting).await?;
        }
        let content = spool.finish().map_err(|cause| FileError::reading("spool", &cause))?;
        let (spool_dir, disk) = (self.config.spool_dir.clone(), self.config.disk.clone());
        let limits = self.config.limits;
        Ok(DownloadedImage { labels, select, limits, layers: extents, content, spool_dir, disk })
    }

    pub(crate) async fn endpoints(
        &self,
        repository: &Repository,
        by_digest: bool,
    ) -> Result<Vec<Endpoint>, SourceError> {
        let config = match self.config.registries_conf.clone() {
            Some(path) => tokio::task::spawn_blocking(move || Config::load(&path))
                .await
                .map_err(|_| SourceError::Interrupted)??,
            None => Config::default(),
        };
        let mut endpoints = candidates(repository, by_digest, &config)?;
        for endpoint in &mut endpoints {
            endpoint.insecure |= self.config.insecure_hosts.contains(&endpoint.host);
        }
        Ok(endpoints)
    }

    /// Whether the administrator's policy lets the image in.
    async fn check_policy(&self, reference: &CanonicalReference) -> Result<(), PullError> {
        let Some(path) = self.config.policy.clone() else { return Ok(()) };
        let policy = tokio::task::spawn_blocking(move || Policy::load(&path))
            .await
            .map_err(|_| PullError::Copy(SourceError::Interrupted))?
            .map_err(PullError::Policy)?;
        policy.check(reference).map_err(|error| PullError::Copy(error.into()))
    }

    /// Config and layers of the image for our platform.
    async fn image(
        &self,
        endpoint: &Endpoint,
        manifest: &[u8],
    ) -> Result<(Descriptor, Vec<Descriptor>), SourceError> {
        let rejected = |why| SourceError::Manifest(ManifestError(why));
        let document = match parse(manifest)? {
            Document::Index(manifests) => {
                let chosen = choose(&manifests, &Platform::own())?;
                parse(&self.registry.manifest(endpoint, &chosen.digest).await?)?
            }
            document @ Document::Manifest { .. } => document,
        };
        let Document::Manifest { config, layers } = document else {
            return Err(rejected("the entry of the image index is an image index again".to_owned()));
        };
        let limits = &self.config.limits;
        if layers.len() > limits.layers_max {
            return Err(rejected(format!(
                "the image has {} layers, more than the {} allowed",
                layers.len(),
                limits.layers_max
            )));
        }
        let max = limits.layer_bytes_max;
        if let Some((index, layer)) = layers.iter().enumerate().find(|(_, layer)| layer.size > max) {
            return Err(rejected(format!(
                "layer[{index}] has {} bytes, more than the {max} allowed",
                layer.size
            )));
        }
        if config.size > CONFIG_BYTES_MAX {
            return Err(rejected(format!(
                "the image config has {} bytes, more than the {CONFIG_BYTES_MAX} allowed",
                config.size
            )));
        }
        Ok((config, layers))
    }

    /// The image config, whole and checked.
    async fn config_blob(
        &self,
        endpoint: &Endpoint,
        config: &Descriptor,
        meter: &mut Meter,
    ) -> Result<Vec<u8>, SourceError> {
        let action =
            || format!("reading image config {} in {}/{}", config.digest, endpoint.host, endpoint.repository);
        meter.read(action());
        let mut stream = meter.request(self.registry.blob(endpoint, &config.digest)).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = meter.next(&mut stream).await {
            bytes.extend_from_slice(&chunk?);
            if bytes.len() as u64 > config.size {
                return Err(too_large(action(), config.size).into());
            }
        }
        let actual = config.digest.recompute(&bytes);
        if actual != config.digest {
            return Err(digest_mismatch(action(), &config.digest, &actual).into());
        }
        Ok(bytes)
    }

    /// Adds a layer to the spool; one whose transfer broke is fetched again, up to the limit of retries.
    async fn layer(
        &self,
        endpoint: &Endpoint,
        mut spool: Spool,
        layer: Layer,
        meter: &mut Meter,
        (progress, on_progress): (&mut Progress, &OnProgress),
    ) -> Result<Spool, PullError> {
        meter.read(format!("reading blob {} in {}/{}", layer.digest, endpoint.host, endpoint.repository));
        let index = layer.index;
        let before = progress.bytes;
        let mut attempt = 0;
        loop {
            let blob = meter.request(self.registry.blob(endpoint, &layer.digest)).await;
            let blob = blob.map_err(|error| PullError::Copy(error.into()))?;
            let mut reported = progress.bytes;
            let arrived = |bytes: u64| {
                progress.bytes += bytes;
                if progress.bytes - reported >= PROGRESS_STEP_BYTES {
                    reported = progress.bytes;
                    on_progress(*progress);
                }
            };
            let received = receive(spool, layer.clone(), blob, (&mut *meter, &*self.rooms), arrived).await;
            let (returned, result) = received.map_err(|cause| PullError::Layer { index, cause })?;
            spool = returned;
            match result {
                Ok(()) => {
                    progress.layers += 1;
                    on_progress(*progress);
                    return Ok(spool);
                }
                Err(LayerError::Blob(error))
                    if error.is_retryable() && attempt < self.config.timeouts.retries =>
                {
                    tracing::debug!(layer = index, attempt, %error, "transfer of a layer broke, trying again");
                    progress.bytes = before;
                    attempt += 1;
                }
                // Bytes that did not come or are not the right ones.
                Err(LayerError::Blob(error)) => return Err(PullError::Copy(error.into())),
                Err(cause) => return Err(PullError::Layer { index, cause }),
            }
        }
    }
}

/// One error for all endpoints, in upstream's form for mirrors.
fn all_failed(mut failed: Vec<(Endpoint, RegistryError)>) -> SourceError {
    let Some((_, primary)) = failed.pop() else {
        // `candidates` always names the registry itself.
        return SourceError::Interrupted;
    };
    if failed.is_empty() {
        return SourceError::Registry(primary);
    }
    let mirrors = failed.into_iter().map(|(at, error)| (format!("{}/{}", at.host, at.repository), error));
    SourceError::Mirrors { mirrors: mirrors.collect(), primary }
}
