use olm_api::{
    ConditionStatus, ConditionType, ConditionUpdate, Reason,
    names::{BUNDLE_NAME, ROLLED_BACK_TO_ANNOTATION},
    v1::{
        ClusterObjectSetSpec, ClusterObjectSetStatus, LifecycleState, ObjectSourceRef, Phase as SetPhase,
        PhaseObject,
    },
};

use super::*;

fn set(number: i64, lifecycle_state: LifecycleState, succeeded: bool) -> ClusterObjectSet {
    let spec = ClusterObjectSetSpec { revision: number, lifecycle_state, ..Default::default() };
    let mut set = ClusterObjectSet::new(&format!("ext-{number}"), spec);
    set.metadata.uid = Some(format!("uid-{number}"));
    set.annotations_mut().insert(BUNDLE_NAME.into(), format!("pkg.v{number}"));
    if succeeded {
        let mut status = ClusterObjectSetStatus::default();
        let update = ConditionUpdate::new(
            ConditionType::Succeeded,
            ConditionStatus::True,
            Reason::Succeeded,
            "",
            None,
        );
        status.conditions.set(update, jiff::Timestamp::UNIX_EPOCH);
        set.status = Some(status);
    }
    set
}

fn number(request: Request<'_>) -> (&'static str, i64) {
    match request {
        Request::Done(r) => ("done", r.number),
        Request::Needless(r) => ("needless", r.number),
        Request::ToDo(r) => ("to do", r.number),
        Request::Unknown => ("unknown", 0),
    }
}

#[test]
fn a_request_is_carried_out_once() {
    use LifecycleState::{Active, Archived};
    let mut third = set(3, Active, true);
    let before = [set(1, Archived, true), set(2, Archived, true), third.clone()];
    let revisions = Revisions::read(before.iter().cloned());
    assert_eq!(number(request(1, &revisions)), ("to do", 1));
    assert_eq!(number(request(3, &revisions)), ("needless", 3));
    assert_eq!(number(request(4, &revisions)), ("unknown", 0));
    third.annotations_mut().insert(ROLLED_BACK_TO_ANNOTATION.into(), "1".into());
    let after = [set(1, Archived, true), set(2, Archived, true), third.clone()];
    let revisions = Revisions::read(after.iter().cloned());
    assert_eq!(number(request(1, &revisions)), ("done", 3));
    assert_eq!(number(request(2, &revisions)), ("to do", 2), "another request is another one");
    // Archived by hand it is not made again.
    third.spec.lifecycle_state = Archived;
    let revisions = Revisions::read([set(1, Archived, true), third.clone()].iter().cloned());
    assert_eq!(number(request(1, &revisions)), ("done", 3));
    // After an upgrade the same request is a new one.
    let revisions = Revisions::read([set(1, Archived, true), third, set(4, Active, true)].iter().cloned());
    assert_eq!(number(request(1, &revisions)), ("to do", 1));
}

#[test]
fn what_is_installed_comes_back_when_something_else_rolls_out() {
    use LifecycleState::Active;
    let sets = [set(1, Active, true), set(2, Active, false)];
    let revisions = Revisions::read(sets.iter().cloned());
    assert_eq!(number(request(1, &revisions)), ("to do", 1));
    assert_eq!(number(request(2, &revisions)), ("needless", 2));
    let mut going = set(1, Active, true);
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let revisions = Revisions::read([going, set(2, Active, false)].iter().cloned());
    assert_eq!(number(request(1, &revisions)), ("unknown", 0));
}

#[test]
fn a_crd_is_taken_over_as_the_cluster_has_it() {
    // Rolled out by 2, though 3 is on its way.
    assert_eq!(holder(Live::AppliedBy(2), &[2, 3], Some(2)), Some(2));
    assert_eq!(holder(Live::AppliedBy(3), &[2, 3], Some(2)), Some(3));
    // The revision that applied it is not active any more, or is not known.
    assert_eq!(holder(Live::AppliedBy(1), &[2, 3], Some(2)), Some(3));
    assert_eq!(holder(Live::OfNobody, &[2], Some(2)), Some(2));
    // Not in the cluster: what the installed revision has is being repaired, what is on its way never came.
    assert_eq!(holder(Live::Absent, &[2, 3], Some(2)), Some(2));
    assert_eq!(holder(Live::Absent, &[3], Some(2)), None);
}

fn object(kind: &str, name: &str, form: &str) -> Value {
    let version = if kind == "CustomResourceDefinition" { "apiextensions.k8s.io/v1" } else { "v1" };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "form": form})
}

#[test]
fn crds_are_neither_downgraded_nor_dropped() {
    let crd = "CustomResourceDefinition";
    let old = vec![object(crd, "a", "old"), object(crd, "gone", "old"), object("ConfigMap", "a", "old")];
    let new = [object(crd, "a", "new"), object(crd, "added", "new"), object("ConfigMap", "b", "new")];
    let present = definitions(new.into_iter());
    let mut merged: Vec<String> = with_crds(old, present)
        .iter()
        .map(|o| format!("{} {} {}", o["kind"], o["metadata"]["name"], o["form"]).replace('"', ""))
        .collect();
    merged.sort_unstable();
    assert_eq!(
        merged,
        [
            "ConfigMap a old",
            "CustomResourceDefinition a new",
            "CustomResourceDefinition added new",
            "CustomResourceDefinition gone old",
        ]
    );
}

#[test]
fn only_revisions_whose_secrets_are_there_can_come_back() {
    let mut revision = set(1, LifecycleState::Archived, true);
    let reference = |namespace: &str, name: &str| PhaseObject {
        ref_: Some(ObjectSourceRef { name: name.into(), namespace: namespace.into(), key: "k".into() }),
        ..PhaseObject::default()
    };
    revision.spec.phases = vec![SetPhase {
        name: "deploy".into(),
        objects: vec![reference("sys", "a"), reference("sys", "b"), reference("other", "c")],
        ..SetPhase::default()
    }];
    let secrets = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    assert!(has_content(&revision, "sys", &secrets(&["a", "b", "z"])));
    assert!(!has_content(&revision, "sys", &secrets(&["a"])));
}

#[test]
fn a_refusal_names_what_can_be_chosen() {
    let revisions = Revisions::read([set(1, LifecycleState::Archived, true)].iter().cloned());
    let choice: Vec<&Revision> = revisions.all().iter().collect();
    assert_eq!(
        sentence(9, "is not a revision of this extension", &choice),
        "annotation \"extensions.olm.operatorframework.io/rollback-to\": revision 9 is not a revision of this extension; set it to one of 1 (bundle \"pkg.v1\"), or remove it"
    );
    assert!(
        sentence(9, "is not a revision of this extension", &[])
            .ends_with("; no other revision can be restored: remove the annotation")
    );
}
