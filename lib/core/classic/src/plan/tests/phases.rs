//! A test for each row of the table of phases.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use olm_api_classic::{
    InstallPlan, InstallPlanStatus, OperatorGroup, OperatorGroupSpec, OperatorGroupStatus, Step,
    Subscription, SubscriptionSpec,
};

use crate::plan::{
    AccountError, Action, Failure, Outcome, RETRY_TIMEOUT, View, account, begin, collectable, digest, finish,
    is_approved, is_superseded, seal, sealed_text, texts,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn plan(phase: &str) -> InstallPlan {
    let mut plan = InstallPlan::default();
    plan.metadata.name = Some("install-a".to_owned());
    plan.metadata.namespace = Some("ns".to_owned());
    plan.metadata.uid = Some("u".to_owned());
    plan.spec.approved = true;
    plan.spec.cluster_service_version_names = vec!["a.v1".to_owned()];
    let step = Step { resolving: "a.v1".to_owned(), status: texts::UNKNOWN.to_owned(), ..Step::default() };
    plan.status =
        Some(InstallPlanStatus { phase: phase.to_owned(), plan: vec![step], ..InstallPlanStatus::default() });
    plan
}

type Query = Result<Option<ObjectReference>, AccountError>;

fn begun(plan: &InstallPlan, account: &Query) -> (InstallPlanStatus, Action) {
    begin(&View { plan, account, is_sealed: true, is_superseded: false, now: at(100) })
}

fn condition(status: &InstallPlanStatus, kind: &str) -> [String; 3] {
    let found = status.conditions.iter().find(|one| one.type_.as_deref() == Some(kind));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    found.map_or_else(Default::default, |one| [text(&one.status), text(&one.reason), text(&one.message)])
}

fn failure(text: &str) -> Failure {
    Failure { text: text.to_owned(), remedy: "Do that.".to_owned(), is_forbidden: false }
}

fn finished(phase: &str, started: i64, outcome: Outcome) -> (InstallPlanStatus, Action) {
    let mut status = plan(phase).status.unwrap();
    status.start_time = Some(Time(at(started)));
    finish(status, outcome, RETRY_TIMEOUT, at(100))
}

#[test]
fn without_steps_and_lookups_it_is_ignored() {
    let mut empty = plan("");
    empty.status = None;
    assert_eq!(begun(&empty, &Ok(None)).1, Action::Ignore);
}

#[test]
fn a_failed_account_query_is_reported_and_leaves_the_phase() {
    let (status, action) = begun(&plan(texts::INSTALLING), &Err(AccountError::SeveralGroups(2)));
    assert_eq!((status.phase.as_str(), action), (texts::INSTALLING, Action::Retry));
    let text = "more than one operator group(s) are managing this namespace count=2";
    assert_eq!(condition(&status, texts::INSTALLED), ["False", texts::CHECK_FAILED, text]);
    assert!(condition(&status, texts::STALLED)[2].contains("Leave one OperatorGroup"));
}

#[test]
fn an_account_query_that_works_again_removes_the_condition() {
    let mut failed = plan(texts::REQUIRES_APPROVAL);
    failed.spec.approved = false;
    failed.status = Some(begun(&failed, &Err(AccountError::NoGroup)).0);
    let (status, action) = begun(&failed, &Ok(None));
    assert_eq!(action, Action::Report);
    assert_eq!(condition(&status, texts::INSTALLED), ["", "", ""]);
    assert_eq!(condition(&status, texts::STALLED), ["", "", ""]);
}

#[test]
fn an_account_is_recorded_before_anything_else() {
    let reference = ObjectReference { name: Some("sa".to_owned()), ..ObjectReference::default() };
    let (status, action) = begun(&plan(texts::INSTALLING), &Ok(Some(reference.clone())));
    assert_eq!((status.attenuated_service_account_ref.as_ref(), action), (Some(&reference), Action::Report));
    let mut recorded = plan(texts::INSTALLING);
    recorded.status = Some(status);
    assert_eq!(begun(&recorded, &Ok(Some(reference))).1, Action::Execute);
    let (status, _) = begun(&recorded, &Ok(None));
    assert_eq!(status.attenuated_service_account_ref, None, "the group names none any more");
}

#[test]
fn an_approved_plan_is_installed() {
    let mut waiting = plan(texts::REQUIRES_APPROVAL);
    waiting.status.as_mut().unwrap().message = Some("x".to_owned());
    let (status, action) = begun(&waiting, &Ok(None));
    assert_eq!((status.phase.as_str(), status.message, action), (texts::INSTALLING, None, Action::Execute));
}

#[test]
fn a_plan_that_is_not_approved_waits_in_any_phase() {
    for phase in [texts::REQUIRES_APPROVAL, texts::INSTALLING, texts::FAILED] {
        let mut waiting = plan(phase);
        waiting.spec.approved = false;
        let (status, action) = begun(&waiting, &Ok(None));
        assert_eq!((status.phase.as_str(), action), (texts::REQUIRES_APPROVAL, Action::Report));
        let digest = digest(&waiting.spec.cluster_service_version_names, &status.plan);
        assert!(condition(&status, texts::READY)[2].contains(&digest));
    }
}

#[test]
fn a_plan_is_approved_by_the_digest_of_its_steps() {
    let mut waiting = plan(texts::REQUIRES_APPROVAL);
    waiting.spec.approved = false;
    let steps = waiting.status.clone().unwrap().plan;
    let digest = digest(&waiting.spec.cluster_service_version_names, &steps);
    let annotation = (texts::APPROVED_DIGEST_ANNOTATION.to_owned(), digest);
    waiting.metadata.annotations = Some([annotation].into());
    assert!(is_approved(&waiting));
    waiting.status.as_mut().unwrap().plan[0].status = texts::CREATED.to_owned();
    assert!(is_approved(&waiting), "the state of a step is not part of it");
    waiting.status.as_mut().unwrap().plan[0].resource.name = "b".to_owned();
    assert!(!is_approved(&waiting));
}

#[test]
fn the_first_execution_sets_the_start_time() {
    let (status, action) = begun(&plan(texts::INSTALLING), &Ok(None));
    assert_eq!((status.start_time, action), (Some(Time(at(100))), Action::Execute));
}

#[test]
fn an_error_within_the_time_is_tried_again() {
    let outcome = Outcome { failure: Some(failure("error creating role r: x")), ..Outcome::default() };
    let (status, action) = finished(texts::INSTALLING, 41, outcome);
    assert_eq!((status.phase.as_str(), action), (texts::INSTALLING, Action::Retry));
    let text = "retrying execution due to error: error creating role r: x";
    assert_eq!(status.message.as_deref(), Some(text));
    assert_eq!(condition(&status, texts::READY)[2], "error creating role r: x. Do that.");
}

#[test]
fn a_missing_permission_is_waited_for_without_an_end() {
    let forbidden = Failure { is_forbidden: true, ..failure("denied") };
    let outcome = Outcome { failure: Some(forbidden), ..Outcome::default() };
    let (status, action) = finished(texts::INSTALLING, 0, outcome);
    assert_eq!((status.phase.as_str(), action), (texts::INSTALLING, Action::Retry));
    assert_eq!(condition(&status, texts::STALLED)[1], texts::MISSING_PERMISSIONS);
}

#[test]
fn an_error_after_the_time_fails_the_plan() {
    let outcome = Outcome { failure: Some(failure("x")), ..Outcome::default() };
    let (status, action) = finished(texts::INSTALLING, 40, outcome);
    assert_eq!((status.phase.as_str(), action), (texts::FAILED, Action::Retry));
    assert_eq!(status.message.as_deref(), Some("x"));
    assert_eq!(condition(&status, texts::INSTALLED), ["False", texts::COMPONENT_FAILED, "x"]);
    assert_eq!(condition(&status, texts::STALLED)[0], "True");
}

#[test]
fn a_crd_that_is_not_served_is_waited_for() {
    let mut steps = plan("").status.unwrap().plan;
    steps[0].status = texts::WAITING_FOR_API.to_owned();
    let (status, action) = finished(texts::INSTALLING, 0, Outcome { steps, ..Outcome::default() });
    assert_eq!((status.phase.as_str(), action), (texts::INSTALLING, Action::Retry));
    assert_eq!(condition(&status, texts::STALLED), ["", "", ""]);
}

#[test]
fn without_an_error_it_is_complete() {
    let (status, action) = finished(texts::INSTALLING, 0, Outcome::default());
    assert_eq!(
        (status.phase.as_str(), status.message.as_deref(), action),
        (texts::COMPLETE, None, Action::Report)
    );
    assert_eq!(condition(&status, texts::INSTALLED), ["True", "", ""]);
    assert_eq!(condition(&status, texts::READY)[0], "True");
}

#[test]
fn a_complete_plan_restores_permissions_only() {
    let complete = plan(texts::COMPLETE);
    let (status, action) = begun(&complete, &Ok(None));
    assert_eq!((Some(status), action), (complete.status, Action::Restore));
}

#[test]
fn a_failed_plan_is_tried_again_unless_it_is_superseded() {
    let failed = plan(texts::FAILED);
    assert_eq!(begun(&failed, &Ok(None)).1, Action::Execute);
    let view = View { plan: &failed, account: &Ok(None), is_sealed: true, is_superseded: true, now: at(1) };
    assert_eq!(begin(&view).1, Action::Ignore);
    let (status, _) = finished(texts::FAILED, 0, Outcome::default());
    assert_eq!(status.phase, texts::COMPLETE);
    let again = Outcome { failure: Some(failure("x")), ..Outcome::default() };
    assert_eq!(finished(texts::FAILED, 99, again).0.phase, texts::FAILED);
}

#[test]
fn a_plan_that_is_not_sealed_is_not_carried_out() {
    for phase in [texts::INSTALLING, texts::REQUIRES_APPROVAL, texts::FAILED, texts::COMPLETE, ""] {
        let made = plan(phase);
        let view =
            View { plan: &made, account: &Ok(None), is_sealed: false, is_superseded: false, now: at(1) };
        let (status, action) = begin(&view);
        assert!([Action::Ignore, Action::Report].contains(&action), "{phase}: {action:?}");
        assert_eq!(status.phase, phase);
    }
}

#[test]
fn a_seal_is_of_one_plan_and_its_steps() {
    let first = plan(texts::INSTALLING);
    let text = |plan: &InstallPlan| sealed_text(plan, plan.status.as_ref().unwrap());
    let changed = |change: fn(&mut InstallPlan)| {
        let mut other = first.clone();
        change(&mut other);
        text(&other)
    };
    let others = [
        changed(|plan| plan.metadata.uid = Some("v".to_owned())),
        changed(|plan| plan.metadata.name = Some("b".to_owned())),
        changed(|plan| plan.metadata.namespace = Some("b".to_owned())),
        changed(|plan| plan.spec.cluster_service_version_names.clear()),
        changed(|plan| plan.status.as_mut().unwrap().plan[0].resource.manifest = Some("{}".to_owned())),
        changed(|plan| plan.status.as_mut().unwrap().plan[0].resolving.clear()),
        changed(|plan| plan.status.as_mut().unwrap().plan.clear()),
    ];
    assert!(others.iter().all(|other| *other != text(&first)));
    assert_eq!(changed(|plan| plan.status.as_mut().unwrap().plan[0].status.clear()), text(&first));
    let mut status = first.status.clone().unwrap();
    crate::plan::add_seal(&first, &mut status, "s", at(1));
    assert_eq!(seal(&status), Some("s"));
}

#[test]
fn conditions_change_their_times_only_with_their_content() {
    let outcome = || Outcome { failure: Some(failure("x")), ..Outcome::default() };
    let (first, _) = finished(texts::INSTALLING, 99, outcome());
    let (again, _) = finish(first.clone(), outcome(), RETRY_TIMEOUT, at(120));
    assert_eq!(again, first);
}

fn group(name: &str, account: Option<&str>, found: Option<&str>) -> OperatorGroup {
    let mut group = OperatorGroup::new(name, OperatorGroupSpec::default());
    group.metadata.namespace = Some("ns".to_owned());
    group.spec.service_account_name = account.map(str::to_owned);
    group.status = Some(OperatorGroupStatus {
        service_account_ref: found.map(|found| ObjectReference {
            name: Some(found.to_owned()),
            namespace: Some("ns".to_owned()),
            ..ObjectReference::default()
        }),
        ..OperatorGroupStatus::default()
    });
    group
}

#[test]
fn the_account_is_that_of_the_only_group() {
    let text = |groups: &[OperatorGroup]| account(groups).map_err(|error| error.to_string());
    assert_eq!(text(&[]), Err("no operator group found that is managing this namespace".to_owned()));
    let two = [group("a", None, None), group("b", None, None)];
    assert_eq!(
        text(&two),
        Err("more than one operator group(s) are managing this namespace count=2".to_owned())
    );
    assert_eq!(text(&[group("a", None, Some("sa"))]), Ok(None));
    let missing = "please make sure the service account exists. sa=sa operatorgroup=ns/a";
    for found in [None, Some("other")] {
        assert_eq!(text(&[group("a", Some("sa"), found)]), Err(missing.to_owned()));
    }
    let found = text(&[group("a", Some("sa"), Some("sa"))]).unwrap().unwrap();
    assert_eq!(found.name.as_deref(), Some("sa"));
}

fn numbered(generation: i64, phase: &str, owner: Option<&str>) -> InstallPlan {
    let mut plan = plan(phase);
    plan.metadata.name = Some(format!("p{generation}"));
    plan.metadata.uid = Some(format!("u{generation}"));
    plan.spec.generation = Some(generation);
    plan.metadata.owner_references = owner.map(|uid| {
        vec![OwnerReference {
            kind: "Subscription".to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }]
    });
    plan
}

#[test]
fn old_plans_and_those_of_deleted_subscriptions_are_collected() {
    let names = |plans: &[InstallPlan], subscriptions: &[&Subscription]| -> Vec<String> {
        let plans: Vec<&InstallPlan> = plans.iter().collect();
        collectable(&plans, subscriptions).into_iter().map(|(name, _)| name).collect()
    };
    let mut plans: Vec<InstallPlan> = (1..=7).map(|number| numbered(number, texts::COMPLETE, None)).collect();
    assert_eq!(names(&plans, &[]), ["p1", "p2"]);
    plans[0].status.as_mut().unwrap().phase = texts::INSTALLING.to_owned();
    assert_eq!(names(&plans, &[]), ["p2"]);
    let mut subscription = Subscription::new("s", SubscriptionSpec::default());
    subscription.metadata.uid = Some("s1".to_owned());
    let plan = ObjectReference { name: Some("p2".to_owned()), ..ObjectReference::default() };
    subscription.status =
        Some(olm_api_classic::SubscriptionStatus { install_plan_ref: Some(plan), ..Default::default() });
    assert!(names(&plans, &[&subscription]).is_empty());
    let owned =
        [numbered(1, texts::REQUIRES_APPROVAL, Some("s1")), numbered(2, texts::INSTALLING, Some("gone"))];
    assert_eq!(names(&owned, &[&subscription]), ["p2"]);
}

#[test]
fn a_later_plan_of_the_same_subscription_supersedes() {
    let (first, second) = (numbered(1, "", Some("s1")), numbered(2, "", Some("s1")));
    let mut other = numbered(3, "", Some("s2"));
    other.spec.cluster_service_version_names = vec!["b.v1".to_owned()];
    assert!(is_superseded(&first, &[&first, &second]));
    assert!(!is_superseded(&second, &[&first, &second, &other]));
}
