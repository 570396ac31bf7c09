//! Packs the programs into container images, one archive each.
//!
//! `olm-image-build --binaries <folder> --out <folder>`. `--authorities <file>` writes the certificates of public
//! authorities alone, for the Dockerfile.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Parser;
use olm_image::Reference;
use olm_image_build::{PROGRAMS, Program, certificates, image};

/// An image that grows beyond this has got something in it that does not belong there.
const ARCHIVE_BYTES_MAX: u64 = 20_000_000;

/// Packs the programs into container images.
#[derive(Parser)]
struct Arguments {
    /// Folder with the static programs.
    #[arg(long, required_unless_present = "authorities")]
    binaries: Option<PathBuf>,
    /// Folder for the archives.
    #[arg(long, required_unless_present = "authorities")]
    out: Option<PathBuf>,
    /// Write the certificates of public authorities to this file instead, for images that are made in another way.
    #[arg(long, conflicts_with_all = ["binaries", "out"])]
    authorities: Option<PathBuf>,
    /// Registry and path that the images' names begin with.
    #[arg(long, default_value = "localhost/olmv1")]
    prefix: String,
    /// Programs to pack; all of them without any.
    #[arg(value_parser = program)]
    programs: Vec<&'static Program>,
}

fn program(name: &str) -> Result<&'static Program, String> {
    let names = || PROGRAMS.each_ref().map(|program| program.name).join(", ");
    let found = PROGRAMS.iter().find(|program| program.name == name);
    found.ok_or_else(|| format!("there is no such program, only {}", names()))
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(path) = &arguments.authorities {
        return fs::write(path, certificates()).with_context(|| format!("writing {}", path.display()));
    }
    let (binaries, out) = (arguments.binaries.unwrap_or_default(), arguments.out.unwrap_or_default());
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let programs = match arguments.programs {
        none if none.is_empty() => PROGRAMS.iter().collect(),
        some => some,
    };
    for program in programs {
        let path = binaries.join(program.name);
        let binary = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let image = image(program, &binary).with_context(|| path.display().to_string())?;
        let name = format!("{}/{}:{}", arguments.prefix, program.name, env!("CARGO_PKG_VERSION"));
        let name = Reference::parse(&name).context("the image's name")?;
        let archive = out.join(format!("{}.tar", program.name));
        let bytes = write(&archive, &image, &name)?;
        ensure!(
            bytes <= ARCHIVE_BYTES_MAX,
            "{}: {bytes} bytes, more than {ARCHIVE_BYTES_MAX}: look what came into the program",
            archive.display()
        );
        println!("{} {name}@{} {:.1} MB", archive.display(), image.digest(), megabytes(bytes));
    }
    Ok(())
}

/// Writes the archive and says how long it is.
fn write(path: &Path, image: &olm_image::PackedImage, name: &Reference) -> anyhow::Result<u64> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    image.write_archive(name, BufWriter::new(file)).with_context(|| format!("writing {}", path.display()))?;
    Ok(fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?.len())
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
