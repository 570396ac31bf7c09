//! Regular expressions in Go's syntax.
//!
//! Both engines match in linear time and know the same operators; they differ in classes (`\d`, `\w`, `\s`
//! and `\b` are ASCII in Go), in brackets, and in a few escapes. A pattern that cannot be translated is not
//! understood.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use crate::limits::{PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, SMALL_PATTERN_BYTES, STATES_BYTES_MAX};

/// A regular expression with the size of its program.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    bytes: usize,
}

impl Pattern {
    /// Steps that matching `text` takes at most: as many as its bytes, times the program's size.
    pub(crate) fn cost(&self, text: &str) -> usize {
        1_usize.saturating_add(text.len().saturating_mul(self.bytes / SMALL_PATTERN_BYTES))
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Makes patterns, each text once, within [`PATTERNS_BYTES_MAX`] for all of their programs.
#[derive(Debug, Default)]
pub struct Patterns {
    made: BTreeMap<String, Option<Pattern>>,
    bytes: usize,
}

impl Patterns {
    /// The pattern, if it can be translated and there is room for it.
    pub fn compile(&mut self, pattern: &str) -> Option<Pattern> {
        if let Some(known) = self.made.get(pattern) {
            return known.clone();
        }
        let made = self.make(pattern);
        self.made.insert(pattern.to_owned(), made.clone());
        made
    }

    /// Bytes of the programs so far, and of those that became too large.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn make(&mut self, pattern: &str) -> Option<Pattern> {
        let translated = translate(pattern)?;
        // The size of a program is known only as the limit within which it could be made.
        let (mut bytes, mut tried) = (SMALL_PATTERN_BYTES, 0);
        loop {
            if self.bytes.saturating_add(bytes) > PATTERNS_BYTES_MAX {
                self.bytes += tried;
                return None;
            }
            tried = bytes;
            let mut builder = RegexBuilder::new(&translated);
            match builder.size_limit(bytes).dfa_size_limit(STATES_BYTES_MAX).build() {
                Ok(regex) => {
                    self.bytes += bytes;
                    return Some(Pattern { regex, bytes });
                }
                Err(regex::Error::CompiledTooBig(_)) if bytes < PATTERN_BYTES_MAX => bytes *= 4,
                Err(_) => {
                    self.bytes += bytes;
                    return None;
                }
            }
        }
    }
}

fn translate(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    // Whether the class has an element already: a bracket or a hyphen at its start is a character.
    let mut at_start = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        let starts = std::mem::take(&mut at_start);
        match c {
            '\\' => {
                let next = after.chars().next()?;
                rest = &after[next.len_utf8()..];
                if next == 'Q' {
                    let (quoted, behind) = rest.split_once("\\E").unwrap_or((rest, ""));
                    out.push_str(&regex::escape(quoted));
                    rest = behind;
                } else {
                    out.push_str(&escape(next, in_class)?);
                }
            }
            '[' if !in_class => {
                in_class = true;
                at_start = true;
                out.push('[');
                if let Some(behind) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = behind;
                }
            }
            ']' if in_class && starts => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' => match rest.strip_prefix(':').and_then(|named| named.split_once(":]")) {
                Some((name, behind)) => {
                    out.push_str("[:");
                    out.push_str(name);
                    out.push_str(":]");
                    rest = behind;
                }
                None => out.push_str("\\["),
            },
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && starts => out.push_str("\\-"),
            // A range that ends at a hyphen; two hyphens would be an operator.
            '-' if in_class && rest.starts_with('-') => {
                out.push_str("-\\-");
                rest = &rest[1..];
            }
            _ => out.push(c),
        }
    }
    Some(out)
}

/// An escape in the other syntax; classes inside of classes are read as such.
fn escape(next: char, in_class: bool) -> Option<String> {
    Some(match next {
        'd' => "[0-9]".to_owned(),
        'D' => "[^0-9]".to_owned(),
        'w' => "[0-9A-Za-z_]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        's' => r"[\t\n\x0C\r ]".to_owned(),
        'S' => r"[^\t\n\x0C\r ]".to_owned(),
        'b' | 'B' if !in_class => format!(r"(?-u:\{next})"),
        '<' | '>' => next.to_string(),
        // The rest has the same meaning in both, or is punctuation that stands for itself.
        _ if "afnrtvxpPAz".contains(next) || next.is_ascii_punctuation() => format!(r"\{next}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Patterns;

    fn compile(pattern: &str) -> Option<regex::Regex> {
        Patterns::default().compile(pattern).map(|pattern| pattern.regex)
    }

    #[test]
    fn gos_syntax_is_understood() {
        for (pattern, yes, no) in [
            (r"^\d+$", "12", "\u{661}"),
            (r"^\w+$", "a_1", "é"),
            (r"^[\w.-]+$", "a.b-c", "a b"),
            (r"^[^\s]+$", "a\u{a0}", "a b"),
            (r"^[[:alpha:]]+$", "abc", "a1"),
            (r"^[[a]+$", "[a", "b"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[+--]+$", "+,-", "."),
            (r"^[a-]+$", "a-", "b"),
            (r"^\<a\>$", "<a>", "a"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^[-A-Za-z0-9/._~!$&'()*+,;=:@]+$", "a~&", "%"),
            (r"\bfoo\b", "a foo", "afoo"),
            ("(?i)^a$", "A", "b"),
            (r"^a\/b\-c\_d$", "a/b-c_d", "a"),
        ] {
            let regex = compile(pattern).unwrap_or_else(|| panic!("{pattern}"));
            assert!(regex.is_match(yes), "{pattern} on {yes:?}");
            assert!(!regex.is_match(no), "{pattern} on {no:?}");
        }
    }

    #[test]
    fn what_cannot_be_translated_is_no_pattern() {
        for pattern in [r"^(?!a)b", r"\1", "(a", r"\C", r"a\", "[a", "(a{1000}){1000}"] {
            assert!(compile(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn all_patterns_together_have_a_limit() {
        let mut patterns = Patterns::default();
        let made = (1..2_000).filter(|i| patterns.compile(&format!(r"^\pL{{{i}}}$")).is_some()).count();
        assert!((10..500).contains(&made), "{made}");
        assert!(patterns.compile(r"^\pL{1}$").is_some(), "what is made already is there");
        assert!(patterns.compile("^a{1000}b{1000}$").is_none());
    }
}
