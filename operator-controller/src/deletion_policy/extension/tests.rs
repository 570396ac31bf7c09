//! The condition about a policy, from what the revisions say.

use std::collections::BTreeMap;

use olm_api::{
    ConditionUpdate,
    v1::{ClusterExtensionSpec, ClusterObjectSetSpec, ClusterObjectSetStatus},
};

use super::*;

fn revision(policy: Option<&str>, claimed: Option<(ConditionStatus, Reason, &str)>) -> ClusterObjectSet {
    let mut set = ClusterObjectSet::new("ext-1", ClusterObjectSetSpec::default());
    set.metadata.annotations =
        policy.map(|value| BTreeMap::from([(DELETION_POLICY_ANNOTATION.to_owned(), value.to_owned())]));
    let mut conditions = Conditions::default();
    if let Some((status, reason, message)) = claimed {
        let update = ConditionUpdate::new(ConditionType::DeletionPolicy, status, reason, message, None);
        conditions.set(update, Timestamp::UNIX_EPOCH);
    }
    set.status = Some(ClusterObjectSetStatus { conditions, ..Default::default() });
    set
}

fn reported(wanted: DeletionPolicy, revisions: &[ClusterObjectSet]) -> String {
    let mut conditions = Conditions::default();
    summed_up(wanted, revisions).set_condition(&mut conditions, Some(1), Timestamp::UNIX_EPOCH);
    let condition = conditions.find(ConditionType::DeletionPolicy);
    condition.map(|c| format!("{}/{}/{}", c.status, c.reason, c.message)).unwrap_or_default()
}

#[test]
fn a_policy_is_in_force_when_every_revision_says_so() {
    use ConditionStatus::{False, True, Unknown};
    use DeletionPolicy::{Delete, Orphan};
    let settled = || revision(Some("Orphan"), Some((True, Reason::Orphan, "t")));
    let cases = [
        (Orphan, vec![], "True/Orphan/When the extension is deleted, all objects of its bundle stay."),
        (
            Orphan,
            vec![settled()],
            "True/Orphan/When the extension is deleted, all objects of its bundle stay.",
        ),
        (
            Orphan,
            vec![settled(), revision(Some("Orphan"), None)],
            "False/Orphan/ext-1: the revisions have not reported yet",
        ),
        (
            Orphan,
            vec![revision(Some("Orphan"), Some((False, Reason::Orphan, "no rights")))],
            "False/Orphan/ext-1: no rights",
        ),
        // What it says is about another policy.
        (
            Orphan,
            vec![revision(Some("Orphan"), Some((True, Reason::RetainCRDs, "t")))],
            "False/Orphan/ext-1: the revisions have not reported yet",
        ),
        (Delete, vec![], ""),
        (Delete, vec![revision(None, None)], ""),
        (Delete, vec![settled()], "False/Delete/ext-1: the revisions have not reported yet"),
        (
            Delete,
            vec![revision(None, Some((Unknown, Reason::Delete, "no account")))],
            "Unknown/Delete/ext-1: no account",
        ),
    ];
    for (wanted, revisions, expected) in cases {
        assert_eq!(reported(wanted, &revisions), expected);
    }
}

#[test]
fn ready_names_the_policy_only_once_it_is_in_force() {
    let mut extension = ClusterExtension::new("ext", ClusterExtensionSpec::default());
    assert_eq!(PolicyState::None.note(&extension), None);
    extension.metadata.annotations =
        Some(BTreeMap::from([(DELETION_POLICY_ANNOTATION.to_owned(), "RetainCRDs".to_owned())]));
    let at = |status| PolicyState::Reported { policy: DeletionPolicy::RetainCrds, status, text: "t".into() };
    assert_eq!(
        at(ConditionStatus::True).note(&extension).as_deref(),
        Some("In force by annotation: deletion-policy: RetainCRDs.")
    );
    assert_eq!(
        at(ConditionStatus::False).note(&extension).as_deref(),
        Some("The deletion policy RetainCRDs is not in force yet, so the extension cannot be deleted: t")
    );
    assert_eq!(PolicyState::AsBefore.note(&extension), None, "nothing was claimed before");
    assert_eq!(of_revision(&extension).unwrap().1, "RetainCRDs");
}
