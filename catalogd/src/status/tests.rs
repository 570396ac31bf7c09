use olm_api::v1::ClusterCatalogStatus;

use super::{Facts, Outcome, Served, status};
use jiff::Timestamp;

const REFERENCE: &str = "quay.io/a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn served(current: bool) -> Served<'static> {
    Served { reference: REFERENCE, unpacked_at: at(5), current }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn after(
    before: &ClusterCatalogStatus,
    served: Option<Served<'_>>,
    outcome: Outcome<'_>,
) -> ClusterCatalogStatus {
    let facts = Facts { generation: Some(3), served, outcome, base_url: "https://host/catalogs/c" };
    status(before, &facts, at(10))
}

/// Conditions as `Type=Status/Reason/message`, sorted.
fn conditions(status: &ClusterCatalogStatus) -> Vec<String> {
    let mut lines: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| {
            assert_eq!(condition.observed_generation, Some(3));
            format!("{}={}/{}/{}", condition.type_, condition.status, condition.reason, condition.message)
        })
        .collect();
    lines.sort();
    lines
}

const RETRY: Outcome<'_> = Outcome::Failed { message: "registry away", terminal: false, advice: None };
const TERMINAL: Outcome<'_> = Outcome::Failed { message: "bad reference", terminal: true, advice: None };

#[test]
fn success_serves_and_progressing_stays_true() {
    let status = after(&ClusterCatalogStatus::default(), Some(served(true)), Outcome::Succeeded);
    assert_eq!(
        conditions(&status),
        [
            "Progressing=True/Succeeded/Successfully unpacked and stored content from resolved source",
            "Ready=True/Succeeded/Serving desired content from resolved source",
            "Serving=True/Available/Serving desired content from resolved source",
        ]
    );
    assert_eq!(status.resolved_source.unwrap().image.ref_, REFERENCE);
    assert_eq!(status.urls.unwrap().base, "https://host/catalogs/c");
    assert_eq!(status.last_unpacked.unwrap().0, at(5));
}

#[test]
fn a_first_failure_leaves_serving_unsaid() {
    let new = ClusterCatalogStatus::default();
    let retrying = after(&new, None, RETRY);
    assert_eq!(
        conditions(&retrying),
        [
            "Progressing=True/Retrying/registry away",
            "Ready=False/Retrying/registry away",
            "Reconciling=True/Retrying/registry away",
        ]
    );
    assert_eq!(retrying.resolved_source, None);
    assert_eq!(
        conditions(&after(&retrying, None, TERMINAL)),
        [
            "Progressing=False/Blocked/bad reference",
            "Ready=False/Blocked/bad reference",
            "Stalled=True/Blocked/bad reference"
        ]
    );
}

#[test]
fn a_later_failure_leaves_old_content_served() {
    let good = after(&ClusterCatalogStatus::default(), Some(served(true)), Outcome::Succeeded);
    let serving = "Serving=True/Available/Serving desired content from resolved source";
    let polled = after(&good, Some(served(true)), RETRY);
    assert_eq!(
        conditions(&polled),
        [
            "Progressing=True/Retrying/registry away",
            "Ready=True/Succeeded/Serving desired content from resolved source; checking the source again failed: registry away",
            serving,
        ]
    );
    assert_eq!(polled.resolved_source, good.resolved_source);
    let changed = after(&good, Some(served(false)), TERMINAL);
    assert_eq!(
        conditions(&changed),
        [
            "Progressing=False/Blocked/bad reference",
            "Ready=False/Blocked/bad reference",
            serving,
            "Stalled=True/Blocked/bad reference",
        ]
    );
    assert_eq!(conditions(&after(&changed, Some(served(true)), Outcome::Succeeded)), conditions(&good));
}

#[test]
fn what_only_a_person_can_remove_is_stalled_with_the_remedy_and_upstreams_condition_stays() {
    let missing = Outcome::Failed { message: "not found", terminal: false, advice: Some("push it") };
    assert_eq!(
        conditions(&after(&ClusterCatalogStatus::default(), None, missing)),
        [
            "Progressing=True/Retrying/not found",
            "Ready=False/Blocked/not found. push it",
            "Stalled=True/Blocked/not found. push it",
        ]
    );
}

#[test]
fn content_that_was_lost_and_cannot_be_fetched_is_not_called_served() {
    let good = after(&ClusterCatalogStatus::default(), Some(served(true)), Outcome::Succeeded);
    let lost = after(&good, None, RETRY);
    assert!(conditions(&lost).contains(
        &"Serving=False/Unavailable/Content is not available until it is unpacked again".to_owned()
    ));
    // Other replicas go on serving it.
    assert_eq!(lost.resolved_source, good.resolved_source);
}

#[test]
fn unavailable_and_deleted_catalogs_name_no_content() {
    let good = after(&ClusterCatalogStatus::default(), Some(served(true)), Outcome::Succeeded);
    let unavailable = after(&good, None, Outcome::Unavailable);
    let text = "Catalog availability mode is set to Unavailable";
    assert_eq!(
        conditions(&unavailable),
        [
            format!("Progressing=True/Succeeded/{text}"),
            format!("Ready=True/UserSpecifiedUnavailable/{text}"),
            format!("Serving=False/UserSpecifiedUnavailable/{text}"),
        ]
    );
    let deleted = after(&good, None, Outcome::Deleted);
    assert_eq!(
        conditions(&deleted),
        [
            "Progressing=True/Succeeded/Successfully unpacked and stored content from resolved source",
            "Ready=False/Unavailable/",
            "Serving=False/Unavailable/",
        ]
    );
    for status in [unavailable, deleted] {
        assert_eq!((status.resolved_source, status.urls, status.last_unpacked), (None, None, None));
    }
}

/// A leader whose cache is empty unpacks the same content once more.
#[test]
fn the_time_of_unpacking_is_that_of_the_content() {
    let good = after(&ClusterCatalogStatus::default(), Some(served(true)), Outcome::Succeeded);
    let again = |before: &ClusterCatalogStatus, reference: &'static str| {
        let served = Served { reference, unpacked_at: at(900), current: true };
        after(before, Some(served), Outcome::Succeeded).last_unpacked.unwrap().0
    };
    assert_eq!(again(&good, REFERENCE), at(5));
    let moved = REFERENCE.replace("quay.io", "registry.example.com");
    assert_ne!(moved, REFERENCE);
    assert_eq!(again(&good, moved.leak()), at(5));
    assert_eq!(again(&good, "quay.io/a/b@sha256:other"), at(900));
    assert_eq!(again(&ClusterCatalogStatus { last_unpacked: None, ..good.clone() }, REFERENCE), at(900));
    let gone = after(&good, None, Outcome::Unavailable);
    assert_eq!(again(&gone, REFERENCE), at(900), "it was not served meanwhile");
}

#[test]
fn the_same_facts_change_nothing() {
    let good = after(&ClusterCatalogStatus::default(), Some(served(true)), Outcome::Succeeded);
    let facts = Facts {
        generation: Some(3),
        served: Some(served(true)),
        outcome: Outcome::Succeeded,
        base_url: "https://host/catalogs/c",
    };
    assert_eq!(status(&good, &facts, at(999)), good);
}
