//! What the PackageManifests of a catalog show, in a file.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    hash::{DefaultHasher, Hasher},
    io::{self, BufWriter, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use catalogd::{Generation, RegistryContent};
use olm_api_classic::{Deprecation, Icon, Link};
use olm_classic_core::{
    packages::{Head, HeadError, Offer, PackageDisplay},
    registry_model::valid_package,
};
use olm_fbc::{Query, SCHEMA_BUNDLE, SCHEMA_PACKAGE};
use olm_image::DiskCharge;

use crate::contents::ImageSyntax;

/// Bytes of all bundles that the channels of one package are read from. The largest real package needs two million.
const PACKAGE_BYTES_MAX: u64 = 32 << 20;
/// Bytes of a catalog's file. A catalog of 130 MB needs twenty million.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Memory that is reckoned for a label beside its texts.
const LABEL_BYTES: usize = 64;
/// Longest document of a package, which has its icon.
const DOCUMENT_BYTES_MAX: u64 = 8 << 20;

/// Memory of one package beside what is in the file. The largest real one takes 2 KiB.
pub(crate) const PACKAGE_MEMORY_MAX: usize = 8 << 10;

/// The packages of one content of a catalog, whichever CatalogSources have it.
#[derive(Debug)]
pub(super) struct Summary {
    reference: String,
    file: File,
    /// By name.
    packages: Vec<Package>,
    /// Of the file.
    _charge: DiskCharge,
}

/// A package: what is compared and selected by; the rest is in the file.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) provider: Link,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) default_channel: String,
    pub(super) deprecation: Option<Deprecation>,
    /// The ClusterServiceVersion of the default channel's head.
    pub(super) default_version: Option<String>,
    /// The channels as JSON text.
    channels: Range<u64>,
    /// The picture in base64, and its media type.
    icon: Option<(Range<u64>, String)>,
    /// Of all this.
    pub(super) fingerprint: u64,
}

impl Summary {
    /// Reads a catalog and writes its summary to a file in `folder` that has no name. Blocks.
    ///
    /// # Errors
    /// The disk failed or is full. Packages that are invalid or cannot be shown are left out, with a warning.
    pub(super) fn write(
        content: &RegistryContent,
        syntax: Option<ImageSyntax>,
        folder: &Path,
    ) -> io::Result<Self> {
        let file = nameless(folder)?;
        let (packages, charge) = write_packages(content, syntax, &file)?;
        Ok(Self { reference: content.0.reference().to_owned(), file, packages, _charge: charge })
    }

    /// The digest reference of the content.
    pub(super) fn reference(&self) -> &str {
        &self.reference
    }

    pub(super) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Appends the channels of a package, as JSON. Blocks.
    pub(super) fn read_channels(&self, package: &Package, out: &mut Vec<u8>) -> io::Result<()> {
        self.read(&package.channels, out)
    }

    /// The icon of a package. Blocks.
    pub(super) fn icon(&self, package: &Package) -> io::Result<Option<Icon>> {
        let Some((range, mediatype)) = &package.icon else { return Ok(None) };
        let mut text = Vec::new();
        self.read(range, &mut text)?;
        let base64data = String::from_utf8(text).map_err(io::Error::other)?;
        Ok(Some(Icon { base64data, mediatype: mediatype.clone() }))
    }

    fn read(&self, range: &Range<u64>, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        out.resize(start + length, 0);
        self.file.read_exact_at(&mut out[start..], range.start)
    }
}

/// Writes the packages of a catalog; answers with what is kept of them, and the charge of the file.
fn write_packages(
    content: &RegistryContent,
    syntax: Option<ImageSyntax>,
    file: &File,
) -> io::Result<(Vec<Package>, DiskCharge)> {
    let generation = &content.0;
    let mut writer = Writer { to: BufWriter::new(file), length: 0, charge: generation.charge() };
    let mut packages = Vec::new();
    for name in generation.packages() {
        match package(content, syntax, name) {
            Ok((offer, icon)) => {
                for problem in &offer.problems {
                    tracing::warn!(catalog = generation.reference(), "{problem}");
                }
                packages.push(writer.package(name, offer, icon)?);
            }
            Err(problem) => {
                tracing::warn!(catalog = generation.reference(), "package {name:?} is not shown: {problem}");
            }
        }
    }
    writer.to.flush()?;
    Ok((packages, writer.charge))
}

/// A new file that is gone once it is closed.
fn nameless(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".packages-{}-{number}", std::process::id()));
    fs::create_dir_all(folder)?;
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// What is shown of a package, and its icon.
fn package(
    catalog: &RegistryContent,
    syntax: Option<ImageSyntax>,
    name: &str,
) -> Result<(Offer, Option<Icon>), String> {
    let generation = &catalog.0;
    let content = generation.package(name).map_err(|error| error.to_string())?;
    let graph = valid_package(catalog, name, &content, syntax).map_err(|error| error.to_string())??;
    let query = Query { schema: Some(SCHEMA_PACKAGE), package: None, name: Some(name) };
    let line = last_line(generation, &query, DOCUMENT_BYTES_MAX).map_err(|error| error.to_string())?;
    let display = PackageDisplay::read(&line).map_err(|error| error.to_string())?;
    let mut left = PACKAGE_BYTES_MAX;
    let read = |bundle: &str| {
        let unreadable = |cause: String| HeadError::Unreadable { bundle: bundle.to_owned(), cause };
        let query = Query { schema: Some(SCHEMA_BUNDLE), package: Some(name), name: Some(bundle) };
        let line = last_line(generation, &query, left).map_err(|error| unreadable(error.to_string()))?;
        left = left.saturating_sub(line.len() as u64);
        Head::read(bundle, &line, &display)
    };
    let mut offer =
        Offer::of(name, &graph, &content.bundles, read).map_err(|problems| problems.join("; "))?;
    let icon = offer.icon.take();
    if memory(name, &offer, icon.as_ref()) > PACKAGE_MEMORY_MAX {
        let kibibytes = PACKAGE_MEMORY_MAX >> 10;
        return Err(format!("its labels, provider and deprecation take more than {kibibytes} KiB"));
    }
    Ok((offer, icon))
}

/// The memory that a package takes beside what is in the file, as reckoned.
fn memory(name: &str, offer: &Offer, icon: Option<&Icon>) -> usize {
    let default = offer.channels.iter().find(|channel| channel.name == offer.default_channel);
    let texts = [
        name.len(),
        offer.provider.name.as_ref().map_or(0, String::len),
        offer.provider.url.as_ref().map_or(0, String::len),
        offer.default_channel.len(),
        offer.deprecation.as_ref().map_or(0, |deprecation| deprecation.message.len()),
        default.map_or(0, |channel| channel.current_csv.len()),
        icon.map_or(0, |icon| icon.mediatype.len()),
    ];
    let labels = offer.labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_BYTES);
    texts.into_iter().chain(labels).sum::<usize>() + size_of::<Package>()
}

/// The last of the lines that a query finds.
fn last_line(generation: &Generation, query: &Query<'_>, bytes_max: u64) -> io::Result<Vec<u8>> {
    let ranges = generation.find(query);
    let range = ranges.last().ok_or_else(|| io::Error::other("it is not in the catalog"))?;
    let length = range.end - range.start;
    if length > bytes_max {
        return Err(io::Error::other(format!("more than {} MB are to be read", PACKAGE_BYTES_MAX >> 20)));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    generation.read_lines(&mut bytes, range.start)?;
    let end = bytes.trim_ascii_end().len();
    let start = bytes[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |feed| feed + 1);
    bytes.truncate(end);
    bytes.drain(..start);
    Ok(bytes)
}

struct Writer<'a> {
    to: BufWriter<&'a File>,
    length: u64,
    charge: DiskCharge,
}

impl Writer<'_> {
    fn package(&mut self, name: &str, offer: Offer, icon: Option<Icon>) -> io::Result<Package> {
        let mut hash = DefaultHasher::new();
        let channels = self.text(&serde_json::to_vec(&offer.channels)?, &mut hash)?;
        let icon = match icon {
            None => None,
            Some(Icon { base64data, mediatype }) => {
                Some((self.text(base64data.as_bytes(), &mut hash)?, mediatype))
            }
        };
        let rest = (&offer.provider, &offer.labels, &offer.default_channel, &offer.deprecation);
        hash.write(&serde_json::to_vec(&rest)?);
        let default = offer.channels.into_iter().find(|channel| channel.name == offer.default_channel);
        Ok(Package {
            name: name.to_owned(),
            provider: offer.provider,
            labels: offer.labels,
            default_channel: offer.default_channel,
            deprecation: offer.deprecation,
            default_version: default.map(|channel| channel.current_csv),
            channels,
            icon,
            fingerprint: hash.finish(),
        })
    }

    fn text(&mut self, text: &[u8], hash: &mut DefaultHasher) -> io::Result<Range<u64>> {
        let start = self.length;
        self.length = start.saturating_add(text.len() as u64);
        if self.length > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("its packages have more than {} MB", FILE_BYTES_MAX >> 20)));
        }
        self.charge.grow(text.len() as u64)?;
        hash.write(text);
        self.to.write_all(text)?;
        Ok(start..self.length)
    }
}
