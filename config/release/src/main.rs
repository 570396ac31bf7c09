//! Puts a release together in one folder, `make release`: for each platform the programs and their images, and beside
//! them the chart, `install.yaml`, bills of materials, a krew manifest, provenance and checksums.
//!
//! The same commit gives the same bytes. Flags for the compiler come from the environment; the Makefile has them.

mod assemble;
mod documents;
mod programs;
mod sbom;
mod source;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use clap::Parser;

use programs::Platform;
use source::Source;

/// Version of everything in the release.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Puts a release together.
#[derive(Parser)]
struct Arguments {
    /// Folder for the files of the release. An earlier release in it is removed first.
    #[arg(long)]
    out: PathBuf,
    /// Cargo profile of the programs.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Registry and path that the images' names begin with.
    #[arg(long, default_value = "localhost/olmv1")]
    prefix: String,
    /// Address of the repository, to which /releases/download is added for downloads.
    #[arg(long, default_value = "https://localhost/olmv1")]
    repository: String,
    /// URI of who builds, for the provenance.
    #[arg(long, default_value = "https://localhost/make-release")]
    builder: String,
    /// Tag that is released; it has to be "v" and the version.
    #[arg(long)]
    tag: Option<String>,
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let expected = format!("v{VERSION}");
    let tag = arguments.tag.as_deref().unwrap_or(&expected);
    ensure!(
        tag == expected,
        "the tag is {tag:?}, but Cargo.toml has the version of {expected}: change one of them"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let source = Source::of_checkout(&root, arguments.repository)?;
    ensure!(
        source.is_clean || arguments.profile != "release",
        "the checkout has changes that are not committed: commit them, because the provenance names the commit"
    );
    let mut platforms = Vec::new();
    for platform in &programs::PLATFORMS {
        match platform.obstacle()? {
            Some(obstacle) => println!("left out: programs for {}, {obstacle}", platform.target),
            None => platforms.push(platform),
        }
    }
    ensure!(!platforms.is_empty(), "programs can be built for none of the platforms");
    let inputs = tempfile::tempdir()?;
    let builds = platforms
        .into_iter()
        .map(|platform| build(&root, platform, &arguments.profile, &source, inputs.path()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut texts = BTreeMap::new();
    for build in &builds {
        // They are the same for every platform, and only a program for this one can print them.
        if build.platform.is_host()? {
            texts = texts::of_command(&build.binaries.join(programs::CLI), inputs.path())?;
        }
    }
    ensure!(!texts.is_empty(), "man pages are printed by a program for this machine, and none is built");
    let rustc = programs::output(Command::new("rustc").arg("--version"))?;
    let release = assemble::Release {
        root: &root,
        builds: &builds,
        prefix: &arguments.prefix,
        profile: &arguments.profile,
        rustc: rustc.trim(),
        builder: &arguments.builder,
        source: &source,
        texts: &texts,
    };
    assemble::clear(&arguments.out)?;
    for (name, bytes) in release.write(&arguments.out)? {
        println!("{bytes:>10} {}", arguments.out.join(name).display());
    }
    Ok(())
}

/// Builds the programs for a platform, and their bills of materials into a folder below `inputs`.
fn build(
    root: &Path,
    platform: &'static Platform,
    profile: &str,
    source: &Source,
    inputs: &Path,
) -> anyhow::Result<assemble::Build> {
    let sboms = inputs.join(platform.architecture);
    fs::create_dir(&sboms)?;
    sbom::write(root, platform, source.time, &sboms)?;
    Ok(assemble::Build {
        platform,
        binaries: programs::build(root, platform, profile, &source.commit)?,
        sboms,
    })
}
