//! Renderings: every bundle in every install mode, and upstream's own fixtures.
//!
//! What the reference would have rendered is made from our own answer by taking back our decisions one by
//! one; a decision whose condition the bundle does not meet takes nothing back, and a case counts under it only
//! if the result then equals the reference's.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use olm_bundle::{Bundle, BundleFiles, usual_memory};
use olm_render::{Options, RenderError, Rendered, render_for};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::data::{self, Counts};

#[path = "rendered/decisions.rs"]
mod decisions;
#[path = "rendered/fixtures.rs"]
mod fixtures;
#[path = "rendered/go_yaml.rs"]
mod go_yaml;
#[path = "rendered/mutations.rs"]
mod mutations;

/// A line of the data: a bundle in an install mode, and what became of it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Case {
    bundle: String,
    mode: String,
    install_namespace: String,
    #[serde(default)]
    watch_namespace: String,
    objects: Option<Vec<Value>>,
    error: Option<String>,
    #[serde(rename = "sha256")]
    digest: Option<String>,
    n: Option<usize>,
}

impl Case {
    /// Renders within this memory.
    fn render(&self, files: &BundleFiles, memory: usize) -> Result<Rendered, RenderError> {
        let target = match self.mode.as_str() {
            "AllNamespaces" => String::new(),
            "OwnNamespace" => self.install_namespace.clone(),
            "SingleNamespace" => self.watch_namespace.clone(),
            other => panic!("unknown mode {other:?}"),
        };
        let bundle = Bundle::read(files, memory)?;
        render_for(bundle, &Options::new(&self.install_namespace), &[target])
    }

    /// Whether these are the reference's objects.
    fn accepts(&self, objects: &[Value]) -> bool {
        if self.n.is_some_and(|n| n != objects.len()) {
            return false;
        }
        let digest = digest(objects);
        match (&self.digest, &self.objects) {
            (Some(wanted), _) => *wanted == digest,
            (None, Some(wanted)) => self::digest(wanted) == digest,
            (None, None) => false,
        }
    }
}

pub(crate) fn check() {
    let Some(folder) = data::folder() else { return };
    let mut counts = Counts::default();
    let mut recent: Option<(String, BundleFiles)> = None;
    data::cases(&folder.join("rendered.jsonl.zst"), |case: Case| {
        let files = match recent.take() {
            Some((bundle, files)) if bundle == case.bundle => files,
            _ => bundle_files(&folder.join("bundles").join(&case.bundle)),
        };
        judge(&case, &files, &mut counts);
        recent = Some((case.bundle, files));
    });
    counts.finish("rendered");
    let mut counts = Counts::default();
    fixtures::check(&folder.join("regression"), &mut counts);
    counts.finish("rendered, upstream's fixtures");
    let mut counts = Counts::default();
    fixtures::check_providers(&folder.join("regression"), &mut counts);
    counts.finish("rendered, upstream's fixtures with each provider");
}

pub(crate) fn check_changed() {
    let Some(folder) = data::folder() else { return };
    assert!(mutations::check(&folder.join("bundles")) > 0, "no bundle was read");
}

fn judge(case: &Case, files: &BundleFiles, counts: &mut Counts) {
    // No real bundle takes more memory than bundles of its size usually do.
    let memory = usual_memory(files.bytes());
    let ours = case.render(files, memory);
    // The same answer again, whatever the order in which the files come.
    assert_eq!(case.render(&reversed(files), memory), ours, "{} {}", case.bundle, case.mode);
    let what = format!("{} {}", case.bundle, case.mode);
    match (&case.error, ours) {
        (Some(_), Err(_)) => counts.equal(),
        (None, Ok(rendered)) if case.accepts(&rendered.objects) => counts.equal(),
        (Some(error), Ok(rendered)) => match decisions::accepted_here(files, &rendered.objects) {
            Some(name) => counts.decision(name),
            None => counts.different(format_args!("{what}: rendered, but the reference says: {error}")),
        },
        (None, Err(error)) => match decisions::refused_here(files, case, &error) {
            Some(name) => counts.decision(name),
            None => counts.different(format_args!("{what}: refused: {error}")),
        },
        (None, Ok(rendered)) => match decisions::taken_back(files, case, &rendered.objects) {
            Some((reference, name)) if case.accepts(&reference) => counts.decision(name),
            _ => counts.different(format_args!("{what}: {}", first_difference(case, &rendered.objects))),
        },
    }
}

fn reversed(files: &BundleFiles) -> BundleFiles {
    let mut listed: Vec<_> = files.iter().collect();
    listed.reverse();
    listed.into_iter().collect()
}

/// A bundle as it lies in a folder.
fn bundle_files(folder: &Path) -> BundleFiles {
    let mut files = BundleFiles::new();
    add_files(folder, "", &mut files);
    files
}

fn add_files(folder: &Path, prefix: &str, files: &mut BundleFiles) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            add_files(&entry.path(), &format!("{path}/"), files);
        } else {
            files.insert(&path, fs::read(entry.path()).unwrap());
        }
    }
}

/// Kind, namespace and name, the order of the digest.
fn sort_key(object: &Value) -> (String, String, String) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// The digest of objects in any order, as the data's description defines it.
fn digest(objects: &[Value]) -> String {
    let mut lines: Vec<_> = objects.iter().map(|object| (sort_key(object), canonical(object))).collect();
    lines.sort();
    let text = lines.into_iter().map(|line| line.1).collect::<Vec<_>>().join("\n");
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn canonical(object: &Value) -> String {
    let text = serde_json::to_string(&whole_numbers(object.clone())).unwrap();
    if text.is_ascii() {
        return text;
    }
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        }
    }
    out
}

fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let plain = number.as_f64().and_then(olm_yaml::json_number).unwrap();
            Value::Number(plain)
        }
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, whole_numbers(value))).collect(),
        scalar => scalar,
    }
}

/// Where ours and the reference's objects part.
fn first_difference(case: &Case, ours: &[Value]) -> String {
    let Some(theirs) = &case.objects else { return "another digest".to_owned() };
    let by_name = |objects: &[Value]| -> BTreeMap<_, Vec<String>> {
        let mut map: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for object in objects {
            map.entry(sort_key(object)).or_default().push(canonical(object));
        }
        map
    };
    let (ours, theirs) = (by_name(ours), by_name(theirs));
    for (key, wanted) in &theirs {
        match ours.get(key) {
            None => return format!("{key:?} is missing"),
            Some(found) if found.len() != wanted.len() => {
                return format!("{key:?}: {} objects, wanted {}", found.len(), wanted.len());
            }
            Some(found) if found != wanted => {
                let (found, wanted) = (&found[0], &wanted[0]);
                let at = found.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
                let near = |text: &str| text[at.saturating_sub(80)..(at + 80).min(text.len())].to_owned();
                return format!("{key:?}:\n  ours   {}\n  wanted {}", near(found), near(wanted));
            }
            Some(_) => {}
        }
    }
    match ours.keys().find(|key| !theirs.contains_key(*key)) {
        Some(key) => format!("{key:?} is too much"),
        None => "nothing but the digest".to_owned(),
    }
}

/// The documents of `manifests/`, items of lists in their place.
fn documents(files: &BundleFiles) -> Vec<Value> {
    let mut documents = Vec::new();
    for (path, content) in files.iter().filter(|(path, _)| path.starts_with("manifests/")) {
        for document in olm_yaml::mixed(std::str::from_utf8(content).unwrap()) {
            let mut document = document.unwrap_or_else(|error| panic!("{path}: {error}"));
            match document.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => documents.extend(items),
                _ if document.is_null() => {}
                _ => documents.push(document),
            }
        }
    }
    documents
}

fn is_error_about(error: &RenderError, text: &str) -> bool {
    matches!(error, RenderError::Invalid(findings) if findings.iter().all(|finding| finding.contains(text)))
}

/// A document as a bundle's file.
fn as_file(document: &Value) -> String {
    json!(document).to_string()
}
