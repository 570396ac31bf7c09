//! Images of the node's own: the pause program, which holds a pod's namespaces, and the DNS server.

use std::fs::File;
use std::io::BufWriter;

use crate::prelude::*;
use olm_image::{Compression, ImageBuilder, ImageProcess, LayerBuilder, PackedImage, Reference};

use super::namespaces::output;

/// The image of the pause program.
pub(super) const PAUSE: &str = "node.local/pause:1";
/// The image of the DNS server.
pub(super) const DNS: &str = "node.local/coredns:1";
/// The pause program's source.
const PAUSE_SOURCE: &str = include_str!("pause.rs");

/// An image of one static program, which runs as nobody.
pub fn of_program(name: &str, program: &Path) -> Result<PackedImage> {
    let binary = std::fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    let layer = LayerBuilder::new(Compression::Gzip)
        .directory("etc")?
        .file("etc/nsswitch.conf", "hosts: files dns\n")?
        .program(name, &binary)?
        .directory_with_mode("tmp", 0o1777)?
        .build()?;
    let process = ImageProcess {
        entrypoint: vec![format!("/{name}")],
        user: "65532:65532".to_owned(),
        environment: vec!["PATH=/".to_owned()],
    };
    Ok(ImageBuilder::new().platform("linux", architecture()).process(process).layer(layer).build())
}

/// The image of the pause program, which is compiled in `directory`.
pub fn pause(directory: &Path) -> Result<PackedImage> {
    let (source, program) = (directory.join("pause.rs"), directory.join("pause"));
    std::fs::write(&source, PAUSE_SOURCE)?;
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "-Ctarget-feature=+crt-static", "-Cpanic=abort", "-Copt-level=s", "-o"]);
    output(rustc.arg(&program).arg(&source))?;
    of_program("pause", &program)
}

/// Packs both images into archives.
pub(super) fn archives(directory: &Path, coredns: &Path) -> Result<[PathBuf; 2]> {
    let archive = |reference: &str, name: &str, image: &PackedImage| -> Result<PathBuf> {
        let path = directory.join(format!("{name}.tar"));
        let file = BufWriter::new(File::create(&path)?);
        image.write_archive(&Reference::parse(reference)?, file)?;
        Ok(path)
    };
    Ok([
        archive(PAUSE, "pause", &pause(directory)?)?,
        archive(DNS, "coredns", &of_program("coredns", coredns)?)?,
    ])
}

/// This machine's architecture, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
