//! What is known of the objects of revisions since they were last checked.
//!
//! An object whose watch shows the resource version of the last check has not changed: it is not read again. A new process
//! knows nothing and reads every object once.

use std::collections::{HashMap, HashSet};

use olm_api::v1::ObservedPhase;
use olm_object::ObjectKey;
use olm_objectset::{FindingKind, Workload};
use parking_lot::Mutex;

use super::observe::content::{LoadedPhase, digests, identity};

/// What the last check of an object found; after it the object was as desired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// Digest of what the desired object that it was compared with is made of.
    pub(crate) desired: String,
    /// UID of the live object.
    pub(crate) uid: String,
    /// Its resource version.
    pub(crate) resource_version: String,
    /// Digest of its desired fields right after the last apply.
    pub(crate) applied: Option<String>,
    /// The messages of its failed probes.
    pub(crate) failures: Vec<String>,
    /// What it waited for then.
    pub(crate) waits: Option<String>,
    /// The way to its Pods, where it is a workload and was not healthy.
    pub(crate) workload: Option<Box<Workload>>,
}

/// What is remembered of a revision.
#[derive(Debug, Default)]
struct Memory {
    checks: HashMap<ObjectKey, Check>,
    /// Digests of its phases, by what tells this content from another.
    content: Option<(String, Vec<ObservedPhase>)>,
    /// What was last found to be wrong with its workloads.
    findings: HashSet<(ObjectKey, FindingKind)>,
}

/// The last checks by revision (UID) and object.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<HashMap<String, Memory>>);

impl Checks {
    pub(crate) fn recall(&self, revision: &str, object: &ObjectKey) -> Option<Check> {
        self.0.lock().get(revision)?.checks.get(object).cloned()
    }

    pub(crate) fn remember(&self, revision: &str, object: ObjectKey, check: Check) {
        self.0.lock().entry(revision.to_owned()).or_default().checks.insert(object, check);
    }

    /// The digests of the phases, worked out once for each content.
    pub(crate) fn content(&self, revision: &str, phases: &[LoadedPhase]) -> Vec<ObservedPhase> {
        let identity = identity(phases);
        let known = self.0.lock().get(revision).and_then(|memory| memory.content.clone());
        if let Some((_, digests)) = known.filter(|(known, _)| *known == identity) {
            return digests;
        }
        let digests = digests(phases);
        self.0.lock().entry(revision.to_owned()).or_default().content = Some((identity, digests.clone()));
        digests
    }

    /// Remembers what is wrong with workloads now; those of `found` that are new.
    pub(crate) fn news(
        &self,
        revision: &str,
        found: HashSet<(ObjectKey, FindingKind)>,
    ) -> HashSet<(ObjectKey, FindingKind)> {
        let mut all = self.0.lock();
        if found.is_empty() && !all.contains_key(revision) {
            return found;
        }
        let memory = all.entry(revision.to_owned()).or_default();
        let news = found.difference(&memory.findings).cloned().collect();
        memory.findings = found;
        news
    }

    pub(crate) fn forget(&self, revision: &str) {
        self.0.lock().remove(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_when_it_was_not_there_before() {
        let object = |name: &str| ObjectKey {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        };
        let crash = || HashSet::from([(object("one"), FindingKind::CrashLoopBackOff)]);
        let pull = || HashSet::from([(object("other"), FindingKind::ImagePullBackOff)]);
        let both = || crash().union(&pull()).cloned().collect();
        let (checks, none) = (Checks::default(), HashSet::new);
        let steps = [
            (none(), none()),
            (crash(), crash()),
            (crash(), none()),
            (both(), pull()),
            (none(), none()),
            (crash(), crash()),
        ];
        for (found, news) in steps {
            assert_eq!(checks.news("r", found), news);
        }
        checks.forget("r");
        assert_eq!(checks.news("r", crash()), crash());
    }
}
