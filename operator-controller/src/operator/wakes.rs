//! Who wakes whom.

use std::{collections::BTreeSet, sync::Arc};

use futures::{StreamExt, stream::BoxStream};
use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::reflector::{ObjectRef, Store},
};
use olm_api::{
    ownership::{claimed, claimed_uids, named_like_revision_of, revision_of},
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet},
};
use olm_runtime::{Chance, OwnerChanged, Source, Wake};
use tokio::sync::mpsc;

use crate::{access::Waiting, dependents::Dependents};

/// Those whom settings and admission policies concern: every extension, and the object sets that wait for an account.
pub(super) struct Everyone {
    extensions: Store<DeserializeGuard<ClusterExtension>>,
    wake_extension: mpsc::Sender<String>,
    waiting: Arc<Waiting>,
    wake_set: mpsc::Sender<String>,
}

impl Everyone {
    pub(super) fn new(
        extensions: &Store<DeserializeGuard<ClusterExtension>>,
        wake_extension: &mpsc::Sender<String>,
        waiting: &Arc<Waiting>,
        wake_set: &mpsc::Sender<String>,
    ) -> Self {
        Self {
            extensions: extensions.clone(),
            wake_extension: wake_extension.clone(),
            waiting: waiting.clone(),
            wake_set: wake_set.clone(),
        }
    }

    pub(super) async fn wake(&self) {
        let mut names: Vec<String> = self.extensions.state().iter().map(|one| one.name_any()).collect();
        names.sort_unstable();
        for name in names {
            // A closed channel means that the process is ending.
            let _ = self.wake_extension.send(name).await;
        }
        self.waiting.wake_sets(&self.wake_set).await;
    }
}

/// Wakes that may wait in a channel before their sender waits.
pub(super) const WAKES: usize = 1024;

/// The catalogs, and the names of those that change.
pub(super) fn known_catalogs(
    client: kube::Client,
    chance: &Chance,
) -> (Source<ClusterCatalog>, mpsc::Receiver<String>) {
    let (changed, names) = mpsc::channel::<String>(WAKES);
    let source = Source::all(client, chance).observed(move |catalog: &ClusterCatalog| {
        let (changed, name) = (changed.clone(), catalog.name_any());
        // Nobody listens where catalogd is in this process; a full channel is made up for by the next look.
        async move { drop(changed.try_send(name)) }
    });
    (source, names)
}

/// The revisions. One that changes wakes its extension, and those that wait for something to be installed.
pub(super) fn revisions(
    client: kube::Client,
    chance: &Chance,
    (wake, extensions): (mpsc::Sender<String>, Store<DeserializeGuard<ClusterExtension>>),
    dependents: Arc<Dependents>,
) -> Source<ClusterObjectSet> {
    Source::<ClusterObjectSet>::all(client, chance).observed(move |set| {
        let owners = concerned(set, &extensions);
        let (wake, dependents) = (wake.clone(), dependents.clone());
        let goes = set.metadata.deletion_timestamp.is_some();
        async move {
            for owner in owners {
                // A closed channel means that the process is ending.
                let _ = wake.send(owner).await;
            }
            if goes { dependents.wake_met().await } else { dependents.wake().await }
        }
    })
}

/// The extensions that a set concerns. A claim that does not hold, and a name that is taken, are reported by the extension.
fn concerned(
    set: &ClusterObjectSet,
    extensions: &Store<DeserializeGuard<ClusterExtension>>,
) -> BTreeSet<String> {
    let name = set.name_any();
    let claimed = claimed(&set.metadata).map(|(name, _)| name);
    let mut owners: BTreeSet<String> =
        claimed.chain(named_like_revision_of(&name)).map(str::to_owned).collect();
    // The UID of an extension under another name than its own; no honest revision has one.
    let own = revision_of(&set.metadata).map(|extension| extension.uid);
    let others: BTreeSet<&str> = claimed_uids(&set.metadata).filter(|uid| Some(*uid) != own).collect();
    if !others.is_empty() {
        let state = extensions.state();
        let meant = state.iter().filter(|one| one.uid().is_some_and(|uid| others.contains(uid.as_str())));
        owners.extend(meant.map(|one| one.name_any()));
    }
    owners
}

/// Wakes by name.
pub(super) fn names<K>(receiver: mpsc::Receiver<String>) -> BoxStream<'static, Wake<K>>
where
    K: kube::Resource<DynamicType = ()> + 'static,
{
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|name| (name, receiver))
    })
    .map(|name| ObjectRef::<DeserializeGuard<K>>::new(&name))
    .boxed()
}

/// Wakes of the revisions whose objects changed; what belongs to an extension as a whole, such as the Secrets of
/// its webhooks, wakes all of its revisions.
pub(crate) fn owners(
    receiver: mpsc::Receiver<OwnerChanged>,
    sets: Store<DeserializeGuard<ClusterObjectSet>>,
) -> BoxStream<'static, Wake<ClusterObjectSet>> {
    let of_extension = |extension: &str, set: &ClusterObjectSet| {
        set.owner_references().iter().any(|r| r.kind == "ClusterExtension" && r.name == extension)
    };
    futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|owner| (owner, receiver))
    })
    .flat_map(move |owner| {
        let state = sets.state();
        let known = state.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        let mut woken: Vec<String> = match owner {
            OwnerChanged::Named { kind, name } => match kind.as_str() {
                "ClusterObjectSet" => vec![name],
                "ClusterExtension" => {
                    known.filter(|set| of_extension(&name, set)).map(ResourceExt::name_any).collect()
                }
                _ => Vec::new(),
            },
            // The Secrets of webhooks belong to the extension.
            OwnerChanged::Kept { uid } => {
                let is_owner = |set: &&ClusterObjectSet| {
                    set.uid().as_deref() == Some(uid.as_str())
                        || set.owner_references().iter().any(|r| r.uid == uid)
                };
                known.filter(is_owner).map(ResourceExt::name_any).collect()
            }
        };
        woken.sort_unstable();
        futures::stream::iter(woken)
    })
    .map(|name| ObjectRef::new(&name))
    .boxed()
}
