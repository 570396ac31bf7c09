//! `olm catalog list`: packages, channels or bundles of a catalog as a table.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    io::Write,
};

use anyhow::bail;
use clap::{Args, ValueEnum};
use olm_fbc::{Channel, ChannelEntry, SCHEMA_BUNDLE};
use olm_opm::{BundleOutline, Outline, head, validate};
use olm_text::{did_you_mean, one_line};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::read::Catalog;
use crate::output::{self, Column, ListArgs};

/// A hint for those who look for everything about faulty packages.
const HINT: &str = "olm catalog validate lists everything that is wrong with the catalog";

/// `olm catalog list`
#[derive(Debug, Args)]
pub(crate) struct List {
    /// What to list
    #[arg(value_enum)]
    kind: Kind,
    #[command(flatten)]
    catalog: Catalog,
    /// Only this package
    #[arg(value_name = "PACKAGE")]
    package: Option<String>,
    #[command(flatten)]
    printed: ListArgs,
}

/// The kinds of listed items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Packages with their display name and their default channel.
    Packages,
    /// Channels with their heads.
    Channels,
    /// Entries of channels with their upgrade paths and images.
    Bundles,
}

impl Kind {
    /// The keys of a row in JSON, with the titles of its columns; those of wide tables only come last.
    fn columns(self) -> (&'static [Title], usize) {
        match self {
            Self::Packages => (&PACKAGES, 0),
            Self::Channels => (&CHANNELS, 0),
            Self::Bundles => (&BUNDLES, 3),
        }
    }
}

/// The key of a value in JSON, and the title of its column.
type Title = (&'static str, &'static str);

const PACKAGES: [Title; 3] =
    [("name", "NAME"), ("displayName", "DISPLAY NAME"), ("defaultChannel", "DEFAULT CHANNEL")];
const CHANNELS: [Title; 3] = [("package", "PACKAGE"), ("channel", "CHANNEL"), ("head", "HEAD")];
const BUNDLES: [Title; 8] = [
    ("package", "PACKAGE"),
    ("channel", "CHANNEL"),
    ("bundle", "BUNDLE"),
    ("replaces", "REPLACES"),
    ("notes", "NOTES"),
    ("skips", "SKIPS"),
    ("skipRange", "SKIP RANGE"),
    ("image", "IMAGE"),
];

/// The values of a row in the order of its columns: texts, lists of texts, or null for none.
type Row = Vec<Value>;

/// A row as a JSON object with the keys of its columns.
struct Record(Kind, Row);

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.0.columns().0.iter().map(|(key, _)| key).zip(&self.1);
        serializer.collect_map(members.filter(|(_, value)| !value.is_null()))
    }
}

impl Record {
    fn cell(&self, number: usize) -> String {
        match &self.1[number] {
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            other => other.as_str().unwrap_or_default().to_owned(),
        }
    }

    /// What scripts call the row: the package, or the channel or bundle in it.
    fn name(&self) -> String {
        match self.0 {
            Kind::Packages => self.cell(0),
            Kind::Channels => format!("{}/{}", self.cell(0), self.cell(1)),
            Kind::Bundles => self.cell(2),
        }
    }
}

impl List {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (_, outline) = self.catalog.outline().await?;
        let faulty = validate(&outline).faulty;
        if let Some(wanted) = &self.package {
            if !outline.packages.iter().any(|package| package.name == *wanted) {
                let names = outline.packages.iter().map(|package| package.name.as_str());
                let meant = did_you_mean(wanted, names).map(|meant| format!(". {meant}"));
                bail!("package {wanted:?} not found{}", meant.unwrap_or_default());
            }
            if let Some(problem) = faulty.get(wanted) {
                bail!("{}: package {wanted:?} is not valid: {problem}: {HINT}", self.catalog.source);
            }
        } else if !faulty.is_empty() {
            for (package, problem) in &faulty {
                output::warning(&left_out(package, problem));
            }
            output::warning(HINT);
        }
        let of_package = |name: &str| {
            self.package.as_deref().is_none_or(|wanted| wanted == name) && !faulty.contains_key(name)
        };
        let rows = match self.kind {
            Kind::Packages => packages(&outline, &of_package),
            Kind::Channels => channels(&outline, &of_package),
            Kind::Bundles => bundles(&outline, &of_package),
        };
        let records: Vec<Record> = rows.into_iter().map(|row| Record(self.kind, row)).collect();
        let (titles, wide) = self.kind.columns();
        let column = |(number, (_, title)): (usize, &Title)| {
            let column = Column::new(title, move |record: &Record| record.cell(number));
            if number + wide < titles.len() { column } else { column.in_wide_tables() }
        };
        let table: Vec<Column<Record>> = titles.iter().enumerate().map(column).collect();
        self.printed.write(out, &records, &table, Record::name)
    }
}

/// Why a package is not in the list, in one sentence.
fn left_out(package: &str, problem: &str) -> String {
    let problem = one_line(problem);
    if package.is_empty() {
        format!("a document without a package is left out: {problem}")
    } else {
        format!("package {package:?} is not valid and left out: {problem}")
    }
}

/// The channels in order; valid packages have no two of one name.
fn sorted<'o>(outline: &'o Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<&'o Channel> {
    let wanted = outline.channels.iter().filter(|channel| of_package(&channel.package));
    let mut channels: Vec<&Channel> = wanted.collect();
    channels.sort_by_key(|channel| (&channel.package, &channel.name));
    channels
}

/// The bundles by package and name.
fn by_name(outline: &Outline) -> BTreeMap<(&str, &str), &BundleOutline> {
    let bundles = outline.bundles.iter();
    bundles.map(|bundle| ((bundle.package.as_str(), bundle.name.as_str()), bundle)).collect()
}

fn packages(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let by_name = by_name(outline);
    let heads: BTreeMap<(&str, &str), &str> = outline
        .channels
        .iter()
        .filter_map(|channel| Some((channel, head(&channel.entries).ok()?)))
        .map(|(channel, head)| ((channel.package.as_str(), channel.name.as_str()), head.name.as_str()))
        .collect();
    let wanted: BTreeSet<(&str, &str)> = outline
        .packages
        .iter()
        .filter(|package| of_package(&package.name))
        .map(|package| (package.name.as_str(), package.default_channel.as_str()))
        .collect();
    let row = |(name, default_channel): (&str, &str)| {
        let head = heads.get(&(name, default_channel)).copied().unwrap_or_default();
        let display_name = by_name.get(&(name, head)).map_or("", |bundle| &bundle.display_name);
        vec![json!(name), json!(display_name), json!(default_channel)]
    };
    wanted.into_iter().map(row).collect()
}

fn channels(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let row = |channel: &Channel| {
        let head = head(&channel.entries).map_or("", |head| head.name.as_str());
        vec![json!(channel.package), json!(channel.name), json!(head)]
    };
    sorted(outline, of_package).into_iter().map(row).collect()
}

/// The order of bundles by version and release; those without a version come first.
fn by_version(a: Option<&BundleOutline>, b: Option<&BundleOutline>) -> Ordering {
    let version = |bundle: Option<&BundleOutline>| bundle.and_then(|bundle| bundle.version.clone());
    let of_versions = match (version(a), version(b)) {
        (Some(a), Some(b)) => a.cmp_precedence(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    of_versions.then_with(|| a.map(BundleOutline::version_text).cmp(&b.map(BundleOutline::version_text)))
}

/// The entries of the channels, the highest version of each first.
fn bundles(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let by_name = by_name(outline);
    let entries =
        outline.deprecations.iter().flat_map(|all| all.entries.iter().map(|entry| (&all.package, entry)));
    let deprecated: BTreeSet<(&str, &str)> = entries
        .filter(|(_, entry)| entry.reference.schema == SCHEMA_BUNDLE)
        .map(|(package, entry)| (package.as_str(), entry.reference.name.as_str()))
        .collect();
    let mut rows = Vec::new();
    for channel in sorted(outline, of_package) {
        let package = channel.package.as_str();
        let head = head(&channel.entries).map_or("", |head| head.name.as_str());
        let entries = channel.entries.iter();
        let found = entries.map(|entry| (entry, by_name.get(&(package, entry.name.as_str())).copied()));
        let mut entries: Vec<(&ChannelEntry, Option<&BundleOutline>)> = found.collect();
        entries.sort_by(|(a, one), (b, other)| by_version(*other, *one).then_with(|| a.name.cmp(&b.name)));
        rows.extend(entries.into_iter().map(|(entry, bundle)| {
            let is_deprecated = deprecated.contains(&(channel.package.as_str(), entry.name.as_str()));
            let notes = [(entry.name == head, "head"), (is_deprecated, "deprecated")];
            let notes: Vec<&str> = notes.into_iter().filter(|(is, _)| *is).map(|(_, note)| note).collect();
            vec![
                json!(channel.package),
                json!(channel.name),
                json!(entry.name),
                json!(entry.replaces),
                json!(notes),
                json!(entry.skips),
                json!(entry.skip_range),
                json!(bundle.map(|bundle| &bundle.image)),
            ]
        }));
    }
    rows
}
