//! The update policies: which one is in force for an extension, whose turn it is, and which plans are kept.
//!
//! While the policies are not known no update begins: one of them may forbid it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    sync::Arc,
};

use educe::Educe;
use futures::StreamExt as _;
use kube::{
    Client, ResourceExt,
    runtime::{reflector::Store, watcher::Event},
};
use olm_api::{
    names::{OWNER_NAME_LABEL, RETURNED_FROM_ANNOTATION},
    ownership::revision_of,
    v1::{ClusterExtension, ClusterObjectSet, LifecycleState},
    v1alpha1::{ExtensionPlan, UpdatePolicy},
};
use olm_policy::{Others, Permit, Policy, in_force};
use olm_runtime::{Chance, Guarded, Metadata};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    Known, readable,
    watched::{Changes, add},
};
use crate::{
    cluster_object_set::report::{has_succeeded, is_late},
    interest::{Interest, Interests},
};

/// What is in force for an extension.
#[derive(Debug, Clone)]
pub(crate) enum InForce {
    /// The policies are not known.
    Unknown,
    /// No policy selects it.
    Nothing,
    /// A policy that cannot be read.
    Invalid {
        name: String,
        /// What is wrong with it.
        why: String,
        /// Whether it holds installations too.
        installs: bool,
    },
    Policy(Box<Policy>),
}

/// The policies, and what they are asked about. Clones are the same.
#[derive(Clone, Educe)]
#[educe(Default)]
pub(crate) struct UpdatePolicies {
    #[educe(Default(expression = kube::runtime::reflector::store().0))]
    policies: Store<Guarded<UpdatePolicy>>,
    #[educe(Default(expression = kube::runtime::reflector::store().0))]
    extensions: Store<Guarded<ClusterExtension>>,
    /// Set when the policies were listed.
    listed: Known<()>,
    /// The ExtensionPlans there are, with the extensions that they are for.
    plans: Arc<Mutex<BTreeMap<String, String>>>,
    /// Extensions that are about to roll out, with the policies that let them.
    turns: Arc<Mutex<BTreeMap<String, String>>>,
    interests: Interests,
}

impl UpdatePolicies {
    pub(crate) fn new(
        policies: Store<Guarded<UpdatePolicy>>,
        extensions: Store<Guarded<ClusterExtension>>,
        interests: Interests,
    ) -> Self {
        Self { policies, extensions, interests, ..Self::default() }
    }

    /// As they are in these stores, which do not change any more.
    pub(crate) fn known(policies: Store<Guarded<UpdatePolicy>>) -> Self {
        let known = Self { policies, ..Self::default() };
        known.listed.set(());
        known
    }

    /// Waits until the policies are known.
    pub(crate) async fn ready(&self) {
        self.listed.ready().await;
    }

    /// Follows the plans, and notes when the policies were `listed`, until `stop`.
    pub(crate) async fn follow(
        &self,
        listed: impl Future<Output = ()> + Send,
        client: Client,
        chance: &Chance,
        stop: CancellationToken,
    ) {
        let mut changes = Changes::new();
        let known = self.clone();
        add::<ExtensionPlan, _>(&mut changes, &client, chance, move |event| known.take(event));
        let following = changes.for_each(|extension| {
            self.interests.fire(&Interest::Revisions(extension));
            ready(())
        });
        let knowing = async {
            listed.await;
            self.listed.set(());
            self.interests.fire(&Interest::UpdatePolicies);
        };
        let both = async { tokio::join!(biased; knowing, following) };
        // Nothing but its time ends it.
        let _ = stop.run_until_cancelled(both).await;
    }

    /// Takes note of a plan that is there or is gone; its extension, where that is news. It may not wait for anything any
    /// more, and what still waits is written again.
    fn take(&self, event: Event<Metadata>) -> Option<String> {
        let mut plans = self.plans.lock();
        match event {
            Event::Init => plans.clear(),
            Event::InitApply(plan) | Event::Apply(plan) => {
                let extension = plan.labels().get(OWNER_NAME_LABEL)?;
                if plans.insert(plan.name_any(), extension.clone()).is_none() {
                    return Some(extension.clone());
                }
            }
            Event::Delete(plan) => return plans.remove(&plan.name_any()),
            Event::InitDone => {}
        }
        None
    }

    /// The policy that is in force for an extension.
    pub(crate) fn in_force(&self, extension: &ClusterExtension) -> InForce {
        if self.listed.get().is_none() {
            return InForce::Unknown;
        }
        let all = self.policies.state();
        // Whom it selects is not known.
        if let Some((unreadable, error)) = all.iter().find_map(|one| Some((one, one.0.as_ref().err()?))) {
            return InForce::Invalid { name: unreadable.name_any(), why: error.to_string(), installs: false };
        }
        let Some(found) = in_force(readable(&all), extension.labels()) else { return InForce::Nothing };
        match Policy::parse(&found.name_any(), &found.spec) {
            Ok(policy) => InForce::Policy(Box::new(policy)),
            Err(wrong) => InForce::Invalid {
                name: found.name_any(),
                why: wrong.join("; "),
                installs: found.spec.installs,
            },
        }
    }

    /// The extensions for which a policy is in force.
    pub(crate) fn selected(&self, policy: &str) -> BTreeSet<String> {
        let all = self.policies.state();
        let is_its = |extension: &Arc<Guarded<ClusterExtension>>| {
            in_force(readable(&all), extension.labels()).is_some_and(|one| one.name_any() == policy)
        };
        self.extensions.state().iter().filter(|one| is_its(one)).map(|one| one.name_any()).collect()
    }

    /// Asks `permit` with what the other extensions of the policy do; with its consent the extension has its turn until
    /// [`release`](Self::release). Nobody else is asked meanwhile.
    pub(crate) fn take_turn(
        &self,
        policy: &Policy,
        extension: &str,
        sets: &Store<Guarded<ClusterObjectSet>>,
        permit: impl FnOnce(&Others) -> Permit,
    ) -> Permit {
        let mut turns = self.turns.lock();
        let mut others = Others::default();
        if policy.concurrency.is_some() {
            let selected = self.selected(&policy.name);
            others = busy(sets, |name| name != extension && selected.contains(name));
            let about = turns.iter().filter(|(name, of)| **of == policy.name && *name != extension);
            others.rolling_out.extend(about.map(|(name, _)| name.clone()));
        }
        let permit = permit(&others);
        if permit == Permit::Now && policy.concurrency.is_some() {
            turns.insert(extension.to_owned(), policy.name.clone());
        }
        permit
    }

    /// The extension's turn is over: what it wrote is in the stores, or it wrote nothing.
    pub(crate) fn release(&self, extension: &str) {
        let had_turn = self.turns.lock().remove(extension).is_some();
        if had_turn {
            self.interests.fire(&Interest::Installed);
        }
    }

    /// The names of the plans that are kept for an extension, as last seen.
    pub(crate) fn plans_of(&self, extension: &str) -> Vec<String> {
        self.plans.lock().iter().filter(|(_, of)| *of == extension).map(|(name, _)| name.clone()).collect()
    }
}

/// Which extensions roll out, and which have failed to.
fn busy(sets: &Store<Guarded<ClusterObjectSet>>, counts: impl Fn(&str) -> bool) -> Others {
    let mut others = Others::default();
    // The latest revision of each decides.
    let mut latest: BTreeMap<String, (i64, bool)> = BTreeMap::new();
    for set in sets.state() {
        let Ok(set) = &set.0 else { continue };
        let Some(extension) = revision_of(&set.metadata).map(|owner| owner.name.to_owned()) else { continue };
        let is_active =
            set.spec.lifecycle_state == LifecycleState::Active && set.metadata.deletion_timestamp.is_none();
        // What took the place of a revision that failed does not make that undone.
        let has_failed =
            is_active && (is_late(set) || set.annotations().contains_key(RETURNED_FROM_ANNOTATION));
        if counts(&extension) && is_active && !has_succeeded(set) && !is_late(set) {
            others.rolling_out.insert(extension.clone());
        }
        let known = latest.entry(extension.clone()).or_default();
        *known = (*known).max((set.spec.revision, has_failed && counts(&extension)));
    }
    let failed = latest.into_iter().filter(|(_, (_, is_late))| *is_late).map(|(name, _)| name);
    others.failed = failed.collect();
    others
}

#[cfg(test)]
mod tests {
    use olm_api::v1alpha1::{Concurrency, UpdatePolicySpec};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn stored<K>(objects: Vec<Value>) -> Store<Guarded<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + 'static,
    {
        let (reader, mut writer) = kube::runtime::reflector::store();
        writer.apply_watcher_event(&Event::Init);
        for object in objects {
            writer.apply_watcher_event(&Event::InitApply(serde_json::from_value(object).unwrap()));
        }
        writer.apply_watcher_event(&Event::InitDone);
        reader
    }

    fn extension(name: &str, team: &str) -> Value {
        json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": name, "labels": {"team": team}},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        })
    }

    /// A revision; `state` is `rolling`, `late`, `done`, `archived` or `back`, which took the place of one that failed.
    fn set(extension: &str, number: i64, state: &str) -> Value {
        let conditions = match state {
            "late" => json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
                              "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]),
            "done" | "back" => {
                json!([{"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "",
                              "lastTransitionTime": "1970-01-01T00:00:00Z"}])
            }
            _ => json!([]),
        };
        let mut annotations = json!({"extensions.olm.operatorframework.io/revision-of": extension});
        if state == "back" {
            annotations[RETURNED_FROM_ANNOTATION] = "{}".into();
        }
        json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {
                "name": format!("{extension}-{number}"),
                "annotations": annotations,
                "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                                     "name": extension, "uid": extension, "controller": true}],
            },
            "spec": {"lifecycleState": if state == "archived" { "Archived" } else { "Active" },
                     "revision": number, "collisionProtection": "Prevent"},
            "status": {"conditions": conditions},
        })
    }

    fn spec(max: i32) -> UpdatePolicySpec {
        let selector = serde_json::from_value(json!({"matchLabels": {"team": "a"}})).unwrap();
        let concurrency = Some(Concurrency { max, halt_on_failure: true });
        UpdatePolicySpec { selector, concurrency, ..UpdatePolicySpec::default() }
    }

    fn known(max: i32) -> (UpdatePolicies, Policy) {
        let policy = json!({
            "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
            "metadata": {"name": "prod"}, "spec": spec(max),
        });
        let extensions = ["a", "b", "c", "d"].map(|name| extension(name, "a"));
        let extensions = extensions.into_iter().chain([extension("other", "b")]).collect();
        let policies = UpdatePolicies::new(stored(vec![policy]), stored(extensions), Interests::default());
        policies.listed.set(());
        (policies, Policy::parse("prod", &spec(max)).unwrap())
    }

    fn others(sets: Vec<Value>) -> [Vec<String>; 2] {
        let (policies, policy) = known(9);
        let mut seen = Others::default();
        policies.take_turn(&policy, "a", &stored(sets), |others| {
            seen = others.clone();
            Permit::Now
        });
        [seen.rolling_out, seen.failed].map(|names| names.into_iter().collect())
    }

    #[test]
    fn what_the_others_of_the_policy_do_is_counted() {
        let none: [&[&str]; 2] = [&[], &[]];
        for (words, sets, wanted) in [
            ("nothing", vec![], none),
            ("itself does not count", vec![set("a", 1, "rolling")], none),
            ("nor do those of another policy", vec![set("other", 1, "rolling")], none),
            ("one that has rolled out", vec![set("b", 1, "done")], none),
            ("one that rolls out", vec![set("b", 1, "done"), set("b", 2, "rolling")], [&["b"][..], &[]]),
            ("one that is late", vec![set("b", 1, "done"), set("b", 2, "late")], [&[][..], &["b"]]),
            ("one that was late before", vec![set("b", 1, "late"), set("b", 2, "done")], none),
            ("one that was late and was given up", vec![set("b", 1, "late"), set("b", 2, "archived")], none),
            (
                "one whose failure was undone",
                vec![set("b", 2, "archived"), set("b", 3, "back")],
                [&[][..], &["b"]],
            ),
            ("one that tries again", vec![set("b", 1, "late"), set("b", 2, "rolling")], [&["b"][..], &[]]),
            ("one that tries again after that", vec![set("b", 3, "back"), set("b", 4, "done")], none),
        ] {
            assert_eq!(
                others(sets),
                wanted.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>()),
                "{words}"
            );
        }
    }

    #[test]
    fn those_who_are_about_to_write_have_their_turn_until_it_is_over() {
        let (policies, policy) = known(2);
        let sets = stored(vec![set("d", 1, "rolling")]);
        let ask = |name: &str| {
            policies.take_turn(&policy, name, &sets, |others| {
                if others.rolling_out.len() < 2 {
                    Permit::Now
                } else {
                    Permit::Wait { waits: Vec::new(), look_again: None }
                }
            }) == Permit::Now
        };
        assert!(ask("a"));
        assert!(ask("a"), "its own turn is not in its way");
        assert!(!ask("b"));
        policies.release("b");
        assert!(!ask("b"), "it had none");
        policies.release("a");
        assert!(ask("b") && !ask("a"));
    }

    #[test]
    fn nothing_is_known_before_the_policies_are_listed_and_one_that_cannot_be_read_is_for_all() {
        let of = |team: &str| serde_json::from_value::<ClusterExtension>(extension("a", team)).unwrap();
        assert!(matches!(UpdatePolicies::default().in_force(&of("a")), InForce::Unknown));
        let (policies, _) = known(1);
        assert!(matches!(policies.in_force(&of("a")), InForce::Policy(policy) if policy.name == "prod"));
        assert!(matches!(policies.in_force(&of("b")), InForce::Nothing));
        let unreadable = json!({
            "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
            "metadata": {"name": "odd"}, "spec": {"selector": {}, "approval": "Sometimes"},
        });
        let policies = UpdatePolicies::known(stored(vec![unreadable]));
        assert!(matches!(policies.in_force(&of("b")), InForce::Invalid { name, .. } if name == "odd"));
    }
}
