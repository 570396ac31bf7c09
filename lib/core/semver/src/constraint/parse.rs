//! From text to [`Constraint`].

use super::{
    Constraint, Group, Open, Operator, Term, hyphen,
    scan::{Operand, Scanner},
};
use crate::{
    CONSTRAINT_BYTES_MAX, CONSTRAINT_GROUPS_MAX, Identifier, OPERAND_BYTES_MAX, ParseError, Version,
};

pub(super) fn constraint(text: &str) -> Result<Constraint, ParseError> {
    if text.len() > CONSTRAINT_BYTES_MAX {
        return Err(ParseError::ConstraintLength);
    }
    let text = hyphen::rewrite(text);
    if text.split("||").count() > CONSTRAINT_GROUPS_MAX {
        return Err(ParseError::ConstraintGroups);
    }
    let mut start = 0;
    let mut groups = Vec::new();
    for group in text.split("||") {
        groups.push(parse_group(group, start)?);
        start += group.len() + 2;
    }
    Ok(Constraint { groups })
}

/// An operator, an operand, and where they are.
struct Written<'a> {
    operator: Operator,
    operand: Operand<'a>,
    position: usize,
}

/// Parses the text between two `||`, which begins at `start`. Its form is checked before any operand.
fn parse_group(text: &str, start: usize) -> Result<Group, ParseError> {
    let mut written = Vec::new();
    let mut scanner = Scanner::new(text, 0);
    let wrong = |scanner: &Scanner<'_>| ParseError::ConstraintSyntax {
        group: text.to_owned(),
        position: start + scanner.position(),
    };
    scanner.blanks();
    loop {
        let before = scanner;
        let operator = Operator::from_text(scanner.operator().as_bytes()).ok_or_else(|| wrong(&before))?;
        scanner.blanks();
        let position = scanner.position();
        let operand = scanner.operand().ok_or_else(|| wrong(&scanner))?;
        written.push(Written { operator, operand, position });
        let blank = scanner.blanks();
        if scanner.at_end() {
            break;
        }
        if !scanner.byte(b',') && !blank {
            return Err(wrong(&scanner));
        }
        scanner.blanks();
    }
    let terms = written
        .into_iter()
        .map(|Written { operator, operand, position }| {
            let (operand, open) =
                normalise(operand).ok_or(ParseError::ConstraintOperand { position: start + position })?;
            Ok(Term { operator, operand, open })
        })
        .collect::<Result<Vec<_>, ParseError>>()?;
    let prereleases = terms.iter().any(|term| !term.operand.prerelease().is_empty());
    Ok(Group { terms, prereleases })
}

/// Fills up missing parts; `None` when what is there is no number, or too long.
fn normalise(operand: Operand<'_>) -> Option<(Version, Open)> {
    let missing = |part: &str| matches!(part, "" | "x" | "X" | "*");
    let [major, minor, patch] = operand.parts;
    let (parts, open) = if missing(major) {
        (["0", "0", "0"], Open::Any)
    } else if missing(minor) {
        ([major, "0", "0"], Open::Minor)
    } else if missing(patch) {
        ([major, minor, "0"], Open::Patch)
    } else {
        ([major, minor, patch], Open::No)
    };
    let length = match open {
        Open::No => operand.whole.len(),
        Open::Patch | Open::Minor | Open::Any => {
            parts.iter().map(|part| part.len() + 1).sum::<usize>() + operand.prerelease.map_or(0, str::len)
        }
    };
    if length > OPERAND_BYTES_MAX {
        return None;
    }
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let numbers = [number(parts[0])?, number(parts[1])?, number(parts[2])?];
    let prerelease = operand
        .prerelease
        .map_or_else(|| Some(Vec::new()), |text| text.split('.').map(identifier).collect())?;
    Some((Version::from_parts(numbers, prerelease), open))
}

/// Unlike in versions, numbers beyond 64 bits are accepted, and compared as text.
fn identifier(text: &str) -> Option<Identifier> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Identifier::Alphanumeric(text.to_owned()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return None;
    }
    Some(text.parse().map_or_else(|_| Identifier::Alphanumeric(text.to_owned()), Identifier::Numeric))
}
