//! Kubernetes Events about objects.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use olm_text::visible;

use crate::client::bounded;

/// Most bytes of an Event's note; the API refuses longer ones.
const NOTE_BYTES_MAX: usize = 1024;

/// Publishes the Events of a controller.
#[derive(Clone)]
pub struct EventPublisher(Recorder);

impl EventPublisher {
    /// Publishes in the name of a controller, and of one of its processes if that is given.
    pub fn new(client: Client, controller: &str, instance: Option<&str>) -> Self {
        let reporter = Reporter { controller: controller.to_owned(), instance: instance.map(str::to_owned) };
        Self(Recorder::new(client, reporter))
    }

    /// Publishes an Event, or a warning. One that is not written fails no reconcile.
    pub async fn publish(&self, about: &ObjectReference, warning: bool, reason: &str, note: &str) {
        let note = visible(note).into_owned();
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            // Events of one action are counted together under the first one's note.
            action: format!("{reason} {:016x}", fingerprint(&note)),
            note: Some(shortened(note)),
            secondary: None,
        };
        if let Err(error) = bounded(self.0.publish(&event, about)).await {
            tracing::debug!(%error, reason, "event not published");
        }
    }
}

fn fingerprint(note: &str) -> u64 {
    // FNV-1a: short, and free of the process's random seed.
    note.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn shortened(mut note: String) -> String {
    if note.len() > NOTE_BYTES_MAX {
        note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX - 3));
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_fit_the_api() {
        assert!(shortened("ü".repeat(2000)).len() <= NOTE_BYTES_MAX);
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
