//! Every state of extensions and revisions, as the API server told them, and what they must never say.

use std::sync::{Mutex, PoisonError};

use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use olm_api::names::BUNDLE_NAME;
use olm_test::prelude::*;
use tokio::{sync::oneshot, task::JoinHandle};

#[derive(Clone, Debug)]
enum State {
    /// The bundle and the revisions that the status names.
    Extension {
        installed: Option<String>,
        revisions: Vec<String>,
    },
    ExtensionGone,
    Revision {
        name: String,
        bundle: String,
        succeeded: bool,
        active: bool,
    },
    RevisionGone {
        name: String,
    },
}

type States = Arc<Mutex<BTreeMap<u64, State>>>;

/// Records states until it is dropped.
pub(crate) struct History {
    states: States,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for History {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl History {
    /// Returns when nothing can be missed any more.
    pub(crate) async fn start(client: &Client) -> Result<Self> {
        let states = States::default();
        let (extensions, follows_extensions) =
            follow(Api::<ClusterExtension>::all(client.clone()), states.clone(), extension);
        let (revisions, follows_revisions) =
            follow(Api::<ClusterObjectSet>::all(client.clone()), states.clone(), revision);
        let history = Self { states, tasks: [extensions, revisions] };
        for follows in [follows_extensions, follows_revisions] {
            tokio::time::timeout(DEADLINE, follows).await.context("watching")??;
        }
        Ok(history)
    }

    /// Waits until the end of all extensions and of the revisions that they named has been told.
    async fn complete(&self) -> Result<()> {
        wait::until("all states to be told", DEADLINE, async || {
            let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut is_gone, mut revisions) = (true, BTreeMap::new());
            for state in states.values() {
                match state {
                    State::Extension { revisions: named, .. } => {
                        is_gone = false;
                        for name in named {
                            revisions.entry(name.as_str()).or_insert(false);
                        }
                    }
                    State::ExtensionGone => is_gone = true,
                    State::Revision { name, .. } => drop(revisions.insert(name, false)),
                    State::RevisionGone { name } => drop(revisions.insert(name, true)),
                }
            }
            ensure!(is_gone, "the extension is there");
            ensure!(revisions.values().all(|is_gone| *is_gone), "revisions are there: {revisions:?}");
            Ok(())
        })
        .await
    }

    /// No status ever named a bundle that was not installed: one whose revision is active and has rolled out, now
    /// or since the extension's state before this one, when the pass that wrote it looked. Returns how many states
    /// were looked at.
    pub(crate) async fn check(&self) -> Result<usize> {
        self.complete().await?;
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut revisions: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        let mut lately: BTreeSet<&str> = BTreeSet::new();
        for (version, state) in states.iter() {
            match state {
                State::Revision { name, bundle, succeeded, active } => {
                    revisions.insert(name, (bundle, *succeeded && *active));
                }
                State::RevisionGone { name } => drop(revisions.remove(name.as_str())),
                State::Extension { installed: Some(installed), .. }
                    if !lately.contains(installed.as_str()) =>
                {
                    bail!("at {version} the status names {installed}, which is not installed: {revisions:?}");
                }
                State::Extension { .. } | State::ExtensionGone => lately.clear(),
            }
            lately.extend(revisions.values().filter(|(_, installed)| *installed).map(|(bundle, _)| *bundle));
        }
        Ok(states.len())
    }
}

fn extension(extension: &ClusterExtension, is_gone: bool) -> State {
    if is_gone {
        return State::ExtensionGone;
    }
    let status = extension.status.clone().unwrap_or_default();
    State::Extension {
        installed: status.install.map(|install| install.bundle.name),
        revisions: status.active_revisions.into_iter().map(|revision| revision.name).collect(),
    }
}

fn revision(set: &ClusterObjectSet, is_gone: bool) -> State {
    let name = set.name_any();
    if is_gone {
        return State::RevisionGone { name };
    }
    let conditions = set.status.as_ref().map(|status| &status.conditions);
    State::Revision {
        name,
        bundle: set.annotations().get(BUNDLE_NAME).cloned().unwrap_or_default(),
        succeeded: conditions.is_some_and(|conditions| conditions.is_true(ConditionType::Succeeded)),
        active: set.spec.lifecycle_state == LifecycleState::Active,
    }
}

/// Records the states of a kind. The receiver is told when the first list is through.
fn follow<K>(
    api: Api<K>,
    states: States,
    read: impl Fn(&K, bool) -> State + Send + 'static,
) -> (JoinHandle<()>, oneshot::Receiver<()>)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let (follows, told) = oneshot::channel();
    let task = async move {
        let mut follows = Some(follows);
        let mut events = std::pin::pin!(kube::runtime::watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let (object, is_gone) = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
                Ok(Event::Delete(object)) => (object, true),
                Ok(Event::InitDone) => {
                    // Nobody may be waiting any more.
                    let _ = follows.take().map(|follows| follows.send(()));
                    continue;
                }
                Ok(Event::Init) | Err(_) => continue,
            };
            if let Some(version) = object.resource_version().and_then(|text| text.parse().ok()) {
                let state = read(&object, is_gone);
                states.lock().unwrap_or_else(PoisonError::into_inner).insert(version, state);
            }
        }
    };
    (tokio::spawn(task), told)
}
