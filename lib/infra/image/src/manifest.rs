//! Manifests, indexes and image configs: the parts of them that are needed, and the choice of a platform.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::digest::Digest;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// Why a manifest, or the image that it describes, cannot be used: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ManifestError(pub(crate) String);

impl ManifestError {
    /// Something else than a manifest or an index, or both at once.
    pub(crate) fn kind() -> Self {
        Self("the manifest is neither an image manifest nor an image index".to_owned())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) variant: Option<String>,
}

impl Platform {
    /// What this process runs on, in the words of image indexes (Go's).
    pub(crate) fn own() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "aarch64" => ("arm64", Some("v8")),
            "powerpc64" => ("ppc64le", None),
            "x86" => ("386", None),
            other => (other, None),
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Document {
    Manifest { config: Descriptor, layers: Vec<Descriptor> },
    Index(Vec<Descriptor>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    schema_version: u32,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// Reads a manifest or index by what it holds; registries' content types are not trusted.
pub(crate) fn parse(bytes: &[u8]) -> Result<Document, ManifestError> {
    let raw: Raw = serde_json::from_slice(bytes).map_err(|error| json_error("manifest", &error))?;
    match raw {
        Raw { schema_version: 1, .. } => Err(ManifestError(
            "manifests of schema version 1 are not supported: push the image again with a current client"
                .to_owned(),
        )),
        Raw { config: Some(config), layers: Some(layers), manifests: None, .. } => {
            // Media types of old images' configs may be absent, those of artifacts never are.
            if !config.media_type.is_empty()
                && ![OCI_CONFIG, DOCKER_CONFIG].contains(&config.media_type.as_str())
            {
                let shown: String = config.media_type.chars().take(128).collect();
                return Err(ManifestError(format!(
                    "unsupported image config media type {shown:?}: it is an artifact, not an image"
                )));
            }
            Ok(Document::Manifest { config, layers })
        }
        Raw { config: None, layers: None, manifests: Some(manifests), .. } => Ok(Document::Index(manifests)),
        _ => Err(ManifestError::kind()),
    }
}

/// The entry for a platform: exact variant first, then the architecture, then the only image there is.
pub(crate) fn choose<'a>(
    manifests: &'a [Descriptor],
    platform: &Platform,
) -> Result<&'a Descriptor, ManifestError> {
    let fits = |descriptor: &&Descriptor| {
        descriptor
            .platform
            .as_ref()
            .is_some_and(|p| p.os == platform.os && p.architecture == platform.architecture)
    };
    let same_variant = |descriptor: &&Descriptor| {
        descriptor.platform.as_ref().is_some_and(|p| p.variant == platform.variant)
    };
    // Attestations stand in indexes as images of an unknown platform.
    let is_image = |descriptor: &&Descriptor| descriptor.platform.as_ref().is_none_or(|p| p.os != "unknown");
    let mut images = manifests.iter().filter(is_image);
    let only = images.next().filter(|_| images.next().is_none());
    manifests
        .iter()
        .find(|descriptor| fits(descriptor) && same_variant(descriptor))
        .or_else(|| manifests.iter().find(fits))
        .or(only)
        .ok_or_else(|| {
            let Platform { architecture, os, .. } = platform;
            ManifestError(format!(
                "no image found in image index for architecture {architecture:?}, OS {os:?}"
            ))
        })
}

#[derive(Deserialize)]
struct ImageConfig {
    config: Option<ContainerConfig>,
}

#[derive(Deserialize)]
struct ContainerConfig {
    #[serde(rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

/// The labels in an image config.
pub(crate) fn labels(config: &[u8]) -> Result<BTreeMap<String, String>, ManifestError> {
    let config: ImageConfig =
        serde_json::from_slice(config).map_err(|error| json_error("image config", &error))?;
    Ok(config.config.and_then(|config| config.labels).unwrap_or_default())
}

/// Position only: the parser's text can quote the document.
fn json_error(what: &str, error: &serde_json::Error) -> ManifestError {
    ManifestError(format!("{what} is not valid: error at line {}, column {}", error.line(), error.column()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(os: &str, architecture: &str, variant: Option<&str>, name: &str) -> Descriptor {
        Descriptor {
            media_type: OCI_MANIFEST.to_owned(),
            digest: Digest::of(name.as_bytes()),
            size: 1,
            platform: Some(Platform {
                os: os.to_owned(),
                architecture: architecture.to_owned(),
                variant: variant.map(str::to_owned),
            }),
            annotations: BTreeMap::new(),
        }
    }

    fn arm64() -> Platform {
        Platform { os: "linux".into(), architecture: "arm64".into(), variant: Some("v8".into()) }
    }

    #[test]
    fn the_entry_of_ones_own_platform_is_chosen() {
        let manifests = [
            entry("linux", "amd64", None, "amd"),
            entry("windows", "arm64", None, "windows"),
            entry("linux", "arm64", None, "plain"),
            entry("linux", "arm64", Some("v8"), "v8"),
        ];
        assert_eq!(choose(&manifests, &arm64()).map(|d| &d.digest), Ok(&Digest::of(b"v8")));
        assert_eq!(choose(&manifests[..3], &arm64()).map(|d| &d.digest), Ok(&Digest::of(b"plain")));
    }

    #[test]
    fn the_only_image_is_taken_whatever_platform_it_claims() {
        let manifests =
            [entry("linux", "amd64", None, "amd"), entry("unknown", "unknown", None, "attestation")];
        assert_eq!(choose(&manifests, &arm64()).map(|d| &d.digest), Ok(&Digest::of(b"amd")));
    }

    #[test]
    fn an_index_without_a_fitting_entry_is_refused() {
        let manifests = [entry("linux", "amd64", None, "a"), entry("linux", "s390x", None, "b")];
        let error = choose(&manifests, &arm64()).expect_err("none fits");
        assert_eq!(
            error.to_string(),
            "no image found in image index for architecture \"arm64\", OS \"linux\""
        );
    }

    #[test]
    fn documents_that_could_be_read_two_ways_are_refused() {
        let digest = Digest::of(b"");
        let descriptor = format!(r#"{{"digest":"{digest}","size":0}}"#);
        let both = format!(r#"{{"schemaVersion":2,"config":{descriptor},"layers":[],"manifests":[]}}"#);
        assert_eq!(parse(both.as_bytes()), Err(ManifestError::kind()));
        assert_eq!(parse(b"{}"), Err(ManifestError::kind()));
        let text = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert!(text(br#"{"schemaVersion":1,"fsLayers":[]}"#).starts_with("manifests of schema version 1"));
        let artifact = format!(
            r#"{{"config":{{"mediaType":"application/vnd.oci.empty.v1+json","digest":"{digest}","size":2}},"layers":[]}}"#
        );
        assert!(text(artifact.as_bytes()).starts_with("unsupported image config media type"));
    }
}
