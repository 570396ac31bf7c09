//! Events about Pods that could not be created. A StatefulSet, a DaemonSet and a Job have no condition for that.

use serde::Deserialize;

use super::Finding;

/// The reason of such Events.
pub(super) const FAILED_CREATE: &str = "FailedCreate";
/// What is put before the message of Events that were joined.
const JOINED: &str = "(combined from similar events): ";
/// Characters of a time up to its seconds. Pods have no finer times, Events may.
const SECONDS: usize = "2026-01-31T12:00:00".len();

#[derive(Deserialize)]
struct EventList {
    #[serde(default)]
    items: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    last_timestamp: Option<String>,
    #[serde(default, rename = "eventTime")]
    time: Option<String>,
    #[serde(default)]
    series: Option<Series>,
    involved_object: Involved,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    #[serde(default)]
    last_observed_time: Option<String>,
}

#[derive(Deserialize)]
struct Involved {
    #[serde(default)]
    uid: String,
}

impl Event {
    /// When it last happened, to the second.
    fn last(&self) -> &str {
        let of_series = self.series.as_ref().and_then(|series| series.last_observed_time.as_deref());
        let times = [of_series, self.last_timestamp.as_deref(), self.time.as_deref()];
        times.into_iter().flatten().map(second).max().unwrap_or_default()
    }
}

fn second(time: &str) -> &str {
    time.get(..SECONDS).unwrap_or(time)
}

/// The last failure to create a Pod for the object of that UID, unless a Pod was created after it. Events are kept for
/// an hour, also when what they are about is over.
pub(super) fn failed_create(list: &[u8], uid: &str, newest_pod: Option<&str>) -> Option<Finding> {
    let list: EventList = serde_json::from_slice(list).ok()?;
    let is_own =
        |event: &&Event| event.involved_object.uid == uid && event.reason.as_deref() == Some(FAILED_CREATE);
    let newest =
        list.items.iter().filter(is_own).max_by_key(|event| (event.last(), event.message.as_deref()))?;
    if newest_pod.is_some_and(|created| second(created) > newest.last()) {
        return None;
    }
    let message = newest.message.as_deref().unwrap_or_default();
    Some(Finding::failed_create(message.strip_prefix(JOINED).unwrap_or(message)))
}
