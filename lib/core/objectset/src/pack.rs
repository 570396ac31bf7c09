//! Packing a revision's objects into Secrets, and reading them back.
//!
//! The API limits the size of one object to about 1 MiB, so the content of a revision lives in immutable
//! Secrets that the ClusterObjectSet refers to. The form is that of `SecretPacker` in
//! operator-controller's internal/operator-controller/applier/secretpacker.go: the JSON of an object, gzip when
//! it is large, under a key derived from its digest.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use olm_object::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{limits, phase::Phase};

/// A Secret that holds objects of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedSecret {
    /// Name, derived from the revision's name and the content.
    pub name: String,
    /// Objects by key.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// The place of an object: name of the Secret and key within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedReference {
    /// Name of the Secret.
    pub secret: String,
    /// Key of the object.
    pub key: String,
}

/// A revision's content, packed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    /// The Secrets, in the order they were filled.
    pub secrets: Vec<PackedSecret>,
    /// For each phase its name and the place of each of its objects.
    pub phases: Vec<(String, Vec<PackedReference>)>,
}

/// Why content could not be packed or read.
#[derive(Debug, Error)]
pub enum PackError {
    /// One object alone exceeds a Secret.
    #[error(
        "object in phase {phase} index {index} exceeds maximum Secret data size ({size_bytes} bytes > {max_bytes} bytes) even after compression"
    )]
    TooLarge {
        /// Index of the phase.
        phase: usize,
        /// Index of the object in the phase.
        index: usize,
        /// Size after compression.
        size_bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// The stored bytes are not gzip although they begin like it.
    #[error("decompressing object: {0}")]
    Decompress(String),
    /// The stored bytes expand beyond [`limits::OBJECT_BYTES_MAX`].
    #[error("decompressed data exceeds maximum size ({max_bytes} bytes)")]
    Expands {
        /// The limit.
        max_bytes: u64,
    },
    /// The stored bytes are not JSON.
    #[error("unmarshaling object: {0}")]
    Decode(#[from] serde_json::Error),
}

/// Packs `phases` for the revision named `revision_name`.
///
/// # Errors
/// An object does not fit into a Secret.
pub fn pack(revision_name: &str, phases: &[Phase]) -> Result<Packed, PackError> {
    let mut packed = Packed::default();
    let mut open: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut open_bytes = 0;
    // References name a Secret only once it is full, so they are collected with its index first.
    let mut places: Vec<(String, Vec<(usize, String)>)> = Vec::new();
    for (phase_index, phase) in phases.iter().enumerate() {
        let mut phase_places = Vec::with_capacity(phase.objects.len());
        for (index, object) in phase.objects.iter().enumerate() {
            let bytes = encode(object, phase_index, index)?;
            let key = content_key(&bytes);
            if !open.contains_key(&key) {
                if open_bytes + bytes.len() > limits::SECRET_DATA_BYTES_MAX && !open.is_empty() {
                    packed.secrets.push(close(revision_name, std::mem::take(&mut open)));
                    open_bytes = 0;
                }
                open_bytes += bytes.len();
                open.insert(key.clone(), bytes);
            }
            phase_places.push((packed.secrets.len(), key));
        }
        places.push((phase.name.clone(), phase_places));
    }
    if !open.is_empty() {
        packed.secrets.push(close(revision_name, open));
    }
    packed.phases = places
        .into_iter()
        .map(|(name, places)| {
            let references = places
                .into_iter()
                .map(|(secret, key)| PackedReference { secret: packed.secrets[secret].name.clone(), key })
                .collect();
            (name, references)
        })
        .collect();
    Ok(packed)
}

/// The key under which `bytes` are stored: their SHA-256, as `contentHash` in secretpacker.go. A reference to a key thereby names
/// the bytes themselves.
pub fn content_key(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

/// Reads one stored object; gzip is recognised by its magic bytes.
///
/// # Errors
/// The bytes are not (compressed) JSON, or expand beyond [`limits::OBJECT_BYTES_MAX`].
pub fn unpack(bytes: &[u8]) -> Result<Value, PackError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(serde_json::from_slice(bytes)?);
    }
    let mut text = Vec::new();
    GzDecoder::new(bytes)
        .take(limits::OBJECT_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|e| PackError::Decompress(e.to_string()))?;
    if text.len() as u64 > limits::OBJECT_BYTES_MAX {
        return Err(PackError::Expands { max_bytes: limits::OBJECT_BYTES_MAX });
    }
    Ok(serde_json::from_slice(&text)?)
}

fn encode(object: &Value, phase: usize, index: usize) -> Result<Vec<u8>, PackError> {
    let bytes = object.to_string().into_bytes();
    if bytes.len() <= limits::SECRET_DATA_BYTES_MAX {
        return Ok(bytes);
    }
    // Fast, as an installation waits for it; definitions become small at any level.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or(bytes);
    if compressed.len() > limits::SECRET_DATA_BYTES_MAX {
        return Err(PackError::TooLarge {
            phase,
            index,
            size_bytes: compressed.len(),
            max_bytes: limits::SECRET_DATA_BYTES_MAX,
        });
    }
    Ok(compressed)
}

fn close(revision_name: &str, data: BTreeMap<String, Vec<u8>>) -> PackedSecret {
    let mut hash = Sha256::new();
    for (key, value) in &data {
        hash.update(key.as_bytes());
        hash.update(value);
    }
    PackedSecret { name: format!("{revision_name}-{}", &hex(&hash.finalize())[..16]), data }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, bytes: usize) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y".repeat(bytes)}})
    }

    fn read(packed: &Packed, reference: &PackedReference) -> Value {
        let secret = packed.secrets.iter().find(|s| s.name == reference.secret).unwrap();
        unpack(&secret.data[&reference.key]).unwrap()
    }

    #[test]
    fn every_object_is_read_back_as_it_was() {
        let phases = vec![
            Phase { name: "a".into(), objects: vec![config_map("one", 10), config_map("two", 20)] },
            Phase { name: "b".into(), objects: vec![config_map("large", 2_000_000)] },
        ];
        let packed = pack("ext-1", &phases).unwrap();
        assert_eq!(packed.secrets.len(), 1);
        for (phase, (name, references)) in phases.iter().zip(&packed.phases) {
            assert_eq!(&phase.name, name);
            for (object, reference) in phase.objects.iter().zip(references) {
                assert_eq!(&read(&packed, reference), object);
            }
        }
    }

    #[test]
    fn a_key_is_the_digest_of_its_bytes() {
        // In base64url, without padding.
        assert_eq!(content_key(b"{}"), "RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o");
        let large = Phase { name: "a".into(), objects: vec![config_map("large", 2_000_000)] };
        for secret in pack("ext-1", &[large]).unwrap().secrets {
            for (key, bytes) in &secret.data {
                assert_eq!(key, &content_key(bytes));
            }
        }
    }

    #[test]
    fn content_is_split_below_the_limit() {
        let objects = (0..5).map(|i| config_map(&format!("c{i}"), 400_000)).collect();
        let packed = pack("ext-1", &[Phase { name: "a".into(), objects }]).unwrap();
        assert_eq!(packed.secrets.len(), 3);
        for secret in &packed.secrets {
            assert!(secret.data.values().map(Vec::len).sum::<usize>() <= limits::SECRET_DATA_BYTES_MAX);
        }
    }

    #[test]
    fn the_same_content_gets_the_same_names() {
        let phases = [Phase { name: "a".into(), objects: vec![config_map("one", 10)] }];
        assert_eq!(pack("ext-1", &phases).unwrap(), pack("ext-1", &phases).unwrap());
        assert_ne!(
            pack("ext-1", &phases).unwrap().secrets[0].name,
            pack("ext-2", &phases).unwrap().secrets[0].name
        );
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b' '; 11 << 20]).unwrap();
        let error = unpack(&encoder.finish().unwrap()).unwrap_err();
        assert!(error.to_string().contains("exceeds maximum size (10485760 bytes)"), "{error}");
    }

    #[test]
    fn an_object_that_does_not_compress_below_the_limit_is_named() {
        use std::fmt::Write;
        let mut noise = String::new();
        let mut state = 1u64;
        while noise.len() < 3_000_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = write!(noise, "{state:x}");
        }
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": noise}});
        let error = pack("e-1", &[Phase { name: "a".into(), objects: vec![object] }]).unwrap_err();
        assert!(
            error.to_string().starts_with("object in phase 0 index 0 exceeds maximum Secret data size"),
            "{error}"
        );
    }
}
