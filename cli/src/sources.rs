//! Where commands read catalogs and bundles from: a folder, an OCI image layout, or an image of a registry.
//!
//! One set of registry flags for every command, one way to name a source, one tree of files whatever the source.
//! Content is untrusted: links never leave a folder, images go through the puller with all its limits.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use anyhow::{Context as _, bail};
use catalogd::CONFIGS_LABEL;
use clap::Args;
use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX};
use olm_fbc::CatalogFiles;
use olm_image::{
    CanonicalReference, Files, Keyring, LayoutRegistry, NoRegistry, OnProgress, Puller, PullerConfig,
    Reference, Refusal, Select, folder_files,
};

use crate::{catalogs::fetch, progress::Bar};

/// Largest file with credentials in bytes.
const AUTH_FILE_BYTES_MAX: u64 = 4 << 20;
/// Largest file of a bundle in bytes; the largest CRD of a public bundle has 4 MB.
const BUNDLE_FILE_BYTES_MAX: u64 = 32 << 20;
/// Files of a bundle, all together, in bytes.
const BUNDLE_BYTES_MAX: u64 = 256 << 20;
/// The folders of a registry+v1 bundle.
const BUNDLE_FOLDERS: [&str; 2] = ["manifests", "metadata"];
/// The file that every bundle has.
const BUNDLE_FILE: &str = "metadata/annotations.yaml";
/// The label that every bundle image has.
const BUNDLE_LABEL: &str = "operators.operatorframework.io.bundle.mediatype.v1";
/// Bundles within a folder that are named.
const BUNDLES_NAMED_MAX: usize = 10;
/// Standard input as a source, and as the name of its only file.
const INPUT: &str = "-";
/// Most bytes that are read of standard input; the largest public catalog has 150 MB.
const INPUT_BYTES_MAX: u64 = 2 << 30;
/// Puts an image layout beyond doubt, and can name one of its images.
const LAYOUT_PREFIX: &str = "oci:";

/// A place with a catalog or a bundle, as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A folder of plain files.
    Folder(PathBuf),
    /// A file of its own, such as a catalog of JSON lines.
    File(PathBuf),
    /// The text on standard input, written as `-`.
    Input,
    /// The address of a served catalog.
    Address(String),
    /// An OCI image layout, and the name of one of its images when it has several.
    Layout(PathBuf, Option<String>),
    /// An image of a registry.
    Image(Reference),
}

impl FromStr for Source {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(layout) = text.strip_prefix(LAYOUT_PREFIX) {
            return layout_at(layout);
        }
        if text == INPUT {
            return Ok(Self::Input);
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            return Ok(Self::Address(text.to_owned()));
        }
        let path = Path::new(text);
        if path.is_dir() {
            let is_layout = LayoutRegistry::is_layout(path);
            return Ok(if is_layout {
                Self::Layout(path.to_owned(), None)
            } else {
                Self::Folder(path.to_owned())
            });
        }
        if path.is_file() {
            return Ok(Self::File(path.to_owned()));
        }
        Reference::parse(text).map(Self::Image).map_err(|error| {
            anyhow::anyhow!("{text:?} is neither a file or folder here nor an image reference ({error})")
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) | Self::File(path) | Self::Layout(path, None) => path.display().fmt(f),
            Self::Input => f.write_str("standard input"),
            Self::Address(url) => f.write_str(url),
            Self::Layout(path, Some(name)) => write!(f, "{LAYOUT_PREFIX}{}:{name}", path.display()),
            Self::Image(reference) => reference.fmt(f),
        }
    }
}

/// `PATH` or `PATH:NAME`.
fn layout_at(text: &str) -> anyhow::Result<Source> {
    let whole = Path::new(text);
    if LayoutRegistry::is_layout(whole) {
        return Ok(Source::Layout(whole.to_owned(), None));
    }
    // Names of images may have colons too.
    for (colon, _) in text.match_indices(':') {
        let (folder, name) = (&text[..colon], &text[colon + 1..]);
        if LayoutRegistry::is_layout(Path::new(folder)) {
            return Ok(Source::Layout(folder.into(), Some(name.to_owned())));
        }
    }
    bail!("{text}: not an OCI image layout, which has the files oci-layout and index.json")
}

/// How registries are reached.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Registry options")]
pub(crate) struct Registries {
    /// Registry (host:port) to use with plain HTTP or an untrusted certificate; may be repeated
    #[arg(long, value_name = "HOST")]
    insecure_registry: Vec<String>,
    /// Folder with CA certificates (*.crt) to trust for registries, in addition to the system's
    #[arg(long, value_name = "FOLDER")]
    cas_dir: Option<PathBuf>,
    /// File with credentials for registries, in the format of Docker's config.json
    #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
    auth_file: Option<PathBuf>,
    /// Registries configuration (registries.conf): mirrors, insecure and blocked registries
    #[arg(long, value_name = "FILE", env = "CONTAINERS_REGISTRIES_CONF")]
    #[expect(clippy::struct_field_names, reason = "the name of the file and of its flag")]
    registries_conf: Option<PathBuf>,
    /// Contact no registry; only folders and layouts can be read
    #[arg(long)]
    offline: bool,
}

/// The files of a source, by their paths from its root.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    /// Files on disk, beneath `root` in messages.
    Disk(BTreeMap<String, PathBuf>),
    /// Files of an image.
    Image(Files),
    /// One file without a name: what was on standard input, or was fetched.
    Input(Arc<tempfile::NamedTempFile>),
}

/// The content of a source.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    /// The files.
    pub(crate) tree: Tree,
    /// Labels of the image; empty for plain files.
    pub(crate) labels: BTreeMap<String, String>,
    /// The image, when it has a name others can use: those of a layout have none.
    pub(crate) image: Option<CanonicalReference>,
}

impl Opened {
    fn plain(files: BTreeMap<String, PathBuf>) -> Self {
        Self { tree: Tree::Disk(files), labels: BTreeMap::new(), image: None }
    }
}

impl Registries {
    /// A puller for images of registries, with these settings.
    pub(crate) fn puller(&self) -> anyhow::Result<Puller> {
        if self.offline {
            bail!("--offline: images are not fetched from registries; pass a folder or an OCI image layout");
        }
        let mut config = PullerConfig::new(std::env::temp_dir());
        config.registries_conf.clone_from(&self.registries_conf);
        config.cas_dir.clone_from(&self.cas_dir);
        config.insecure_hosts.extend(self.insecure_registry.iter().cloned());
        if let Some(path) = &self.auth_file {
            let json = read_limited(path, AUTH_FILE_BYTES_MAX)?;
            config
                .keyring
                .set(Keyring::from_docker_config(&json).with_context(|| path.display().to_string())?);
        }
        Ok(Puller::new(config))
    }

    /// A puller that fails at the first image with --offline: much can be found out without one.
    pub(crate) fn puller_or_offline(&self) -> anyhow::Result<Puller> {
        if self.offline {
            return Ok(Puller::with_registry(PullerConfig::new(std::env::temp_dir()), Arc::new(NoRegistry)));
        }
        self.puller()
    }

    /// Whether nothing may be fetched.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline
    }

    /// Whether something may be fetched from `address`.
    pub(crate) fn allow_network(&self, address: &str) -> anyhow::Result<()> {
        if self.offline {
            bail!("--offline: {address} is not fetched; pass a folder, a file or an OCI image layout");
        }
        Ok(())
    }

    /// Opens a source; of an image only what `select` asks for once it has seen the labels.
    pub(crate) async fn open<F>(
        &self,
        source: &Source,
        select: F,
        on_progress: OnProgress,
    ) -> anyhow::Result<Opened>
    where
        F: FnOnce(&BTreeMap<String, String>) -> Result<Select, Refusal> + Send,
    {
        match source {
            Source::Folder(folder) => Ok(Opened::plain(folder_files(folder)?)),
            Source::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Opened::plain(BTreeMap::from([(name, path.clone())])))
            }
            Source::Input => {
                let tree = Tree::Input(Arc::new(spooled_input()?));
                Ok(Opened { tree, labels: BTreeMap::new(), image: None })
            }
            Source::Address(url) => {
                bail!("{url}: catalogs are served, bundles are not: pass a folder or an image")
            }
            Source::Layout(folder, name) => {
                let layout = LayoutRegistry::open(folder)?;
                let image = layout.image(name.as_deref())?;
                let config = PullerConfig::new(std::env::temp_dir());
                let puller = Puller::with_registry(config, Arc::new(layout));
                let found = puller.pull_with_progress(&image, select, on_progress).await;
                let found = found.with_context(|| folder.display().to_string())?;
                Ok(Opened { tree: Tree::Image(found.files), labels: found.labels, image: None })
            }
            Source::Image(reference) => {
                let puller = self.puller()?;
                let image = puller.resolve(reference).await?;
                let found = puller.pull_with_progress(&image, select, on_progress).await?;
                let image = Some(found.reference);
                Ok(Opened { tree: Tree::Image(found.files), labels: found.labels, image })
            }
        }
    }

    /// The files of a catalog; of an image those that its label points to. An address is trusted by the CA in a file.
    pub(crate) async fn catalog(&self, source: &Source, authority: Option<&Path>) -> anyhow::Result<Opened> {
        if let Source::Address(url) = source {
            self.allow_network(url)?;
            let tree = Tree::Input(Arc::new(fetch(url, authority).await?));
            return Ok(Opened { tree, labels: BTreeMap::new(), image: None });
        }
        let select = |labels: &BTreeMap<String, String>| match labels.get(CONFIGS_LABEL) {
            Some(path) => Select::paths([path]),
            None if labels.contains_key(BUNDLE_LABEL) => Err(Refusal::terminal(
                "this is the image of a bundle, not of a catalog: use the commands of \"olm bundle\"",
            )),
            None => Err(Refusal::terminal(format!(
                "the image is not a catalog: it has no label {CONFIGS_LABEL:?}"
            ))),
        };
        self.open(source, select, Bar::new("opening", 1).pull(&source.to_string())).await
    }

    /// A bundle.
    pub(crate) async fn bundle(&self, source: &Source) -> anyhow::Result<Bundle> {
        let files = self.bundle_files(source).await?;
        Bundle::read(&files, MEMORY_BYTES_MAX).with_context(|| source.to_string())
    }

    /// The files of a bundle whose image a catalog or a cluster names: it is never a file or folder of the user.
    pub(crate) async fn files_of_image(&self, image: &str) -> anyhow::Result<BundleFiles> {
        self.bundle_files(&Source::Image(Reference::parse(image)?)).await
    }

    /// The files of a bundle.
    pub(crate) async fn bundle_files(&self, source: &Source) -> anyhow::Result<BundleFiles> {
        let progress = Bar::new("opening", 1).pull(&source.to_string());
        let opened = self.open(source, |_| Select::paths(BUNDLE_FOLDERS), progress).await?;
        if let all @ [first, ..] = bundles(&opened.tree).as_slice()
            && !first.is_empty()
        {
            bail!("{source}: this is not a bundle, but contains bundles: pass one of them: {}", named(all));
        }
        opened.tree.bundle_files()
    }
}

/// The folders that are bundles, by the file that every bundle has; the root, as the first, has the path "".
pub(crate) fn bundles(tree: &Tree) -> Vec<&str> {
    let mut found: Vec<&str> = tree
        .paths()
        .into_iter()
        .filter_map(|path| path.strip_suffix(BUNDLE_FILE))
        .filter_map(|folder| if folder.is_empty() { Some("") } else { folder.strip_suffix('/') })
        .collect();
    found.sort_unstable();
    found
}

/// The first of these folders, and how many more there are.
pub(crate) fn named(folders: &[&str]) -> String {
    let more = folders.len().saturating_sub(BUNDLES_NAMED_MAX);
    let text = folders.iter().take(BUNDLES_NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    if more == 0 { text } else { format!("{text}, and {more} more") }
}

impl Tree {
    /// Paths of all files, sorted.
    pub(crate) fn paths(&self) -> Vec<&str> {
        match self {
            Self::Disk(files) => files.keys().map(String::as_str).collect(),
            Self::Image(files) => files.paths().collect(),
            Self::Input(_) => vec![INPUT],
        }
    }

    /// Manifests and metadata of a bundle.
    pub(crate) fn bundle_files(&self) -> anyhow::Result<BundleFiles> {
        let mut total = 0;
        let mut files = BTreeMap::new();
        for path in self.paths() {
            if !BUNDLE_FOLDERS.iter().any(|folder| path.split('/').next() == Some(folder)) {
                continue;
            }
            let reader = self.open(path).with_context(|| path.to_owned())?;
            let bytes = limited(reader, BUNDLE_FILE_BYTES_MAX).with_context(|| path.to_owned())?;
            total += bytes.len() as u64;
            if total > BUNDLE_BYTES_MAX {
                bail!("{path}: the bundle has more than {BUNDLE_BYTES_MAX} bytes up to this file");
            }
            files.insert(path.to_owned(), bytes);
        }
        Ok(files.into_iter().collect())
    }
}

impl CatalogFiles for Tree {
    fn paths(&self) -> Vec<String> {
        Tree::paths(self).into_iter().map(str::to_owned).collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Disk(files) => Box::new(File::open(files.get(path).ok_or(io::ErrorKind::NotFound)?)?),
            Self::Image(files) => Box::new(files.open(path).map_err(io::Error::other)?),
            Self::Input(file) => Box::new(file.reopen()?),
        })
    }
}

/// Keeps what is on standard input, as catalogs are read more than once.
fn spooled_input() -> anyhow::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new().context("creating a file for standard input")?;
    let mut input = io::stdin().lock().take(INPUT_BYTES_MAX + 1);
    if io::copy(&mut input, file.as_file_mut()).context("reading standard input")? > INPUT_BYTES_MAX {
        bail!("standard input has more than {INPUT_BYTES_MAX} bytes");
    }
    Ok(file)
}

/// A whole file on disk of at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    limited(file, limit).with_context(|| path.display().to_string())
}

/// All that a reader has, of at most `limit` bytes.
pub(crate) fn limited(reader: impl Read, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        bail!("larger than the {limit} bytes allowed");
    }
    Ok(bytes)
}
