//! The deletion policy of a revision: its objects get the form that the policy asks for, and the condition
//! `DeletionPolicy` says when all of them have it.
//!
//! A claim is taken back before anything is changed against it, and a status is only written for the revision as
//! it was read: so a reader of annotation and condition together may rely on them.

use jiff::Timestamp;
use kube::{ResourceExt, api::Patch};
use olm_api::{
    ConditionStatus, ConditionType, ConditionUpdate, Conditions, Reason,
    names::{DELETION_POLICY_ANNOTATION, OBJECT_FIELD_MANAGER},
    v1::ClusterObjectSet,
};
use olm_object::ObjectKey;
use olm_objectset::{
    DeletionPolicy, converts_by_webhook, form_patch, readable_without_webhook, retained_for,
    taking_form_patch,
};
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{DiscoveryError, api_text, as_conflict, bounded, if_exists, patch_as};
use serde_json::Value;

use crate::cluster_object_set::{
    act::{executor::Executor, get},
    content::{Item, LoadedPhase},
    report::Report,
};

/// What is said while the objects are on their way.
const PENDING: &str = "The objects of the revision are being prepared for the policy.";

/// The policy of a revision. Of a value that is not known nothing is deleted.
pub(crate) fn policy(set: &ClusterObjectSet) -> DeletionPolicy {
    let asked = set.annotations().get(DELETION_POLICY_ANNOTATION).map(String::as_str);
    DeletionPolicy::from_annotation(asked).unwrap_or(DeletionPolicy::Orphan)
}

/// The reason of conditions about a policy.
pub(crate) fn reason(policy: DeletionPolicy) -> Reason {
    match policy {
        DeletionPolicy::Delete => Reason::Delete,
        DeletionPolicy::RetainCrds => Reason::RetainCRDs,
        DeletionPolicy::Orphan => Reason::Orphan,
    }
}

/// What conditions claim about policies: the reason, and whether it is in force.
pub(crate) fn claim(conditions: Option<&Conditions>) -> Option<(&str, bool)> {
    let condition = conditions?.find(ConditionType::DeletionPolicy)?;
    Some((condition.reason.as_str(), condition.status == ConditionStatus::True.as_str()))
}

fn claim_of(set: &ClusterObjectSet) -> Option<(&str, bool)> {
    claim(set.status.as_ref().map(|status| &status.conditions))
}

/// Whether the status claims that a policy is in force which is not the revision's own.
pub(crate) fn contradicts(set: &ClusterObjectSet) -> bool {
    claim_of(set).is_some_and(|(claimed, in_force)| in_force && claimed != reason(policy(set)).as_str())
}

/// Whether the status claims that the revision's own policy is in force, or there is nothing to claim.
pub(crate) fn is_settled(set: &ClusterObjectSet) -> bool {
    match claim_of(set) {
        None => policy(set) == DeletionPolicy::Delete,
        Some((claimed, in_force)) => in_force && claimed == reason(policy(set)).as_str(),
    }
}

/// Writes the condition.
pub(crate) fn set_condition(
    conditions: &mut Conditions,
    set: &ClusterObjectSet,
    report: &Report,
    now: Timestamp,
) {
    let (policy, error) = (policy(set), report.outcome.error());
    let (in_force, text) = match (&report.policy, &error) {
        (Some(Ok(())), _) => (true, "All objects of the revision are prepared for the policy."),
        // It could not be checked: what was true stays true.
        (None, _) if is_settled(set) => return,
        (Some(Err(text)), _) | (None, Some(text)) => (false, text.as_str()),
        (None, None) => (false, PENDING),
    };
    if in_force && policy == DeletionPolicy::Delete {
        conditions.remove(ConditionType::DeletionPolicy);
        return;
    }
    let status = match policy {
        _ if in_force => ConditionStatus::True,
        // Everything may be deleted, but something may be left behind.
        DeletionPolicy::Delete if text != PENDING => ConditionStatus::Unknown,
        _ => ConditionStatus::False,
    };
    let generation = set.metadata.generation;
    let update =
        ConditionUpdate::new(ConditionType::DeletionPolicy, status, reason(policy), text, generation);
    conditions.set(update, now);
}

/// Brings the objects of `set` that exist into the form its policy asks for, and looks whether the CRDs that it
/// keeps could do without their webhooks. `None` when there is nothing to do.
pub(crate) async fn settle(
    set: &ClusterObjectSet,
    executor: &Executor<'_>,
    phases: &[LoadedPhase],
) -> Option<Result<(), String>> {
    let settled = is_settled(set);
    let retains = policy(set) == DeletionPolicy::RetainCrds;
    let items = phases.iter().flat_map(|phase| &phase.items);
    // New versions of objects may be stored at any time; all else stays as it is once it is settled.
    let may_convert = |item: &Item| item.known.key.is_crd() && converts_by_webhook(item.object());
    let items: Vec<&Item> = items.filter(|item| !settled || (retains && may_convert(item))).collect();
    if settled && items.is_empty() {
        return None;
    }
    let checks = items.into_iter().map(|item| settle_one(executor, item, retains)).collect();
    let mut problems: Vec<String> =
        concurrently(REQUESTS, checks).await.into_iter().filter_map(Result::err).collect();
    problems.sort_unstable();
    Some(if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) })
}

async fn settle_one(executor: &Executor<'_>, item: &Item, retains: bool) -> Result<(), String> {
    let key = &item.known.key;
    let failed = |error: &kube::Error| format!("Object {key}: {}", api_text(error));
    let kind = match executor.kind(key).await {
        Ok(kind) => kind,
        // A kind that is not there has no objects.
        Err(DiscoveryError::Unknown { .. }) => return Ok(()),
        Err(error) => return Err(format!("Object {key}: {error}")),
    };
    let api = kind.api(&executor.client, &key.namespace);
    let Some(live) = get(&api, &key.name).await.map_err(|e| failed(&e))? else { return Ok(()) };
    if executor.is_of_helm(&live) {
        // Who takes it over moves the ownership of its fields as well.
        let kept = executor.owner.policy.keeps(key);
        return if kept { Err(format!("Object {key}: it is not taken over yet")) } else { Ok(()) };
    }
    executor.may_own(key, &live).await.map_err(|why| format!("Object {key}: {why}"))?;
    executor.form(&api, key, &live).await.map_err(|e| failed(&e))?;
    if retains && key.is_crd() {
        readable_without_webhook(&live)?;
    }
    Ok(())
}

impl Executor<'_> {
    /// Checks that an object without an owner may get one back: that the revision still has the policy that is carried out.
    ///
    /// The policy is written to a revision before its objects lose their owner. So the revision is read after the object,
    /// and a former leader that knows only an earlier policy gives nothing an owner that its successor reports as kept.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) async fn may_own(&self, key: &ObjectKey, live: &Value) -> Result<(), String> {
        if self.owner.policy.keeps(key) || retained_for(live).is_none() {
            return Ok(());
        }
        let set = bounded(self.cx.api().get(&self.owner.name)).await;
        let set =
            set.map_err(|e| format!("reading the deletion policy of its revision: {}", api_text(&e)))?;
        let is_same = set.uid().as_deref() == Some(&self.owner.uid) && policy(&set) == self.owner.policy;
        if is_same { Ok(()) } else { Err("the deletion policy of its revision has changed".to_owned()) }
    }

    /// Gives an object of this revision the form that its policy asks for.
    pub(crate) async fn form(
        &self,
        api: &kube::Api<kube::api::DynamicObject>,
        key: &ObjectKey,
        live: &Value,
    ) -> Result<(), kube::Error> {
        let of_helm = self.is_of_helm(live);
        let patch = if of_helm { taking_form_patch } else { form_patch }(live, &self.owner);
        if patch.is_empty() || live.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(());
        }
        let patch = serde_json::from_value(Value::Array(patch)).map_err(kube::Error::SerdeError)?;
        let params = patch_as(OBJECT_FIELD_MANAGER);
        let patched = if_exists(api.patch(&key.name, &params, &Patch::Json::<()>(patch))).await;
        patched.map(drop).map_err(as_conflict)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use olm_api::v1::{ClusterObjectSetSpec, ClusterObjectSetStatus};

    use super::*;
    use crate::cluster_object_set::report::Outcome;

    fn set(policy: Option<&str>, claimed: Option<(ConditionStatus, Reason)>) -> ClusterObjectSet {
        let mut set = ClusterObjectSet::new("ext-1", ClusterObjectSetSpec::default());
        set.metadata.annotations =
            policy.map(|value| BTreeMap::from([(DELETION_POLICY_ANNOTATION.to_owned(), value.to_owned())]));
        let mut conditions = Conditions::default();
        if let Some((status, reason)) = claimed {
            let update = ConditionUpdate::new(ConditionType::DeletionPolicy, status, reason, "told", None);
            conditions.set(update, Timestamp::UNIX_EPOCH);
        }
        set.status = Some(ClusterObjectSetStatus { conditions, ..Default::default() });
        set
    }

    fn after(set: &ClusterObjectSet, policy: Option<&Result<(), String>>, outcome: &Outcome) -> String {
        let mut conditions = set.status.clone().unwrap().conditions;
        let report = Report { policy: policy.cloned(), ..outcome.clone().into() };
        set_condition(&mut conditions, set, &report, Timestamp::UNIX_EPOCH);
        let condition = conditions.find(ConditionType::DeletionPolicy);
        condition.map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default()
    }

    #[test]
    fn nothing_is_said_where_nothing_was_asked_for() {
        let plain = set(None, None);
        assert!(is_settled(&plain) && !contradicts(&plain));
        assert_eq!(after(&plain, None, &Outcome::Complete), "");
        assert_eq!(after(&plain, None, &Outcome::Blocked("b".into())), "");
    }

    #[test]
    fn a_policy_is_in_force_once_every_object_has_its_form() {
        let asked = set(Some("Orphan"), None);
        assert!(!is_settled(&asked) && !contradicts(&asked));
        let all = "True/Orphan/All objects of the revision are prepared for the policy.";
        assert_eq!(after(&asked, Some(&Ok(())), &Outcome::Retrying("r".into())), all);
        assert_eq!(after(&asked, Some(&Err("p".into())), &Outcome::Complete), "False/Orphan/p");
        assert_eq!(after(&asked, None, &Outcome::Blocked("no account".into())), "False/Orphan/no account");
    }

    #[test]
    fn a_claim_outlives_an_account_but_not_another_policy() {
        let claimed = Some((ConditionStatus::True, Reason::RetainCRDs));
        let same = set(Some("RetainCRDs"), claimed);
        assert!(is_settled(&same) && !contradicts(&same));
        assert_eq!(after(&same, None, &Outcome::Blocked("b".into())), "True/RetainCRDs/told");
        // A version that was stored meanwhile takes it back.
        assert_eq!(after(&same, Some(&Err("v1".into())), &Outcome::Complete), "False/RetainCRDs/v1");
        for other in [set(None, claimed), set(Some("Orphan"), claimed), set(Some("Delete"), claimed)] {
            assert!(contradicts(&other) && !is_settled(&other));
        }
    }

    #[test]
    fn back_to_delete_is_over_when_the_references_are_back() {
        let back = set(None, Some((ConditionStatus::False, Reason::Delete)));
        assert!(!is_settled(&back) && !contradicts(&back));
        assert_eq!(after(&back, Some(&Ok(())), &Outcome::Complete), "");
        assert_eq!(after(&back, Some(&Err("p".into())), &Outcome::Complete), "Unknown/Delete/p");
        assert_eq!(after(&back, None, &Outcome::Retrying("r".into())), "Unknown/Delete/r");
    }

    #[test]
    fn an_unknown_value_deletes_nothing() {
        assert_eq!(policy(&set(Some("orphan"), None)), DeletionPolicy::Orphan);
    }
}
