//! The copies of images, several at a time. One that fails does not end the others.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use olm_image::{
    CanonicalReference, Digest, PackedImage, PullError, Puller, Reference, RegistryError, SourceError,
};
use serde::Serialize;

use super::place::Place;
use crate::{output, progress::Bar};

/// Images that are copied at the same time.
const COPIES: usize = 4;
/// Begins the name of a catalog in a layout.
pub(super) const CATALOG: &str = "catalog:";

/// The ends of tags that name what belongs to an image, behind its digest: signatures, attestations and bills of materials
/// as cosign stores them, and OCI's index of everything that refers to it.
const ATTACHED: [&str; 4] = [".sig", ".att", ".sbom", ""];
/// The status of an answer that something does not exist.
const NOT_FOUND: u16 = 404;

/// An image to be copied.
pub(super) struct Item {
    /// Where it is, and how others name it.
    pub(super) reference: Reference,
    /// The bundles that need it; none for a catalog.
    pub(super) bundles: BTreeSet<String>,
    from: From,
    is_catalog: bool,
}

enum From {
    /// The registry that its reference names.
    Registry,
    /// A layout.
    Layout(CanonicalReference),
    /// It was made by this command.
    Packed(PackedImage),
}

/// An image that was copied, or why not.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Copied {
    pub(super) image: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) digest: String,
    pub(super) mirror: String,
    pub(super) bundles: BTreeSet<String>,
    /// Bytes of its blobs.
    pub(super) bytes: u64,
    /// Those that were not there.
    pub(super) new_bytes: u64,
    /// Tags of signatures and others that belong to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attached: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// All copies, and the bytes of their blobs, each once.
pub(super) struct Copying {
    pub(super) images: Vec<Copied>,
    pub(super) bytes: u64,
}

/// An image with its blobs.
struct Done {
    reference: CanonicalReference,
    blobs: BTreeMap<Digest, u64>,
    new_bytes: u64,
    attached: Vec<String>,
}

impl Item {
    fn new(reference: Reference, from: From, is_catalog: bool) -> Self {
        Self { reference, bundles: BTreeSet::new(), from, is_catalog }
    }

    pub(super) fn image(reference: Reference) -> Self {
        Self::new(reference, From::Registry, false)
    }

    /// A catalog, as it is or made by this command.
    pub(super) fn catalog(reference: Reference, packed: Option<PackedImage>) -> Self {
        Self::new(reference, packed.map_or(From::Registry, From::Packed), true)
    }

    /// An image that a layout has under this name.
    pub(super) fn in_layout(reference: Reference, name: &str, image: CanonicalReference) -> Self {
        Self::new(reference, From::Layout(image), name.starts_with(CATALOG))
    }

    /// The name in a layout.
    pub(super) fn layout_name(&self) -> String {
        let prefix = if self.is_catalog { CATALOG } else { "" };
        format!("{prefix}{}", self.reference)
    }
}

impl Copied {
    pub(super) fn failed(image: String, error: String) -> Self {
        Self { image, error: Some(error), ..Self::default() }
    }
}

/// Copies the images; with `dry_run` they are only read.
pub(super) async fn copy_all(puller: &Puller, items: &[Item], place: &Place, dry_run: bool) -> Copying {
    let bar = Bar::new(if dry_run { "reading" } else { "copying" }, items.len());
    let all = items.iter().map(|item| {
        let bar = bar.clone();
        async move {
            let done = copy(puller, item, place, (&bar, dry_run)).await;
            bar.item_done();
            (item, done)
        }
    });
    let mut all = stream::iter(all).buffered(COPIES);
    let (mut images, mut blobs) = (Vec::new(), BTreeMap::new());
    while let Some((item, done)) = all.next().await {
        let mut copied = Copied {
            image: item.reference.to_string(),
            mirror: place.mirrored(&item.reference),
            bundles: item.bundles.clone(),
            ..Copied::default()
        };
        match done {
            Ok(done) => {
                copied.digest = done.reference.digest().to_string();
                copied.bytes = done.blobs.values().fold(0, |sum, size| sum.saturating_add(*size));
                (copied.new_bytes, copied.attached) = (done.new_bytes, done.attached);
                blobs.extend(done.blobs);
            }
            Err(error) => copied.error = Some(output::causes(&error)),
        }
        images.push(copied);
    }
    Copying { images, bytes: blobs.values().fold(0, |sum, size| sum.saturating_add(*size)) }
}

async fn copy(
    puller: &Puller,
    item: &Item,
    place: &Place,
    (bar, dry_run): (&Bar, bool),
) -> anyhow::Result<Done> {
    let reference = match &item.from {
        From::Packed(image) => {
            let blobs: BTreeMap<Digest, u64> =
                image.blobs().map(|(digest, bytes)| (digest.clone(), bytes.len() as u64)).collect();
            let new_bytes = if dry_run { 0 } else { image.store(&place.target(item).await?).await? };
            let reference = item.reference.at(image.digest().clone());
            return Ok(Done { reference, blobs, new_bytes, attached: Vec::new() });
        }
        From::Layout(image) => image.clone(),
        From::Registry => puller.resolve(&item.reference).await?,
    };
    let mut done = Done { reference, blobs: BTreeMap::new(), new_bytes: 0, attached: Vec::new() };
    let source = done.reference.clone();
    done.add(puller, &source, (item, place), (bar, dry_run)).await?;
    // In a layout they are images of their own.
    if matches!(item.from, From::Registry) {
        for end in ATTACHED {
            done.attach(puller, end, place, (bar, dry_run)).await?;
        }
    }
    Ok(done)
}

impl Done {
    async fn add(
        &mut self,
        puller: &Puller,
        source: &CanonicalReference,
        (item, place): (&Item, &Place),
        (bar, dry_run): (&Bar, bool),
    ) -> anyhow::Result<()> {
        let image = puller.whole(source).await?;
        self.blobs.extend(image.blobs().map(|(digest, size)| (digest.clone(), size)));
        if !dry_run {
            let progress = bar.pull(&item.reference.to_string());
            let copied = puller.copy(&image, &place.target(item).await?, progress).await?;
            self.new_bytes = self.new_bytes.saturating_add(copied);
        }
        Ok(())
    }

    /// Copies what a tag has that is made of the image's digest, if there is one.
    async fn attach(
        &mut self,
        puller: &Puller,
        end: &str,
        place: &Place,
        progress: (&Bar, bool),
    ) -> anyhow::Result<()> {
        let digest = self.reference.digest();
        let tag = format!("{}-{}{end}", digest.algorithm().as_str(), digest.hex());
        let repository = self.reference.repository();
        let item =
            Item::image(Reference::parse(&format!("{}/{}:{tag}", repository.domain(), repository.path()))?);
        let source = match puller.resolve(&item.reference).await {
            Err(error) if is_absent(&error) => return Ok(()),
            found => found?,
        };
        self.add(puller, &source, (&item, place), progress).await?;
        self.attached.push(tag);
        Ok(())
    }
}

/// Whether no registry has what belongs to an image: each one that answers says so. The image itself came from one that
/// answers; where that is a mirror, the registry that it mirrors need not be in reach.
fn is_absent(error: &PullError) -> bool {
    let is_not_found =
        |error: &RegistryError| matches!(error, RegistryError::Status { status: NOT_FOUND, .. });
    let is_out_of_reach = |error: &RegistryError| {
        matches!(error, RegistryError::Connection { .. } | RegistryError::UnknownHost { .. })
    };
    match error {
        PullError::Source(SourceError::Registry(error)) => is_not_found(error),
        PullError::Source(SourceError::Mirrors { mirrors, primary }) => {
            let mut all = mirrors.iter().map(|(_, error)| error).chain([primary]);
            all.clone().any(is_not_found) && all.all(|error| is_not_found(error) || is_out_of_reach(error))
        }
        _ => false,
    }
}
