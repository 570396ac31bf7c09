//! Cuts a rule into tokens.

use crate::ast::Literal;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Name(String),
    Literal(Literal),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Longer signs come before those that they start with.
const SIGNS: [&str; 27] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=", "|", "&",
];

/// Whether a word of the language cannot be the name of a variable.
pub fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "as" | "break"
            | "const"
            | "continue"
            | "else"
            | "false"
            | "for"
            | "function"
            | "if"
            | "import"
            | "in"
            | "let"
            | "loop"
            | "namespace"
            | "null"
            | "package"
            | "return"
            | "true"
            | "var"
            | "void"
            | "while"
    )
}

/// The tokens of a rule, or the part that is not understood.
pub(crate) fn tokens(rule: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = rule;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, after) = if let Some((text, after)) = text(rest)? {
            (Token::Literal(text), after)
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let (number, after) = number(rest)?;
            (Token::Literal(number), after)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            (if word == "in" { Token::Sign("in") } else { Token::Name(word.to_owned()) }, after)
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| "a character that is no part of the language".to_owned())?;
            (Token::Sign(sign), &rest[sign.len()..])
        };
        tokens.push(token);
        rest = after;
    }
}

fn number(rest: &str) -> Result<(Literal, &str), String> {
    let bad = || "a number that cannot be read".to_owned();
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let (digits, after) = hex.split_at(end);
        if let Some(after) = after.strip_prefix(['u', 'U']) {
            return Ok((Literal::Uint(u64::from_str_radix(digits, 16).map_err(|_| bad())?), after));
        }
        return Ok((Literal::Int(i64::from_str_radix(digits, 16).map_err(|_| bad())?), after));
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = digits(rest);
    let mut whole = true;
    if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        whole = false;
        end += 1 + digits(&rest[end + 1..]);
    }
    if rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        let exponent = digits(&rest[end + 1 + sign..]);
        if exponent > 0 {
            whole = false;
            end += 1 + sign + exponent;
        }
    }
    let (number, after) = rest.split_at(end);
    if !whole {
        return Ok((Literal::Double(number.parse().map_err(|_| bad())?), after));
    }
    match after.strip_prefix(['u', 'U']) {
        Some(after) => Ok((Literal::Uint(number.parse().map_err(|_| bad())?), after)),
        None => Ok((Literal::Int(number.parse().map_err(|_| bad())?), after)),
    }
}

/// A string literal, if there is one at the start.
fn text(rest: &str) -> Result<Option<(Literal, &str)>, String> {
    let prefix = rest.trim_start_matches(['r', 'R', 'b', 'B']);
    let prefix = &rest[..rest.len() - prefix.len()];
    if prefix.len() > 2 {
        return Ok(None);
    }
    let body = &rest[prefix.len()..];
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote));
    let Some(quote) = quote else { return Ok(None) };
    if prefix.contains(['b', 'B']) {
        return Err("bytes".to_owned());
    }
    let raw = !prefix.is_empty();
    let mut text = String::new();
    let mut chars = body[quote.len()..].char_indices();
    while let Some((at, c)) = chars.next() {
        let here = &body[quote.len() + at..];
        if let Some(behind) = here.strip_prefix(quote) {
            return Ok(Some((Literal::Text(text), behind)));
        }
        if c != '\\' || raw {
            text.push(c);
            continue;
        }
        let (character, taken) = escaped(&here[1..])?;
        text.push(character);
        for _ in 0..taken {
            chars.next();
        }
    }
    Err("a string without an end".to_owned())
}

/// The character of an escape, and its number of characters behind the backslash.
fn escaped(rest: &str) -> Result<(char, usize), String> {
    let bad = || "an escape that cannot be read".to_owned();
    let coded = |start: usize, length: usize, radix: u32| {
        let digits = rest.get(start..start + length)?;
        Some((char::from_u32(u32::from_str_radix(digits, radix).ok()?)?, start + length))
    };
    let simple = match rest.chars().next().ok_or_else(bad)? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        c @ ('\\' | '?' | '"' | '\'' | '`') => c,
        'x' | 'X' => return coded(1, 2, 16).ok_or_else(bad),
        'u' => return coded(1, 4, 16).ok_or_else(bad),
        'U' => return coded(1, 8, 16).ok_or_else(bad),
        '0'..='3' => return coded(0, 3, 8).ok_or_else(bad),
        _ => return Err(bad()),
    };
    Ok((simple, 1))
}

#[cfg(test)]
mod tests {
    use super::{Literal, Token, tokens};

    #[test]
    fn strings_have_escapes_unless_they_are_raw() {
        for (rule, text) in [
            (r"'a\'b\n'", "a'b\n"),
            (r#""a\x41B\101""#, "aABA"),
            (r"r'a\d'", r"a\d"),
            ("'''it's'''", "it's"),
            (r#"r"""^a"b$""""#, "^a\"b$"),
        ] {
            assert_eq!(tokens(rule).unwrap(), [Token::Literal(Literal::Text(text.to_owned()))], "{rule}");
        }
        tokens("'a").unwrap_err();
        tokens(r"'\q'").unwrap_err();
        tokens("b'a'").unwrap_err();
    }

    #[test]
    fn numbers_have_kinds() {
        let found = tokens("1 2u 3.5 4e2 0x1F .5 1.size() // rest").unwrap();
        assert_eq!(
            found[..6],
            [
                Token::Literal(Literal::Int(1)),
                Token::Literal(Literal::Uint(2)),
                Token::Literal(Literal::Double(3.5)),
                Token::Literal(Literal::Double(400.0)),
                Token::Literal(Literal::Int(31)),
                Token::Literal(Literal::Double(0.5)),
            ]
        );
        assert_eq!(found[6..8], [Token::Literal(Literal::Int(1)), Token::Sign(".")]);
        tokens("99999999999999999999").unwrap_err();
        tokens("a # b").unwrap_err();
    }
}
