//! The conditions of a Subscription: each changes only when something about it does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api_classic::{LegacyCondition, SubscriptionStatus};
use olm_text::{cut, visible};

/// Longest message, in characters. Upstream has no limit; etcd has.
const MESSAGE_CHARACTERS_MAX: usize = 32 << 10;

/// The condition of a type, if there is one.
pub fn find<'s>(status: &'s SubscriptionStatus, type_: &str) -> Option<&'s LegacyCondition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a condition is `True`.
pub fn is_true(status: &SubscriptionStatus, type_: &str) -> bool {
    find(status, type_).is_some_and(|condition| condition.status == "True")
}

/// Removes conditions.
pub fn remove(status: &mut SubscriptionStatus, types: &[&str]) {
    status.conditions.retain(|condition| !types.contains(&condition.type_.as_str()));
}

/// Sets a condition. Its time is that of the last change of its status; an empty reason or message is none.
pub fn set(status: &mut SubscriptionStatus, [type_, value, reason, message]: [&str; 4], now: Timestamp) {
    let known = status.conditions.iter().position(|condition| condition.type_ == type_);
    let since = known.map(|at| &status.conditions[at]).filter(|condition| condition.status == value);
    let condition = LegacyCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        message: Some(shown(message)).filter(|message| !message.is_empty()),
        last_heartbeat_time: None,
        // One of upstream's may have none.
        last_transition_time: since
            .map_or_else(|| Some(whole_seconds(now)), |condition| condition.last_transition_time.clone()),
    };
    match known {
        Some(at) => status.conditions[at] = condition,
        None => status.conditions.push(condition),
    }
}

/// Foreign text as it is shown.
pub(super) fn shown(text: &str) -> String {
    cut(&visible(text), MESSAGE_CHARACTERS_MAX).into_owned()
}

/// The API has whole seconds.
pub(super) fn whole_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}
