//! Catalog and bundle images, packed by olm-image and pushed to the test registry.

use crate::{instance::Settings, prelude::*};
use olm_image::{
    Compression, ImageBuilder, LayerBuilder, PackedImage, PackedLayer, Puller, PullerConfig, Reference,
    folders_layer,
};

/// Label of a catalog image: where its content is.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// A host that no DNS server is asked for: the first label is longer than one can be. Programs speak to it without TLS,
/// which would refuse the name before it is resolved.
pub const UNKNOWN_HOST: &str = "registryregistryregistryregistryregistryregistryregistryregistry.example";

/// Packs and pushes images.
pub struct Images {
    puller: Puller,
    host: String,
    registries_conf: PathBuf,
    _directory: StateDirectory,
}

impl Images {
    /// Images for `registry`, which is spoken to without TLS.
    pub fn new(registry: &Registry) -> Result<Self> {
        Self::at(registry.address())
    }

    /// Images for the registry of this host and port, which is spoken to without TLS.
    pub fn at(host: String) -> Result<Self> {
        let directory = StateDirectory::new("images")?;
        let registries_conf = directory.path().join("registries.conf");
        let insecure = |host: &str| format!("[[registry]]\nlocation = {host:?}\ninsecure = true\n");
        fs::write(&registries_conf, insecure(&host) + &insecure(UNKNOWN_HOST))?;
        let mut config = PullerConfig::new(directory.path());
        config.registries_conf = Some(registries_conf.clone());
        Ok(Self { puller: Puller::new(config), host, registries_conf, _directory: directory })
    }

    /// Images for a registry that programs find by a registries configuration of their own.
    pub fn with_conf(registry: &Registry, conf: &Path) -> Result<Self> {
        Ok(Self { registries_conf: conf.to_owned(), ..Self::new(registry)? })
    }

    /// What a program needs to know of this registry, with further flags.
    pub fn settings(&self, flags: &[&str]) -> Settings {
        let settings =
            Settings::default().env("CONTAINERS_REGISTRIES_CONF", self.registries_conf.display().to_string());
        flags.iter().fold(settings, |settings, flag| settings.arg(*flag))
    }

    /// The registries configuration that makes programs speak to this registry without TLS.
    pub fn registries_conf(&self) -> &Path {
        &self.registries_conf
    }

    /// Host and port of the registry.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Pushes an image as `<repository>:<tag>` and returns its reference by digest.
    pub async fn push(&self, image: &PackedImage, name: &str) -> Result<String> {
        let reference = Reference::parse(&format!("{}/{name}", self.host))?;
        Ok(image.push(&self.puller, &reference).await.with_context(|| format!("pushing {name}"))?.to_string())
    }

    /// Packs the folder of a bundle and pushes it.
    pub async fn push_bundle(&self, folder: &Path, name: &str) -> Result<String> {
        let (manifests, metadata) = (folder.join("manifests"), folder.join("metadata"));
        let folders: Vec<(&Path, &str)> =
            [(manifests.as_path(), "manifests"), (metadata.as_path(), "metadata")]
                .into_iter()
                .filter(|(path, _)| path.is_dir())
                .collect();
        let layer = folders_layer(&folders, Compression::Gzip)?;
        self.push(&ImageBuilder::new().layer(layer).build(), name).await
    }

    /// Packs a bundle and pushes it.
    pub async fn push_made(&self, bundle: &Bundle, name: &str) -> Result<String> {
        let layer = LayerBuilder::new(Compression::Gzip);
        let files = bundle.files();
        let layer = files.iter().try_fold(layer, |layer, (path, content)| layer.file(path, content))?;
        self.push(&ImageBuilder::new().layer(layer.build()?).build(), name).await
    }

    /// Packs the text of a file-based catalog and pushes it.
    pub async fn push_catalog(&self, content: &str, name: &str) -> Result<String> {
        let layer = LayerBuilder::new(Compression::Gzip).file("configs/catalog.yaml", content)?.build()?;
        self.push_catalog_layers(vec![layer], name).await
    }

    /// Pushes a catalog image of the given layers.
    pub async fn push_catalog_layers(&self, layers: Vec<PackedLayer>, name: &str) -> Result<String> {
        let builder = ImageBuilder::new().label(CONFIGS_LABEL, "/configs");
        self.push(&layers.into_iter().fold(builder, ImageBuilder::layer).build(), name).await
    }
}

/// The files of a bundle folder, as the renderer takes them.
pub fn bundle_files(folder: &Path) -> Result<olm_bundle::BundleFiles> {
    let mut files = BTreeMap::new();
    for part in ["manifests", "metadata"] {
        let Ok(entries) = fs::read_dir(folder.join(part)) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = format!("{part}/{}", entry.file_name().to_string_lossy());
                files.insert(name, fs::read(entry.path())?);
            }
        }
    }
    Ok(files.into_iter().collect())
}
