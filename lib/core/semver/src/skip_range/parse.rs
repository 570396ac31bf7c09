//! From text to the groups of a [`SkipRange`](super::SkipRange): split at spaces, split at `||`, expand
//! wildcards, parse terms. The order of these steps decides which error is told first.

use super::{Comparator, Term};
use crate::{ParseError, SKIP_RANGE_BYTES_MAX};

/// A token without its spaces, and where it was.
#[derive(Debug, Clone)]
struct Token {
    text: String,
    position: usize,
}

pub(super) fn groups(text: &str) -> Result<Vec<Vec<Term>>, ParseError> {
    if text.len() > SKIP_RANGE_BYTES_MAX {
        return Err(ParseError::SkipRangeLength);
    }
    let groups = split_groups(tokens(text))?;
    let expanded = groups
        .into_iter()
        .map(|group| {
            let mut terms = Vec::with_capacity(group.len());
            for token in group {
                expand_wildcard(token, &mut terms)?;
            }
            Ok(terms)
        })
        .collect::<Result<Vec<_>, ParseError>>()?;
    expanded.iter().map(|group| group.iter().map(term).collect()).collect()
}

/// Splits at spaces, except those after `>`, `<` and `=`. Tokens of one byte are dropped, as in the original.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut push = |start: usize, end: usize| {
        if start + 1 < end {
            let token = text.get(start..end).unwrap_or_default();
            tokens.push(Token { text: token.replace(' ', ""), position: start });
        }
    };
    let (mut start, mut last) = (0, 0);
    for (i, byte) in text.bytes().enumerate() {
        if byte != b' ' {
            last = byte;
        } else if !matches!(last, b'>' | b'<' | b'=') {
            push(start, i);
            start = i + 1;
        }
    }
    push(start, text.len());
    tokens
}

fn split_groups(tokens: Vec<Token>) -> Result<Vec<Vec<Token>>, ParseError> {
    match (tokens.first(), tokens.last()) {
        (Some(first), _) if first.text == "||" => return Err(ParseError::SkipRangeFirst),
        (_, Some(last)) if last.text != "||" => {}
        _ => return Err(ParseError::SkipRangeLast),
    }
    let mut groups = vec![Vec::new()];
    for token in tokens {
        if token.text == "||" {
            groups.push(Vec::new());
        } else if let Some(group) = groups.last_mut() {
            group.push(token);
        }
    }
    Ok(groups)
}

/// What stands before the first digit, white space around it left out, and the rest.
fn split_comparator(token: &Token) -> Result<(&str, &str), ParseError> {
    let digit = token
        .text
        .find(|c: char| c.is_ascii_digit())
        .ok_or_else(|| ParseError::SkipRangeVersion { term: token.text.clone(), position: token.position })?;
    let (comparator, version) = token.text.split_at(digit);
    Ok((comparator.trim(), version))
}

/// Adds the token, or what it stands for when it contains the letter x anywhere.
fn expand_wildcard(token: Token, terms: &mut Vec<Token>) -> Result<(), ParseError> {
    if !token.text.contains('x') {
        terms.push(token);
        return Ok(());
    }
    let position = token.position;
    let (comparator, version) = split_comparator(&token)?;
    let flat = flatten(version);
    // Empty when the version does not end with a wildcard; parsing the term then fails.
    let next = || increment(version, &flat).unwrap_or_default();
    let mut push = |comparator: &str, version: &str| {
        terms.push(Token { text: format!("{comparator}{version}"), position });
    };
    match comparator {
        ">" => push(">=", &next()),
        ">=" => push(">=", &flat),
        "<" => push("<", &flat),
        "<=" => push("<", &next()),
        "" | "=" | "==" => {
            push(">=", &flat);
            push("<", &next());
        }
        "!=" | "!" => {
            push("<", &flat);
            push(">=", &next());
        }
        // The original forgets a comparator that it does not know.
        _ => push("", &flat),
    }
    Ok(())
}

/// The version with zeros for wildcards.
fn flatten(version: &str) -> String {
    let flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 { flat + ".0" } else { flat }
}

/// The first version after those that the wildcard at the end of `version` stands for.
fn increment(version: &str, flat: &str) -> Option<String> {
    if version.rsplit('.').next() != Some("x") {
        return None;
    }
    let index = match version.split('.').count() {
        2 => 0,
        3 => 1,
        _ => return None,
    };
    let mut parts: Vec<String> = flat.split('.').map(str::to_owned).collect();
    let part = parts.get_mut(index)?;
    *part = part.parse::<i64>().ok()?.wrapping_add(1).to_string();
    Some(parts.join("."))
}

fn term(token: &Token) -> Result<Term, ParseError> {
    let (comparator, version) = split_comparator(token)?;
    let joined = || format!("{comparator}{version}");
    let (term, position) = (|| token.text.clone(), token.position);
    Ok(Term {
        comparator: Comparator::from_text(comparator).ok_or_else(|| ParseError::SkipRangeComparator {
            term: term(),
            comparator: comparator.to_owned(),
            joined: joined(),
            position,
        })?,
        version: version.parse().map_err(|source| ParseError::SkipRangeOperand {
            term: term(),
            version: version.to_owned(),
            joined: joined(),
            source: Box::new(source),
            position,
        })?,
    })
}

impl Comparator {
    fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "" | "=" | "==" => Self::Equal,
            "!" | "!=" => Self::NotEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            _ => return None,
        })
    }
}
