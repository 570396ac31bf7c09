//! Where copies are: a registry, or a layout on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use olm_api::names::GROUP;
use olm_image::{LayoutRegistry, Puller, Reference, Target};
use serde_json::json;

use super::copying::Item;

/// The place of the copies.
pub(super) enum Place {
    Registry {
        /// Registry and path, before the names of all copies.
        prefix: String,
        puller: Puller,
        is_insecure: bool,
    },
    Layout {
        folder: PathBuf,
        /// Nothing if nothing is to be written.
        layout: Option<LayoutRegistry>,
    },
}

impl Place {
    /// Below a path of a registry.
    pub(super) async fn registry(prefix: &str, puller: Puller) -> anyhow::Result<Self> {
        let prefix = prefix.trim_end_matches('/');
        let wrong = || {
            format!(
                "--push {prefix}: name a registry, with a path or without, such as mirror.example.com/olm"
            )
        };
        let example = Reference::parse(&format!("{prefix}/image:tag")).with_context(wrong)?;
        let is_insecure = puller.target(example.repository(), None).await?.is_insecure();
        Ok(Self::Registry { prefix: prefix.to_owned(), puller, is_insecure })
    }

    /// A layout in a folder, which is made when absent.
    pub(super) fn layout(folder: &Path, dry_run: bool) -> anyhow::Result<Self> {
        let layout = if dry_run { None } else { Some(LayoutRegistry::create(folder)?) };
        Ok(Self::Layout { folder: folder.to_owned(), layout })
    }

    /// The repository of a copy, with its tag or digest.
    pub(super) fn mirrored(&self, reference: &Reference) -> String {
        match self {
            Self::Layout { folder, .. } => folder.display().to_string(),
            Self::Registry { prefix, .. } => {
                let repository = reference.repository();
                let mut text = format!("{prefix}/{}/{}", path_of(repository.domain()), repository.path());
                if let Some(tag) = reference.tag() {
                    let _ = write!(text, ":{tag}");
                }
                if let Some(digest) = reference.digest() {
                    let _ = write!(text, "@{digest}");
                }
                text
            }
        }
    }

    /// Fails if two registries would be the same path, or a name would be too long.
    pub(super) fn check(&self, items: &[Item]) -> anyhow::Result<()> {
        let mut hosts: BTreeMap<String, &str> = BTreeMap::new();
        let Self::Registry { .. } = self else { return Ok(()) };
        for item in items {
            let host = item.reference.repository().domain();
            let other = hosts.insert(path_of(host), host);
            if let Some(other) = other.filter(|other| *other != host) {
                bail!(
                    "{host} and {other} would have the same path at the mirror: copy them to different paths"
                );
            }
            let copy = self.mirrored(&item.reference);
            Reference::parse(&copy)
                .with_context(|| format!("{}: the name of its copy is not valid", item.reference))?;
        }
        Ok(())
    }

    /// The place of one copy.
    pub(super) async fn target(&self, item: &Item) -> anyhow::Result<Target> {
        match self {
            Self::Layout { layout: Some(layout), .. } => Ok(Target::in_layout(layout, &item.layout_name())),
            Self::Layout { layout: None, folder } => bail!("{}: nothing is to be written", folder.display()),
            Self::Registry { puller, .. } => {
                let copy = Reference::parse(&self.mirrored(&item.reference))?;
                Ok(puller.target(copy.repository(), copy.tag()).await?)
            }
        }
    }

    /// Writes the files that make a cluster use the mirror.
    pub(super) fn write_results(
        &self,
        folder: &Path,
        items: &[Item],
        catalogs: &[Reference],
    ) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())
        };
        write("registries.conf", self.registries_conf(items))?;
        let manifests = catalogs
            .iter()
            .map(|reference| format!("---\n{}", olm_yaml::to_yaml(&cluster_catalog(reference))));
        write("catalogs.yaml", manifests.collect())
    }

    fn registries_conf(&self, items: &[Item]) -> String {
        let mut text = "# Written by \"olm catalog mirror\".\n".to_owned();
        let Self::Registry { prefix, is_insecure, .. } = self else { return text };
        let hosts: BTreeSet<&str> = items.iter().map(|item| item.reference.repository().domain()).collect();
        for host in hosts {
            let mirror = format!("{prefix}/{}", path_of(host));
            let insecure = if *is_insecure { "insecure = true\n" } else { "" };
            let _ = write!(
                text,
                "\n[[registry]]\nlocation = {host:?}\n\n[[registry.mirror]]\nlocation = {mirror:?}\n{insecure}"
            );
        }
        text
    }
}

/// The path that stands for a registry: its host, in which a path may not have a colon or capitals.
fn path_of(host: &str) -> String {
    host.to_lowercase().replace(':', "-").replace(['[', ']'], "")
}

/// A ClusterCatalog for an image, named like the last part of its repository.
fn cluster_catalog(reference: &Reference) -> serde_json::Value {
    let name = reference.repository().path().rsplit('/').next().unwrap_or_default().replace(['_', '.'], "-");
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": reference.to_string()}}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn place(prefix: &str) -> Place {
        Place::registry(prefix, puller()).await.unwrap()
    }

    fn puller() -> Puller {
        Puller::new(olm_image::PullerConfig::new(std::env::temp_dir()))
    }

    #[tokio::test]
    async fn a_copy_is_named_after_the_registry_and_repository_of_its_image() {
        let place = place("mirror.example.com:5000/olm/").await;
        let digest = format!("sha256:{}", "a".repeat(64));
        for (image, copy) in [
            ("quay.io/a/b:1", "mirror.example.com:5000/olm/quay.io/a/b:1".to_owned()),
            ("busybox", "mirror.example.com:5000/olm/docker.io/library/busybox:latest".to_owned()),
            ("localhost:5000/a:1", "mirror.example.com:5000/olm/localhost-5000/a:1".to_owned()),
            (&format!("quay.io/a:1@{digest}"), format!("mirror.example.com:5000/olm/quay.io/a@{digest}")),
        ] {
            let reference = Reference::familiar(image).unwrap();
            assert_eq!(place.mirrored(&reference), copy);
            place.check(&[Item::image(reference)]).unwrap();
        }
    }

    #[tokio::test]
    async fn two_registries_are_not_mixed_up_at_the_mirror() {
        let items = ["localhost:5000/a:1", "localhost-5000.io/a:1", "r.io:5000/a:1", "r.io-5000/a:1"]
            .map(|image| Item::image(Reference::familiar(image).unwrap()));
        let place = place("mirror.example.com").await;
        assert!(place.check(&items[..2]).is_ok());
        let error = place.check(&items[1..]).unwrap_err().to_string();
        assert!(error.contains("r.io-5000 and r.io:5000 would have the same path"), "{error}");
        assert!(Place::registry("mirror", puller()).await.is_err(), "no registry");
    }

    #[tokio::test]
    async fn the_configuration_sends_each_registry_to_its_mirror() {
        let items = [Item::image(Reference::familiar("quay.io/a/b:1").unwrap())];
        let text = place("mirror.example.com/olm").await.registries_conf(&items);
        let config = olm_image::Config::parse(Path::new("registries.conf"), &text).unwrap();
        let image = Reference::familiar("quay.io/a/b:1").unwrap();
        let found = olm_image::candidates(image.repository(), false, &config).unwrap();
        let found: Vec<String> =
            found.iter().map(|place| format!("{}/{}", place.host, place.repository)).collect();
        assert_eq!(found, ["mirror.example.com/olm/quay.io/a/b", "quay.io/a/b"]);
    }
}
