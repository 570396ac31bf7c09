//! `olm catalog list`: packages, channels or bundles of a catalog as a table.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
};

use anyhow::bail;
use clap::{Args, ValueEnum};
use olm_fbc::Channel;
use olm_opm::{BundleOutline, Outline, head, validate};
use olm_text::one_line;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::read::Catalog;
use crate::output::{self, Format};

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
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
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
    /// The keys of a row in JSON, with the titles of its columns.
    fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Packages => {
                &[("name", "NAME"), ("displayName", "DISPLAY NAME"), ("defaultChannel", "DEFAULT CHANNEL")]
            }
            Self::Channels => &[("package", "PACKAGE"), ("channel", "CHANNEL"), ("head", "HEAD")],
            Self::Bundles => &[
                ("package", "PACKAGE"),
                ("channel", "CHANNEL"),
                ("bundle", "BUNDLE"),
                ("replaces", "REPLACES"),
                ("skips", "SKIPS"),
                ("skipRange", "SKIP RANGE"),
                ("image", "IMAGE"),
            ],
        }
    }
}

/// The values of a row in the order of its columns: texts, lists of texts, or null for none.
type Row = Vec<Value>;

/// A row as a JSON object with the keys of its columns.
struct Record<'r>(Kind, &'r Row);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.0.columns().iter().map(|(key, _)| key).zip(self.1);
        serializer.collect_map(members.filter(|(_, value)| !value.is_null()))
    }
}

impl List {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (_, outline) = self.catalog.outline().await?;
        let faulty = validate(&outline).faulty;
        if let Some(wanted) = &self.package {
            if !outline.packages.iter().any(|package| package.name == *wanted) {
                bail!("package {wanted:?} not found");
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
        let records: Vec<_> = rows.iter().map(|row| Record(self.kind, row)).collect();
        output::answer(out, self.output, &records, |_| table(self.kind, &rows))
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

fn bundles(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let by_name = by_name(outline);
    let mut rows = Vec::new();
    for channel in sorted(outline, of_package) {
        let mut entries: Vec<_> = channel.entries.iter().collect();
        entries.sort_by_key(|entry| &entry.name);
        rows.extend(entries.into_iter().map(|entry| {
            let bundle = by_name.get(&(channel.package.as_str(), entry.name.as_str()));
            vec![
                json!(channel.package),
                json!(channel.name),
                json!(entry.name),
                json!(entry.replaces),
                json!(entry.skips),
                json!(entry.skip_range),
                json!(bundle.map(|bundle| &bundle.image)),
            ]
        }));
    }
    rows
}

fn table(kind: Kind, rows: &[Row]) -> String {
    let titles = kind.columns().iter().map(|(_, title)| (*title).to_owned()).collect();
    let cell = |value: &Value| match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => one_line(other.as_str().unwrap_or_default()).into_owned(),
    };
    let cells = rows.iter().map(|row| row.iter().map(cell).collect());
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(cells).collect();
    output::columns(&rows).trim_end().to_owned()
}
