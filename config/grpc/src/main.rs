//! Writes the messages of the gRPC APIs of `lib/infra/registry` from its protocol files, and their descriptors for
//! reflection. Services are written by hand there: they are a table.

use std::{fs, path::Path};

use anyhow::Context as _;
use prost::Message as _;

const HEAD: &str = "// Written by `make grpc` from the files in ../../proto.\n\n";

fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib/infra/registry");
    let (protocols, target) = (folder.join("proto"), folder.join("src/generated"));
    let files = protox::compile(["registry.proto", "health.proto"], [&protocols])?;
    let descriptors = target.join("descriptors.bin");
    fs::write(&descriptors, files.encode_to_vec()).with_context(|| descriptors.display().to_string())?;
    prost_build::Config::new().out_dir(&target).compile_fds(files)?;
    for name in ["api.rs", "grpc.health.v1.rs"] {
        let path = target.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        fs::write(&path, format!("{HEAD}{text}"))?;
    }
    Ok(())
}
