//! Verdicts and words of `opm validate` on catalogs.

use std::{
    fs::File,
    io::{self, Read},
};

use olm_fbc::CatalogFiles;
use olm_image::{Reference, ReferenceCause};
use olm_opm::{ErrorTree, LoadError, outline, validate};
use olm_test::prelude::*;
use serde::Deserialize;

use crate::data::{self, Counts};

/// A line of the data. Findings are the leaves of opm's tree, each with what is above it.
#[derive(Deserialize)]
struct Case {
    catalog: String,
    passed: bool,
    #[serde(default)]
    findings: BTreeSet<String>,
    message: Option<String>,
}

/// Our verdict.
enum Verdict {
    /// The findings with those above each, and opm's message.
    Read { findings: BTreeSet<String>, message: Option<String> },
    /// The file that is no content, and why.
    Unreadable { path: String, message: String },
}

pub(crate) fn check() {
    data::each("validated", "validated.jsonl.zst", |folder, counts| {
        data::cases(&folder.join("validated.jsonl.zst"), |case: Case| {
            compare(&case, verdict(&folder.join(&case.catalog)), counts);
        });
    });
}

fn compare(case: &Case, ours: Verdict, counts: &mut Counts) {
    let Case { catalog, passed, findings: theirs, message: their_message } = case;
    match ours {
        // It names the file, and where that is no YAML or JSON, its words are ours.
        Verdict::Unreadable { .. } if !passed && theirs.len() == 1 => counts.named("load errors", catalog),
        Verdict::Unreadable { path, message } => {
            counts.different(format_args!("{catalog}: {path}: {message}; opm {theirs:?}"));
        }
        Verdict::Read { findings, message } => {
            let same_message = their_message.as_ref().is_none_or(|theirs| message.as_ref() == Some(theirs));
            if *passed != findings.is_empty() || !same_message || !theirs.is_subset(&findings) {
                counts.different(format_args!(
                    "{catalog}: {message:?} {findings:?}; opm {their_message:?} {theirs:?}"
                ));
            } else if findings == *theirs {
                counts.equal();
            } else {
                counts.named("all findings", catalog);
            }
        }
    }
}

fn verdict(folder: &Path) -> Verdict {
    let outline = match outline(&Folder(folder.to_owned()), image_syntax) {
        Ok(outline) => outline,
        Err(LoadError::File(error)) => {
            return Verdict::Unreadable { path: error.path, message: error.source.to_string() };
        }
        Err(LoadError::Document { path, source }) => {
            return Verdict::Unreadable { path, message: source.to_string() };
        }
    };
    let report = validate(&outline);
    let below = report.tree.iter().flat_map(ErrorTree::leaves).map(|leaf| leaf.join(": "));
    let findings = report.findings.iter().map(|finding| finding.message.clone()).chain(below).collect();
    Verdict::Read { findings, message: report.message() }
}

/// Image references as container tools read them: short names are.
fn image_syntax(text: &str) -> Result<(), String> {
    match Reference::parse(text) {
        Ok(_) => Ok(()),
        Err(error) if error.cause == ReferenceCause::NotCanonical => Ok(()),
        Err(error) => Err(error.cause.to_string()),
    }
}

struct Folder(PathBuf);

impl CatalogFiles for Folder {
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        add_paths(&self.0, "", &mut paths);
        paths
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(File::open(self.0.join(path))?))
    }
}

fn add_paths(folder: &Path, prefix: &str, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            add_paths(&entry.path(), &format!("{path}/"), paths);
        } else {
            paths.push(path);
        }
    }
}
