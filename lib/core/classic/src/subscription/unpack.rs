//! The times that an OperatorGroup gives to the pulls of bundles in its namespace.

use std::time::Duration;

use olm_api_classic::{
    OperatorGroup,
    names::{UNPACK_RETRY_ANNOTATION, UNPACK_TIMEOUT_ANNOTATION},
};

/// Shortest time between two attempts: registries serve others, too.
pub const RETRY_MIN: Duration = Duration::from_secs(5);

/// How long an attempt may take, where that has an end; and how long a failed one is held back, where that is given.
/// `default` is the first unless the group says otherwise; zero stands for no end. What is no duration, or negative, does
/// not count.
pub fn times(groups: &[OperatorGroup], default: Duration) -> (Option<Duration>, Option<Duration>) {
    let given = |annotation: &str| {
        let [group] = groups else { return None };
        let text = group.metadata.annotations.as_ref()?.get(annotation)?;
        let nanoseconds = u64::try_from(olm_go::duration::parse(text).ok()?).ok()?;
        Some(Duration::from_nanos(nanoseconds))
    };
    let timeout = given(UNPACK_TIMEOUT_ANNOTATION).unwrap_or(default);
    let retry = given(UNPACK_RETRY_ANNOTATION).filter(|retry| !retry.is_zero());
    (Some(timeout).filter(|timeout| !timeout.is_zero()), retry.map(|retry| retry.max(RETRY_MIN)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(timeout: &str, retry: &str) -> OperatorGroup {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "g", "annotations": {
                "operatorframework.io/bundle-unpack-timeout": timeout,
                "operatorframework.io/bundle-unpack-min-retry-interval": retry,
            }},
            "spec": {},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_group_gives_times_and_what_is_none_does_not_count() {
        let default = Duration::from_mins(10);
        let of = |timeout: &str, retry: &str| times(&[group(timeout, retry)], default);
        let seconds = Duration::from_secs;
        assert_eq!(times(&[], default), (Some(default), None));
        assert_eq!(of("1m30s", "2m"), (Some(seconds(90)), Some(seconds(120))));
        assert_eq!(of("0", "0s"), (None, None));
        for wrong in ["-1m", "soon", "", "5", "99999999999h"] {
            assert_eq!(of(wrong, wrong), (Some(default), None), "{wrong}");
        }
        // As often as a registry can bear.
        assert_eq!(of("1ns", "1ns"), (Some(Duration::from_nanos(1)), Some(RETRY_MIN)));
        assert_eq!(times(&[], Duration::ZERO), (None, None));
    }
}
