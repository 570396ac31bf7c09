//! Which sets of an earlier program are taken for revisions, and what is said of the others.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_api::{
    ConditionStatus, ConditionType, ConditionUpdate, Reason,
    v1::{
        BundleMetadata, ClusterExtensionInstallStatus, ClusterExtensionSpec, ClusterExtensionStatus,
        ClusterObjectSetSpec, ClusterObjectSetStatus, RevisionStatus,
    },
};

use super::*;

/// An extension on which version 2 is installed by revision 2, and revision 3 rolls out.
fn extension() -> ClusterExtension {
    let mut extension = ClusterExtension::new("ext", ClusterExtensionSpec::default());
    extension.metadata.uid = Some("u".to_owned());
    let revision = |name: &str| RevisionStatus { name: name.to_owned(), ..RevisionStatus::default() };
    extension.status = Some(ClusterExtensionStatus {
        install: Some(ClusterExtensionInstallStatus {
            bundle: BundleMetadata { name: "p.v2".into(), version: "2.0.0".into(), release: None },
        }),
        active_revisions: vec![revision("ext-2"), revision("ext-3")],
        ..ClusterExtensionStatus::default()
    });
    extension
}

/// A revision as upstream writes it.
fn set(number: i64, lifecycle_state: LifecycleState) -> ClusterObjectSet {
    let spec = ClusterObjectSetSpec { revision: number, lifecycle_state, ..Default::default() };
    let mut set = ClusterObjectSet::new(&format!("ext-{number}"), spec);
    set.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "olm.operatorframework.io/v1".into(),
        kind: "ClusterExtension".into(),
        name: "ext".into(),
        uid: "u".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    set.labels_mut().insert(OWNER_NAME_LABEL.to_owned(), "ext".to_owned());
    set
}

fn with(mut set: ClusterObjectSet, change: impl FnOnce(&mut ClusterObjectSet)) -> ClusterObjectSet {
    change(&mut set);
    set
}

fn reference(set: &mut ClusterObjectSet) -> &mut OwnerReference {
    &mut set.metadata.owner_references.as_mut().unwrap()[0]
}

/// A set that says that it has rolled out this version.
fn rolled_out(number: i64, bundle: &str, version: &str) -> ClusterObjectSet {
    with(set(number, LifecycleState::Active), |set| {
        set.annotations_mut().insert(BUNDLE_NAME.to_owned(), bundle.to_owned());
        set.annotations_mut().insert(BUNDLE_VERSION.to_owned(), version.to_owned());
        let mut status = ClusterObjectSetStatus::default();
        let (type_, reason) = (ConditionType::Succeeded, Reason::Succeeded);
        let update = ConditionUpdate::new(type_, ConditionStatus::True, reason, "", None);
        status.conditions.set(update, Timestamp::UNIX_EPOCH);
        set.status = Some(status);
    })
}

#[test]
fn what_the_status_tells_of_is_marked_and_nothing_else() {
    use LifecycleState::{Active, Archived};
    let extension = extension();
    let cases = [
        ("an active revision", set(2, Active), true),
        ("one that rolls out", set(3, Active), true),
        ("one archived since", set(3, Archived), true),
        ("one archived before", set(1, Archived), true),
        ("one that nothing tells of", set(4, Active), false),
        ("an archived one that came later", set(4, Archived), false),
        ("one that rolled out another bundle", rolled_out(4, "p.v2", "3.0.0"), false),
        ("the installed one, active or not in the list", rolled_out(4, "p.v2", "2.0.0"), true),
        ("another name", with(set(2, Active), |s| s.metadata.name = Some("ext-3".into())), false),
        (
            "another label",
            with(set(2, Active), |s| drop(s.labels_mut().insert(OWNER_NAME_LABEL.into(), "x".into()))),
            false,
        ),
        ("another UID", with(set(2, Active), |s| reference(s).uid = "x".into()), false),
        ("another owner's name", with(set(2, Active), |s| reference(s).name = "x".into()), false),
        ("another group", with(set(2, Active), |s| reference(s).api_version = "not.olm/v1".into()), false),
        ("no controller", with(set(2, Active), |s| reference(s).controller = None), false),
        (
            "a mark of something else",
            with(set(2, Active), |s| {
                drop(s.annotations_mut().insert(REVISION_OF_ANNOTATION.into(), "x".into()));
            }),
            false,
        ),
    ];
    for (what, set, wanted) in &cases {
        assert_eq!(is_earlier(&extension, set), *wanted, "{what}");
    }
    let mut over = extension.clone();
    over.metadata.annotations = Some([(TAKEN_OVER_ANNOTATION.to_owned(), "u".to_owned())].into());
    let mut unreported = extension;
    unreported.status = None;
    for (what, set, _) in &cases {
        assert!(!is_earlier(&over, set), "{what}, once the takeover is over");
        assert!(!is_earlier(&unreported, set), "{what}, for an extension without a status");
    }
}

#[test]
fn foreign_sets_are_named_up_to_a_number() {
    assert_eq!(note(vec![]), None);
    let reported = note(vec!["b".into(), "a".into()]).unwrap();
    assert!(reported.ends_with("they are ignored: \"a\", \"b\". Delete them."), "{reported}");
    let reported = note((0..8).map(|i| format!("s{i}")).collect()).unwrap();
    assert!(reported.ends_with("\"s4\" and 3 more. Delete them."), "{reported}");
}
