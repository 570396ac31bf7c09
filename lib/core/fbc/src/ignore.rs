//! `.indexignore`, and the order in which the files of a catalog are read.
//!
//! The rules look like git's and differ: a negation works below an excluded directory, because every file is
//! tested by its whole path against all patterns, and the last one that matches decides. Patterns that are
//! malformed, or have `**` glued to other characters, match nothing.

use std::cmp::Ordering;

use crate::{
    FbcError,
    limits::{IGNORE_FILE_BYTES_MAX, IGNORE_PATTERNS_MAX},
};

/// Name of the files that hold patterns; they are never read as content.
pub(crate) const IGNORE_FILE: &str = ".indexignore";

/// The patterns of all `.indexignore` files of a tree.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    domain: Vec<String>,
    include: bool,
    /// Without a slash, the pattern is compared with each component.
    anchored: bool,
    directories_only: bool,
    components: Vec<Component>,
}

#[derive(Debug)]
enum Component {
    AnyDirectories,
    Name(Vec<Token>),
}

#[derive(Debug)]
enum Token {
    Star,
    One,
    Set { negated: bool, ranges: Vec<(char, char)> },
    Char(char),
}

impl IgnoreRules {
    /// Adds the file at `path`. Files have to come in the order of [`walk_order`].
    ///
    /// # Errors
    /// The file is larger than we take, or there are more patterns than we take.
    pub(crate) fn push_file(&mut self, path: &str, text: &str) -> Result<(), FbcError> {
        if text.len() > IGNORE_FILE_BYTES_MAX {
            return Err(FbcError::IgnoreTooLarge(IGNORE_FILE_BYTES_MAX, "bytes"));
        }
        let mut domain: Vec<String> = path.split('/').map(Into::into).collect();
        domain.pop();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if self.patterns.len() >= IGNORE_PATTERNS_MAX {
                return Err(FbcError::IgnoreTooLarge(IGNORE_PATTERNS_MAX, "patterns"));
            }
            self.patterns.extend(Pattern::parse(line, &domain));
        }
        Ok(())
    }

    /// Whether the file at `path` is left out of the catalog.
    pub(crate) fn ignores(&self, path: &str) -> bool {
        let components: Vec<&str> = path.split('/').collect();
        if components.last() == Some(&IGNORE_FILE) {
            return true;
        }
        self.patterns
            .iter()
            .rev()
            .find(|pattern| pattern.matches(&components))
            .is_some_and(|pattern| !pattern.include)
    }
}

/// The order in which a walk meets two paths of a tree: depth first, names of each directory in byte order.
pub fn walk_order(one: &str, other: &str) -> Ordering {
    one.split('/').cmp(other.split('/'))
}

impl Pattern {
    /// `None` when the pattern can match nothing.
    fn parse(line: &str, domain: &[String]) -> Option<Self> {
        let (include, text) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (directories_only, text) = text.strip_suffix('/').map_or((false, text), |rest| (true, rest));
        let anchored = text.contains('/');
        let components = text
            .split('/')
            .filter(|component| !component.is_empty())
            .map(|component| match component {
                "**" if anchored => Some(Component::AnyDirectories),
                "**" => Some(Component::Name(vec![Token::Star])),
                _ if component.contains("**") => None,
                _ => tokens(component).map(Component::Name),
            })
            .collect::<Option<Vec<_>>>()?;
        if components.is_empty() {
            return None;
        }
        Some(Self { domain: domain.to_vec(), include, anchored, directories_only, components })
    }

    fn matches(&self, path: &[&str]) -> bool {
        if path.len() <= self.domain.len() || self.domain.iter().zip(path).any(|(own, other)| own != other) {
            return false;
        }
        let path = &path[self.domain.len()..];
        // Patterns that end at the last component match the file, others a directory above it.
        let ends = if self.anchored { self.anchored_ends(path) } else { self.floating_ends(path) };
        let longest = if self.directories_only { path.len() - 1 } else { path.len() };
        ends.iter().enumerate().any(|(end, &reached)| reached && end >= 1 && end <= longest)
    }

    fn floating_ends(&self, path: &[&str]) -> Vec<bool> {
        let mut ends = vec![false];
        ends.extend(path.iter().map(|name| match self.components.first() {
            Some(Component::Name(tokens)) => name_matches(tokens, name),
            Some(Component::AnyDirectories) | None => false,
        }));
        ends
    }

    /// After how many components of `path` the whole pattern can be used up.
    fn anchored_ends(&self, path: &[&str]) -> Vec<bool> {
        let mut reached = vec![false; path.len() + 1];
        reached[0] = true;
        for (at, component) in self.components.iter().enumerate() {
            let last = at + 1 == self.components.len();
            let mut next = vec![false; path.len() + 1];
            match component {
                Component::AnyDirectories => {
                    if let Some(first) = reached.iter().position(|&reached| reached) {
                        // At the end it stands for what is below, so for at least one component.
                        next.iter_mut().skip(first + usize::from(last)).for_each(|reached| *reached = true);
                    }
                }
                Component::Name(tokens) => {
                    for (before, name) in path.iter().enumerate() {
                        next[before + 1] = reached[before] && name_matches(tokens, name);
                    }
                }
            }
            reached = next;
        }
        reached
    }
}

/// Splits a shell glob; `None` when it is malformed.
fn tokens(glob: &str) -> Option<Vec<Token>> {
    let mut characters = glob.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' => Token::Star,
            '?' => Token::One,
            '\\' => Token::Char(characters.next()?),
            '[' => {
                let negated = characters.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while ranges.is_empty() || *characters.peek()? != ']' {
                    let low = set_character(&mut characters)?;
                    let high = if characters.next_if_eq(&'-').is_some() {
                        set_character(&mut characters)?
                    } else {
                        low
                    };
                    ranges.push((low, high));
                }
                characters.next();
                Token::Set { negated, ranges }
            }
            _ => Token::Char(character),
        });
    }
    Some(tokens)
}

fn set_character(characters: &mut impl Iterator<Item = char>) -> Option<char> {
    match characters.next()? {
        '\\' => characters.next(),
        '-' | ']' => None,
        character => Some(character),
    }
}

/// Compares one name; a star backtracks at most once per character, so the time is bounded by the product.
fn name_matches(tokens: &[Token], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut token, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < name.len() {
        let fits = match tokens.get(token) {
            Some(Token::Star) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            Some(Token::One) => true,
            Some(Token::Char(character)) => *character == name[at],
            Some(Token::Set { negated, ranges }) => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&name[at])) != *negated
            }
            None => false,
        };
        match (fits, retry) {
            (true, _) => (token, at) = (token + 1, at + 1),
            (false, Some((after_star, from))) => {
                retry = Some((after_star, from + 1));
                (token, at) = (after_star, from + 1);
            }
            (false, None) => return false,
        }
    }
    tokens[token..].iter().all(|token| matches!(token, Token::Star))
}

#[cfg(test)]
mod tests;
