//! The CRDs of an extension's first revision, which are created before everything else: all of them, or none.
//!
//! No dry run has shown whether the API server takes them, because it would cost as much as to create them. If one is refused,
//! those that were created beside it are deleted again, before there can be custom resources. Later attempts ask first.
//!
//! Until those that it took are served, the roles and bindings of the revision are created, which need none of them.

use std::{cmp::Reverse, collections::BTreeMap};

use kube::api::{DeleteParams, Preconditions};
use olm_object::ObjectKey;
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{Seen, if_exists};

use super::{
    executor::{CrdOrder, Executor},
    state::{Brought, Change, State, failed, summary},
    target::Target,
};
use crate::cluster_object_set::{
    observe::content::{Item, LoadedPhase},
    report::Outcome,
};

impl Executor<'_> {
    /// Brings the CRDs of a first revision to their desired state. Those of others have their turn in their phase.
    ///
    /// # Errors
    /// The outcome with which the roll-out ends here.
    pub(super) async fn create_crds(
        &self,
        phases: &[LoadedPhase],
    ) -> Result<BTreeMap<ObjectKey, Brought>, Outcome> {
        let is_crd = |item: &&Item| item.known.key.is_crd();
        let mut all = BTreeMap::new();
        for (index, phase) in phases.iter().enumerate().filter(|_| self.crds == CrdOrder::First) {
            let crds: Vec<&Item> = phase.items.iter().filter(is_crd).collect();
            if !self.rolling_out {
                let questions = crds.iter().map(|crd| self.refusal(crd)).collect();
                let refused: Vec<Brought> =
                    concurrently(REQUESTS, questions).await.into_iter().flatten().collect();
                if !refused.is_empty() {
                    return Err(summary(index, &refused));
                }
            }
            let mut brought = self.bring_largest_first(&crds).await;
            if brought.iter().any(|one| one.state.is_refusal()) {
                let removals = brought.iter_mut().map(|one| self.take_back(one)).collect();
                concurrently(REQUESTS, removals).await;
            }
            let outcome = summary(index, &brought);
            if !matches!(outcome, Outcome::Complete | Outcome::Incomplete { awaits_deletion: false, .. }) {
                return Err(outcome);
            }
            all.extend(brought.into_iter().map(|one| (one.key.clone(), one)));
        }
        Ok(all)
    }

    /// Whether roles and bindings do not wait for this phase: it has the CRDs of a first revision. They were created before, so
    /// that the API server has taken all of them, and at most does not serve them yet.
    pub(super) fn is_passed(&self, phase: &LoadedPhase) -> bool {
        self.crds == CrdOrder::First && are_all(phase, ObjectKey::is_crd)
    }

    /// The largest takes the longest until it is served, and everything else waits for it.
    async fn bring_largest_first(&self, crds: &[&Item]) -> Vec<Brought> {
        let mut ordered: Vec<(usize, &Item)> = crds.iter().copied().enumerate().collect();
        ordered.sort_by_key(|(_, crd)| Reverse(crd.packed_bytes()));
        let creations = ordered.iter().map(|(at, crd)| async { (*at, self.bring(crd).await) }).collect();
        let mut brought = concurrently(REQUESTS, creations).await;
        brought.sort_by_key(|(at, _)| *at);
        brought.into_iter().map(|(_, one)| one).collect()
    }

    /// Asks whether the API server would create a CRD that is missing, and what it has against it.
    async fn refusal(&self, item: &Item) -> Option<Brought> {
        let key = &item.known.key;
        // A kind that is not found is reported when the CRD is brought.
        let kind = self.kind(key).await.ok()?;
        if matches!(self.cx.watches.seen(&kind.resource, "", &key.name), Seen::Present { .. }) {
            return None;
        }
        let (desired, injection) = (self.desired(item), self.injection(item));
        let api = kind.api(&self.client, "");
        let target = Target { api, key, desired: &desired, injection: injection.as_ref() };
        let state = failed(key, &target.dry_run_creation().await.err()?);
        state.is_refusal().then(|| Brought { key: key.clone(), state, change: None })
    }

    /// Deletes a CRD that was created just now.
    async fn take_back(&self, crd: &mut Brought) {
        let key = &crd.key;
        let check = self.cx.checks.recall(&self.owner.uid, key);
        let (Some(Change::Created), Some(check)) = (crd.change, check) else { return };
        let kind = match self.kind(key).await {
            Ok(kind) => kind,
            Err(error) => return crd.state = State::failed(key, error, None),
        };
        // It has another version by now, because its status is being written.
        let this_one = Preconditions { uid: Some(check.uid), resource_version: None };
        let params = DeleteParams::background().preconditions(this_one);
        let api = kind.api(&self.client, "");
        if let Err(error) = if_exists(api.delete(&key.name, &params)).await {
            crd.state = failed(key, &error);
        }
    }
}

/// Whether the objects of the phase are all of these kinds.
pub(super) fn are_all(phase: &LoadedPhase, are: impl Fn(&ObjectKey) -> bool) -> bool {
    phase.items.iter().all(|item| are(&item.known.key))
}
