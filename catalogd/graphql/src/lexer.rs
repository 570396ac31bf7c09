//! From characters to tokens (GraphQL specification, October 2021, section 2.1).

use crate::ast::Position;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// `! $ & ( ) : = @ [ ] { | }`
    Punctuator(char),
    Spread,
    Name(String),
    Integer(String),
    Float(String),
    String(String),
    End,
}

impl Token {
    /// Its name in errors.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Punctuator(character) => character.to_string(),
            Self::Spread => "...".into(),
            Self::Name(name) => format!("Name \"{name}\""),
            Self::Integer(text) => format!("Int \"{text}\""),
            Self::Float(text) => format!("Float \"{text}\""),
            Self::String(_) => "String".into(),
            Self::End => "EOF".into(),
        }
    }
}

/// Why a text is not a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: Position,
    pub(crate) problem: String,
}

pub(crate) struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    position: Position,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), position: Position { line: 1, column: 1 } }
    }

    /// The next token and where it begins.
    pub(crate) fn token(&mut self) -> Result<(Token, Position), SyntaxError> {
        self.skip_ignored();
        let at = self.position;
        let Some(first) = self.take() else { return Ok((Token::End, at)) };
        let token = match first {
            '!' | '$' | '&' | '(' | ')' | ':' | '=' | '@' | '[' | ']' | '{' | '|' | '}' => {
                Token::Punctuator(first)
            }
            '.' if self.take() == Some('.') && self.take() == Some('.') => Token::Spread,
            '_' | 'a'..='z' | 'A'..='Z' => Token::Name(self.name(first)),
            '-' | '0'..='9' => self.number(first, at)?,
            '"' => Token::String(self.string(at)?),
            other => return Err(error(at, format!("Unexpected character {other:?}"))),
        };
        Ok((token, at))
    }

    fn skip_ignored(&mut self) {
        while let Some(&next) = self.rest.peek() {
            match next {
                '\u{feff}' | ' ' | '\t' | '\n' | '\r' | ',' => {
                    self.take();
                }
                '#' => {
                    while self.rest.peek().is_some_and(|next| !matches!(next, '\n' | '\r')) {
                        self.take();
                    }
                }
                _ => return,
            }
        }
    }

    fn take(&mut self) -> Option<char> {
        let taken = self.rest.next()?;
        if taken == '\n' {
            self.position = Position { line: self.position.line + 1, column: 1 };
        } else {
            self.position.column += 1;
        }
        Some(taken)
    }

    fn take_if(&mut self, fits: impl Fn(char) -> bool) -> Option<char> {
        self.rest.peek().copied().filter(|next| fits(*next))?;
        self.take()
    }

    fn name(&mut self, first: char) -> String {
        let mut name = String::from(first);
        while let Some(next) = self.take_if(|next| next == '_' || next.is_ascii_alphanumeric()) {
            name.push(next);
        }
        name
    }

    fn number(&mut self, first: char, at: Position) -> Result<Token, SyntaxError> {
        let mut text = String::from(first);
        let wrong = |text: &str| error(at, format!("Invalid number {text:?}"));
        if first == '-' {
            text.push(self.take_if(|next| next.is_ascii_digit()).ok_or_else(|| wrong("-"))?);
        }
        let leads_with_zero = text.ends_with('0');
        let digits = self.digits(&mut text);
        if leads_with_zero && digits > 0 {
            return Err(wrong(&text));
        }
        let mut is_float = false;
        if let Some(dot) = self.take_if(|next| next == '.') {
            text.push(dot);
            is_float = self.digits(&mut text) > 0;
            if !is_float {
                return Err(wrong(&text));
            }
        }
        if let Some(exponent) = self.take_if(|next| matches!(next, 'e' | 'E')) {
            text.push(exponent);
            text.extend(self.take_if(|next| matches!(next, '+' | '-')));
            is_float = true;
            if self.digits(&mut text) == 0 {
                return Err(wrong(&text));
            }
        }
        if self.rest.peek().is_some_and(|next| *next == '_' || *next == '.' || next.is_ascii_alphabetic()) {
            return Err(wrong(&text));
        }
        Ok(if is_float { Token::Float(text) } else { Token::Integer(text) })
    }

    fn digits(&mut self, text: &mut String) -> usize {
        let before = text.len();
        while let Some(digit) = self.take_if(|next| next.is_ascii_digit()) {
            text.push(digit);
        }
        text.len() - before
    }

    /// A string whose first quote was taken.
    fn string(&mut self, at: Position) -> Result<String, SyntaxError> {
        if self.take_if(|next| next == '"').is_some() {
            if self.take_if(|next| next == '"').is_some() {
                return self.block(at);
            }
            return Ok(String::new());
        }
        let mut text = String::new();
        loop {
            match self.take() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape(at)?),
                None | Some('\n' | '\r') => return Err(error(at, "Unterminated string".into())),
                Some(other) => text.push(other),
            }
        }
    }

    fn escape(&mut self, at: Position) -> Result<char, SyntaxError> {
        let bad = || error(at, "Invalid character escape sequence".into());
        Ok(match self.take().ok_or_else(bad)? {
            same @ ('"' | '\\' | '/') => same,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let mut code = 0;
                for _ in 0..4 {
                    code = code * 16 + self.take().and_then(|digit| digit.to_digit(16)).ok_or_else(bad)?;
                }
                // Halves of surrogate pairs are no characters; names of catalogs have none.
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(bad()),
        })
    }

    /// A block string whose three quotes were taken. Its indentation stays: no argument here is text.
    fn block(&mut self, at: Position) -> Result<String, SyntaxError> {
        let mut text = String::new();
        loop {
            text.push(self.take().ok_or_else(|| error(at, "Unterminated string".into()))?);
            if text.ends_with("\\\"\"\"") {
                text.truncate(text.len() - 4);
                text.push_str("\"\"\"");
                // The quotes are text; a fourth one must not end the string with them.
                text.extend(self.take_if(|next| next != '"'));
            } else if text.ends_with("\"\"\"") {
                text.truncate(text.len() - 3);
                return Ok(text);
            }
        }
    }
}

pub(crate) fn error(at: Position, problem: String) -> SyntaxError {
    SyntaxError { at, problem }
}
