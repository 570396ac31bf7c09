//! What the conditions of extensions and revisions have in common.

use std::borrow::Cow;

use olm_api::{
    ConditionType::{Progressing, Stalled},
    Conditions,
};
use olm_text::cut;

/// Characters of a text that a summary repeats.
const BRIEF_CHARACTERS: usize = 400;

/// The beginning of a text that is in full in `Progressing`, for summaries: its first line, cut where it is long.
pub(crate) fn brief(text: &str) -> Cow<'_, str> {
    let first = text.lines().next().unwrap_or_default();
    let short = cut(first, BRIEF_CHARACTERS);
    if short.len() == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{short} (in full: Progressing)"))
}

/// The remedy in `Stalled`, without the error that it begins with and that `Progressing` has in full.
pub fn remedy(conditions: &Conditions) -> Option<&str> {
    let stalled = conditions.find(Stalled).filter(|stalled| stalled.status == "True")?.message.as_str();
    let error = conditions.find(Progressing).map_or("", |progressing| progressing.message.as_str());
    let rest = match stalled.strip_prefix(brief(error).trim_end_matches('.')) {
        Some(rest) if !error.is_empty() => rest.trim_start_matches('.').trim_start(),
        _ => stalled,
    };
    (!rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_stands_once() {
        for text in ["", "short", &"x".repeat(BRIEF_CHARACTERS)] {
            assert_eq!(brief(text), text);
        }
        assert_eq!(brief("a list:\none\ntwo"), "a list: (in full: Progressing)");
        let long = brief(&"ä".repeat(BRIEF_CHARACTERS + 1)).into_owned();
        assert!(
            long.ends_with("ä... (in full: Progressing)") && long.chars().count() < BRIEF_CHARACTERS + 30
        );
    }

    #[test]
    fn the_remedy_is_what_progressing_does_not_have() {
        let of = |progressing: &str, stalled: &str| {
            let condition = |type_: &str, message: &str| {
                serde_json::json!({
                    "type": type_, "status": "True", "reason": "R", "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let conditions = [condition("Progressing", progressing), condition("Stalled", stalled)];
            let conditions: Conditions = serde_json::from_value(conditions.into()).unwrap();
            remedy(&conditions).map(str::to_owned)
        };
        for error in ["short", "a sentence.", "a list:\none\ntwo", &"x".repeat(BRIEF_CHARACTERS + 1)] {
            let stalled = olm_api::with_remedy(&brief(error), "do this.");
            assert_eq!(of(error, &stalled).as_deref(), Some("do this."), "{error}");
            assert_eq!(of(error, &brief(error)), None);
        }
        assert_eq!(
            of("Revision 1.0.0 is rolling out.", "collision: remove one").as_deref(),
            Some("collision: remove one")
        );
        assert_eq!(of("", "do this.").as_deref(), Some("do this."));
        assert_eq!(remedy(&Conditions::default()), None);
    }
}
