//! An image as one file that container runtimes load: an OCI image layout in an archive, with the index that
//! `docker load` of older versions looks for beside it.

use std::{collections::BTreeMap, io::Write};

use tar::{Builder, EntryType, Header};

use super::{LAYOUT_FILE, NAME, PackError, PackedImage};
use crate::{digest::Digest, reference::Reference};

/// The annotation from which containerd and podman take an image's whole name.
const FULL_NAME: &str = "io.containerd.image.name";

impl PackedImage {
    /// Writes the image as an archive to be loaded under the name of `reference`, which needs a tag.
    ///
    /// # Errors
    /// The reference has no tag, or the file cannot be written.
    pub fn write_archive(&self, reference: &Reference, archive: impl Write) -> Result<(), PackError> {
        let (Some(tag), None) = (reference.tag(), reference.digest()) else {
            return Err(PackError::Reference(reference.clone()));
        };
        let index = self.index(BTreeMap::from([
            (FULL_NAME.to_owned(), reference.to_string()),
            (NAME.to_owned(), tag.to_owned()),
        ]));
        let docker = serde_json::json!([{
            "Config": blob_path(&self.config),
            "RepoTags": [reference.to_string()],
            "Layers": self.layers.iter().map(blob_path).collect::<Vec<_>>(),
        }]);
        let mut files = vec![
            ("oci-layout".to_owned(), LAYOUT_FILE.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
            ("manifest.json".to_owned(), docker.to_string().into_bytes()),
            (blob_path(&self.digest), self.manifest.to_vec()),
        ];
        files.extend(self.blobs.iter().map(|(digest, bytes)| (blob_path(digest), bytes.to_vec())));
        let mut builder = Builder::new(archive);
        for (path, content) in files {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::Regular);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            builder.append_data(&mut header, &path, content.as_slice()).map_err(PackError::Archive)?;
        }
        builder.into_inner().and_then(|mut archive| archive.flush()).map_err(PackError::Archive)
    }
}

fn blob_path(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm().as_str(), digest.hex())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::{Compression, ImageBuilder, ImageProcess, LayerBuilder};

    fn image() -> PackedImage {
        let layer = LayerBuilder::new(Compression::Gzip)
            .directory_with_mode("tmp", 0o1777)
            .and_then(|layer| layer.program("program", "#!"))
            .and_then(LayerBuilder::build)
            .unwrap();
        let process = ImageProcess {
            entrypoint: vec!["/program".to_owned()],
            user: "65532:65532".to_owned(),
            environment: Vec::new(),
        };
        ImageBuilder::new().layer(layer).label("a", "b").process(process).build()
    }

    fn archive(image: &PackedImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write_archive(&Reference::parse("localhost/a/program:1.0").unwrap(), &mut bytes).unwrap();
        bytes
    }

    fn entries(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
            let mut entry: tar::Entry<'_, &[u8]> = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn the_same_content_gives_the_same_archive() {
        assert_eq!(archive(&image()), archive(&image()));
    }

    #[test]
    fn both_indexes_name_the_image_and_lead_to_its_blobs() {
        let image = image();
        let entries = entries(&archive(&image));
        let json = |path: &str| -> serde_json::Value { serde_json::from_slice(&entries[path]).unwrap() };
        let manifest = &json("index.json")["manifests"][0];
        assert_eq!(manifest["annotations"][FULL_NAME], "localhost/a/program:1.0");
        assert_eq!(manifest["annotations"][NAME], "1.0");
        assert_eq!(manifest["digest"], image.digest().to_string());
        let docker = &json("manifest.json")[0];
        assert_eq!(docker["RepoTags"][0], "localhost/a/program:1.0");
        let config = json(docker["Config"].as_str().unwrap());
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"][0], "/program");
        let layer = &entries[docker["Layers"][0].as_str().unwrap()];
        let mut layer = tar::Archive::new(flate2::read::GzDecoder::new(layer.as_slice()));
        let modes: Vec<u32> =
            layer.entries().unwrap().map(|entry| entry.unwrap().header().mode().unwrap()).collect();
        assert_eq!(modes, [0o1777, 0o755]);
        for (path, content) in &entries {
            if let Some(hex) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(Digest::of(content).hex(), hex);
            }
        }
    }

    #[test]
    fn a_name_without_a_tag_is_refused() {
        let reference = Reference::parse("localhost/a/program").unwrap();
        assert!(image().write_archive(&reference, Vec::new()).is_err());
    }
}
