//! What an update policy asks of each revision that is written: that its plan was approved, or that a window is open. What
//! takes the place of a revision that failed needs neither, is as the revision before, and what failed is not tried again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use olm_api::{
    names::{
        BUNDLE_REFERENCE, CONTENT_DIGEST_ANNOTATION, PLAN_DIGEST_ANNOTATION, RETURNED_FROM_ANNOTATION,
        REVISION_OF_ANNOTATION, ROLLED_BACK_TO_ANNOTATION,
    },
    v1alpha1::{Approval, UpdatePolicySpec},
};
use olm_policy::{Entry, Policy};
use serde_json::Value;

use super::{properties::condition, store::Key};

/// How long the decision to write a revision may be older than the write: answers are slow, and events come late. So
/// much later than the first revision has rolled out another one is an update for everybody.
const LATE: Duration = Duration::from_mins(3);

/// The policy that is in force for all extensions, and what counts for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Consent {
    policy: Option<Policy>,
    /// All that was ever approved.
    approved: BTreeSet<String>,
    /// When a first revision of each extension (UID) had rolled out.
    installed: BTreeMap<String, Duration>,
    /// Revisions that the policy was asked about.
    pub(crate) updates: u64,
    /// Revisions that took the place of one that failed.
    pub(crate) returns: u64,
    /// Each revision by extension (UID) and number: its image, and the digest of its content.
    revisions: BTreeMap<(String, i64), [String; 2]>,
    /// The images that failed, by extension (UID), with the time.
    failed: BTreeMap<(String, String), Duration>,
    /// When a person or a catalog changed something last.
    changed: Duration,
}

impl Consent {
    /// From now on this policy is in force, or none.
    pub(crate) fn set_policy(&mut self, spec: Option<&Value>) {
        self.policy = spec.map(|spec| {
            let spec: UpdatePolicySpec = serde_json::from_value(spec.clone()).unwrap();
            Policy::parse("prod", &spec).unwrap()
        });
    }

    /// A person or a catalog changes something at this time.
    pub(crate) fn change(&mut self, time: Duration) {
        self.changed = time;
    }

    /// What is wrong with a new revision beside one that failed: it takes its place and is not as the one before, or it is
    /// another attempt although nothing has changed.
    fn beside_failure(&mut self, (extension, time): (&str, Duration), set: &Value) -> Option<String> {
        let annotation =
            |name: &str| set["metadata"]["annotations"][name].as_str().unwrap_or_default().to_owned();
        let number = set["spec"]["revision"].as_i64().unwrap_or_default();
        let [image, content] = [BUNDLE_REFERENCE, CONTENT_DIGEST_ANNOTATION].map(annotation);
        self.revisions.insert((extension.to_owned(), number), [image.clone(), content.clone()]);
        let record: Value = serde_json::from_str(&annotation(RETURNED_FROM_ANNOTATION)).unwrap_or_default();
        if let Some(failed) = record["revision"].as_i64() {
            self.returns += 1;
            let of = |number: i64| self.revisions.get(&(extension.to_owned(), number)).cloned();
            let target = annotation(ROLLED_BACK_TO_ANNOTATION).parse().ok().and_then(of);
            let [failed, _] = of(failed).unwrap_or_default();
            self.failed.insert((extension.to_owned(), failed), time);
            return (target.map(|[_, content]| content) != Some(content))
                .then(|| "it takes the place of one that failed, and is not as the one before".to_owned());
        }
        if !annotation(ROLLED_BACK_TO_ANNOTATION).is_empty() {
            return None;
        }
        let failed = self.failed.get(&(extension.to_owned(), image))?;
        (self.changed + LATE < *failed).then(|| "it has failed, and nothing has changed".to_owned())
    }

    pub(crate) fn approve(&mut self, digest: &str) {
        self.approved.insert(digest.to_owned());
    }

    /// Why a write of the program is one that the policy does not allow, if it is.
    pub(super) fn check(
        &mut self,
        ((resource, ..), time): (&Key, Duration),
        before: Option<&Value>,
        after: &Value,
    ) -> Option<String> {
        if resource != "clusterobjectsets" {
            return None;
        }
        let annotation = |name: &str| after["metadata"]["annotations"][name].as_str();
        let extension = annotation(REVISION_OF_ANNOTATION)?;
        if condition(after, "Succeeded") == Some("True") {
            self.installed.entry(extension.to_owned()).or_insert(time);
        }
        if before.is_some() {
            return None;
        }
        let wrong = self.beside_failure((extension, time), after);
        if wrong.is_some() || !after["metadata"]["annotations"][RETURNED_FROM_ANNOTATION].is_null() {
            return wrong;
        }
        let policy = self.policy.as_ref()?;
        if self.installed.get(extension).is_none_or(|since| time < *since + LATE) {
            return None;
        }
        self.updates += 1;
        let digest = annotation(PLAN_DIGEST_ANNOTATION).unwrap_or_default();
        if policy.approval == Approval::Manual && !self.approved.contains(digest) {
            return Some(format!("its plan {digest} was not approved"));
        }
        let is_back = annotation(ROLLED_BACK_TO_ANNOTATION).is_some();
        let minutes = 0..=i64::try_from(LATE.as_secs() / 60).unwrap_or_default();
        let now = Timestamp::UNIX_EPOCH + SignedDuration::try_from(time).unwrap_or_default();
        let mut moments = minutes.map(|minute| now - SignedDuration::from_mins(minute));
        let is_open = moments.any(|moment| policy.calendar.entry(moment) == Entry::Open);
        (!is_back && !is_open).then(|| "no window of the policy is open".to_owned())
    }
}
