//! The UIDs of namespaces: an extension knows by them whether its namespace was deleted and created again, without a
//! request at each reconcile.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt, runtime::watcher::Event};
use olm_runtime::{Chance, Metadata};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    Known,
    watched::{Changes, Entries, add},
};
use crate::interest::{Interest, Interests};

/// The UIDs of all namespaces, once they have been listed. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Namespaces {
    uids: Arc<Mutex<Entries<String, String>>>,
    listed: Known<()>,
}

impl Namespaces {
    /// Waits until all namespaces have been listed.
    pub(crate) async fn ready(&self) {
        self.listed.ready().await;
    }

    /// The UID of a namespace, if there is one of the name.
    ///
    /// # Errors
    /// The namespaces have not been listed yet.
    pub(crate) fn uid(&self, name: &str) -> Result<Option<String>, String> {
        let unknown = || "the namespaces of the cluster are not known yet".to_owned();
        self.listed.get().map(|()| self.uids.lock().known.get(name).cloned()).ok_or_else(unknown)
    }

    /// Watches until `stop`.
    pub(crate) async fn follow(
        &self,
        client: Client,
        chance: &Chance,
        interests: Interests,
        stop: CancellationToken,
    ) {
        let mut changes = Changes::new();
        let known = self.clone();
        add::<Namespace, _>(&mut changes, &client, chance, move |event| Some(known.take(event)));
        while let Some(Some(changed)) = stop.run_until_cancelled(changes.next()).await {
            for name in changed {
                interests.fire(&Interest::Namespace(name));
            }
        }
    }

    /// Takes note of an event; the namespaces that came, went, or are others under their names.
    fn take(&self, event: Event<Metadata>) -> Vec<String> {
        let is_whole = matches!(event, Event::InitDone);
        let changed =
            self.uids.lock().take(event, |one| Some((one.name_any(), one.uid().unwrap_or_default())));
        if is_whole {
            self.listed.set(());
        }
        changed.into_iter().flatten().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectMeta, PartialObjectMetaExt as _};

    use super::*;

    fn namespace(name: &str, uid: &str) -> Metadata {
        let (name, uid) = (Some(name.to_owned()), Some(uid.to_owned()));
        ObjectMeta { name, uid, ..ObjectMeta::default() }.into_response_partial()
    }

    #[test]
    fn a_namespace_that_comes_goes_or_is_another_one_is_news() {
        let known = Namespaces::default();
        let news = |event| known.take(event);
        assert!(known.uid("a").is_err(), "nothing is known before the first list");
        for (name, uid) in [("a", "1"), ("b", "1"), ("c", "1")] {
            assert!(news(Event::InitApply(namespace(name, uid))).is_empty());
        }
        assert!(known.uid("a").is_err(), "the list is not complete");
        assert_eq!(news(Event::InitDone), ["a", "b", "c"]);
        assert_eq!((known.uid("a"), known.uid("d")), (Ok(Some("1".into())), Ok(None)));
        assert!(news(Event::Apply(namespace("a", "1"))).is_empty(), "only its labels changed");
        assert_eq!(news(Event::Apply(namespace("a", "2"))), ["a"]);
        assert_eq!(news(Event::Delete(namespace("b", "1"))), ["b"]);
        assert!(news(Event::Delete(namespace("b", "1"))).is_empty());
        assert_eq!(known.uid("b"), Ok(None));
        // While the watch was interrupted one was deleted, and another one deleted and created again.
        assert!(news(Event::Init).is_empty());
        news(Event::InitApply(namespace("a", "3")));
        assert_eq!(known.uid("c"), Ok(Some("1".into())), "as before, until the list is complete");
        assert_eq!(news(Event::InitDone), ["c", "a"]);
        assert_eq!((known.uid("a"), known.uid("c")), (Ok(Some("3".into())), Ok(None)));
    }
}
