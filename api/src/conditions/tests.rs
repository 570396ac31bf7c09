use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::new(second, 123_456_789).unwrap()
}

fn ready(status: ConditionStatus, message: &str, generation: i64) -> ConditionUpdate {
    ConditionUpdate::new(ConditionType::Ready, status, Reason::Succeeded, message, Some(generation))
}

#[test]
fn transition_time_moves_only_with_the_status() {
    let mut conditions = Conditions::default();
    assert!(conditions.set(ready(ConditionStatus::True, "a", 1), at(10)));
    assert_eq!(conditions[0].last_transition_time, Time(Timestamp::from_second(10).unwrap()));

    assert!(!conditions.set(ready(ConditionStatus::True, "a", 1), at(20)), "nothing changed");
    assert!(conditions.set(ready(ConditionStatus::True, "b", 2), at(30)));
    assert_eq!(conditions[0].last_transition_time, Time(Timestamp::from_second(10).unwrap()));
    assert_eq!((conditions[0].message.as_str(), conditions[0].observed_generation), ("b", Some(2)));

    assert!(conditions.set(ready(ConditionStatus::False, "b", 2), at(40)));
    assert_eq!(conditions[0].last_transition_time, Time(Timestamp::from_second(40).unwrap()));
    assert_eq!(conditions.len(), 1);
}

#[test]
fn a_summary_keeps_its_transition_times_and_takes_back_what_no_longer_applies() {
    use ConditionType::{Ready, Reconciling, Stalled};
    let mut conditions = Conditions::default();
    let mut summarize = |second, is_ready, activity| {
        let mut writer =
            ConditionWriter { conditions: &mut conditions, generation: Some(1), now: at(second) };
        writer.summarize(is_ready, Reason::Retrying, "m", activity);
        let since = |type_| Some(writer.conditions.find(type_)?.last_transition_time.0.as_second());
        [Ready, Reconciling, Stalled].map(since)
    };
    let reconciling = Activity::Reconciling(Reason::Retrying, "r");
    assert_eq!(summarize(10, false, reconciling), [Some(10), Some(10), None]);
    assert_eq!(summarize(20, false, reconciling), [Some(10), Some(10), None]);
    assert_eq!(summarize(30, false, Activity::Stalled(Reason::Blocked, "s")), [Some(10), None, Some(30)]);
    assert_eq!(summarize(40, true, Activity::None), [Some(40), None, None]);
}

#[test]
fn merge_keeps_what_the_newer_list_does_not_name() {
    let mut conditions = Conditions::default();
    conditions.set(ready(ConditionStatus::True, "a", 1), at(10));
    let mut newer = Conditions::default();
    newer.set(
        ConditionUpdate::new(ConditionType::Stalled, ConditionStatus::True, Reason::Blocked, "s", Some(2)),
        at(20),
    );
    assert!(conditions.merge(&newer, at(30)));
    assert!(!conditions.merge(&newer, at(40)));
    let types: Vec<_> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "Stalled"]);
    assert_eq!(conditions[1].last_transition_time, Time(Timestamp::from_second(30).unwrap()));
    assert!(conditions.is_true(ConditionType::Stalled));
    assert!(conditions.remove(ConditionType::Stalled));
    assert!(!conditions.remove(ConditionType::Stalled));
    assert_eq!(conditions.find(ConditionType::Stalled), None);
}

#[test]
fn a_mirrored_condition_speaks_of_this_objects_generation_and_times() {
    let mut set = Conditions::default();
    set.set(ready(ConditionStatus::True, "set", 7), at(10));
    let mut extension = Conditions::default();
    assert!(extension.mirror(&set[0], Some(3), at(50)));
    assert_eq!(extension[0].observed_generation, Some(3));
    assert_eq!(extension[0].last_transition_time, Time(Timestamp::from_second(50).unwrap()));
    assert!(!extension.mirror(&set[0], Some(3), at(60)));
}

#[test]
fn messages_are_cut_at_the_limit_and_never_inside_a_character() {
    let fits = "x".repeat(MAX_MESSAGE_BYTES);
    assert_eq!(truncate(fits.clone()), fits);

    let cut = truncate("x".repeat(MAX_MESSAGE_BYTES + 1));
    assert_eq!(cut.len(), MAX_MESSAGE_BYTES);
    assert!(cut.ends_with(TRUNCATION_SUFFIX));

    let cut = truncate("ä".repeat(MAX_MESSAGE_BYTES));
    assert!(cut.len() <= MAX_MESSAGE_BYTES && cut.len() > MAX_MESSAGE_BYTES - 2);
    assert!(cut.ends_with(TRUNCATION_SUFFIX));
}

#[test]
fn no_way_into_the_list_lets_through_what_is_not_visible() {
    let hostile = "a\u{1b}[2J\u{202e}b\r\nc\nd";
    let wanted = "a\\u{1b}[2J\\u{202e}b\nc\nd";
    let mut conditions = Conditions::default();
    conditions.set(ready(ConditionStatus::True, hostile, 1), at(10));
    assert_eq!(conditions[0].message, wanted, "lines of a message are its author's own");

    let foreign = Condition { message: hostile.to_owned(), ..conditions[0].clone() };
    let mut mirrored = Conditions::default();
    mirrored.mirror(&foreign, None, at(10));
    assert_eq!(mirrored[0].message, wanted);
    let mut merged = Conditions::default();
    merged.merge(&Conditions::from(vec![foreign]), at(10));
    assert_eq!(merged[0].message, wanted);
}

#[test]
fn names_are_what_the_api_carries() {
    assert_eq!(ConditionType::PackageDeprecated.as_str(), "PackageDeprecated");
    assert_eq!(Reason::ProgressDeadlineExceeded.to_string(), "ProgressDeadlineExceeded");
    assert_eq!(ConditionStatus::ALL.len(), 3);
}
