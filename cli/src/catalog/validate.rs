//! `olm catalog validate`: the rules of `opm validate`, all findings at once.

use std::{collections::BTreeMap, io::Write};

use anyhow::bail;
use clap::Args;
use olm_opm::{ErrorTree, Finding, Outline, Report, validate};
use olm_text::one_line;
use serde::Serialize;

use super::read::{self, Reading};
use crate::{
    output::{self, Format, counted},
    sources::Source,
};

/// The message about an empty catalog.
const EMPTY: &str =
    "there are no packages, channels or bundles in it: check the path, or allow it with --allow-empty";

/// `olm catalog validate`
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Folders, files, OCI image layouts (oci:FOLDER[:NAME]), images or addresses of catalogs; - for standard input
    #[arg(value_name = "CATALOG", required = true)]
    catalogs: Vec<Source>,
    #[command(flatten)]
    reading: Reading,
    /// Treat warnings as errors: rules that are documented but not enforced
    #[arg(long)]
    strict: bool,
    /// Accept a catalog without packages, channels and bundles
    #[arg(long)]
    allow_empty: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The result; `passed` and `error` are as `opm validate` writes them.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorMessage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Finding>,
    /// Warnings beyond those kept.
    #[serde(rename = "warningsLeftOut", skip_serializing_if = "is_zero")]
    warnings_left_out: usize,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
struct ErrorMessage {
    message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Validate {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut verdicts = Vec::new();
        for source in &self.catalogs {
            let verdict = self.verdict(source).await;
            // One that cannot be read does not hide what is wrong with the others.
            let verdict = if self.catalogs.len() == 1 { verdict? } else { verdict.unwrap_or_else(unread) };
            verdicts.push((source.to_string(), verdict));
        }
        let invalid: Vec<&str> = verdicts
            .iter()
            .filter(|(_, verdict)| !verdict.passed)
            .map(|(source, _)| source.as_str())
            .collect();
        if let [(_, verdict)] = verdicts.as_slice() {
            output::answer(out, self.output, verdict, |verdict| verdict.text.clone())?;
        } else {
            let named: Vec<Named<'_>> =
                verdicts.iter().map(|(catalog, verdict)| Named { catalog, verdict }).collect();
            output::answer(out, self.output, &named, |named| {
                let text =
                    |one: &Named<'_>| format!("{}:\n  {}", one.catalog, output::below(&one.verdict.text, 2));
                named.iter().map(text).collect::<Vec<_>>().join("\n")
            })?;
        }
        match invalid.as_slice() {
            [] => Ok(()),
            [source] => bail!("{source}: the catalog is not valid"),
            several => bail!("{}: these catalogs are not valid", several.join(", ")),
        }
    }

    async fn verdict(&self, source: &Source) -> anyhow::Result<Verdict> {
        let files = self.reading.open(source).await?.tree;
        Ok(match read::read(&files) {
            Ok(outline) if !self.allow_empty && is_empty(&outline) => Verdict::unreadable(EMPTY),
            Ok(outline) => Verdict::of(&outline, &validate(&outline), self.strict),
            Err(error) => Verdict::unreadable(&error.to_string()),
        })
    }
}

/// The result of one of several catalogs.
#[derive(Debug, Serialize)]
struct Named<'v> {
    catalog: &'v str,
    #[serde(flatten)]
    verdict: &'v Verdict,
}

#[expect(clippy::needless_pass_by_value, reason = "it is for unwrap_or_else")]
fn unread(error: anyhow::Error) -> Verdict {
    Verdict::unreadable(&output::causes(&error))
}

fn is_empty(outline: &Outline) -> bool {
    outline.packages.is_empty()
        && outline.channels.is_empty()
        && outline.bundles.is_empty()
        && outline.deprecations.is_empty()
}

impl Verdict {
    fn unreadable(problem: &str) -> Self {
        Self {
            error: Some(ErrorMessage { message: problem.to_owned() }),
            findings: vec![finding(problem.to_owned())],
            text: problem.to_owned(),
            ..Self::default()
        }
    }

    fn of(outline: &Outline, report: &Report, strict: bool) -> Self {
        let warnings = outline.warnings.clone();
        let passed = report.passed() && (!strict || warnings.is_empty());
        let message = |finding: &Finding| one_line(&finding.message).into_owned();
        let mut lines: Vec<String> = report.findings.iter().map(message).collect();
        lines.extend(report.tree.as_ref().map(ToString::to_string));
        if strict {
            lines.extend(warnings.iter().map(|warning| format!("error: {}", described(warning))));
        } else {
            lines.extend(grouped(&warnings));
        }
        if outline.warnings_left_out > 0 {
            lines.push(format!("and {} more like these", outline.warnings_left_out));
        }
        if passed {
            lines.push(format!(
                "valid: {}, {}, {}",
                counted(outline.packages.len(), "package"),
                counted(outline.channels.len(), "channel"),
                counted(outline.bundles.len(), "bundle")
            ));
        }
        let strictly = warnings.first().filter(|_| strict).map(described);
        Self {
            passed,
            error: report.message().or(strictly).map(|message| ErrorMessage { message }),
            findings: all_findings(report),
            warnings,
            warnings_left_out: outline.warnings_left_out,
            text: lines.join("\n"),
        }
    }
}

/// A finding about no document in particular.
fn finding(message: String) -> Finding {
    Finding { schema: String::new(), package: String::new(), name: String::new(), message }
}

/// The findings of both steps, each on its own.
fn all_findings(report: &Report) -> Vec<Finding> {
    let below = report.tree.iter().flat_map(ErrorTree::leaves);
    // The root is the same for all.
    let below = below.map(|leaf| finding(leaf.get(1..).unwrap_or_default().join(": ")));
    report.findings.iter().cloned().chain(below).collect()
}

/// One line for each rule: published catalogs break some rules in every bundle.
fn grouped(warnings: &[Finding]) -> Vec<String> {
    let mut by_rule: BTreeMap<String, (&Finding, usize)> = BTreeMap::new();
    for warning in warnings {
        by_rule.entry(rule(&warning.message)).or_insert((warning, 0)).1 += 1;
    }
    let line = |(first, count): &(&Finding, usize)| {
        let more = match count {
            1 => String::new(),
            _ => format!("; and {}, listed with --strict or -o json", counted(count - 1, "more document")),
        };
        format!("warning: {}{more}", described(first))
    };
    by_rule.values().map(line).collect()
}

/// A message without what differs from document to document: places in lists, quoted texts, counts.
fn rule(message: &str) -> String {
    let unquoted = message.split('"').step_by(2).collect::<String>();
    unquoted.chars().filter(|character| !character.is_ascii_digit()).collect()
}

fn described(warning: &Finding) -> String {
    let Finding { schema, package, name, message } = warning;
    let package =
        if package.is_empty() || package == name { String::new() } else { format!(" of {package:?}") };
    one_line(&format!("{schema} {name:?}{package}: {message}")).into_owned()
}
