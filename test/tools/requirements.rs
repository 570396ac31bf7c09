//! Which stated requirements are shown by a test, settled by a decision, or still open.
//!
//! A requirement is a line `- S002-33 [v1] does: statement` of the list. A test shows it with a comment that
//! begins with `Shows` and names IDs, also as ranges (`// Shows S002-33, S002-38 to S002-42.`); in feature files
//! a tag does (`@S002-33`). A page of `docs/decisions` settles every ID it names. IDs are compared by number:
//! `S004-1` and `S004-001` are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Tags of statements that this project answers for.
const TAGS: [&str; 3] = ["v1", "fbc", "shared"];
/// Status of statements that no program can show.
const NOT_APPLICABLE: &str = "n/a";
/// Most IDs a range may span; a longer one is a slip of the pen.
const RANGE_IDS_MAX: u32 = 200;

/// `S002-33`: a document and the statement's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    document: u32,
    number: u32,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The list's own padding: documents of more than 160 statements have three digits, others two.
        let width = if self.document == 1 { 3 } else { 2 };
        write!(f, "S{:03}-{:0width$}", self.document, self.number)
    }
}

/// A statement of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its name.
    pub id: Id,
    /// The tags that make it ours, in the list's order.
    pub tags: Vec<String>,
    /// What upstream makes of it: `does`, `differs`, `lacks`, `n/a`.
    pub status: String,
    /// What it says.
    pub text: String,
}

/// The statements of `list` that bear one of our tags, alone or with others (`[v1, fbc]`, `[v1/fbc]`).
pub fn requirements(list: &str) -> BTreeMap<Id, Requirement> {
    list.lines().filter_map(requirement).map(|one| (one.id, one)).collect()
}

fn requirement(line: &str) -> Option<Requirement> {
    let line = line.trim_start().trim_start_matches(['-', '*']).trim_start();
    let (id, rest) = leading_id(line.trim_start_matches(['`', '*']))?;
    let rest = rest.trim_start_matches(['`', '*']).trim_start();
    let (mut tags, mut rest) = (Vec::new(), rest);
    while let Some((inside, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
        tags.extend(inside.split([',', '/', '+', ' ']).filter(|t| !t.is_empty()).map(str::to_owned));
        rest = after.trim_start();
    }
    if !tags.iter().any(|tag| TAGS.contains(&tag.as_str())) {
        return None;
    }
    let (status, text) = rest.split_once(':')?;
    Some(Requirement { id, tags, status: status.trim().to_owned(), text: text.trim().to_owned() })
}

/// The ID that `text` begins with, and what follows it.
fn leading_id(text: &str) -> Option<(Id, &str)> {
    let (document, rest) = text.strip_prefix('S')?.split_at_checked(3)?;
    let document = document.bytes().all(|b| b.is_ascii_digit()).then(|| document.parse().ok())??;
    let (number, rest) = leading_number(rest.strip_prefix('-')?)?;
    Some((Id { document, number }, rest))
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// IDs in `text`: single ones, and each with a range's end (`to`, `..`, `–`), each end included.
///
/// The flag says whether the ID was named itself rather than lies within a range.
fn ids(text: &str) -> BTreeMap<Id, bool> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some(start) = rest.find('S') {
        let inside_word = rest[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
        let Some((id, after)) = leading_id(&rest[start..]).filter(|_| !inside_word) else {
            rest = &rest[start + 1..];
            continue;
        };
        found.insert(id, true);
        rest = after;
        if let Some((last, after)) = range_end(id, after) {
            for number in id.number + 1..last {
                found.entry(Id { number, ..id }).or_insert(false);
            }
            found.insert(Id { number: last, ..id }, true);
            rest = after;
        }
    }
    found
}

fn range_end(first: Id, text: &str) -> Option<(u32, &str)> {
    let text = text.trim_start();
    let end = ["to ", "through ", "..=", "...", "..", "…", "–", "—"]
        .iter()
        .find_map(|sign| text.strip_prefix(sign))?
        .trim_start();
    let (last, rest) = match leading_id(end) {
        Some((id, rest)) => ((id.document == first.document).then_some(id.number)?, rest),
        None => leading_number(end)?,
    };
    (last > first.number && last - first.number <= RANGE_IDS_MAX).then_some((last, rest))
}

/// IDs that the comments of a source file say are shown; `sign` begins a comment (`//`, `#`).
fn shown(source: &str, sign: &str) -> BTreeMap<Id, bool> {
    let mut found = BTreeMap::new();
    let mut claim = String::new();
    for line in source.lines().map(str::trim_start).chain([""]) {
        if let Some(comment) = line.strip_prefix(sign) {
            let comment = comment.trim_start_matches(['/', '!']).trim();
            if comment.starts_with("Shows ") || !claim.is_empty() {
                claim.push_str(comment);
                claim.push('\n');
            }
        } else {
            if !claim.is_empty() {
                found.extend(ids(&std::mem::take(&mut claim)));
            }
            if line.starts_with('@') && sign == "#" {
                found.extend(ids(line));
            }
        }
    }
    found
}

/// What the project says about requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Shown by tests.
    pub shown: BTreeSet<Id>,
    /// Settled by decisions.
    pub settled: BTreeSet<Id>,
    /// Named outright by tests or decisions, with the file: what the list must know.
    pub named: BTreeMap<Id, PathBuf>,
}

impl Claims {
    /// Reads the sources, feature files and decisions of the project at `root`.
    pub fn of_project(root: &Path) -> Result<Self> {
        let mut claims = Self::default();
        for file in files(root)? {
            let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
            let decision = extension == "md" && file.parent().is_some_and(|p| p.ends_with("docs/decisions"));
            if !decision && !matches!(extension, "rs" | "feature") {
                continue;
            }
            let text =
                std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let (into, found) = match extension {
                "md" => (&mut claims.settled, ids(&text)),
                "feature" => (&mut claims.shown, shown(&text, "#")),
                _ => (&mut claims.shown, shown(&text, "//")),
            };
            into.extend(found.keys());
            let named = found.iter().filter(|&(_, named)| *named);
            claims.named.extend(named.map(|(id, _)| (*id, file.clone())));
        }
        Ok(claims)
    }
}

/// Every file below `root` but those of `target`, version control and other hidden folders.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name();
            if name == "target" || name.to_string_lossy().starts_with('.') {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The list and the project side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// How many requirements are ours.
    pub total: usize,
    /// Of these, shown by a test.
    pub shown: usize,
    /// Of the rest, settled by a decision.
    pub settled: usize,
    /// Of the rest, those that no program can show.
    pub not_applicable: usize,
    /// The rest.
    pub open: Vec<&'a Requirement>,
}

impl<'a> Report<'a> {
    /// Counts.
    pub fn new(requirements: &'a BTreeMap<Id, Requirement>, claims: &Claims) -> Self {
        let mut report =
            Self { total: requirements.len(), shown: 0, settled: 0, not_applicable: 0, open: Vec::new() };
        for (id, requirement) in requirements {
            if claims.shown.contains(id) {
                report.shown += 1;
            } else if claims.settled.contains(id) {
                report.settled += 1;
            } else if requirement.status == NOT_APPLICABLE {
                report.not_applicable += 1;
            } else {
                report.open.push(requirement);
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &BTreeMap<Id, bool>) -> Vec<String> {
        found.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn statements_are_told_by_tag_and_form() {
        let list = "# Head S001-1 [v1] does: no item\n\
            - `S…` text\n\
            - S000-01 [classic] lacks: not ours\n\
            - S001-074 [shared] differs: a thing: with a colon — *note*\n\
            - S002-3 [v1, fbc] n/a: two tags\n\
            - S002-4 [classic][fbc] does: two brackets\n\
            - S002-5 does: no tag\n";
        let found = requirements(list);
        let ids: Vec<_> = found.keys().map(ToString::to_string).collect();
        assert_eq!(ids, ["S001-074", "S002-03", "S002-04"]);
        let first = found.values().next().unwrap();
        assert_eq!((first.status.as_str(), first.tags.as_slice()), ("differs", &["shared".to_owned()][..]));
        assert_eq!(first.text, "a thing: with a colon — *note*");
    }

    #[test]
    fn ids_are_found_alone_in_ranges_and_in_any_padding() {
        for (text, expected) in [
            ("S002-33.", vec!["S002-33"]),
            ("S002-3, S002-003 and S001-7", vec!["S001-007", "S002-03"]),
            ("S002-33 to S002-35: ranges", vec!["S002-33", "S002-34", "S002-35"]),
            ("S002-33 to 35, S003-1..S003-2", vec!["S002-33", "S002-34", "S002-35", "S003-01", "S003-02"]),
            ("S002-33–35", vec!["S002-33", "S002-34", "S002-35"]),
            ("S002-35 to S002-33", vec!["S002-33", "S002-35"]),
            ("S002-35 to S003-36", vec!["S002-35", "S003-36"]),
            ("XS002-35 S02-1 S0021-1 S002- S", vec![]),
        ] {
            assert_eq!(names(&ids(text)), expected, "{text}");
        }
    }

    #[test]
    fn only_comments_that_say_so_show_a_requirement() {
        let source = "fn f() {}\n  // Shows S002-18, S002-19,\n  // S002-21 to S002-23.\n#[test]\n\
            // Reads S002-40.\nlet x = \"Shows S002-41\";\n/// Shows S002-42.\nfn g() {}\n// Shows S002-50";
        assert_eq!(
            names(&shown(source, "//")),
            ["S002-18", "S002-19", "S002-21", "S002-22", "S002-23", "S002-42", "S002-50"]
        );
        let feature = "# Shows S002-1.\n@S002-2 @slow\nScenario: S002-3\n# S002-4\n";
        assert_eq!(names(&shown(feature, "#")), ["S002-01", "S002-02"]);
    }

    #[test]
    fn each_requirement_is_counted_once() {
        let list =
            "- S002-1 [v1] does: a\n- S002-2 [v1] does: b\n- S002-3 [v1] n/a: c\n- S002-4 [v1] does: d\n";
        let requirements = requirements(list);
        let claims = Claims {
            shown: ids("S002-1").into_keys().collect(),
            settled: ids("S002-1, S002-2").into_keys().collect(),
            named: BTreeMap::new(),
        };
        let report = Report::new(&requirements, &claims);
        assert_eq!(
            (report.total, report.shown, report.settled, report.not_applicable, report.open.len()),
            (4, 1, 1, 1, 1)
        );
        assert_eq!(report.open[0].text, "d");
    }
}
