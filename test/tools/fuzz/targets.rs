//! The readers, each with what must hold of its answers.

use std::{
    io::{Read, Write as _},
    path::Path,
    sync::Arc,
};

use olm_fbc::{MetaReader, WindowReader};
use olm_image::{
    Compression, Config, ImageBuilder, Limits as ImageLimits, PackedLayer, Puller, PullerConfig, Reference,
    Select, candidates,
};
use olm_objectset::Release;
use olm_test_registry::MemoryRegistry;
use olm_yaml::{Limits, RepairBudget};

use super::kind;

/// YAML and JSON texts: what was read is the same when it is written and read again.
pub(super) fn yaml(input: &[u8]) -> String {
    let limits = Limits { nodes: 20_000, depth: 60, expanded_bytes: 1 << 20, ..Limits::default() };
    let text = match olm_yaml::text(input) {
        Ok(text) => text,
        Err(error) => return kind(&error),
    };
    // Within the default limits it is only read.
    let within = olm_yaml::mixed(text).take_while(Result::is_ok).count();
    let mut seen = String::new();
    for value in olm_yaml::mixed_within(text, limits, &RepairBudget::default()) {
        match value {
            Ok(value) => seen = format!("{} values", if value.is_object() { "objects" } else { "other" }),
            Err(error) => seen = kind(&error),
        }
    }
    for value in olm_yaml::documents_within(text, limits) {
        match value {
            Ok(value) => {
                let written = olm_yaml::to_yaml(&value);
                let again = olm_yaml::one(&written);
                assert_eq!(again.as_ref(), Ok(&value), "written as {written:?}");
            }
            Err(error) => return format!("{seen}; {}; {}", kind(&error), within.min(2)),
        }
    }
    seen
}

/// Hands out a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// Catalog files: the documents do not depend on how the bytes come, and a canonical line is one already.
pub(super) fn fbc(input: &[u8]) -> String {
    let read = |pieces: usize| {
        let window = WindowReader::new(Trickle(input, pieces)).with_document_bytes_max(64 << 10);
        let mut reader = MetaReader::over(window);
        let mut lines = Vec::new();
        loop {
            match reader.next_meta() {
                Ok(Some(meta)) => {
                    let mut record = Vec::new();
                    meta.write_record(&mut record);
                    lines.push((meta.line.to_vec(), record));
                }
                Ok(None) => return (lines, "end".to_owned()),
                Err(error) => return (lines, error.to_string()),
            }
        }
    };
    let (lines, end) = read(usize::MAX);
    let (again, again_end) = read(3);
    assert_eq!((&lines, &end), (&again, &again_end), "another reading of the same bytes");
    for (line, record) in &lines {
        let mut reader = MetaReader::new(line.as_slice());
        let meta = reader.next_meta().expect("a canonical line is a document").expect("one document");
        assert_eq!(meta.line, line, "a canonical line stays as it is");
        serde_json::from_slice::<serde_json::Value>(line).expect("a canonical line is JSON");
        for part in record.split(|byte| *byte == b'\n').filter(|part| !part.is_empty()) {
            serde_json::from_slice::<serde_json::Value>(part).expect("a record is JSON");
        }
    }
    format!("{} {}", lines.len().min(4), kind(&end))
}

/// A puller over a registry in memory.
pub(super) struct Layers {
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) puller: Puller,
    pub(super) registry: Arc<MemoryRegistry>,
}

impl Layers {
    pub(super) fn new() -> Self {
        let mut config = PullerConfig::new(std::env::temp_dir());
        config.limits = ImageLimits {
            entries_max: 2_000,
            kept_entries_max: 1_000,
            file_bytes_max: 1 << 20,
            total_bytes_max: 2 << 20,
            uncompressed_bytes_max: 64 << 20,
            ..ImageLimits::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let registry = Arc::new(MemoryRegistry::new());
        Self { runtime, puller: Puller::with_registry(config, registry.clone()), registry }
    }
}

/// Layers that are not compressed.
pub(super) fn layer(input: &[u8]) -> String {
    unpack(PackedLayer::from_bytes(input.to_vec(), Compression::None))
}

/// An image of one layer: what is unpacked has names that lie within the image, and can be read.
pub(super) fn unpack(layer: PackedLayer) -> String {
    let layers = Layers::new();
    let packed = ImageBuilder::new().layer(layer).build();
    let name = Reference::parse("fuzz.example/a:v1").expect("a reference");
    layers.runtime.block_on(async {
        let pushed = packed.push(&layers.puller, &name).await.expect("memory takes everything");
        match layers.puller.pull(&pushed, |_| Ok(Select::everything())).await {
            Err(error) => kind(&error),
            Ok(image) => {
                let mut read = 0;
                for path in image.files.paths() {
                    let parts: Vec<&str> = path.split('/').collect();
                    assert!(parts.iter().all(|part| !matches!(*part, "" | "." | "..")), "{path:?}");
                    let mut bytes = Vec::new();
                    let mut file = image.files.open(path).expect("a file that is listed");
                    file.read_to_end(&mut bytes).expect("its bytes");
                    assert_eq!(Some(bytes.len() as u64), image.files.size(path));
                    read += 1;
                }
                format!("{} files", read.min(5))
            }
        }
    })
}

/// Registries configurations: whatever they say, every endpoint has a host and the last one is the registry.
pub(super) fn registries_conf(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
    let config = match Config::parse(Path::new("registries.conf"), text) {
        Ok(config) => config,
        Err(error) => return kind(&error),
    };
    let mut seen = Vec::new();
    for name in ["quay.io/a/b:v1", "docker.io/library/x:v1", "reg.example.com:5000/a:v1"] {
        let reference = Reference::parse(name).expect("a reference");
        for by_digest in [false, true] {
            match candidates(reference.repository(), by_digest, &config) {
                Ok(endpoints) => {
                    assert!(!endpoints.is_empty(), "nowhere to pull {name} from");
                    for endpoint in &endpoints {
                        let is_clean = |text: &str| {
                            !text.is_empty()
                                && !text.contains(|c: char| {
                                    c.is_whitespace() || c.is_control() || "?#@\\".contains(c)
                                })
                        };
                        assert!(is_clean(&endpoint.host) && !endpoint.host.contains('/'), "{endpoint:?}");
                        assert!(is_clean(&endpoint.repository), "{endpoint:?}");
                    }
                    seen.push(endpoints.len().to_string());
                }
                Err(error) => seen.push(kind(&error)),
            }
        }
    }
    // Digits would be dropped from an error, not from here.
    seen.join(" ")
}

/// References: what parses is written the same way again.
pub(super) fn reference(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
    match Reference::parse(text) {
        Ok(reference) => {
            let written = reference.to_string();
            assert_eq!(Reference::parse(&written).map(|again| again.to_string()), Ok(written));
            assert!(!reference.repository().path().contains(".."), "{text:?}");
            format!("tag {} digest {}", reference.tag().is_some(), reference.digest().is_some())
        }
        Err(error) => kind(&error),
    }
}

/// The JSON of a Helm release: packed here, because mutation would only break the packing.
pub(super) fn release(input: &[u8]) -> String {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = packed.write_all(input).and_then(|()| packed.finish());
    // What is not packed must be refused as well.
    assert!(input.starts_with(&[0x1f, 0x8b]) || Release::decode(input).is_err());
    match Release::decode(&written.unwrap_or_default()) {
        Ok(release) => {
            assert!(!release.objects.is_empty());
            assert!(release.objects.iter().all(serde_json::Value::is_object));
            format!("{} objects", release.objects.len().min(5))
        }
        Err(error) => kind(&error),
    }
}
