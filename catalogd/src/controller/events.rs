//! Events on catalogs, for the steps a person would want to know.

use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use olm_api::v1::ClusterCatalog;
use olm_runtime::bounded;
use olm_text::visible;

/// Longest note the API takes, in bytes.
const NOTE_BYTES_MAX: usize = 1024;

/// Publishes events; that one cannot be published is logged and nothing else.
pub(super) struct Events(Recorder);

impl Events {
    pub(super) fn new(client: Client) -> Self {
        Self(Recorder::new(client, Reporter { controller: "catalogd".into(), instance: None }))
    }

    /// New content is served.
    pub(super) async fn unpacked(&self, catalog: &ClusterCatalog, reference: &str) {
        self.publish(catalog, EventType::Normal, "Unpacked", format!("Serving content of {reference}")).await;
    }

    /// New content is on its way.
    pub(super) async fn pulling(&self, catalog: &ClusterCatalog, message: &str) {
        self.publish(catalog, EventType::Normal, "Pulling", format!("Pulling {message}")).await;
    }

    /// The catalog cannot be made as its spec says.
    pub(super) async fn failed(&self, catalog: &ClusterCatalog, terminal: bool, message: &str) {
        let reason = if terminal { "Blocked" } else { "Retrying" };
        self.publish(catalog, EventType::Warning, reason, message.to_owned()).await;
    }

    async fn publish(&self, catalog: &ClusterCatalog, type_: EventType, reason: &str, note: String) {
        let mut note = visible(&note).into_owned();
        note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
        let event = Event {
            type_,
            reason: reason.into(),
            // Events of one action are counted together under the first one's note.
            action: format!("Unpack-{:08x}", checksum(&note)),
            note: Some(note),
            secondary: None,
        };
        if let Err(error) = bounded(self.0.publish(&event, &catalog.object_ref(&()))).await {
            tracing::debug!(%error, reason, "event not published");
        }
    }
}

fn checksum(note: &str) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(note.as_bytes());
    crc.sum()
}
