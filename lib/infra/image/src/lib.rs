//! OCI images: references, pulling, unpacking, packing.
//!
//! [`Puller`] turns a [`Reference`] into a digest, and an image into a [`DownloadedImage`], whose layers are checked and
//! held as they came, or into a [`PulledImage`], whose wanted files are in one spool file and a map. Layers are never
//! unpacked onto the file system. [`ImageBuilder`] goes the other way, from folders or hand-made layers to images.
//!
//! The crate knows nothing of operators, catalogs or Kubernetes: which labels count and which folders are wanted
//! is the caller's choice. Everything that comes from outside has a limit ([`limits`]).

mod advice;
mod archive;
mod blob;
mod copy;
mod digest;
mod disk;
mod downloaded;
mod error;
mod files;
mod keyring;
mod layers;
pub mod limits;
mod manifest;
mod pack;
mod places;
mod policy;
mod progress;
mod puller;
mod read_ahead;
mod reference;
mod registries;
mod registry;
mod rooms;
mod select;
mod speed;
mod spool;
mod tree;
mod whiteout;
mod write_behind;

pub use archive::{ArchiveError, FileSink};
pub use blob::BlobError;
pub use copy::{CopyError, Target, WholeImage};
pub use digest::{Algorithm, Digest, DigestError};
pub use disk::{DiskBudget, DiskCharge, DiskFull};
pub use downloaded::DownloadedImage;
pub use error::{PullError, SourceError};
pub use files::{FileError, Files};
pub use keyring::{Credential, Keyring, KeyringError, Secret};
pub use layers::{BlobStream, LayerError};
pub use limits::{Concurrency, LeastSpeed, Limits, Timeouts};
pub use manifest::ManifestError;
pub use pack::{
    Compression, ImageBuilder, ImageProcess, LayerBuilder, PackError, PackedImage, PackedLayer, folder_files,
    folder_layer, folders_layer,
};
pub use places::{Place, Places};
pub use policy::{Policy, PolicyError};
pub use progress::{OnProgress, Progress};
pub use puller::{PulledImage, Puller, PullerConfig, SharedKeyring};
pub use reference::{
    CanonicalReference, Reference, ReferenceCause, ReferenceError, Repository, image_syntax,
};
pub use registries::{Config, Endpoint, RegistriesError, candidates};
#[doc(hidden)]
pub use registry::read_login;
pub use registry::{
    BlobContent, LayoutError, LayoutRegistry, NoRegistry, OciRegistry, Registry, RegistryError, is_link_local,
};
pub use select::{Refusal, Select};
pub use spool::{FileReader, Spool};
pub use tree::TreeError;
pub use write_behind::WriteBehind;
