//! The status of a group, from what was found.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use olm_api_classic::{OperatorGroup, OperatorGroupStatus};

use super::{targets::Namespaces, texts};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Whether there are other groups in the namespace.
    pub has_others: bool,
    /// The UID of the group's ServiceAccount: none if it has none, or if that is not there.
    pub service_account: Option<String>,
    /// The namespaces that it selects; none if they cannot be found, and those that are reported stay.
    pub targets: Option<Namespaces>,
}

/// The status after that. Times change only with what they are about.
pub fn status(group: &OperatorGroup, findings: &Findings, now: Timestamp) -> OperatorGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let mut conditions = Conditions { list: std::mem::take(&mut after.conditions), now };
    let multiple = findings.has_others.then(|| (texts::MULTIPLE_FOUND, texts::MULTIPLE_MESSAGE.to_owned()));
    conditions.set(texts::MULTIPLE, multiple);
    let wanted = group.spec.service_account_name.as_deref().filter(|name| !name.is_empty());
    let missing = wanted.filter(|_| findings.service_account.is_none());
    let missing =
        missing.map(|name| (texts::SERVICE_ACCOUNT_NOT_FOUND, texts::service_account_not_found(name)));
    conditions.set(texts::SERVICE_ACCOUNT, missing);
    after.conditions = conditions.list;
    after.service_account_ref =
        wanted.zip(findings.service_account.as_ref()).map(|(name, uid)| ObjectReference {
            kind: Some("ServiceAccount".to_owned()),
            namespace: group.metadata.namespace.clone(),
            name: Some(name.to_owned()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        });
    if let Some(targets) = &findings.targets {
        let reported: Namespaces = before.namespaces.iter().cloned().collect();
        if reported != *targets || before.last_updated.is_none() {
            after.namespaces = targets.iter().cloned().collect();
            after.last_updated = Some(Time(now));
        }
    }
    after
}

/// Conditions that are there while they are true.
struct Conditions {
    list: Vec<Condition>,
    now: Timestamp,
}

impl Conditions {
    fn set(&mut self, type_: &str, found: Option<(&str, String)>) {
        let known = self.list.iter_mut().find(|condition| condition.type_ == type_);
        match (known, found) {
            (None, None) => {}
            (Some(_), None) => self.list.retain(|condition| condition.type_ != type_),
            (Some(known), Some((reason, message))) => {
                if known.status != "True" {
                    known.last_transition_time = Time(self.now);
                }
                (known.status, known.reason, known.message) = ("True".to_owned(), reason.to_owned(), message);
            }
            (None, Some((reason, message))) => self.list.push(Condition {
                type_: type_.to_owned(),
                status: "True".to_owned(),
                reason: reason.to_owned(),
                message,
                observed_generation: None,
                last_transition_time: Time(self.now),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use olm_api_classic::OperatorGroupSpec;

    use super::*;

    fn group(account: Option<&str>) -> OperatorGroup {
        let spec = OperatorGroupSpec {
            service_account_name: account.map(str::to_owned),
            ..OperatorGroupSpec::default()
        };
        let mut group = OperatorGroup::new("g", spec);
        group.metadata.namespace = Some("ops".to_owned());
        group
    }

    fn set(names: &[&str]) -> Namespaces {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn conditions_come_with_what_is_wrong_and_go_with_it() {
        let (start, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        let mut group = group(Some("installer"));
        let wrong = Findings { has_others: true, targets: Some(set(&[""])), ..Findings::default() };
        let reported = status(&group, &wrong, start);
        let texts: Vec<_> =
            reported.conditions.iter().map(|c| format!("{} {}: {}", c.type_, c.reason, c.message)).collect();
        assert_eq!(
            texts,
            [
                "MultipleOperatorGroup MultipleOperatorGroupsFound: Multiple OperatorGroup found in the same namespace",
                "OperatorGroupServiceAccount ServiceAccountNotFound: ServiceAccount installer not found"
            ]
        );
        group.status = Some(reported.clone());
        assert_eq!(status(&group, &wrong, later), reported, "nothing changed, so nothing is written");
        let fine = Findings {
            service_account: Some("u".to_owned()),
            targets: Some(set(&[""])),
            ..Findings::default()
        };
        let after = status(&group, &fine, later);
        assert!(after.conditions.is_empty());
        assert_eq!(after.service_account_ref.unwrap().name.as_deref(), Some("installer"));
    }

    #[test]
    fn changed_namespaces_are_reported_with_the_time_and_the_service_account_stays() {
        let (start, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        let mut group = group(Some("installer"));
        let mut findings = Findings {
            service_account: Some("u".to_owned()),
            targets: Some(set(&[])),
            ..Findings::default()
        };
        let none = status(&group, &findings, start);
        assert!(
            none.namespaces.is_empty() && none.last_updated.is_some(),
            "so that operators know it was looked"
        );
        group.status = Some(none);
        findings.targets = Some(set(&["b", "a"]));
        let some = status(&group, &findings, later);
        assert_eq!(some.namespaces, ["a", "b"]);
        assert_eq!(some.last_updated, Some(Time(later)));
        assert!(some.service_account_ref.is_some());
        group.status = Some(some.clone());
        findings.targets = None;
        assert_eq!(
            status(&group, &findings, Timestamp::from_second(20).unwrap()),
            some,
            "an error leaves them"
        );
    }
}
