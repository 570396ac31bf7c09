//! Renderings: every bundle in every install mode, and upstream's own fixtures.
//!
//! What upstream would have rendered is made from our own answer by taking back our decisions one by
//! one; a decision whose condition the bundle does not meet takes nothing back, and a case counts under it only
//! if the result then equals upstream's.

use std::fmt::Write as _;

use olm_bundle::{Bundle, BundleFiles, usual_memory};
use olm_render::{Options, Reason, RenderError, Rendered, render, render_for};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::data::{self, Counts};

#[path = "rendered/configured.rs"]
mod configured;
#[path = "rendered/decisions.rs"]
mod decisions;
#[path = "rendered/fixtures.rs"]
mod fixtures;
#[path = "rendered/go_yaml.rs"]
mod go_yaml;
#[path = "rendered/mutations.rs"]
mod mutations;
#[path = "rendered/words.rs"]
mod words;

pub(crate) use configured::check as check_configured;
use olm_test::prelude::*;
use words::Words;

/// A line of the data: a bundle in an install mode.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    bundle: String,
    mode: String,
    install_namespace: String,
    #[serde(default)]
    watch_namespace: String,
    #[serde(flatten)]
    answer: Answer,
}

/// Upstream's answer: objects, or their digest and number; or an error.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    objects: Option<Vec<Value>>,
    #[serde(rename = "sha256")]
    digest: Option<String>,
    #[serde(rename = "n")]
    count: Option<usize>,
    error: Option<String>,
    terminal: Option<bool>,
}

/// A rendering, and upstream's answer.
struct Case {
    /// The bundle, and how it is rendered.
    name: String,
    options: Options,
    /// The namespaces to watch; the configuration chooses them if there are none.
    targets: Option<[String; 1]>,
    answer: Answer,
}

impl From<Line> for Case {
    fn from(line: Line) -> Self {
        let Line { bundle, mode, install_namespace, watch_namespace, answer } = line;
        let target = match mode.as_str() {
            "AllNamespaces" => String::new(),
            "OwnNamespace" => install_namespace.clone(),
            "SingleNamespace" => watch_namespace,
            other => panic!("unknown mode {other:?}"),
        };
        let options = Options::new(install_namespace);
        Self { name: format!("{bundle} {mode}"), options, targets: Some([target]), answer }
    }
}

impl Case {
    /// Renders within this memory.
    fn render(&self, files: &BundleFiles, memory: usize) -> Result<Rendered, RenderError> {
        let bundle = Bundle::read(files, memory)?;
        match &self.targets {
            Some(targets) => render_for(bundle, &self.options, targets),
            None => render(bundle, &self.options),
        }
    }

    /// Whether these are upstream's objects.
    fn accepts(&self, objects: &[Value]) -> bool {
        let Answer { objects: wanted, digest: wanted_digest, count, .. } = &self.answer;
        if count.is_some_and(|count| count != objects.len()) {
            return false;
        }
        let digest = digest(objects);
        match (wanted_digest, wanted) {
            (Some(wanted), _) => *wanted == digest,
            (None, Some(wanted)) => self::digest(wanted) == digest,
            (None, None) => false,
        }
    }
}

pub(crate) fn check() {
    data::each("rendered", "rendered.jsonl.zst", |folder, counts| {
        let mut recent = Recent::default();
        data::cases(&folder.join("rendered.jsonl.zst"), |line: Line| {
            let files = recent.files(folder, &line.bundle);
            compare(&line.into(), files, counts);
        });
    });
    data::each("rendered, upstream's fixtures", "regression", |folder, counts| {
        fixtures::check(&folder.join("regression"), counts);
    });
    data::each("rendered, upstream's fixtures with each provider", "regression", |folder, counts| {
        fixtures::check_providers(&folder.join("regression"), counts);
    });
}

pub(crate) fn check_changed() {
    data::each("rendered after changes", "bundles", |folder, counts| {
        mutations::check(&folder.join("bundles"), counts);
    });
}

/// The files of the bundle that was asked for last: its cases follow each other.
#[derive(Default)]
struct Recent(Option<(String, BundleFiles)>);

impl Recent {
    fn files(&mut self, folder: &Path, bundle: &str) -> &BundleFiles {
        let known = self.0.take().filter(|(name, _)| name == bundle);
        let read = || (bundle.to_owned(), bundle_files(&folder.join("bundles").join(bundle)));
        &self.0.insert(known.unwrap_or_else(read)).1
    }
}

fn compare(case: &Case, files: &BundleFiles, counts: &mut Counts) {
    // No real bundle takes more memory than bundles of its size usually do.
    let memory = usual_memory(files.bytes());
    let ours = case.render(files, memory);
    // The same answer again, whatever the order in which the files come.
    assert_eq!(case.render(&reversed(files), memory), ours, "{}", case.name);
    let name = &case.name;
    match (&case.answer.error, ours) {
        (Some(theirs), Err(ours)) => compare_errors(case, files, theirs, &ours, counts),
        (None, Ok(rendered)) if case.accepts(&rendered.objects) => counts.equal(),
        (Some(error), Ok(rendered)) => match decisions::accepted_here(files, case, &rendered.objects) {
            Some(decision) => counts.named(decision, name),
            None => counts.different(format_args!("{name}: rendered, but upstream says: {error}")),
        },
        (None, Err(error)) => match decisions::refused_here(files, case, &error) {
            Some(decision) => counts.named(decision, name),
            None => counts.different(format_args!("{name}: refused: {error}")),
        },
        (None, Ok(rendered)) => {
            let back = decisions::taken_back(files, case, &rendered.objects);
            let (objects, decision) = back.unwrap_or((rendered.objects, String::new()));
            if case.accepts(&objects) {
                counts.named(&decision, name);
            } else {
                counts.different(format_args!("{name}: {decision} {}", first_difference(case, &objects)));
            }
        }
    }
}

fn compare_errors(case: &Case, files: &BundleFiles, theirs: &str, ours: &RenderError, counts: &mut Counts) {
    let name = &case.name;
    let is_terminal = ours.reason() == Reason::InvalidConfiguration;
    if case.targets.is_none() && case.answer.terminal.unwrap_or_default() != is_terminal {
        counts.different(format_args!("{name}: other reason: {ours}, upstream {theirs}"));
        return;
    }
    match words::compare(ours, theirs) {
        Words::Same => counts.equal(),
        Words::Named(decision) => counts.named(decision, name),
        // Each for another reason.
        Words::Different if let Some(decision) = decisions::other_refusal(files, case, theirs, ours) => {
            counts.named(decision, name);
        }
        Words::Different => counts.different(format_args!("{name}: {ours}\n  upstream: {theirs}")),
    }
}

fn reversed(files: &BundleFiles) -> BundleFiles {
    let mut listed: Vec<_> = files.iter().collect();
    listed.reverse();
    listed.into_iter().collect()
}

/// A bundle as it lies in a folder.
pub(crate) fn bundle_files(folder: &Path) -> BundleFiles {
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

/// An object as compact JSON with sorted keys, as the data's description defines it.
pub(crate) fn canonical(object: &Value) -> String {
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

/// Where ours and upstream's objects part.
fn first_difference(case: &Case, ours: &[Value]) -> String {
    let Some(theirs) = &case.answer.objects else { return "another digest".to_owned() };
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

/// The documents of `manifests/` that can be read, items of lists in their place.
fn documents(files: &BundleFiles) -> Vec<Value> {
    let mut documents = Vec::new();
    let texts = files.iter().filter(|(path, _)| path.starts_with("manifests/"));
    for text in texts.filter_map(|(_, content)| olm_yaml::text(content).ok()) {
        for mut document in olm_yaml::mixed(text).filter_map(Result::ok) {
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
