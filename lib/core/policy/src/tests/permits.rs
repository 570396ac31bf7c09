use jiff::Timestamp;
use olm_api::v1alpha1::{Approval, Concurrency, UpdatePolicySpec};

use super::{at, described};
use crate::{Approved, Change, Kind, Others, Permit, Policy, Risk, Wait, permit, sentence};

const NOW: &str = "2026-11-24T15:00:00Z";
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn policy(change: impl FnOnce(&mut UpdatePolicySpec)) -> Policy {
    let mut spec = UpdatePolicySpec::default();
    change(&mut spec);
    Policy::parse("p", &spec).unwrap()
}

fn change(kind: Kind) -> Change<'static> {
    let first_possible = at("2026-11-24T10:00:00Z");
    Change { kind, version: "1.4.0", digest: DIGEST, first_possible, risks: &[], approved: None }
}

fn others(rolling_out: &[&str], failed: &[&str]) -> Others {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Others { rolling_out: set(rolling_out), failed: set(failed) }
}

/// The sentence on a change that waits, and the time of the next look.
fn waits(policy: &Policy, change: &Change<'_>, others: &Others) -> (String, Option<Timestamp>) {
    match permit(policy, change, others, at(NOW)) {
        Permit::Now => (String::new(), None),
        Permit::Wait { waits, look_again } => (sentence(change.version, &waits, at(NOW)), look_again),
    }
}

fn strict() -> Policy {
    policy(|spec| {
        spec.approval = Approval::Manual;
        spec.minimum_age = Some("72h".to_owned());
        spec.windows = vec![described("Allow 0 2 * * 0 4h Europe/Berlin")];
        spec.concurrency = Some(Concurrency { max: 1, halt_on_failure: true });
    })
}

#[test]
fn everything_that_is_waited_for_is_named() {
    let (text, look_again) = waits(&strict(), &change(Kind::Update), &others(&["b"], &[]));
    assert_eq!(
        text,
        "1.4.0 waits for the approval of plan sha256:0123456789, and for its minimum age, which it has Friday 10:00 UTC, \
         and for the window that opens Sunday 02:00 Europe/Berlin, and for b to have rolled out, because only one rolls \
         out at a time"
    );
    assert_eq!(look_again, Some(at("2026-11-27T10:00:00Z")), "the first of the times");
}

#[test]
fn installations_wait_only_where_the_policy_says_so() {
    let install = change(Kind::Install);
    assert_eq!(permit(&strict(), &install, &Others::default(), at(NOW)), Permit::Now);
    let mut strict = strict();
    strict.installs = true;
    assert!(waits(&strict, &install, &Others::default()).0.contains("approval"));
}

#[test]
fn a_way_back_needs_approval_and_waits_for_nothing_else() {
    let back = change(Kind::Rollback);
    let busy = others(&["b"], &["c"]);
    assert_eq!(
        waits(&strict(), &back, &busy),
        ("1.4.0 waits for the approval of plan sha256:0123456789".to_owned(), None)
    );
    let approved = Change { approved: Some(DIGEST), ..back };
    assert_eq!(permit(&strict(), &approved, &busy, at(NOW)), Permit::Now);
}

#[test]
fn only_the_digest_of_the_plan_is_approval() {
    let manual = policy(|spec| spec.approval = Approval::Manual);
    let with =
        |approved| permit(&manual, &Change { approved, ..change(Kind::Update) }, &Others::default(), at(NOW));
    assert_eq!(with(Some(DIGEST)), Permit::Now);
    let wait = |approved| Permit::Wait {
        waits: vec![Wait::Approval { digest: DIGEST.to_owned(), risks: Vec::new(), approved }],
        look_again: None,
    };
    assert_eq!(with(None), wait(Approved::Nothing));
    assert_eq!(with(Some("")), wait(Approved::Nothing));
    for other in [&DIGEST[..20], &DIGEST.to_uppercase(), &format!("{DIGEST} "), "true"] {
        assert_eq!(with(Some(other)), wait(Approved::Another(other.to_owned())), "{other}");
        assert!(with(Some(other)).needs_a_person());
    }
}

#[test]
fn risks_need_approval_and_are_named() {
    let on_risk = policy(|spec| spec.approval = Approval::OnRisk);
    assert_eq!(permit(&on_risk, &change(Kind::Update), &Others::default(), at(NOW)), Permit::Now);
    let risks = [
        Risk::MajorVersion { from: 1, to: 2 },
        Risk::Permissions(vec!["may read Secrets of every namespace".to_owned()]),
        Risk::Crds(["a", "b", "c", "d"].map(str::to_owned).to_vec()),
    ];
    let dangerous = Change { risks: &risks, ..change(Kind::Update) };
    assert_eq!(
        waits(&on_risk, &dangerous, &Others::default()).0,
        "1.4.0 waits for the approval of plan sha256:0123456789 because the major version changes from 1 to 2; the operator \
         may read Secrets of every namespace; there are findings on a, b, c and 1 more"
    );
    let manual = policy(|spec| spec.approval = Approval::Manual);
    let (text, _) = waits(&manual, &dangerous, &Others::default());
    assert_eq!(text, "1.4.0 waits for the approval of plan sha256:0123456789", "it is needed in any case");
    let automatic = policy(|_| {});
    assert_eq!(permit(&automatic, &dangerous, &Others::default(), at(NOW)), Permit::Now);
}

#[test]
fn turns_are_taken_and_a_failure_halts_the_others() {
    let of =
        |max, halt_on_failure| policy(|spec| spec.concurrency = Some(Concurrency { max, halt_on_failure }));
    let update = change(Kind::Update);
    let text = |policy: &Policy, others: &Others| waits(policy, &update, others).0;
    assert_eq!(text(&of(2, false), &others(&["a"], &["z"])), "");
    assert_eq!(
        text(&of(2, false), &others(&["a", "b"], &[])),
        "1.4.0 waits for a, b to have rolled out, because only 2 roll out at a time"
    );
    assert_eq!(
        text(&of(2, true), &others(&["a", "b"], &["z"])),
        "1.4.0 waits for z, whose roll-out missed its deadline, to be corrected"
    );
}

#[test]
fn a_window_far_away_is_named_by_its_date() {
    let leap = policy(|spec| spec.windows = vec![described("Allow 0 0 29 2 * 24h UTC")]);
    let (text, _) = waits(&leap, &change(Kind::Update), &Others::default());
    assert_eq!(text, "1.4.0 waits for the window that opens Tuesday 2028-02-29 00:00 UTC");
    let never = policy(|spec| spec.windows = vec![described("Deny * * * * * 1h UTC")]);
    assert_eq!(
        waits(&never, &change(Kind::Update), &Others::default()).0,
        "1.4.0 waits for a window, and none opens soon"
    );
}
