//! Real bundles, compared with the blobs that opm made of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use olm_test_programs::data::{find, report};
use serde_json::Value;

use super::{documents, path, printed};

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .map(|entries| {
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
        })
        .unwrap_or_default();
    found.sort();
    found
}

/// The `olm.bundle` blobs of the catalogs, by name.
fn published(data: &Path) -> BTreeMap<String, Value> {
    let mut blobs = BTreeMap::new();
    for release in subfolders(&data.join("fbc")) {
        for blob in documents(&printed(&["catalog", "render", path(&release)])) {
            if blob["schema"] == "olm.bundle" {
                blobs.insert(blob["name"].as_str().expect("text").to_owned(), blob);
            }
        }
    }
    blobs
}

#[test]
fn real_bundles_render_as_the_catalogs_have_them() {
    let Some(data) = find("") else { return };
    let published = published(&data);
    let (mut rendered, mut equal, mut different) = (0, 0, Vec::new());
    for folder in subfolders(&data.join("bundles")).iter().flat_map(|operator| subfolders(operator)) {
        let ours = printed_blob(&folder, "r.io/x:1");
        rendered += 1;
        let Some(theirs) = published.get(ours["name"].as_str().expect("text")) else { continue };
        let image = theirs["image"].as_str().expect("text");
        let ours = printed_blob(&folder, image);
        if ours == *theirs {
            equal += 1;
        } else {
            different.push((ours["name"].clone(), difference(&ours, theirs)));
        }
    }
    report(&format!(
        "{rendered} bundles rendered, {equal} equal to published blobs, {} different: {different:#?}",
        different.len()
    ));
    assert!(different.is_empty(), "{different:#?}");
}

/// The blob of a bundle's folder whose image has this reference, in the form of the newer catalogs.
fn printed_blob(folder: &Path, image: &str) -> Value {
    let template = format!("--image-ref-template={image}");
    let output = super::olm(&["catalog", "render", path(folder), "--migrate", &template]);
    assert!(output.status.success(), "{}: {output:?}", folder.display());
    documents(&String::from_utf8(output.stdout).expect("text")).remove(0)
}

/// Which fields differ, and how.
fn difference(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["name", "package", "image", "properties", "relatedImages"] {
        if ours[field] == theirs[field] {
            continue;
        }
        let (empty, none) = (Vec::new(), Vec::new());
        let (a, b) = (ours[field].as_array().unwrap_or(&empty), theirs[field].as_array().unwrap_or(&none));
        let only = |a: &[Value], b: &[Value]| -> Vec<String> {
            a.iter()
                .filter(|item| !b.contains(item))
                .map(|item| item.to_string().chars().take(300).collect())
                .collect()
        };
        found.push(format!("{field}: only ours {:?}, only theirs {:?}", only(a, b), only(b, a)));
    }
    found
}

#[test]
fn real_catalogs_rendered_again_are_the_same() {
    let Some(data) = find("") else { return };
    for release in subfolders(&data.join("fbc")) {
        let rendered = printed(&["catalog", "render", path(&release)]);
        let again = super::folder(&[("all.json", &rendered)]);
        assert!(printed(&["catalog", "render", path(again.path())]) == rendered, "{}", release.display());
    }
}
