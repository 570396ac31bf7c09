//! The objects of an extension's newest revision, and whether the cluster has them.

use std::fmt::Write as _;

use futures::{StreamExt as _, stream};
use kube::Client;
use olm_api::v1::ClusterObjectSet;
use olm_object::ObjectKey;
use olm_runtime::{Discovery, DiscoveryError, api_text, if_exists};
use olm_text::{counted, one_line};
use operator_controller::plan::Planner;
use serde::Serialize;

use crate::extension::revisions::latest_active;

/// Objects that are asked for at a time.
const AT_ONCE: usize = 8;
/// Objects that are listed; those that are missing come first.
const LISTED_MAX: usize = 50;

/// The objects, or why they are not known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "a key of the JSON output")]
pub(super) struct Objects {
    /// The revision that they belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    objects: Vec<ObjectState>,
}

#[derive(Debug, Serialize)]
struct ObjectState {
    object: String,
    exists: bool,
    /// Why it is missing, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Objects {
    /// Those of the newest revision that is not archived.
    pub(super) async fn of(client: &Client, planner: &Planner, sets: &[ClusterObjectSet]) -> Self {
        let mut found = Self { revision: None, error: None, objects: Vec::new() };
        let Some(latest) = latest_active(sets) else { return found };
        found.revision = latest.metadata.name.clone();
        match planner.objects(latest).await {
            Err(error) => found.error = Some(error.to_string()),
            Ok(keys) => {
                let discovery = Discovery::new(client.clone());
                let states = stream::iter(&keys).map(|key| ObjectState::of(client, &discovery, key));
                found.objects = states.buffered(AT_ONCE).collect().await;
            }
        }
        found
    }

    /// How many exist, then the objects, those that are missing first.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("Objects\n");
        // Writing to a String cannot fail.
        if let Some(error) = &self.error {
            let _ = writeln!(text, "  not known: {}", one_line(error));
            return text;
        }
        let Some(revision) = &self.revision else {
            text.push_str("  none: there is no revision\n");
            return text;
        };
        let (here, missing): (Vec<_>, Vec<_>) = self.objects.iter().partition(|one| one.exists);
        let all = counted(self.objects.len(), "object");
        let _ = writeln!(text, "  {} of the {all} of {} exist", here.len(), one_line(revision));
        for one in missing.iter().chain(&here).take(LISTED_MAX) {
            let state = if one.exists { "exists " } else { "MISSING" };
            let why = one.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            let _ = writeln!(text, "  {state}  {}{}", one_line(&one.object), one_line(&why));
        }
        let more = self.objects.len().saturating_sub(LISTED_MAX);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
        text
    }
}

impl ObjectState {
    async fn of(client: &Client, discovery: &Discovery, key: &ObjectKey) -> Self {
        let (exists, why) = match discovery.kind(&key.api_version(), &key.kind).await {
            Err(DiscoveryError::Unknown { .. }) => {
                (false, Some("the cluster does not serve its kind".to_owned()))
            }
            Err(error) => (false, Some(format!("not known: {error}"))),
            Ok(kind) => match if_exists(kind.api(client, &key.namespace).get_metadata(&key.name)).await {
                Ok(found) => (found.is_some(), None),
                Err(error) => (false, Some(format!("not known: {}", api_text(&error)))),
            },
        };
        Self { object: key.to_string(), exists, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_first_and_the_list_has_an_end() {
        let state =
            |name: usize, exists| ObjectState { object: format!("ConfigMap.v1 n/{name}"), exists, why: None };
        let mut objects: Vec<ObjectState> = (0..60).map(|name| state(name, true)).collect();
        objects.push(state(60, false));
        let mut found = Objects { revision: Some("light-1".to_owned()), error: None, objects };
        let text = found.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..3], ["  60 of the 61 objects of light-1 exist", "  MISSING  ConfigMap.v1 n/60"]);
        assert_eq!((lines.len(), lines[52]), (53, "  and 11 more"));
        found.error = Some("Secret x\u{1b}[2J\nis forbidden".to_owned());
        let text = found.text();
        assert!(
            text.lines().count() == 2 && text.contains("not known: ") && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
