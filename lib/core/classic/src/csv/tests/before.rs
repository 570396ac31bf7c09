//! The rows before the phase table.

use super::*;

#[test]
fn before_1_a_failure_for_good_stays_until_permissions_change() {
    let failed = csv("Failed", "InstallComponentFailedNoRetry");
    let mut view = View { revived: Some(false), ..View::default() };
    let stays = step(&failed, &view, now());
    assert_eq!(Some(&stays.status), failed.status.as_ref());
    assert_eq!((stays.effects, stays.again), (vec![], Again::Await));
    view.revived = Some(true);
    assert_eq!(after(&failed, &view), "Pending DetectedClusterChange: Cluster resources changed state");
}

#[test]
fn before_2_the_name_of_a_crd_without_a_dot_ends_the_step() {
    let crds =
        json!({"customresourcedefinitions": {"required": [{"name": "nodot", "version": "v1", "kind": "A"}]}});
    let step = step(&with("", "", &crds), &view(), now());
    assert_eq!(step.again, Again::Blocked("error parsing crd name: nodot".to_owned()));
    assert_eq!((step.status.phase, step.effects), (None, vec![]));
}

#[test]
fn before_3_no_group() {
    let view = View { membership: Some(Membership::None), ..view() };
    assert_eq!(after(&csv("", ""), &view), "Failed NoOperatorGroup: csv in namespace with no operatorgroups");
    // Upstream writes the time at every look; here nothing is written that says nothing new.
    let mut known = csv("", "");
    known.status = Some(step(&known, &view, now()).status);
    let later = step(&known, &view, now() + SignedDuration::from_mins(1));
    assert_eq!((Some(&later.status), later.effects.len()), (known.status.as_ref(), 0));
}

#[test]
fn before_4_several_groups() {
    let view = View { membership: Some(Membership::Several), ..view() };
    let message = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
    assert_eq!(after(&csv("Succeeded", ""), &view), format!("Failed TooManyOperatorGroups: {message}"));
}

#[test]
fn before_5_a_group_that_selects_nothing() {
    let group = Group { targets: std::collections::BTreeSet::new(), ..group() };
    let view = View { membership: Some(Membership::Of(group.clone())), ..view() };
    let step = step(&csv("Succeeded", ""), &view, now());
    let message = "no targetNamespaces are matched operatorgroups namespace selection";
    assert_eq!(text(&step), format!("Failed NoTargetNamespaces: {message}"));
    assert_eq!(step.effects[0], Effect::Annotate(Box::new(group)), "the annotation with namespaces goes");
}

#[test]
fn before_5_a_group_whose_namespaces_are_not_known_yet_is_waited_for() {
    let view = View { membership: Some(Membership::Unsettled), ..View::default() };
    let step = step(&csv("", ""), &view, now());
    assert_eq!((step.status.phase, step.effects, step.again), (None, vec![], Again::Await));
}

#[test]
fn before_6_an_install_mode_twice() {
    let mode = json!({"type": "OwnNamespace", "supported": true});
    let csv = with("", "", &json!({"installModes": [mode, mode]}));
    let message =
        "InstallMode list contains duplicates, cannot make set: [{OwnNamespace true} {OwnNamespace true}]";
    assert_eq!(after(&csv, &view()), format!("Failed InvalidInstallModes: {message}"));
}

#[test]
fn before_7_targets_that_are_not_supported() {
    let message = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
    let csv = with("Succeeded", "", &json!({"installModes": []}));
    assert_eq!(after(&csv, &view()), format!("Failed UnsupportedOperatorGroup: {message}"));
}

#[test]
fn before_8_annotations_that_differ_are_written_and_the_step_ends() {
    for key in ["olm.targetNamespaces", "olm.operatorGroup", "olm.operatorNamespace"] {
        let mut csv = csv("", "");
        csv.metadata.annotations.as_mut().unwrap().remove(key);
        let step = step(&csv, &view(), now());
        assert_eq!(step.effects, [Effect::Annotate(Box::new(group()))], "{key}");
        assert_eq!(step.status.phase, None);
    }
}

fn provided(listed: bool, intersects: bool, is_static: bool) -> View {
    let apis = crate::group::provided::apis_of("A.v1.example.com");
    let mut group = Group { is_static, ..group() };
    if !listed {
        group.provided.clear();
    }
    let intersecting = Some(if intersects { apis } else { std::collections::BTreeSet::new() });
    View { membership: Some(Membership::Of(group)), intersecting, ..view() }
}

#[test]
fn before_9_a_static_group_that_would_have_to_change() {
    let message = "static provided api operatorgroup cannot be modified by these apis";
    for view in [provided(false, false, true), provided(true, true, true)] {
        let step = step(&csv("Succeeded", ""), &view, now());
        assert_eq!(text(&step), format!("Failed CannotModifyStaticOperatorGroupProvidedAPIs: {message}"));
        assert_eq!(step.effects[0], Effect::DeleteDeployments);
    }
}

#[test]
fn before_10_an_api_of_an_intersecting_group() {
    for is_static in [false, true] {
        let step = step(&csv("Succeeded", ""), &provided(false, true, is_static), now());
        let message = "intersecting operatorgroups provide the same apis";
        assert_eq!(text(&step), format!("Failed InterOperatorGroupOwnerConflict: {message}"));
        assert_eq!(step.effects[0], Effect::DeleteDeployments);
    }
}

#[test]
fn before_11_the_apis_of_the_group_change_and_the_step_ends() {
    let apis = crate::group::provided::apis_of;
    for (view, wanted) in
        [(provided(false, false, false), "A.v1.example.com"), (provided(true, true, false), "")]
    {
        let step = step(&csv("", ""), &view, now());
        assert_eq!((step.effects, step.status.phase), (vec![Effect::Provide(apis(wanted))], None));
    }
}
