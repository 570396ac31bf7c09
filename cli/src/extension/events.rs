//! `olm events`: Events about extensions, their revisions and catalogs.

use std::{collections::BTreeSet, io::Write, time::Duration};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_runtime::bounded;
use olm_text::one_line;
use serde::Serialize;

use super::revisions::{extension, revisions};
use crate::{
    cluster::Cluster,
    output::{self, Format, columns},
};

/// Time between two looks with `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Events of one page.
const PAGE_EVENTS: u32 = 500;
/// Pages that are read.
const PAGES_MAX: usize = 20;

/// `olm events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Name of the ClusterExtension; default: all, and the catalogs
    extension: Option<String>,
    /// Wait for further Events
    #[arg(long, short)]
    watch: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value_t, conflicts_with = "watch")]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    r#type: String,
    reason: String,
    object: String,
    note: String,
    #[serde(skip)]
    id: (String, String),
}

impl Events {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let mut lines = self.lines(&client).await?;
        if !self.watch {
            return output::answer(out, self.output, &lines, |lines| {
                if lines.is_empty() { "there are no Events".to_owned() } else { table(lines) }
            });
        }
        let mut seen = BTreeSet::new();
        loop {
            for line in lines.iter().filter(|line| seen.insert(line.id.clone())) {
                writeln!(out, "{}", row(line).map(|cell| one_line(&cell).into_owned()).join("  "))?;
                out.flush()?;
            }
            // Events that the API server has dropped need not be remembered.
            seen.retain(|id| lines.iter().any(|line| line.id == *id));
            tokio::time::sleep(INTERVAL).await;
            lines = self.lines(&client).await?;
        }
    }

    /// The Events, the oldest first.
    async fn lines(&self, client: &Client) -> anyhow::Result<Vec<Line>> {
        let mut of = vec![("ClusterExtension", self.extension.clone())];
        match &self.extension {
            None => of.extend([("ClusterObjectSet", None), ("ClusterCatalog", None)]),
            // The Events of an extension that is gone are still there.
            Some(name) => {
                if let Ok(seen) = extension(client, name).await {
                    let sets = revisions(client, &seen).await?;
                    of.extend(sets.iter().map(|set| ("ClusterObjectSet", Some(set.name_any()))));
                }
            }
        }
        let mut lines = Vec::new();
        for (kind, name) in of {
            lines.extend(events(client, kind, name.as_deref()).await?);
        }
        lines.sort();
        Ok(lines)
    }
}

async fn events(client: &Client, kind: &str, name: Option<&str>) -> anyhow::Result<Vec<Line>> {
    let api: Api<Event> = Api::all(client.clone());
    let of_name = name.map(|name| format!(",regarding.name={name}")).unwrap_or_default();
    let mut page =
        ListParams::default().fields(&format!("regarding.kind={kind}{of_name}")).limit(PAGE_EVENTS);
    let mut lines = Vec::new();
    for _ in 0..PAGES_MAX {
        let listed = bounded(api.list(&page)).await.context("listing Events")?;
        lines.extend(listed.items.iter().map(Line::of));
        match listed.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => break,
        }
    }
    Ok(lines)
}

impl Line {
    fn of(event: &Event) -> Self {
        let series = event.series.as_ref().map(|series| series.last_observed_time.0);
        let first = event.event_time.as_ref().map(|time| time.0);
        let last = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
        let regarding = event.regarding.clone().unwrap_or_default();
        let (kind, name) = (regarding.kind.unwrap_or_default(), regarding.name.unwrap_or_default());
        Self {
            time: series.or(last).or(first),
            r#type: event.type_.clone().unwrap_or_default(),
            reason: event.reason.clone().unwrap_or_default(),
            object: format!("{kind}/{name}"),
            note: event.note.clone().unwrap_or_default(),
            id: (event.uid().unwrap_or_default(), event.resource_version().unwrap_or_default()),
        }
    }
}

fn row(line: &Line) -> [String; 5] {
    let time = line.time.map_or("-".to_owned(), |time| format!("{time:.0}"));
    [time, line.r#type.clone(), line.reason.clone(), line.object.clone(), line.note.clone()]
}

fn table(lines: &[Line]) -> String {
    let mut rows = vec![["TIME", "TYPE", "REASON", "OBJECT", "NOTE"].map(str::to_owned)];
    rows.extend(lines.iter().map(row));
    columns(&rows).trim_end().to_owned()
}
