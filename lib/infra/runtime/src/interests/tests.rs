use super::*;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Shared(u8),
    Own,
}

impl Interest for Change {
    fn is_shared(&self) -> bool {
        *self != Self::Own
    }
}

use Change::{Own, Shared};

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A reconcile of an object, from its beginning to its end.
fn reconciled(state: &mut State<Change>, name: &str, uid: &str, interests: &[Change]) -> bool {
    state.begin(name, uid);
    state.end(name, uid, Some(interests.iter().cloned().collect()))
}

/// What has fired at `now` wakes these.
fn woken(state: &mut State<Change>, now: Instant) -> Vec<String> {
    state.wake(now).into_iter().map(|(name, _)| name).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_are_gathered_and_wake_those_of_the_last_reconcile_in_order() {
    let (mut state, now) = (State::default(), Instant::now());
    for name in ["c", "a", "b"] {
        assert!(!reconciled(&mut state, name, name, &[Shared(1)]));
    }
    assert!(!reconciled(&mut state, "b", "b", &[Shared(2)]), "they replace those of the reconcile before");
    assert!(state.fire(&Shared(1), now) && !state.fire(&Shared(1), now + millis(49)));
    assert_eq!(state.next_due(), Some(now + GATHER));
    assert!(woken(&mut state, now + millis(49)).is_empty());
    assert_eq!(woken(&mut state, now + GATHER), ["a", "c"]);
    assert_eq!((state.next_due(), woken(&mut state, now + GATHER).len()), (None, 0), "once");

    assert!(!state.fire(&Shared(3), now), "nobody is interested");
    assert!(!reconciled(&mut state, "a", "a", &[Own]));
    assert!(state.fire(&Own, now));
    assert_eq!(woken(&mut state, now), ["a"], "what is of one object alone wakes it at once");
    state.forget("a");
    assert!(!state.fire(&Own, now));
}

#[tokio::test(start_paused = true)]
async fn an_object_made_again_under_its_name_inherits_no_interest() {
    let (mut state, now) = (State::default(), Instant::now());
    reconciled(&mut state, "a", "1", &[Shared(1)]);
    state.begin("a", "2");
    // It panicked: nothing is known of its interests, and those of the other one are not its.
    assert!(!state.end("a", "2", None));
    assert!(!state.fire(&Shared(1), now));
    reconciled(&mut state, "a", "2", &[Shared(2)]);
    state.begin("a", "2");
    state.end("a", "2", None);
    assert!(state.fire(&Shared(2), now), "after a panic its own are those of the reconcile before");
    // It is gone.
    reconciled(&mut state, "a", "", &[]);
    assert!(!state.fire(&Shared(2), now));
    assert!(state.of.is_empty() && state.objects.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_changes_during_a_reconcile_counts_by_the_interests_that_it_ends_with() {
    let (mut state, now) = (State::default(), Instant::now());
    reconciled(&mut state, "a", "a", &[Shared(1)]);
    state.begin("a", "a");
    assert!(state.fire(&Shared(1), now) && state.fire(&Shared(2), now));
    assert!(woken(&mut state, now + GATHER).is_empty());
    assert!(state.end("a", "a", Some([Shared(2)].into())), "it did not see that change");
    assert!(state.fired.is_empty(), "nothing is kept when nothing runs");

    state.begin("a", "a");
    state.fire(&Shared(1), now);
    woken(&mut state, now + GATHER);
    assert!(!state.end("a", "a", Some([Shared(2)].into())), "it is not interested any more");

    // It fired before the reconcile, which saw it.
    state.fire(&Shared(2), now);
    state.begin("a", "a");
    assert!(woken(&mut state, now + millis(1000)).is_empty());
    assert!(!state.end("a", "a", Some([Shared(2)].into())));

    // What is still gathered when the reconcile ends wakes by itself, once.
    state.begin("a", "a");
    let later = now + millis(20_000);
    state.fire(&Shared(2), later);
    assert!(!state.end("a", "a", Some([Shared(2)].into())));
    assert_eq!(woken(&mut state, later + GATHER), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_thing_that_changes_all_the_time_wakes_thousands_every_two_seconds_at_most() {
    let (mut state, began) = (State::default(), Instant::now());
    for i in 0..2000 {
        reconciled(&mut state, &format!("{i:04}"), "u", &[Shared(1)]);
    }
    let mut times = Vec::new();
    let mut now = began;
    while now < began + millis(60_000) {
        state.fire(&Shared(1), now);
        if state.next_due().is_some_and(|due| due <= now) {
            assert_eq!(state.wake(now).len(), 2000);
            times.push(now);
        }
        now += millis(10);
    }
    // 50, 100, 200, 400, 800, 1600 milliseconds, and 2 seconds from then on.
    assert!((30..=40).contains(&times.len()), "{}", times.len());
    assert!(times[1] - times[0] <= millis(120), "what has just begun is not waited for");
    // What has calmed down is as quick as before.
    state.wake(now + millis(2000));
    now += millis(20_000);
    state.fire(&Shared(1), now);
    assert_eq!(state.next_due(), Some(now + GATHER));
    state.wake(now + millis(60_000));
    state.wake(now + millis(120_000));
    assert!(state.lately.is_empty() && state.due.is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_controller_hears_of_a_change() {
    let interests = Interests::<Change>::default();
    let (first, second) = (interests.join(), interests.join());
    reconciled(&mut first.state.lock(), "a", "a", &[Shared(1)]);
    reconciled(&mut second.state.lock(), "b", "b", &[Shared(1), Own]);
    assert!(interests.is_wanted(&Own) && !interests.is_wanted(&Shared(2)));
    interests.fire(&Shared(1));
    first.fired().await;
    second.fired().await;
    let later = Instant::now() + GATHER;
    assert_eq!(woken(&mut first.state.lock(), later), ["a"]);
    assert_eq!(woken(&mut second.state.lock(), later), ["b"]);
}
