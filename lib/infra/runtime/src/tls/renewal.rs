//! When a serving certificate is made, and when the next one takes its place. Pure.
//!
//! A next certificate's authority is published a day before it is served, so that clients that read the
//! published bundle now and then never meet one they cannot check.

/// Life of a certificate, in seconds: 90 days.
pub(super) const LIFE_SECONDS: i64 = 90 * DAY;
/// How long before its end the next one is made, in seconds.
const RENEW_BEFORE_SECONDS: i64 = 30 * DAY;
/// How long the next one is published before it is served, in seconds.
const PUBLISHED_SECONDS: i64 = DAY;
/// A certificate with less than this left is no longer served, in seconds.
const LAST_CALL_SECONDS: i64 = DAY;
/// How far back a certificate's life begins, for clocks that run behind, in seconds.
pub(super) const SKEW_SECONDS: i64 = 3600;
const DAY: i64 = 86_400;

/// Who a certificate is for, and when. Times are seconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) names: Vec<String>,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

impl Validity {
    fn serves(&self, names: &[String], now: i64) -> bool {
        self.not_before <= now
            && self.not_after - now > LAST_CALL_SECONDS
            && names.iter().all(|name| self.names.contains(name))
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// Make one and serve it at once.
    Make,
    /// Make the next one and publish its authority.
    Prepare,
    /// Serve the next one.
    Promote,
}

/// `current` is what is kept and served, `next` what was prepared.
pub(super) fn step(current: Option<&Validity>, next: Option<&Validity>, names: &[String], now: i64) -> Step {
    let next = next.filter(|next| next.serves(names, now));
    let Some(current) = current.filter(|current| current.serves(names, now)) else {
        return if next.is_some() { Step::Promote } else { Step::Make };
    };
    if current.not_after - now > RENEW_BEFORE_SECONDS {
        return Step::Keep;
    }
    match next {
        None => Step::Prepare,
        Some(next) if now - (next.not_before + SKEW_SECONDS) >= PUBLISHED_SECONDS => Step::Promote,
        Some(_) => Step::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn lasting(days: i64) -> Validity {
        let not_after = NOW + days * DAY;
        Validity {
            names: vec!["a".into(), "b".into()],
            not_before: not_after - LIFE_SECONDS - SKEW_SECONDS,
            not_after,
        }
    }

    #[test]
    fn a_certificate_is_renewed_in_time_and_published_before_it_is_served() {
        let names = ["a".to_owned()];
        for (what, current, next, wanted) in [
            ("nothing is kept", None, None, Step::Make),
            ("fresh", Some(lasting(90)), None, Step::Keep),
            ("a month is left", Some(lasting(30)), None, Step::Prepare),
            ("the next one was just published", Some(lasting(30)), Some(lasting(90)), Step::Keep),
            ("it was published a day ago", Some(lasting(29)), Some(lasting(89)), Step::Promote),
            ("the end came before anybody looked", Some(lasting(0)), None, Step::Make),
            (
                "the end came before the next one was served",
                Some(lasting(0)),
                Some(lasting(90)),
                Step::Promote,
            ),
            ("both have ended", Some(lasting(-5)), Some(lasting(-1)), Step::Make),
            ("the next one has ended", Some(lasting(20)), Some(lasting(0)), Step::Prepare),
            ("a life that begins in the future", Some(lasting(91)), None, Step::Make),
        ] {
            assert_eq!(step(current.as_ref(), next.as_ref(), &names, NOW), wanted, "{what}");
        }
        let other = ["a".to_owned(), "c".to_owned()];
        assert_eq!(step(Some(&lasting(90)), None, &other, NOW), Step::Make, "a name is missing");
    }
}
