//! The packages of real operators, compared with those that upstream's code makes of the same catalog.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use catalogd::CatalogFiles;
use olm_test_programs::data::find;
use sha2::{Digest, Sha256};

use super::*;

/// A folder with a folder for each package.
struct Tree(PathBuf);

impl CatalogFiles for Tree {
    fn paths(&self) -> Vec<String> {
        let files = |folder: fs::DirEntry| {
            let files = fs::read_dir(folder.path()).into_iter().flatten().flatten();
            let folder = folder.file_name();
            files.map(move |file| Path::new(&folder).join(file.file_name()).to_string_lossy().into_owned())
        };
        fs::read_dir(&self.0).unwrap().flatten().flat_map(files).collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(fs::File::open(self.0.join(path))?))
    }
}

/// JSON with sorted keys and without blanks.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().collect();
            let members: Vec<_> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", json!(key), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// Labels and status without the CatalogSource's part.
fn digest(manifest: PackageManifest) -> String {
    let mut labels = manifest.metadata.labels.unwrap_or_default();
    labels.retain(|key, _| !["catalog", "catalog-namespace"].contains(&key.as_str()));
    let mut status = serde_json::to_value(manifest.status).unwrap();
    status.as_object_mut().unwrap().retain(|key, _| !key.starts_with("catalogSource"));
    let text = canonical(&json!({ "labels": labels, "status": status }));
    hex(text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The digests of a package's file and of what upstream shows of it.
#[derive(serde::Deserialize)]
struct Recorded {
    catalog: String,
    shown: String,
}

#[tokio::test]
async fn real_packages_are_shown_as_upstream_shows_them() {
    let Some(files) = find("fbc/v4.18").map(Tree) else { return };
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/data/package-manifests.json");
    let recorded: BTreeMap<String, Recorded> = serde_json::from_slice(&fs::read(recorded).unwrap()).unwrap();
    // Other data than those that were recorded may have other content.
    let is_recorded = |name: &str, recorded: &Recorded| {
        let catalog = fs::read(files.0.join(name).join("catalog.yaml"));
        catalog.is_ok_and(|bytes| hex(&bytes) == recorded.catalog)
    };
    let world = World::new();
    let reference = format!("example.com/c@sha256:{}", "3".repeat(64));
    let one = world.store.install("3", &reference, Timestamp::UNIX_EPOCH, &files).unwrap();
    world.offer("olm", "one", "1", &one);
    world.packages.refresh(&world.contents).await;
    let shown = world.packages.list(None).objects.into_iter().map(|object| {
        let manifest = read(&object);
        (manifest.status.package_name.clone(), digest(manifest))
    });
    let shown: BTreeMap<_, _> = shown.collect();
    let compared: Vec<_> = recorded.iter().filter(|(name, one)| is_recorded(name, one)).collect();
    for (name, one) in &compared {
        assert_eq!(shown.get(*name), Some(&one.shown), "{name}");
    }
    println!("{} packages are as upstream shows them", compared.len());
}
