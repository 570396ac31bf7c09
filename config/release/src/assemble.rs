//! The files of a release, made of programs that are built.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use olm_image::{Compression, Digest, LayerBuilder, Reference, folder_files};
use serde_json::json;

use crate::VERSION;
use crate::documents::{Digests, checksums, krew, provenance};
use crate::programs::{CLI, PROGRAMS, Platform};
use crate::source::Source;
use crate::texts::KUBECTL_COMPLETE;

/// The prefix of images in the manifests of the repository.
const PREFIX_IN_SOURCE: &str = "localhost/olmv1/";
/// The file with the checksums, by which a folder with a release is recognized.
const CHECKSUMS: &str = "SHA256SUMS";
/// The folder of the chart, and the chart's name.
const CHART: (&str, &str) = ("config/helm/olmv1", "olmv1");

/// Programs that were built for a platform.
pub(crate) struct Build {
    pub(crate) platform: &'static Platform,
    /// Folder with the programs.
    pub(crate) binaries: PathBuf,
    /// Folder with their bills of materials.
    pub(crate) sboms: PathBuf,
}

/// Everything that a release is made of.
pub(crate) struct Release<'a> {
    /// The checkout.
    pub(crate) root: &'a Path,
    pub(crate) builds: &'a [Build],
    /// What the images' names begin with.
    pub(crate) prefix: &'a str,
    pub(crate) profile: &'a str,
    /// The compiler's version.
    pub(crate) rustc: &'a str,
    pub(crate) builder: &'a str,
    pub(crate) source: &'a Source,
    /// What is packed beside the command for people, by path.
    pub(crate) texts: &'a BTreeMap<String, Vec<u8>>,
}

impl Release<'_> {
    /// Writes the files into `out`, and returns their names and sizes.
    ///
    /// # Errors
    /// A file of the checkout or a program is missing, or a program is for another platform.
    pub(crate) fn write(&self, out: &Path) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut files = BTreeMap::new();
        for build in self.builds {
            self.programs(build, &mut files)?;
        }
        files.insert(format!("{}-{VERSION}.tgz", CHART.1), self.chart()?);
        files.insert("install.yaml".to_owned(), self.with_prefix(&self.read("config/install.yaml")?));
        files.insert(format!("{CLI}.yaml"), self.krew(&files)?.into_bytes());
        let lock = sha256(&self.read("Cargo.lock")?);
        let targets: Vec<&str> = self.builds.iter().map(|build| build.platform.target).collect();
        let parameters = json!({"profile": self.profile, "targets": targets, "rustc": self.rustc});
        let provenance = provenance(&digests(&files), self.source, &parameters, &lock, self.builder);
        files.insert("provenance.intoto.json".to_owned(), format!("{provenance}\n").into_bytes());
        files.insert(CHECKSUMS.to_owned(), checksums(&digests(&files)).into_bytes());
        fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
        for (name, bytes) in &files {
            fs::write(out.join(name), bytes).with_context(|| format!("writing {name}"))?;
        }
        Ok(files.into_iter().map(|(name, bytes)| (name, bytes.len())).collect())
    }

    /// An archive, an image and a bill of materials for each program.
    fn programs(&self, build: &Build, files: &mut BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
        let license = self.read("LICENSE")?;
        for program in &PROGRAMS {
            let path = build.binaries.join(program.name);
            let binary = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let architecture = olm_image_build::static_architecture(&binary)
                .with_context(|| format!("checking {}", path.display()))?;
            ensure!(
                architecture == build.platform.architecture,
                "{} is for {architecture}, not for {}",
                path.display(),
                build.platform.architecture
            );
            let archive = self.archive(program.name, &binary, &license)?;
            files.insert(file(program.name, build, "tar.gz"), archive);
            let packed = olm_image_build::PROGRAMS.iter().find(|packed| packed.name == program.name);
            let packed = packed.with_context(|| format!("{} has no image", program.name))?;
            let name = Reference::parse(&format!("{}/{}:{VERSION}", self.prefix, program.name))
                .context("the image's name")?;
            let mut image = Vec::new();
            olm_image_build::image(packed, &binary)?.write_archive(&name, &mut image)?;
            files.insert(file(program.name, build, "oci.tar"), image);
            let sbom = build.sboms.join(format!("{}.cdx.json", program.name));
            let sbom = fs::read(&sbom).with_context(|| format!("reading {}", sbom.display()))?;
            files.insert(file(program.name, build, "cdx.json"), sbom);
        }
        Ok(())
    }

    /// A program with the license; the command for people also with its man pages and completion scripts.
    fn archive(&self, program: &str, binary: &[u8], license: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut archive =
            LayerBuilder::new(Compression::Gzip).file("LICENSE", license)?.program(program, binary)?;
        if program == CLI {
            let (name, script) = KUBECTL_COMPLETE;
            archive = archive.program(name, script.as_bytes())?;
            for (path, text) in self.texts {
                archive = archive.file(path, text)?;
            }
        }
        Ok(archive.build()?.bytes().to_vec())
    }

    /// The chart, as `helm package` would name and order it.
    fn chart(&self) -> anyhow::Result<Vec<u8>> {
        let (folder, name) = CHART;
        let mut archive = LayerBuilder::new(Compression::Gzip);
        let files = folder_files(&self.root.join(folder))?;
        // As the chart's .helmignore says.
        for (path, file) in files.into_iter().filter(|(path, _)| !path.starts_with('.')) {
            let content = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            archive = archive.file(&format!("{name}/{path}"), self.with_prefix(&content))?;
        }
        Ok(archive.build()?.bytes().to_vec())
    }

    fn krew(&self, files: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<String> {
        let digests = digests(files);
        let archives = self.builds.iter().map(|build| {
            let name = file(CLI, build, "tar.gz");
            let digest = digests.get(&name).with_context(|| format!("{name} is missing"))?;
            Ok((build.platform, name, digest.as_str()))
        });
        let archives = archives.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(krew(&self.source.repository, &archives))
    }

    /// A manifest with the images of this release.
    fn with_prefix(&self, manifest: &[u8]) -> Vec<u8> {
        let images = format!("{}/", self.prefix);
        String::from_utf8_lossy(manifest).replace(PREFIX_IN_SOURCE, &images).into_bytes()
    }

    fn read(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        fs::read(self.root.join(path)).with_context(|| format!("reading {path}"))
    }
}

/// Removes the files of an earlier release.
///
/// # Errors
/// The folder holds something else.
pub(crate) fn clear(out: &Path) -> anyhow::Result<()> {
    let Ok(mut entries) = fs::read_dir(out) else { return Ok(()) };
    ensure!(
        entries.next().is_none() || out.join(CHECKSUMS).is_file(),
        "{} holds files and no release: name another folder",
        out.display()
    );
    fs::remove_dir_all(out).with_context(|| format!("removing {}", out.display()))
}

/// The name of a file of a program.
fn file(program: &str, build: &Build, extension: &str) -> String {
    format!("{program}_{VERSION}_linux_{}.{extension}", build.platform.architecture)
}

fn sha256(bytes: &[u8]) -> String {
    Digest::of(bytes).hex().to_owned()
}

fn digests(files: &BTreeMap<String, Vec<u8>>) -> Digests {
    files.iter().map(|(name, bytes)| (name.clone(), sha256(bytes))).collect()
}
