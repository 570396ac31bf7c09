//! Readers of what registries and their configuration say, and of what the API server keeps about objects.

use std::{cell::RefCell, io::Write as _, path::Path};

use axum::body::Bytes;
use olm_image::{
    BlobContent, CanonicalReference, Compression, Digest, Endpoint, Keyring, PackedLayer, Policy,
    Registry as _, Select,
};
use olm_objectset::has_created_fields;
use olm_plan::{Found, ObjectFacts, object_plan};
use serde_json::Value;

use super::{json_lines, kind, targets::Layers};

/// Layers that were compressed: of what is unpacked the names lie within the image.
pub(super) fn compressed(input: &[u8]) -> String {
    let Some((first, rest)) = input.split_first() else { return "nothing".to_owned() };
    // An even first byte: the rest is an archive that is compressed here, else it is taken as it is.
    let (compression, is_packed) = match first % 4 {
        0 => (Compression::Gzip, false),
        1 => (Compression::Gzip, true),
        2 => (Compression::Zstd, false),
        _ => (Compression::Zstd, true),
    };
    let bytes = match (compression, is_packed) {
        (_, true) => rest.to_vec(),
        (Compression::Zstd, false) => zstd::encode_all(rest, 1).expect("memory takes everything"),
        _ => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(rest).expect("memory takes everything");
            packed.finish().expect("memory takes everything")
        }
    };
    super::targets::unpack(PackedLayer::from_bytes(bytes, compression))
}

/// A config, and behind a line `---` a manifest, in which `CONFIG` stands for the config's digest.
pub(super) fn manifest(input: &[u8]) -> String {
    thread_local!(static LAYERS: RefCell<Layers> = RefCell::new(Layers::new()));
    let text = String::from_utf8_lossy(input);
    let (config, manifest) = text.split_once("\n---\n").unwrap_or(("{}", &text));
    let config = Bytes::copy_from_slice(config.as_bytes());
    let manifest = Bytes::from(manifest.replace("CONFIG", &Digest::of(&config).to_string()));
    LAYERS.with_borrow(|layers| {
        let at = Endpoint { host: "fuzz.example".to_owned(), repository: "a".to_owned(), insecure: false };
        let name = format!("fuzz.example/a@{}", Digest::of(&manifest));
        let name = CanonicalReference::parse(&name).expect("a reference");
        layers.runtime.block_on(async {
            let registry = &layers.registry;
            let pushed =
                registry.push_blob(&at, &Digest::of(&config), &BlobContent::Memory(config.clone())).await;
            pushed.expect("memory takes everything");
            let media_type = "application/vnd.oci.image.manifest.v1+json";
            registry.push_manifest(&at, "v1", media_type, manifest).await.expect("memory takes everything");
            match layers.puller.pull(&name, |_| Ok(Select::everything())).await {
                Ok(image) => format!("{} files", image.files.paths().count().min(3)),
                Err(error) => kind(&error),
            }
        })
    })
}

/// The configuration of docker, with credentials: what is found for a registry does not depend on what is asked first.
pub(super) fn docker_config(input: &[u8]) -> String {
    let mut seen = Vec::new();
    for read in [Keyring::from_docker_config, Keyring::from_dockercfg] {
        seen.push(match read(input) {
            Ok(keyring) => {
                let found = |host| keyring.lookup(host, "a/b").is_some();
                let first = (found("quay.io"), found("docker.io"));
                assert_eq!((found("quay.io"), found("docker.io")), first);
                format!("{first:?} {}", keyring.is_empty())
            }
            Err(error) => kind(&error),
        });
    }
    seen.join("; ")
}

/// Policies of signatures.
pub(super) fn policy(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
    match Policy::parse(Path::new("policy.json"), text) {
        Ok(policy) => {
            let digest = Digest::of(b"");
            let checked = ["quay.io/a/b", "r.example.com/x"].map(|name| {
                let name = CanonicalReference::parse(&format!("{name}@{digest}")).expect("a reference");
                policy.check(&name).map_or_else(|error| kind(&error), |()| "accepted".to_owned())
            });
            checked.join("; ")
        }
        Err(error) => kind(&error),
    }
}

/// An object as the cluster has it, and on the next lines what the revisions say of it.
pub(super) fn managed_fields(input: &[u8]) -> String {
    let mut values = json_lines(input).into_iter();
    let Some(live) = values.next().filter(Value::is_object) else { return "no object".to_owned() };
    let (desired, old) = (values.next().unwrap_or(Value::Null), values.next());
    let created = has_created_fields(&live);
    let facts = ObjectFacts {
        phase: "deploy",
        desired: Some(&desired),
        old: old.as_ref(),
        found: Found::Present(live),
        would_be: None,
        note: None,
    };
    let plan = object_plan(&facts);
    format!("{created} {:?} {}", plan.change, plan.fields.len().min(3))
}

/// A challenge, and on the next lines what the token endpoint answers.
pub(super) fn login(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let (header, answer) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{:?}", olm_image::read_login(header, answer.as_bytes()))
}
