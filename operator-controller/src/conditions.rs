//! What the conditions of extensions and revisions have in common.

use std::borrow::Cow;

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
}
