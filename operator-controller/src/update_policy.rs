//! The loop of update policies: reports whether each can be read, and for how many extensions it is in force.

use std::collections::BTreeSet;

use kube::ResourceExt;
use olm_api::{
    ConditionStatus::{False, True},
    ConditionType::Valid,
    ConditionWriter, Reason,
    names::PROGRAM_FIELD_MANAGER,
    v1alpha1::{UpdatePolicy, UpdatePolicyStatus},
};
use olm_policy::Policy;
use olm_runtime::{Next, ObjectWriter, PANIC_REPORT, Reconciler};

use crate::{cluster_extension::Context, facts::update_policies::UpdatePolicies, interest::Interest};

/// The controller of UpdatePolicies.
pub(crate) struct Policies {
    known: UpdatePolicies,
    cx: Context,
    objects: ObjectWriter<UpdatePolicy>,
}

impl Policies {
    pub(crate) fn new(cx: Context) -> Self {
        let objects = ObjectWriter::new(cx.controller(), PROGRAM_FIELD_MANAGER, cx.clock.clone());
        Self { known: cx.update_policies.clone(), cx, objects }
    }

    async fn report(&self, policy: &UpdatePolicy, wrong: Result<(), Vec<String>>) -> Next {
        let mut status = policy.status.clone().unwrap_or_default();
        let generation = policy.metadata.generation;
        let (conditions, now) = (&mut status.conditions, self.cx.clock.now());
        let mut writer = ConditionWriter { conditions, generation, now };
        match wrong {
            Ok(()) => writer.put(Valid, True, Reason::Valid, "The policy can be applied."),
            Err(wrong) => {
                let text = format!(
                    "The extensions that it selects are not updated until it is corrected: {}.",
                    wrong.join("; ")
                );
                writer.put(Valid, False, Reason::Invalid, &text);
            }
        }
        let selected = i32::try_from(self.known.selected(&policy.name_any()).len()).ok();
        let status = UpdatePolicyStatus { observed_generation: generation, selected, ..status };
        match self.objects.set_status(policy, status).await {
            Ok(_) => Next::Await,
            Err(error) => Next::Retry(format!("error updating status: {error}")),
        }
    }
}

impl Reconciler for Policies {
    type Object = UpdatePolicy;
    type Interest = Interest;

    const CONDITION: &'static str = Valid.as_str();

    fn state(policy: &UpdatePolicy) -> Option<(&str, &str)> {
        policy.status.as_ref()?.conditions.state(Valid)
    }

    async fn reconcile(&self, policy: &UpdatePolicy) -> (Next, BTreeSet<Interest>) {
        let next = if let Some(left) = self.objects.behind(policy) {
            Next::After(left)
        } else if policy.metadata.deletion_timestamp.is_some() {
            Next::Await
        } else {
            self.report(policy, Policy::parse(&policy.name_any(), &policy.spec).map(drop)).await
        };
        // Another policy may be in force instead.
        (next, BTreeSet::from([Interest::Extensions, Interest::UpdatePolicies]))
    }

    async fn report_panic(&self, policy: &UpdatePolicy) {
        self.report(policy, Err(vec![PANIC_REPORT.to_owned()])).await;
    }
}
