//! Rewrites hyphen ranges, `A - B`, to `>= A, <= B `, by the original's way: on the text, before anything else.
//!
//! Doing it on the text makes the same nonsense of nonsense as the original (`>=1 - 2` fails, `1.2.3.4 - 5`
//! becomes `1.>= 2.3.4, <= 5 `), and the errors quote the rewritten text.

use std::borrow::Cow;

use super::scan::{Operand, Scanner};

/// A hyphen range with the blanks around it.
struct Range<'a> {
    whole: &'a str,
    low: Operand<'a>,
    high: Operand<'a>,
    end: usize,
}

fn range_at(text: &str, start: usize) -> Option<Range<'_>> {
    let mut scanner = Scanner::new(text, start);
    scanner.blanks();
    let low = scanner.operand()?;
    if !(scanner.blanks() && scanner.byte(b'-') && scanner.blanks()) {
        return None;
    }
    let high = scanner.operand()?;
    scanner.blanks();
    let end = scanner.position();
    Some(Range { whole: text.get(start..end)?, low, high, end })
}

pub(super) fn rewrite(text: &str) -> Cow<'_, str> {
    let mut rewritten = Cow::Borrowed(text);
    let mut next = 0;
    while next < text.len() {
        match text.is_char_boundary(next).then(|| range_at(text, next)).flatten() {
            Some(range) => {
                let terms = format!(">= {}, <= {} ", range.low.whole, range.high.whole);
                rewritten = Cow::Owned(rewritten.replacen(range.whole, &terms, 1));
                next = range.end;
            }
            None => next += 1,
        }
    }
    rewritten
}

#[cfg(test)]
mod tests {
    #[test]
    fn rewrites_what_the_original_rewrites() {
        for (text, rewritten) in [
            ("1.2", "1.2"),
            ("1.2 - 1.4.5", ">= 1.2, <= 1.4.5 "),
            (" v1  -\t2.x-rc.1+b  || 3", ">= v1, <= 2.x-rc.1+b || 3"),
            ("1 - 2 || 1 - 2", ">= 1, <= 2 ||>= 1, <= 2 "),
            ("1 - 2 - 3", ">= 1, <= 2 - 3"),
            ("1.2.3 -1.4.5", "1.2.3 -1.4.5"),
            ("1.2.3- 1", "1.2.3- 1"),
            (">=1.0.0 - 2.0.0", ">=>= 1.0.0, <= 2.0.0 "),
            ("1.2.3.4 - 5", "1.>= 2.3.4, <= 5 "),
            ("é1 - 2", "é>= 1, <= 2 "),
        ] {
            assert_eq!(super::rewrite(text), rewritten, "{text:?}");
        }
    }
}
