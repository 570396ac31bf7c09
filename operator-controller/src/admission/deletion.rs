//! The policy that holds a deletion until what it is to keep is safe.
//!
//! Everything passes that has no deletion policy and never had one, and what is being deleted already; an
//! extension that no controller has ever looked at has nothing that could be kept. Whoever wants everything
//! deleted removes the annotation: then a controller that cannot give objects their owner references back, for
//! instance because the account is gone, says so, and the deletion passes.

use olm_api::{ConditionStatus, ConditionType, names::DELETION_POLICY_ANNOTATION};
use olm_objectset::DeletionPolicy;

use super::policies::{Policy, metadata_map};

/// Name of the policy, which is also that of its binding.
pub(crate) const DELETION_POLICY: &str = "clusterextension-deletion-policy.olm.operatorframework.io";

/// Most characters of the condition's message that the answer to a deletion repeats.
const WHY_MAX: usize = 1000;

pub(super) fn policy_in_force() -> Policy {
    let annotations = metadata_map("oldObject", "annotations");
    let default = DeletionPolicy::Delete.as_str();
    let (type_, holds) = (ConditionType::DeletionPolicy, ConditionStatus::True);
    let stuck = ConditionStatus::Unknown;
    let policy = format!(
        "('{DELETION_POLICY_ANNOTATION}' in {annotations} ? {annotations}['{DELETION_POLICY_ANNOTATION}'] : '{default}')"
    );
    let conditions =
        "(has(oldObject.status) && has(oldObject.status.conditions) ? oldObject.status.conditions : [])";
    let is_told = format!("{conditions}.exists(c, c.type == '{type_}')");
    Policy {
        operations: &["DELETE"],
        conditions: vec![
            ("not-being-deleted", "!has(oldObject.metadata.deletionTimestamp)".to_owned()),
            ("has-a-deletion-policy", format!("{policy} != '{default}' || {is_told}")),
            ("was-looked-at", format!("size({conditions}) > 0")),
        ],
        variables: vec![
            ("policy", policy),
            ("told", format!("{conditions}.filter(c, c.type == '{type_}')")),
            // The answer may have no line breaks.
            (
                "why",
                "size(variables.told) > 0 ? variables.told[0].message.replace('\\n', '; ') : ''".to_owned(),
            ),
        ],
        validations: vec![(
            format!(
                "variables.told.exists(c, c.reason == variables.policy && (c.status == '{holds}' || \
                 (variables.policy == '{default}' && c.status == '{stuck}')))"
            ),
            format!(
                "'metadata.annotations[{DELETION_POLICY_ANNOTATION}]: the deletion policy \"' + variables.policy + \
                 '\" is not in force yet, and what it is to keep would be lost, or what it is to delete left behind. \
                 Wait until condition {type_} is {holds} or gone, or do what it says' + \
                 ' (' + (size(variables.why) > {WHY_MAX} ? variables.why.substring(0, {WHY_MAX}) + '...' : \
                 variables.why) + ')' + \
                 (variables.policy == '{default}' ? '' : '; to delete everything, remove the annotation')"
            ),
        )],
        ..Policy::new(DELETION_POLICY, "clusterextensions")
    }
}
