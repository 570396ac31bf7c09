//! Quoting as Go's `%q` does it, because texts that clients match on contain it.

use std::fmt::{self, Write};

/// Displays a text in double quotes, escaped as by Go's `%q`.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x0b' => f.write_str("\\v")?,
                ' '..='~' => f.write_char(c)?,
                '\0'..='\x1f' | '\x7f' => write!(f, "\\x{:02x}", u32::from(c))?,
                _ if is_printable(c) => f.write_char(c)?,
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// Whether Go prints a character beyond ASCII as it is: letters, marks, numbers, punctuation and symbols.
fn is_printable(character: char) -> bool {
    // Behind another character, escape_debug escapes characters that are not printable and no marks.
    let pair: String = ['a', character].into_iter().collect();
    pair.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::Quoted;

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\t\n\r\x0b\x0c\x07\x08", r#""\t\n\r\v\f\a\b""#),
            ("\0\x1b\x7f", r#""\x00\x1b\x7f""#),
            ("grün 漢 e\u{301}", "\"grün 漢 e\u{301}\""),
            ("\u{a0}\u{feff}", "\"\\u00a0\\ufeff\""),
            ("\u{200b}\u{e0001}", "\"\\u200b\\U000e0001\""),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted, "{text:?}");
        }
    }
}
