//! CRD upgrade safety: the verdict on every CRD of consecutive bundles, under both policies.
//!
//! The policy that mirrors upstream has to give its verdict and its lines, where they are not a matter of
//! chance. Ours may only allow changes that upstream refuses, never the other way round; the changes that it
//! allows are counted by rule.

use olm_crd::{Check, Finding, Policy, Reason, Report, Verdict, compare};
use olm_test::prelude::*;
use serde::Deserialize;

use crate::{
    crd_decisions::Decisions,
    data::{self, Counts},
};

/// A line of the data.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Case {
    from: String,
    to: String,
    error: Option<String>,
}

/// The definitions of a bundle by name, as upstream renders them, with their storage version in the status.
type Definitions = BTreeMap<String, Value>;

/// Characters of a refusal that are shown.
const SHOWN_CHARS_MAX: usize = 400;

pub(crate) fn check() {
    data::each("crd_upgrades", "crd-upgrades.jsonl.zst", check_all);
}

fn check_all(folder: &Path, counts: &mut Counts) {
    let mut tally = Tally::default();
    // Bundles come in sequence: the new one of a line is mostly the old one of the next.
    let mut recent: BTreeMap<String, Definitions> = BTreeMap::new();
    data::cases(&folder.join("crd-upgrades.jsonl.zst"), |case: Case| {
        recent.retain(|bundle, _| [&case.from, &case.to].contains(&bundle));
        for bundle in [&case.from, &case.to] {
            if !recent.contains_key(bundle) {
                recent.insert(bundle.clone(), definitions(&folder.join("bundles").join(bundle)));
            }
        }
        compare_case(&case, &recent[&case.from], &recent[&case.to], counts, &mut tally);
    });
    tally.print();
}

/// Counts beside those of verdicts.
#[derive(Default)]
struct Tally {
    refused: usize,
    lines_equal: usize,
    /// Those that upstream has because of the order of required fields.
    lines_by_order: usize,
    /// Verdicts that our policy changes, by the reasons for which it lets changes through.
    let_through: BTreeMap<String, usize>,
    /// Findings that our policy lets through in whatever upgrade, by reason.
    findings_let_through: BTreeMap<String, usize>,
    /// What our policy refuses, and stored objects may decide about.
    decisions: Decisions,
}

impl Tally {
    fn print(&self) {
        let Self { refused, lines_equal, lines_by_order, let_through, findings_let_through, decisions } =
            self;
        println!(
            "crd_upgrades: {refused} refused; lines of findings: {lines_equal} equal, {lines_by_order} by the order of fields"
        );
        println!("crd_upgrades: policy Ours: verdicts changed from refused to allowed {let_through:?}");
        println!("crd_upgrades: policy Ours: findings let through {findings_let_through:?}");
        decisions.print();
    }
}

fn compare_case(case: &Case, old: &Definitions, new: &Definitions, counts: &mut Counts, tally: &mut Tally) {
    let Case { from, to, error } = case;
    let [upstream, ours] = [Policy::Upstream, Policy::Ours].map(|policy| upgrade(old, new, policy));
    if is_refused(&ours) && !is_refused(&upstream) {
        counts.different(format_args!("{from} to {to}: refused by our policy only"));
        return;
    }
    let refusal = error.as_deref().unwrap_or_default();
    let expected = error.is_some();
    if refusal.starts_with("panic: ") && lacks_schema(old, new) {
        counts.named("version without schema", format_args!("{from} to {to}"));
    } else if expected == is_refused(&upstream) {
        if expected {
            tally.refused += 1;
            let (theirs, own) = (lines_of_message(refusal), lines_of_reports(&upstream));
            tally.lines_equal += theirs.intersection(&own).count();
            let by_order = lines_by_order(&upstream);
            for line in theirs.symmetric_difference(&own) {
                if !by_order.contains(line) {
                    counts.different(format_args!("{from} to {to}: only one has {line:?}"));
                    return;
                }
                tally.lines_by_order += 1;
            }
        }
        counts.equal();
    } else if expected && !is_refused(&upstream) && depends_on_chance(&upstream, refusal) {
        counts.named("order of findings", format_args!("{from} to {to}"));
    } else {
        // The first lines are enough to see which definition it is.
        let own: String = upstream.iter().filter_map(|(name, report)| report.message(name)).collect();
        let [expected, own] =
            [refusal, &own].map(|text| text.chars().take(SHOWN_CHARS_MAX).collect::<String>());
        counts.different(format_args!("{from} to {to}: expected {expected:?}, got {own:?}"));
        return;
    }
    tally.decisions.add(&ours, old, new);
    let allowed = reasons(&ours);
    for (reason, count) in &allowed {
        *tally.findings_let_through.entry(reason.clone()).or_default() += count;
    }
    if is_refused(&upstream) && !is_refused(&ours) {
        let reasons: Vec<_> = allowed.into_keys().collect();
        *tally.let_through.entry(reasons.join(", ")).or_default() += 1;
    }
}

/// The reports on all definitions that both bundles have. The preflight looks at new definitions of the v1 API
/// alone.
fn upgrade(old: &Definitions, new: &Definitions, policy: Policy) -> BTreeMap<String, Report> {
    let of_v1 = new.iter().filter(|(_, new)| new["apiVersion"] == "apiextensions.k8s.io/v1");
    let both = of_v1.filter_map(|(name, new)| Some((name, old.get(name)?, new)));
    both.map(|(name, old, new)| {
        let report = compare(old, new, policy).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.clone(), report)
    })
    .collect()
}

fn is_refused(reports: &BTreeMap<String, Report>) -> bool {
    reports.values().any(Report::is_refused)
}

/// How many findings our policy alone lets through, by reason.
fn reasons(reports: &BTreeMap<String, Report>) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for finding in reports.values().flat_map(|report| &report.findings) {
        if finding.verdict == Verdict::Allowed && finding.reason != Reason::AlreadyServed {
            *reasons.entry(format!("{:?}", finding.reason)).or_default() += 1;
        }
    }
    reasons
}

/// Whether a version of a definition that is compared has no schema.
fn lacks_schema(old: &Definitions, new: &Definitions) -> bool {
    let both = new.iter().filter_map(|(name, new)| Some([old.get(name)?, new]));
    both.flatten().any(|definition| {
        let versions = definition["spec"]["versions"].as_array();
        versions.is_some_and(|versions| versions.iter().any(|version| version["schema"].is_null()))
    })
}

/// Whether a refusal may be due to the order of required fields alone.
fn depends_on_chance(reports: &BTreeMap<String, Report>, refusal: &str) -> bool {
    lines_of_message(refusal).is_subset(&lines_by_order(reports))
}

/// The lines that upstream has for the order of required fields alone: between served versions it leaves out findings
/// whose text it found before as well, and the fields in the text have a random order.
fn lines_by_order(reports: &BTreeMap<String, Report>) -> BTreeSet<(String, String)> {
    let chance = |finding: &Finding| {
        let fields = finding.text.matches(' ').count() - "new required fields: [".matches(' ').count();
        finding.check == Check::Required && finding.reason == Reason::AlreadyServed && fields > 0
    };
    reports
        .iter()
        .flat_map(|(name, report)| {
            report.findings.iter().filter(|finding| chance(finding)).map(move |f| (name, f))
        })
        .map(|(name, finding)| (name.clone(), normal(&finding.to_string())))
        .collect()
}

/// The lines of a message, each with the definition it is about.
fn lines_of_message(message: &str) -> BTreeSet<(String, String)> {
    let mut definition = String::new();
    let mut lines = BTreeSet::new();
    for line in message.lines() {
        let mut line = line;
        if let Some((name, first)) =
            line.strip_prefix("validating upgrade for CRD \"").and_then(|rest| rest.split_once("\": "))
        {
            name.clone_into(&mut definition);
            line = first;
        }
        lines.insert((definition.clone(), normal(line)));
    }
    lines
}

fn lines_of_reports(reports: &BTreeMap<String, Report>) -> BTreeSet<(String, String)> {
    let lines =
        reports.iter().flat_map(|(name, report)| report.refused().map(move |finding| (name, finding)));
    lines.map(|(name, finding)| (name.clone(), normal(&finding.to_string()))).collect()
}

/// A line with the names of required fields sorted, as their order is random in upstream, and without the details of
/// changes that no rule understands and of `oneOf`, which have words of ours.
fn normal(line: &str) -> String {
    const UNHANDLED: &str = ": unhandled: unhandled changes found";
    if let Some((start, _)) = line.split_once(UNHANDLED) {
        return format!("{start}{UNHANDLED}");
    }
    if let Some((start, change)) = line.split_once(": oneOf: ") {
        return format!("{start}: oneOf: {}", change.split('[').next().unwrap_or_default());
    }
    let Some((start, names)) = line.split_once("new required fields: [") else {
        return line.to_owned();
    };
    let mut names: Vec<_> = names.trim_end_matches(']').split(' ').collect();
    names.sort_unstable();
    format!("{start}new required fields: [{}]", names.join(" "))
}

/// The definitions of a bundle, those that a webhook of the bundle converts said to be so.
fn definitions(bundle: &Path) -> Definitions {
    let mut definitions = Definitions::new();
    let mut converted = BTreeSet::new();
    let manifests = bundle.join("manifests");
    let entries = fs::read_dir(&manifests).unwrap_or_else(|error| panic!("{}: {error}", manifests.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for document in olm_yaml::mixed(olm_yaml::text(&bytes).unwrap()) {
            let document = document.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            // The elements of a list.
            let objects = match document.get("items") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![document],
            };
            for object in objects {
                match object["kind"].as_str() {
                    Some("CustomResourceDefinition") => {
                        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                        definitions.insert(name, object);
                    }
                    Some("ClusterServiceVersion") => converted.extend(converted_by_webhooks(&object)),
                    _ => {}
                }
            }
        }
    }
    definitions.values_mut().for_each(store);
    for name in converted {
        if let Some(definition) = definitions.get_mut(&name) {
            definition["spec"]["conversion"] = json!({"strategy": "Webhook"});
        }
    }
    definitions
}

/// Gives a definition the status that it has on a cluster where its objects are stored at its storage version.
fn store(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let stored: Vec<_> = versions
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    definition["status"] = json!({"storedVersions": stored});
}

fn converted_by_webhooks(csv: &Value) -> Vec<String> {
    let webhooks = csv["spec"]["webhookdefinitions"].as_array().into_iter().flatten();
    let names = webhooks
        .filter(|webhook| webhook["type"] == "ConversionWebhook")
        .filter_map(|webhook| webhook["conversionCRDs"].as_array())
        .flatten()
        .filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Of two served versions the newer one requires fields that have other names in the older one, in the live definition
/// and in the new one alike. crdify takes what it found before for known if the texts are the same, and writes the names
/// in a random order: it refuses such an upgrade nearly always, and not for its content.
#[test]
fn refusals_by_the_order_of_required_fields_are_recognised() {
    let version = |name: &str, required: &[&str]| {
        let spec = json!({"type": "object", "required": required});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": true, "storage": name == "v1beta1", "schema": schema})
    };
    let name = "groups.fire.brasswork.test";
    let versions =
        [version("v1alpha1", &["databaselist"]), version("v1beta1", &["databaseList", "location", "server"])];
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": name}, "spec": {"scope": "Namespaced", "versions": versions},
    });
    let definitions = Definitions::from([(name.to_owned(), definition)]);
    let reports = upgrade(&definitions, &definitions, Policy::Upstream);
    assert!(!is_refused(&reports));
    let refusal =
        |line: &str| format!("validating upgrade for CRD \"{name}\": v1alpha1 -> v1beta1: ^.spec: {line}");
    assert!(depends_on_chance(
        &reports,
        &refusal("required: new required fields: [server databaseList location]")
    ));
    assert!(!depends_on_chance(&reports, &refusal("required: new required fields: [server]")));
    assert!(!depends_on_chance(&reports, &refusal("type: type changed : \"object\" -> \"\"")));
}
