//! From text to the groups of a [`SkipRange`](super::SkipRange), as `ParseRange` in blang/semver's range.go: split at
//! spaces, split at `||`, expand wildcards, parse terms. The order of these steps decides which error is reported first.

use olm_go::Quoted;

use super::{Comparator, Term};
use crate::{ParseError, limits::SKIP_RANGE_BYTES_MAX};

pub(super) fn groups(text: &str) -> Result<Vec<Vec<Term>>, ParseError> {
    if text.len() > SKIP_RANGE_BYTES_MAX {
        return Err(ParseError::new(format!("skip range is too long (max {SKIP_RANGE_BYTES_MAX} bytes)")));
    }
    let tokens = tokens(text);
    if tokens.first().is_some_and(|first| first == "||") {
        return Err(ParseError::new("First element in range is '||'"));
    }
    if tokens.last().is_none_or(|last| last == "||") {
        return Err(ParseError::new("Last element in range is '||'"));
    }
    let expanded = tokens
        .split(|token| token == "||")
        .map(|group| {
            let terms: Result<Vec<_>, _> = group.iter().map(|token| expand_wildcard(token)).collect();
            Ok(terms?.into_iter().flatten().collect())
        })
        .collect::<Result<Vec<Vec<String>>, ParseError>>()?;
    expanded.iter().map(|group| group.iter().map(|token| term(token)).collect()).collect()
}

/// Splits at spaces, except those after `>`, `<` and `=`. Tokens of one byte are dropped, as by `splitAndTrim` there.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut push = |start: usize, end: usize| {
        if start + 1 < end {
            tokens.push(text.get(start..end).unwrap_or_default().replace(' ', ""));
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

/// The part before the first digit, without the white space around it, and the rest.
fn split_comparator(token: &str) -> Result<(&str, &str), ParseError> {
    let digit = token.find(|c: char| c.is_ascii_digit());
    let digit = digit
        .ok_or_else(|| ParseError::new(format!("Could not get version from string: {}", Quoted(token))))?;
    let (comparator, version) = token.split_at(digit);
    Ok((comparator.trim(), version))
}

/// The token, or the one or two that it is short for when it contains the letter x anywhere.
fn expand_wildcard(token: &str) -> Result<Vec<String>, ParseError> {
    if !token.contains('x') {
        return Ok(vec![token.to_owned()]);
    }
    let (comparator, version) = split_comparator(token)?;
    let flat = flatten(version);
    // Empty when the version does not end with a wildcard; parsing the term then fails.
    let next = increment(version, &flat).unwrap_or_default();
    Ok(match comparator {
        ">" => vec![format!(">={next}")],
        ">=" => vec![format!(">={flat}")],
        "<" => vec![format!("<{flat}")],
        "<=" => vec![format!("<{next}")],
        "" | "=" | "==" => vec![format!(">={flat}"), format!("<{next}")],
        "!=" | "!" => vec![format!("<{flat}"), format!(">={next}")],
        // `expandWildcardVersion` there forgets a comparator that it does not know.
        _ => vec![flat],
    })
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

fn term(token: &str) -> Result<Term, ParseError> {
    let (text, version) = split_comparator(token)?;
    let joined = format!("{text}{version}");
    let failed = |part: &str, text: &str, cause: &str| {
        let (token, text, joined) = (Quoted(token), Quoted(text), Quoted(&joined));
        ParseError::new(format!(
            "Could not parse Range {token}: Could not parse {part} {text} in {joined}{cause}"
        ))
    };
    let comparator = Comparator::from_text(text).ok_or_else(|| failed("comparator", text, ""))?;
    let operand = version.parse().map_err(|error| failed("version", version, &format!(": {error}")))?;
    Ok(Term { comparator, version: operand })
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
