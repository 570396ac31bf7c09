use olm_api::{
    ConditionStatus, ConditionType, ConditionUpdate,
    names::{BUNDLE_NAME, BUNDLE_REFERENCE, BUNDLE_VERSION, ROLLED_BACK_TO_ANNOTATION},
    v1::{ClusterExtensionSpec, ClusterObjectSet, ClusterObjectSetSpec, LifecycleState},
};

use super::*;

/// A revision; `state` has some of the words `archived`, `deleted`, `done`, `late`, `failed` (it could not roll out for
/// another reason) and `back`, and bundles have the version `1.<version>.0`.
fn set(number: i64, version: u8, state: &str) -> ClusterObjectSet {
    let is = |word: &str| state.split(' ').any(|one| one == word);
    let lifecycle_state = if is("archived") { LifecycleState::Archived } else { LifecycleState::Active };
    let spec = ClusterObjectSetSpec { revision: number, lifecycle_state, ..Default::default() };
    let mut set = ClusterObjectSet::new(&format!("ext-{number}"), spec);
    let mut condition = |type_, status, reason| {
        let update = ConditionUpdate::new(type_, status, reason, "", None);
        set.status.get_or_insert_default().conditions.set(update, jiff::Timestamp::UNIX_EPOCH);
    };
    if is("done") {
        condition(ConditionType::Succeeded, ConditionStatus::True, Reason::Succeeded);
    }
    if is("late") {
        condition(ConditionType::Progressing, ConditionStatus::False, Reason::ProgressDeadlineExceeded);
    }
    if is("failed") {
        condition(ConditionType::Progressing, ConditionStatus::False, Reason::Blocked);
    }
    if is("deleted") {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        set.metadata.deletion_timestamp = Some(now);
    }
    let bundle = bundle(version);
    let annotations = set.annotations_mut();
    annotations.insert(BUNDLE_NAME.into(), bundle.name);
    annotations.insert(BUNDLE_VERSION.into(), bundle.version);
    annotations.insert(BUNDLE_REFERENCE.into(), bundle.reference);
    if is("back") {
        annotations.insert(ROLLED_BACK_TO_ANNOTATION.into(), "1".into());
    }
    set
}

fn bundle(version: u8) -> BundleRecord {
    let of = |text: &str| format!("{text}1.{version}.0");
    BundleRecord { name: of("op.v"), version: of(""), reference: of("image:"), ..BundleRecord::default() }
}

fn read(sets: &[ClusterObjectSet]) -> Revisions {
    Revisions::read(sets.iter().cloned())
}

#[test]
fn only_what_missed_its_deadline_is_replaced_and_only_by_what_is_installed() {
    let nowhere = |why: &str| Err(Some(why.to_owned()));
    let nothing = Err(None);
    for (words, sets, wanted) in [
        ("nothing is there", vec![], nothing.clone()),
        ("it rolls out", vec![set(1, 0, "done"), set(2, 1, "")], nothing.clone()),
        ("it cannot roll out", vec![set(1, 0, "done"), set(2, 1, "failed")], nothing.clone()),
        ("it is late", vec![set(1, 0, "done"), set(2, 1, "late")], Ok((2, 1))),
        ("it was late and has rolled out", vec![set(1, 0, "done"), set(2, 1, "late done")], nothing.clone()),
        (
            "the one after it rolls out",
            vec![set(1, 0, "done"), set(2, 1, "late"), set(3, 2, "")],
            nothing.clone(),
        ),
        ("two are late", vec![set(1, 0, "done"), set(2, 1, "late"), set(3, 2, "late")], Ok((3, 1))),
        (
            "the newest that has rolled out",
            vec![set(1, 0, "done"), set(2, 1, "done"), set(3, 2, "late")],
            Ok((3, 2)),
        ),
        ("it is archived by hand", vec![set(1, 0, "done"), set(2, 1, "late archived")], nothing.clone()),
        ("it is being deleted", vec![set(1, 0, "done"), set(2, 1, "late deleted")], nothing),
        ("the first installation", vec![set(1, 0, "late")], nowhere("no earlier revision has rolled out")),
        (
            "what was installed is archived",
            vec![set(1, 0, "done archived"), set(2, 1, "late")],
            nowhere("no earlier revision has rolled out"),
        ),
        (
            "a way back that is late",
            vec![set(1, 0, "done"), set(2, 1, "late"), set(3, 0, "late back")],
            nowhere("it is itself the way back"),
        ),
    ] {
        let revisions = read(&sets);
        let found = match due(OnFailure::Return, &revisions) {
            Due::Nothing => Err(None),
            Due::Nowhere(why) => Err(Some(why.to_owned())),
            Due::Return(failed, target) => Ok((failed.number, target.number)),
        };
        assert_eq!(found, wanted, "{words}");
        assert_eq!(due(OnFailure::Stay, &revisions), Due::Nothing, "{words}");
    }
}

#[test]
fn an_attempt_is_another_one_when_the_spec_the_image_or_the_annotation_changes() {
    let extension = |change: &dyn Fn(&mut ClusterExtension)| {
        let mut extension = ClusterExtension::new("ext", ClusterExtensionSpec::default());
        change(&mut extension);
        extension
    };
    let annotated = |name: &'static str| {
        extension(&|one| drop(one.annotations_mut().insert(name.to_owned(), "1".to_owned())))
    };
    let first = attempt(&extension(&|_| {}), &bundle(1));
    assert_eq!(attempt(&annotated("extensions.olm.operatorframework.io/approved-plan"), &bundle(1)), first);
    let elsewhere = BundleRecord { reference: "image@sha256:1".to_owned(), ..bundle(1) };
    for (what, other) in [
        ("the spec", attempt(&extension(&|one| one.spec.progress_deadline_minutes = Some(20)), &bundle(1))),
        ("the image", attempt(&extension(&|_| {}), &elsewhere)),
        ("the version", attempt(&extension(&|_| {}), &bundle(2))),
        ("retry", attempt(&annotated(RETRY_ANNOTATION), &bundle(1))),
        ("reinstall", attempt(&annotated(REINSTALL_ANNOTATION), &bundle(1))),
    ] {
        assert_ne!(other, first, "{what}");
    }
}

#[test]
fn a_failure_is_remembered_with_revisions_until_its_bundle_rolls_out() {
    let back = |number: i64, state: &str, record: &str| {
        let mut set = set(number, 0, state);
        set.annotations_mut().insert(RETURNED_FROM_ANNOTATION.into(), record.to_owned());
        set
    };
    let record = |attempt: Option<&str>| {
        let failed = Failed { revision: 2, version: "1.1.0".into(), attempt: attempt.map(str::to_owned) };
        serde_json::to_string(&failed).unwrap()
    };
    let (one, none) = (record(Some("one")), record(None));
    let before = || vec![set(1, 0, "done archived"), set(2, 1, "late archived")];
    let after = |more: Vec<ClusterObjectSet>| before().into_iter().chain(more).collect::<Vec<_>>();
    for (words, sets, wanted) in [
        ("nothing is recorded", before(), false),
        ("it rolls out", after(vec![back(3, "back", &one)]), true),
        ("it has rolled out", after(vec![back(3, "back done", &one)]), true),
        ("another attempt", after(vec![back(3, "back done", &record(Some("other")))]), false),
        ("the spec had changed", after(vec![back(3, "back done", &none)]), false),
        ("no record that can be read", after(vec![back(3, "back done", "{")]), false),
        ("another version since", after(vec![back(3, "back done archived", &one), set(4, 2, "done")]), true),
        ("it is tried again", after(vec![back(3, "back done", &one), set(4, 1, "")]), true),
        (
            "it has rolled out after all",
            after(vec![back(3, "back done archived", &one), set(4, 1, "done")]),
            false,
        ),
        (
            "it has rolled out, and another version since",
            after(vec![back(3, "back done archived", &one), set(4, 1, "done archived"), set(5, 2, "done")]),
            false,
        ),
    ] {
        let found = recorded(&read(&sets), &bundle(1), "one");
        assert_eq!(found.is_some(), wanted, "{words}");
    }
}

#[test]
fn what_is_in_the_way_is_named_with_the_ways_forward() {
    let revisions = read(&[set(1, 0, "done"), set(2, 1, "late")]);
    let [target, failed] = revisions.all() else { panic!("two revisions") };
    assert_eq!(
        stays(
            (failed, target),
            "prod",
            "stored objects would be in danger: CRD \"a.b\": the storage version changes from v2 to v1."
        ),
        "Update policy prod lets revision 1 (1.0.0) take the place of revision 2 (1.1.0), which missed its deadline, but stored objects would be in danger: CRD \"a.b\": the storage version changes from v2 to v1. Correct what keeps revision 2 from rolling out, let the extension choose another version, or set the annotation extensions.olm.operatorframework.io/rollback-to to 1, which leaves CRDs as they are."
    );
}
