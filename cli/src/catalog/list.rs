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
use serde::Serialize;

use super::read::Catalog;
use crate::output::{self, Format};

/// Where everything about faulty packages is found.
const HINT: &str = "olm catalog validate lists everything that is wrong with the catalog";

/// `olm catalog list`
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Listed items
    #[arg(value_enum)]
    kind: Kind,
    #[command(flatten)]
    catalog: Catalog,
    /// Only this package
    #[arg(value_name = "PACKAGE")]
    package: Option<String>,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Packages with their name for people and their default channel.
    Packages,
    /// Channels with their heads.
    Channels,
    /// Entries of channels with their edges and images.
    Bundles,
}

/// A row; only the fields of its kind are there.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skips: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_range: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

impl List {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (_, outline) = self.catalog.outline().await?;
        let faulty = validate(&outline).faulty;
        if let Some(wanted) = &self.package
            && !outline.packages.iter().any(|package| package.name == *wanted)
        {
            bail!("package {wanted:?} not found");
        }
        if let Some(wanted) = &self.package
            && let Some(problem) = faulty.get(wanted)
        {
            bail!("{}: package {wanted:?} is not valid: {problem}: {HINT}", self.catalog.source);
        }
        for (package, problem) in faulty.iter().filter(|_| self.package.is_none()) {
            output::warning(&left_out(package, problem));
        }
        if self.package.is_none() && !faulty.is_empty() {
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
        output::answer(out, self.output, &rows, |rows| table(self.kind, rows))
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

fn packages(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let names: BTreeMap<(&str, &str), &str> = outline
        .bundles
        .iter()
        .map(|bundle| ((bundle.package.as_str(), bundle.name.as_str()), bundle.display_name.as_str()))
        .collect();
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
        Row {
            name: Some(name.to_owned()),
            display_name: Some(names.get(&(name, head)).copied().unwrap_or_default().to_owned()),
            default_channel: Some(default_channel.to_owned()),
            ..Row::default()
        }
    };
    wanted.into_iter().map(row).collect()
}

fn channels(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let row = |channel: &Channel| Row {
        package: Some(channel.package.clone()),
        channel: Some(channel.name.clone()),
        head: Some(head(&channel.entries).map(|head| head.name.clone()).unwrap_or_default()),
        ..Row::default()
    };
    sorted(outline, of_package).into_iter().map(row).collect()
}

fn bundles(outline: &Outline, of_package: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let by_name: BTreeMap<(&str, &str), &BundleOutline> = outline
        .bundles
        .iter()
        .map(|bundle| ((bundle.package.as_str(), bundle.name.as_str()), bundle))
        .collect();
    let mut rows = Vec::new();
    for channel in sorted(outline, of_package) {
        let mut entries: Vec<_> = channel.entries.iter().collect();
        entries.sort_by_key(|entry| &entry.name);
        rows.extend(entries.into_iter().map(|entry| {
            let bundle = by_name.get(&(channel.package.as_str(), entry.name.as_str()));
            Row {
                package: Some(channel.package.clone()),
                channel: Some(channel.name.clone()),
                bundle: Some(entry.name.clone()),
                replaces: Some(entry.replaces.clone()),
                skips: Some(entry.skips.clone()),
                skip_range: Some(entry.skip_range.clone()),
                image: bundle.map(|bundle| bundle.image.clone()),
                ..Row::default()
            }
        }));
    }
    rows
}

fn table(kind: Kind, rows: &[Row]) -> String {
    let head: &[&str] = match kind {
        Kind::Packages => &["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"],
        Kind::Channels => &["PACKAGE", "CHANNEL", "HEAD"],
        Kind::Bundles => &["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"],
    };
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let cells = rows.iter().map(|row| match kind {
        Kind::Packages => vec![text(&row.name), text(&row.display_name), text(&row.default_channel)],
        Kind::Channels => vec![text(&row.package), text(&row.channel), text(&row.head)],
        Kind::Bundles => vec![
            text(&row.package),
            text(&row.channel),
            text(&row.bundle),
            text(&row.replaces),
            row.skips.clone().unwrap_or_default().join(","),
            text(&row.skip_range),
            text(&row.image),
        ],
    });
    columns(std::iter::once(head.iter().map(|cell| (*cell).to_owned()).collect()).chain(cells).collect())
}

/// Cells in columns, two blanks between them. Line breaks within a cell would tear the table.
fn columns(mut rows: Vec<Vec<String>>) -> String {
    for cell in rows.iter_mut().flatten() {
        *cell = one_line(cell).into_owned();
    }
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &Vec<String>| {
        let last = row.len().saturating_sub(1);
        let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, width))| {
            if index == last { cell.clone() } else { format!("{cell:<width$}  ") }
        });
        cells.collect::<String>()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["A", "B", "C"], ["long", "", "x"], ["ä\nc", "b", ""]];
        let rows = rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        assert_eq!(columns(rows), "A     B  C\nlong     x\nä c   b  ");
    }
}
