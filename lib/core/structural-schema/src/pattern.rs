//! Regular expressions in Go's syntax.
//!
//! Both engines match in linear time and know the same operators; they differ in classes (`\d`, `\w`, `\s`
//! and `\b` are ASCII in Go), in how brackets read, and in a few escapes. What cannot be translated is no
//! pattern here.

use regex::{Regex, RegexBuilder};

use crate::limits::PATTERN_BYTES_MAX;

/// The pattern, if it can be translated.
pub(crate) fn compile(pattern: &str) -> Option<Regex> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated).size_limit(PATTERN_BYTES_MAX).build().ok()
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
                    escape(&mut out, next, in_class)?;
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

fn escape(out: &mut String, next: char, in_class: bool) -> Option<()> {
    let (inside, outside) = match next {
        'd' => ("0-9", "[0-9]"),
        'w' => ("0-9A-Za-z_", "[0-9A-Za-z_]"),
        's' => ("\\t\\n\\x0C\\r ", "[\\t\\n\\x0C\\r ]"),
        'D' => ("[^0-9]", "[^0-9]"),
        'W' => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        'S' => ("[^\\t\\n\\x0C\\r ]", "[^\\t\\n\\x0C\\r ]"),
        'b' if !in_class => ("", "(?-u:\\b)"),
        'B' if !in_class => ("", "(?-u:\\B)"),
        // What is left is punctuation, which stands for itself, or has the same meaning in both.
        '<' | '>' => {
            out.push(next);
            return Some(());
        }
        'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' | 'p' | 'P' | 'A' | 'z' => {
            out.push('\\');
            out.push(next);
            return Some(());
        }
        _ if next.is_ascii_punctuation() => {
            out.push('\\');
            out.push(next);
            return Some(());
        }
        _ => return None,
    };
    out.push_str(if in_class { inside } else { outside });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::compile;

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
}
