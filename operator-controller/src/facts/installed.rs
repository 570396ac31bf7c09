//! What is installed, for extensions whose bundle needs something else: every change of a revision fires the interest in
//! it, and so does a CustomResourceDefinition that comes.
//!
//! Those that wait are known with what they would bring, because two of them may be on a cycle: one that begins to wait
//! may be what another one waits for. Nothing of this survives the process; the next reconcile of each brings it back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Client, ResourceExt};
use olm_api::{
    ownership::{claimed, claimed_uids, named_like_revision_of},
    v1::ClusterObjectSet,
};
use olm_dependencies::Requirement;
use olm_fbc::Property;
use olm_runtime::{Chance, Source};
use olm_semver::Version;
use parking_lot::Mutex;

use crate::interest::{Interest, Interests, Wanted};

/// A bundle that is chosen and not installed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    pub(crate) package: String,
    pub(crate) version: Option<Version>,
    pub(crate) properties: Vec<Property>,
    pub(crate) requirements: Vec<Requirement>,
}

/// The extensions that wait.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    pending: Mutex<BTreeMap<String, Arc<Pending>>>,
    /// UIDs of the extensions that have what they want: what their revisions do not need, they do not need.
    settled: Mutex<BTreeSet<String>>,
    interests: Interests,
}

impl Installed {
    pub(crate) fn new(interests: Interests) -> Self {
        Self { interests, ..Self::default() }
    }

    /// Notes what an extension is about to install and lacks. When that is news, the others try again.
    pub(crate) fn set_pending(&self, extension: &str, pending: Pending, wanted: &Wanted) {
        wanted.add([Interest::Installed]);
        let pending = Arc::new(pending);
        let before = self.pending.lock().insert(extension.to_owned(), pending.clone());
        if before != Some(pending) {
            self.interests.fire(&Interest::Installed);
        }
    }

    /// The extension has what it needs, or is installed without it: it checks that again when something is removed.
    pub(crate) fn set_met(&self, extension: &str, wanted: &Wanted) {
        wanted.add([Interest::Removed]);
        self.forget(extension);
    }

    /// The extension needs nothing, or is gone.
    pub(crate) fn forget(&self, extension: &str) {
        self.pending.lock().remove(extension);
    }

    /// Notes whether an extension has what it wants.
    pub(crate) fn set_settled(&self, uid: &str, is_settled: bool) {
        if !is_settled {
            self.settled.lock().remove(uid);
        } else if self.settled.lock().insert(uid.to_owned()) {
            self.interests.fire(&Interest::Extensions);
        }
    }

    /// Whether the last reconcile of an extension found that it has what it wants.
    pub(crate) fn is_settled(&self, uid: &str) -> bool {
        self.settled.lock().contains(uid)
    }

    /// Everyone who waits, by name.
    pub(crate) fn get(&self) -> BTreeMap<String, Arc<Pending>> {
        self.pending.lock().clone()
    }
}

/// The revisions. One that changes brings a reconcile of its extension, and of those that depend on what is installed.
pub(crate) fn revisions(client: Client, chance: &Chance, interests: Interests) -> Source<ClusterObjectSet> {
    Source::<ClusterObjectSet>::all(client, chance).observed(move |set| {
        for extension in extensions(set) {
            interests.fire(&Interest::Revisions(extension));
        }
        let goes = set.metadata.deletion_timestamp.is_some();
        interests.fire(&if goes { Interest::Removed } else { Interest::Installed });
    })
}

/// Names and UIDs of the extensions that a set concerns. A claim that does not hold, and a name that is taken, are
/// reported by the extension.
fn extensions(set: &ClusterObjectSet) -> Vec<String> {
    let name = set.name_any();
    let names = claimed(&set.metadata).map(|(name, _)| name).chain(named_like_revision_of(&name));
    names.chain(claimed_uids(&set.metadata)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(package: &str) -> Pending {
        Pending {
            package: package.to_owned(),
            version: None,
            properties: Vec::new(),
            requirements: Vec::new(),
        }
    }

    #[test]
    fn who_waits_is_known_until_it_has_what_it_needs() {
        let installed = Installed::default();
        let interests = |act: &dyn Fn(&Wanted)| {
            let wanted = Wanted::default();
            act(&wanted);
            wanted.into_set().into_iter().collect::<Vec<_>>()
        };
        let waiting = || installed.get().into_keys().collect::<Vec<_>>();
        assert_eq!(
            interests(&|wanted| installed.set_pending("a", pending("p"), wanted)),
            [Interest::Installed]
        );
        installed.set_pending("b", pending("q"), &Wanted::default());
        assert_eq!(waiting(), ["a", "b"]);
        assert_eq!(interests(&|wanted| installed.set_met("a", wanted)), [Interest::Removed]);
        assert_eq!(waiting(), ["b"]);
        installed.forget("b");
        assert!(waiting().is_empty());
    }
}
