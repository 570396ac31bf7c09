//! `olm crd check`: whether definitions can replace others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write,
};

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use olm_crd::{Allowances, Finding, Policy, Report, Verdict, compare};
use olm_preflight::stored_objects::{Decision, ReadLimits};
use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

use super::{
    definitions,
    objects::{CustomResources, Objects},
};
use crate::{
    cluster::Cluster,
    output::{self, Differs, Format, below, counted},
    sources::{Registries, Source},
};

/// So many findings that say the same of different places are shown as one.
const GROUPED_MIN: usize = 3;

/// `olm crd check`
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The current CRDs: a file with one or more, or a bundle (folder, OCI image layout or image)
    old: Source,
    /// The new CRDs, in the same form
    new: Source,
    /// Which rules to apply: upstream's, or ours, which are upstream's minus known false positives, as in
    /// operator-controller
    #[arg(long, value_parser = policy(), default_value = "ours")]
    policy: Policy,
    /// Changes to accept, as in the annotation allow-crd-changes: <CRD>:<path>:<check>, separated by spaces
    #[arg(long, value_name = "ENTRIES", value_parser = Allowances::parse, default_value = "")]
    allow: Allowances,
    /// Also list the objects on the cluster that would become invalid or lose fields; implied by --kubeconfig and
    /// --context
    #[arg(long)]
    cluster: bool,
    /// Who decides about unsafe changes that endanger only stored objects, as in the annotation crd-changes: with
    /// CheckObjects those that affect none of the objects on the cluster are accepted; implies --cluster
    #[arg(long, value_enum, default_value_t)]
    crd_changes: Mode,
    #[command(flatten)]
    connection: Cluster,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    registries: Registries,
}

/// The values of the annotation `crd-changes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Mode {
    #[default]
    Strict,
    CheckObjects,
}

fn policy() -> impl TypedValueParser<Value = Policy> {
    let names = PossibleValuesParser::new(["ours", "upstream"]);
    names.map(|name| if name == "ours" { Policy::Ours } else { Policy::Upstream })
}

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) safe: bool,
    pub(crate) definitions: Vec<Definition>,
}

/// The findings on one definition.
#[derive(Debug, Serialize)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) change: Change,
    pub(crate) safe: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) objects: Option<Objects>,
    /// What the objects on the cluster decide about an unsafe change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<String>,
}

/// The change of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Change {
    Added,
    Removed,
    Changed,
    Same,
}

impl Check {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let answer = self.answer().await?;
        output::answer(out, self.output, &answer, text)?;
        if answer.safe { Ok(()) } else { Err(Differs.into()) }
    }

    async fn answer(&self) -> anyhow::Result<Answer> {
        let mut old = definitions(&self.old, &self.registries).await?;
        let new = definitions(&self.new, &self.registries).await?;
        let objects_decide = self.crd_changes == Mode::CheckObjects;
        let cluster = if self.cluster || objects_decide || self.connection.is_given() {
            Some(CustomResources::connect(&self.connection).await?)
        } else {
            None
        };
        let mut installed = BTreeSet::new();
        if let Some(cluster) = &cluster {
            // Only the cluster knows the versions at which objects are stored.
            for (name, definition) in &mut old {
                if cluster.add_status(name, definition).await? {
                    installed.insert(name.clone());
                }
            }
        }
        let mut answer = answer(&old, &new, self.policy, &self.allow)?;
        if let Some(cluster) = &cluster {
            let mut limits = ReadLimits::full();
            for definition in answer.definitions.iter_mut().filter(|d| d.change == Change::Changed) {
                let (old, new) = (&old[&definition.name], &new[&definition.name]);
                if !installed.contains(&definition.name) {
                    definition.objects = Some(Objects::without_definition());
                    continue;
                }
                definition.objects = Some(cluster.objects(old, new).await?);
                if !definition.safe {
                    let report = Report { findings: definition.findings.clone() };
                    let decision = cluster.decide((old, new, &report), &mut limits).await;
                    definition.safe = objects_decide && matches!(decision, Decision::Unaffected(_));
                    definition.decision = Some(decision.to_string());
                }
            }
            answer.safe = answer.definitions.iter().all(|definition| definition.safe);
        }
        Ok(answer)
    }
}

/// Compares definitions by their names.
pub(crate) fn answer(
    old: &BTreeMap<String, Value>,
    new: &BTreeMap<String, Value>,
    policy: Policy,
    allow: &Allowances,
) -> anyhow::Result<Answer> {
    let definition = |name: &String, change, safe, findings| Definition {
        name: name.clone(),
        change,
        safe,
        findings,
        objects: None,
        decision: None,
    };
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let mut definitions: Vec<_> =
        added.map(|name| definition(name, Change::Added, true, Vec::new())).collect();
    for (name, before) in old {
        let Some(after) = new.get(name) else {
            // The objects of a removed definition are deleted with it.
            definitions.push(definition(name, Change::Removed, false, Vec::new()));
            continue;
        };
        let mut report = compare(before, after, policy)?;
        allow.apply(name, &mut report);
        let change = if before["spec"] == after["spec"] { Change::Same } else { Change::Changed };
        definitions.push(definition(name, change, !report.is_refused(), report.findings));
    }
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Answer { safe: definitions.iter().all(|definition| definition.safe), definitions })
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    for definition in &answer.definitions {
        write_definition(&mut text, definition);
    }
    text.push_str(&verdict(&answer.definitions));
    text
}

/// Findings that say the same of many places: the first of them, and how many more there are. Fewer stay as they are.
fn grouped(findings: &[Finding]) -> Vec<(&Finding, usize)> {
    let same = |finding: &Finding| {
        let Finding { check, text, reason, .. } = finding;
        (*check, text.clone(), *reason)
    };
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(same(finding)).or_insert(0_usize) += 1;
    }
    let mut shown = Vec::new();
    for finding in findings {
        match counts.get(&same(finding)).copied().unwrap_or_default() {
            // Its group has been shown.
            0 => {}
            count if count < GROUPED_MIN => shown.push((finding, 0)),
            count => {
                shown.push((finding, count - 1));
                counts.insert(same(finding), 0);
            }
        }
    }
    shown
}

/// The sentence that decides: whether all changes are safe, else how many definitions are not.
pub(crate) fn verdict(definitions: &[Definition]) -> String {
    match definitions.iter().filter(|definition| !definition.safe).count() {
        0 => "Every change is safe.".to_owned(),
        count => format!("There are unsafe changes: in {count} of {}.", counted(definitions.len(), "CRD")),
    }
}

/// One line for the definition, one for each finding, and those on objects.
pub(crate) fn write_definition(text: &mut String, definition: &Definition) {
    let change = match (definition.change, definition.safe) {
        (Change::Added, _) => "added",
        (Change::Removed, _) => "REMOVED: its custom resources are deleted with it",
        (Change::Same, _) => "unchanged",
        (Change::Changed, true) if definition.decision.is_some() => "changed, accepted",
        (Change::Changed, true) => "changed, safe",
        (Change::Changed, false) => "changed, UNSAFE",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}  {change}", one_line(&definition.name));
    for (finding, more) in grouped(&definition.findings) {
        // The text of a finding may have several lines.
        let shown = below(&finding.to_string(), 11);
        let _ = match finding.verdict {
            Verdict::Refused => write!(text, "  unsafe   {shown}"),
            Verdict::Allowed => write!(text, "  allowed  {shown} ({})", finding.reason),
        };
        let _ = match more {
            0 => writeln!(text),
            more => writeln!(text, "; and {}, listed with -o json", counted(more, "more place")),
        };
    }
    if let Some(objects) = &definition.objects {
        objects.write(text);
    }
    if let Some(decision) = &definition.decision {
        let verdict = if definition.safe { "accepted by CheckObjects" } else { "CheckObjects" };
        let _ = writeln!(text, "  {verdict}: {}", one_line(decision));
    }
}
