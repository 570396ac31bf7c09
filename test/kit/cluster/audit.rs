//! The API server's audit log: who wrote what.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::permissions_used::{self, Subject};

/// Verbs that change nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

/// A write the API server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditEvent {
    /// The request's verb: create, update, patch, delete, deletecollection.
    pub verb: String,
    /// Who asked.
    pub user: String,
    /// On whose behalf, if the request impersonates somebody.
    pub impersonated: Option<String>,
    /// The client's `User-Agent`.
    pub user_agent: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The resource: `deployments`.
    pub resource: String,
    /// The subresource: `status`. Empty for none.
    pub subresource: String,
    /// The object's namespace. Empty for none.
    pub namespace: String,
    /// The object's name. Empty in a create without one.
    pub name: String,
    /// The path asked for, query included.
    pub uri: String,
    /// The answer's HTTP status.
    pub code: i64,
    /// When the request came, RFC 3339: events are logged when they are answered.
    pub received: String,
}

impl AuditEvent {
    /// Whether the request only asked what would happen.
    pub fn is_dry_run(&self) -> bool {
        self.uri.contains("dryRun=All")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<Value>,
    #[serde(default)]
    request_received_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

/// The events from a place in the log on. A line that is still being written is left out.
pub(super) fn read(log: &Path, from: u64) -> Result<Vec<AuditEvent>> {
    let mut text = String::new();
    let mut file = File::open(log).with_context(|| format!("opening {}", log.display()))?;
    file.seek(SeekFrom::Start(from))?;
    file.read_to_string(&mut text).with_context(|| format!("reading {}", log.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let events = whole.lines().map(event).collect::<Result<Vec<_>>>()?;
    // Where the rights that are used are kept, the log has the programs' reads for that, of which tests need not know.
    let keeps_rights = permissions_used::folder().is_some();
    let for_rights = |event: &AuditEvent| {
        keeps_rights
            && Subject::ALL.iter().any(|subject| subject.user() == event.user)
            && READS.contains(&event.verb.as_str())
    };
    Ok(events.into_iter().filter(|event| !for_rights(event)).collect())
}

fn event(line: &str) -> Result<AuditEvent> {
    let line: Line = serde_json::from_str(line).context("reading an audit event")?;
    Ok(AuditEvent {
        verb: line.verb,
        user: line.user.username,
        impersonated: line.impersonated_user.map(|user| user.username),
        user_agent: line.user_agent,
        group: line.object_ref.api_group,
        resource: line.object_ref.resource,
        subresource: line.object_ref.subresource,
        namespace: line.object_ref.namespace,
        name: line.object_ref.name,
        uri: line.request_uri,
        code: line.response_status.and_then(|status| status["code"].as_i64()).unwrap_or_default(),
        received: line.request_received_timestamp,
    })
}
