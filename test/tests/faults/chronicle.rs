//! Every state of extensions and revisions, as the API server told them, and what they must never say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    runtime::watcher::{self, Event},
};
use olm_api::{
    ConditionType,
    names::BUNDLE_NAME,
    v1::{ClusterExtension, ClusterObjectSet, LifecycleState},
};
use tokio::task::JoinHandle;

#[derive(Clone, Debug)]
enum State {
    /// The bundle that the status names.
    Extension {
        installed: String,
    },
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
pub(crate) struct Chronicle {
    states: States,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Chronicle {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Chronicle {
    pub(crate) fn start(client: &Client) -> Self {
        let states = States::default();
        let extensions =
            tokio::spawn(follow(Api::<ClusterExtension>::all(client.clone()), states.clone(), |e, gone| {
                let install = e.status.as_ref().and_then(|s| s.install.as_ref()).filter(|_| !gone);
                install.map(|install| State::Extension { installed: install.bundle.name.clone() })
            }));
        let revisions =
            tokio::spawn(follow(Api::<ClusterObjectSet>::all(client.clone()), states.clone(), |s, gone| {
                Some(if gone {
                    State::RevisionGone { name: s.name_any() }
                } else {
                    State::Revision {
                        name: s.name_any(),
                        bundle: s.annotations().get(BUNDLE_NAME).cloned().unwrap_or_default(),
                        succeeded: s
                            .status
                            .as_ref()
                            .is_some_and(|s| s.conditions.is_true(ConditionType::Succeeded)),
                        active: s.spec.lifecycle_state == LifecycleState::Active,
                    }
                })
            }));
        Self { states, tasks: [extensions, revisions] }
    }

    /// No status ever named a bundle that was not installed: one whose revision is active and has rolled out, now
    /// or since the extension's state before this one, when the pass that wrote it looked. Returns how many states
    /// were looked at.
    pub(crate) fn check(&self) -> Result<usize> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut revisions: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        let mut lately: BTreeSet<&str> = BTreeSet::new();
        for (version, state) in states.iter() {
            match state {
                State::Revision { name, bundle, succeeded, active } => {
                    revisions.insert(name, (bundle, *succeeded && *active));
                }
                State::RevisionGone { name } => drop(revisions.remove(name.as_str())),
                State::Extension { installed } if !lately.contains(installed.as_str()) => {
                    bail!("at {version} the status names {installed}, which is not installed: {revisions:?}");
                }
                State::Extension { .. } => lately.clear(),
            }
            lately.extend(revisions.values().filter(|(_, installed)| *installed).map(|(bundle, _)| *bundle));
        }
        Ok(states.len())
    }
}

async fn follow<K>(api: Api<K>, states: States, read: impl Fn(&K, bool) -> Option<State>)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut events = std::pin::pin!(kube::runtime::watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        let (object, gone) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        let version = object.resource_version().and_then(|text| text.parse().ok());
        if let (Some(version), Some(state)) = (version, read(&object, gone)) {
            states.lock().unwrap_or_else(PoisonError::into_inner).insert(version, state);
        }
    }
}
