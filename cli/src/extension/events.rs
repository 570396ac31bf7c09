//! `olm events`: Events about extensions, their revisions and catalogs.

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{StreamExt as _, stream::select_all};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    runtime::watcher::{self, Config},
};
use olm_runtime::{Chance, bounded};
use olm_text::one_line;
use serde::Serialize;

use crate::{
    cluster::Cluster,
    output::{self, Format, columns},
};

/// Events of one page.
const PAGE_EVENTS: u32 = 500;
/// Pages that are read.
const PAGES_MAX: usize = 20;

/// The help text below the options.
pub(crate) const HELP: &str = "Examples:
  olm events
  olm events lighthouse --watch";

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
}

impl Events {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        if self.watch {
            return self.follow(client, out).await;
        }
        let mut lines = Vec::new();
        for selector in self.selectors() {
            lines.extend(self.lines(&events(&client, &selector).await?));
        }
        lines.sort();
        output::answer(out, self.output, &lines, |lines| {
            if lines.is_empty() { "there are no Events".to_owned() } else { table(lines) }
        })
    }

    /// Writes the Events that there are, the oldest first, and then each that comes.
    async fn follow(&self, client: Client, out: &mut dyn Write) -> anyhow::Result<()> {
        let (api, chance): (Api<Event>, _) = (Api::all(client), Chance::default());
        let selectors = self.selectors();
        let watch = |selector: &String| chance.watch(api.clone(), Config::default().fields(selector)).boxed();
        let (mut seen, mut listed, mut unlisted) = (BTreeMap::new(), Vec::new(), selectors.len());
        let mut watches = select_all(selectors.iter().map(watch));
        while let Some(event) = watches.next().await {
            match event {
                Ok(watcher::Event::InitApply(event) | watcher::Event::Apply(event)) => {
                    // A watch that was interrupted begins with what was written already.
                    let version = event.resource_version();
                    if seen.insert(event.uid(), version.clone()) != Some(version) {
                        listed.extend(self.lines(&[event]));
                    }
                }
                Ok(watcher::Event::Delete(event)) => _ = seen.remove(&event.uid()),
                Ok(watcher::Event::InitDone) => unlisted = unlisted.saturating_sub(1),
                Err(watcher::Error::InitialListFailed(error)) => bail!("listing Events: {error}"),
                // What is interrupted is watched again.
                Ok(watcher::Event::Init) | Err(_) => {}
            }
            if unlisted == 0 {
                listed.sort();
                for line in listed.drain(..) {
                    writeln!(out, "{}", row(&line).map(|cell| one_line(&cell).into_owned()).join("  "))?;
                    out.flush()?;
                }
            }
        }
        Ok(())
    }

    /// The field selectors of the Events.
    fn selectors(&self) -> Vec<String> {
        let of = |kind: &str| format!("regarding.kind={kind}");
        match &self.extension {
            None => ["ClusterExtension", "ClusterObjectSet", "ClusterCatalog"].map(of).into(),
            Some(name) => {
                vec![format!("{},regarding.name={name}", of("ClusterExtension")), of("ClusterObjectSet")]
            }
        }
    }

    /// The lines of those Events that are asked for.
    fn lines(&self, events: &[Event]) -> Vec<Line> {
        events.iter().filter(|event| self.is_wanted(event)).map(Line::of).collect()
    }

    /// Whether an Event is about the extension or one of its revisions, which may be gone already.
    fn is_wanted(&self, event: &Event) -> bool {
        let Some(extension) = &self.extension else { return true };
        let about = event.regarding.as_ref().and_then(|about| about.name.as_deref()).unwrap_or_default();
        let number = about.strip_prefix(extension.as_str()).and_then(|rest| rest.strip_prefix('-'));
        about == extension || number.is_some_and(|number| number.parse::<u64>().is_ok())
    }
}

async fn events(client: &Client, selector: &str) -> anyhow::Result<Vec<Event>> {
    let api: Api<Event> = Api::all(client.clone());
    let mut page = ListParams::default().fields(selector).limit(PAGE_EVENTS);
    let mut events = Vec::new();
    for _ in 0..PAGES_MAX {
        let listed = bounded(api.list(&page)).await.context("listing Events")?;
        events.extend(listed.items);
        match listed.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => break,
        }
    }
    Ok(events)
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    struct Pipe(mpsc::UnboundedSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_owned()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn event(about: &str, uid: &str) -> serde_json::Value {
        let kind = if about.contains('-') { "ClusterObjectSet" } else { "ClusterExtension" };
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null, "reason": uid,
            "metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": "1"},
            "regarding": {"kind": kind, "name": about}})
    }

    #[tokio::test]
    async fn events_are_listed_once_and_then_watched() {
        let requests: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let seen = Arc::clone(&requests);
        // The first watch of sets brings an Event that was listed and another one.
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let (watched, of_sets) = (query.contains("watch=true"), query.contains("ClusterObjectSet"));
            let brings_more = watched && of_sets && !seen.lock().unwrap().contains(&"watch of sets");
            seen.lock().unwrap().push(match (watched, of_sets) {
                (false, _) => "list",
                (true, false) => "watch of extensions",
                (true, true) => "watch of sets",
            });
            let listed = if of_sets { ["beacon-1", "beacon-two"] } else { ["beacon", "beacon"] };
            let body = if watched {
                let added = |object| format!("{}\n", json!({"type": "ADDED", "object": object}));
                added(event("beacon-1", "beacon-1")) + &added(event("beacon-2", "new"))
            } else {
                let items = listed.map(|about| event(about, about));
                json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1", "metadata": {"resourceVersion": "1"},
                    "items": items})
                .to_string()
            };
            async move {
                if watched && !brings_more {
                    std::future::pending::<()>().await;
                }
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.into_bytes())))
            }
        });
        let follower = Events {
            extension: Some("beacon".to_owned()),
            watch: true,
            output: Format::default(),
            cluster: Cluster::default(),
        };
        let (sender, mut written) = mpsc::unbounded_channel();
        let mut pipe = Pipe(sender);
        let three_lines = async {
            let mut text = String::new();
            while text.lines().count() < 3 || !text.ends_with('\n') {
                text += &String::from_utf8(written.recv().await.unwrap()).unwrap();
            }
            text
        };
        let out = tokio::select! {
            ended = follower.follow(Client::new(service, "default"), &mut pipe) => panic!("it ended: {ended:?}"),
            lines = three_lines => lines,
        };
        let reasons: Vec<&str> = out.lines().filter_map(|line| line.split("  ").nth(2)).collect();
        assert_eq!(reasons, ["beacon", "beacon-1", "new"]);
        let requests = requests.lock().unwrap();
        assert_eq!(requests.iter().filter(|request| **request == "list").count(), 2, "{requests:?}");
    }
}
