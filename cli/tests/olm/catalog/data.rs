//! Published catalogs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::Path,
    process::Command,
};

use olm_test_programs::data::find;
use serde_json::Value;

use super::sample::{fails, prints};

use crate::program::path;

/// Address space that validation gets for a catalog of 132 MB: less than the catalog. Most of what it uses is the
/// program itself and the stacks of its threads.
const ADDRESS_SPACE_KIB_MAX: usize = 100 << 10;

#[test]
fn a_published_catalog_is_valid_as_a_whole_and_in_each_of_its_folders() {
    let Some(catalog) = find("fbc/v4.18") else { return };
    let here = Path::new(".");
    let out = prints(here, &["catalog", "validate", path(&catalog)]);
    assert!(out.ends_with("valid: 35 packages, 78 channels, 727 bundles\n"), "{out}");
    let mut packages = 0;
    for entry in fs::read_dir(&catalog).expect("a folder") {
        let folder = entry.expect("an entry").path();
        if fs::read_dir(&folder).expect("a folder").next().is_some() {
            let out = prints(here, &["catalog", "validate", path(&folder)]);
            assert!(out.lines().last().expect("a line").starts_with("valid: 1 package, "), "{out}");
            packages += 1;
        }
    }
    assert_eq!(packages, 35);
    let mermaid = prints(here, &["catalog", "graph", path(&catalog)]);
    assert_eq!(mermaid.matches("    %% channel ").count(), 78);
}

/// The numbers of an attribute in an element's text.
fn number(element: &str, attribute: &str) -> usize {
    let start = element.find(&format!(" {attribute}=\"")).expect("the attribute") + attribute.len() + 3;
    element[start..].split('"').next().and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn pictures_of_published_channels_have_every_bundle_in_a_place_of_its_own() {
    let Some(catalog) = find("fbc/v4.18") else { return };
    let svg = prints(Path::new("."), &["catalog", "graph", path(&catalog), "-o", "svg"]);
    let (width, height) = (number(&svg, "width"), number(&svg, "height"));
    let mut boxes: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    let mut bundles = 0;
    for rect in svg.split("<rect class=\"").skip(1) {
        let (x, y) = (number(rect, "x"), number(rect, "y"));
        let (right, bottom) = (x + number(rect, "width"), y + number(rect, "height"));
        assert!(right <= width && bottom <= height, "{rect}");
        if rect.starts_with(['n', 'a']) {
            boxes.entry(y).or_default().push((x, right));
            bundles += 1;
        }
    }
    for (row, mut row_boxes) in boxes {
        row_boxes.sort_unstable();
        assert!(row_boxes.windows(2).all(|pair| pair[0].1 < pair[1].0), "boxes overlap in the row at {row}");
    }
    assert!(bundles >= 727, "{bundles}");
}

#[test]
fn validation_holds_a_fraction_of_the_catalog() {
    let Some(catalog) = find("community.jsonl.zst") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("community.jsonl");
    unpack(&catalog, &plain);
    let program = env!("CARGO_BIN_EXE_olm");
    let script = format!("ulimit -v {ADDRESS_SPACE_KIB_MAX} && exec \"$0\" catalog validate \"$1\" -o json");
    let output = Command::new("sh").args(["-c", &script, program, path(&plain)]).output().expect("runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.ends_with("the catalog is not valid\n"), "{error}");
}

fn unpack(packed: &Path, plain: &Path) {
    let mut target = File::create(plain).expect("a file");
    zstd::stream::copy_decode(File::open(packed).expect("a file"), &mut target).expect("unpacked");
}

/// Channels of a catalog in JSON lines that have not exactly one entry which none replaces or skips.
fn channels_without_one_head(lines: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for line in lines.lines() {
        let document: Value = serde_json::from_str(line).expect("JSON");
        if document["schema"] != "olm.channel" {
            continue;
        }
        let entries = document["entries"].as_array().expect("entries");
        let mentions = |name: &Value| {
            entries.iter().any(|entry| {
                entry["replaces"] == *name
                    || entry["skips"].as_array().is_some_and(|skips| skips.contains(name))
            })
        };
        if entries.iter().filter(|entry| !mentions(&entry["name"])).count() != 1 {
            let text = |name: &str| document[name].as_str().expect("a text").to_owned();
            found.insert((text("package"), text("name")));
        }
    }
    found
}

/// The catalog was put together from bundles alone, with the edges that their manifests name: whoever left out
/// an edge left a second head. So it is invalid, in those channels and for what single bundles say.
#[test]
fn a_catalog_made_of_bundles_alone_is_invalid_where_edges_are_missing() {
    let Some(packed) = find("community.jsonl.zst") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("community.jsonl");
    unpack(&packed, &plain);
    let (out, _) = fails(folder.path(), 1, &["catalog", "validate", "community.jsonl", "-o", "json"]);
    let verdict: Value = serde_json::from_str(&out).expect("JSON");
    let mut heads = BTreeSet::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unchecked = BTreeSet::new();
    for finding in verdict["findings"].as_array().expect("findings") {
        let message = finding["message"].as_str().expect("a text");
        let parts: Vec<&str> = message.split('"').collect();
        if message.contains(" channel head") {
            heads.insert((parts[1].to_owned(), parts[3].to_owned()));
        }
        let kind = [
            "invalid image pull spec",
            "multiple channel heads",
            "no channel head",
            "stranded",
            "invalid skipRange",
            "duplicate versions",
            "cycle",
        ];
        let kind = kind.into_iter().find(|kind| message.contains(kind)).unwrap_or(message);
        *kinds.entry(kind).or_default() += 1;
        unchecked.extend(finding["package"].as_str().map(str::to_owned));
    }
    let mut expected = channels_without_one_head(&fs::read_to_string(&plain).expect("text"));
    // What is wrong with single documents hides what is wrong with the package.
    expected.retain(|(package, _)| !unchecked.contains(package));
    assert_eq!(heads, expected);
    let expected = [
        ("invalid image pull spec", 15),
        ("invalid skipRange", 31),
        ("multiple channel heads", heads.len()),
        ("stranded", 17),
    ];
    assert_eq!(kinds, expected.into());
    assert_eq!(heads.len(), 258);
}
