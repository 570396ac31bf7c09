//! From tokens to a syntax tree. Definitions of types are rejected.

use crate::{
    ast::{
        Directive, Document, Field, Fragment, Operation, OperationKind, Position, Selection, Value, Variable,
    },
    lexer::{Lexer, SyntaxError, Token, error},
    limits::NESTING_MAX,
};

/// Reads a request's text.
pub(crate) fn parse(text: &str) -> Result<Document, SyntaxError> {
    let mut lexer = Lexer::new(text);
    let (token, at) = lexer.token()?;
    let mut parser = Parser { lexer, token, at, depth: 0 };
    let mut document = Document::default();
    loop {
        parser.definition(&mut document)?;
        if parser.token == Token::End {
            return Ok(document);
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    at: Position,
    depth: usize,
}

impl Parser<'_> {
    fn definition(&mut self, document: &mut Document) -> Result<(), SyntaxError> {
        let at = self.at;
        let kind = match &self.token {
            Token::Punctuator('{') => {
                let selections = self.selections()?;
                let kind = OperationKind::Query;
                document.operations.push(Operation { kind, name: None, variables: vec![], selections, at });
                return Ok(());
            }
            Token::Name(name) => match name.as_str() {
                "query" => OperationKind::Query,
                "mutation" => OperationKind::Mutation,
                "subscription" => OperationKind::Subscription,
                "fragment" => return self.fragment(document),
                _ => return Err(self.unexpected()),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        let name = match &self.token {
            Token::Name(name) => Some(name.clone()),
            _ => None,
        };
        if name.is_some() {
            self.advance()?;
        }
        let variables = self.variables()?;
        self.directives()?;
        let selections = self.selections()?;
        document.operations.push(Operation { kind, name, variables, selections, at });
        Ok(())
    }

    fn fragment(&mut self, document: &mut Document) -> Result<(), SyntaxError> {
        let at = self.at;
        self.advance()?;
        if self.token == Token::Name("on".into()) {
            return Err(self.unexpected());
        }
        let name = self.name()?;
        self.keyword_on()?;
        let on = self.name()?;
        self.directives()?;
        let selections = self.selections()?;
        if document.fragments.insert(name.clone(), Fragment { on, selections, at }).is_some() {
            return Err(error(at, format!("There can be only one fragment named \"{name}\"")));
        }
        Ok(())
    }

    fn variables(&mut self) -> Result<Vec<Variable>, SyntaxError> {
        let mut variables = Vec::new();
        if !self.skip('(')? {
            return Ok(variables);
        }
        while !self.skip(')')? {
            let at = self.at;
            self.expect('$')?;
            let name = self.name()?;
            self.expect(':')?;
            let kind = self.kind()?;
            let default = if self.skip('=')? { Some(self.value()?) } else { None };
            self.directives()?;
            variables.push(Variable { name, kind, default, at });
        }
        Ok(variables)
    }

    fn kind(&mut self) -> Result<String, SyntaxError> {
        let inner = if self.skip('[')? {
            let inner = self.nested(Self::kind)?;
            self.expect(']')?;
            format!("[{inner}]")
        } else {
            self.name()?
        };
        Ok(if self.skip('!')? { inner + "!" } else { inner })
    }

    fn selections(&mut self) -> Result<Vec<Selection>, SyntaxError> {
        self.expect('{')?;
        let mut selections = Vec::new();
        while !self.skip('}')? || selections.is_empty() {
            selections.push(self.nested(Self::selection)?);
        }
        Ok(selections)
    }

    fn selection(&mut self) -> Result<Selection, SyntaxError> {
        let at = self.at;
        if self.token != Token::Spread {
            return self.field().map(Selection::Field);
        }
        self.advance()?;
        match &self.token {
            Token::Name(name) if name != "on" => {
                let name = self.name()?;
                Ok(Selection::Spread { name, directives: self.directives()?, at })
            }
            token => {
                let on = if matches!(token, Token::Name(_)) {
                    self.keyword_on()?;
                    Some(self.name()?)
                } else {
                    None
                };
                let directives = self.directives()?;
                Ok(Selection::Inline { on, directives, selections: self.selections()?, at })
            }
        }
    }

    fn field(&mut self) -> Result<Field, SyntaxError> {
        let at = self.at;
        let first = self.name()?;
        let (alias, name) = if self.skip(':')? { (Some(first), self.name()?) } else { (None, first) };
        let arguments = self.arguments()?;
        let directives = self.directives()?;
        let selections = if self.token == Token::Punctuator('{') { self.selections()? } else { Vec::new() };
        Ok(Field { alias, name, arguments, directives, selections, at })
    }

    fn arguments(&mut self) -> Result<Vec<(String, Value)>, SyntaxError> {
        let mut arguments = Vec::new();
        if !self.skip('(')? {
            return Ok(arguments);
        }
        while !self.skip(')')? || arguments.is_empty() {
            let name = self.name()?;
            self.expect(':')?;
            arguments.push((name, self.value()?));
        }
        Ok(arguments)
    }

    fn directives(&mut self) -> Result<Vec<Directive>, SyntaxError> {
        let mut directives = Vec::new();
        loop {
            let at = self.at;
            if !self.skip('@')? {
                return Ok(directives);
            }
            directives.push(Directive { name: self.name()?, arguments: self.arguments()?, at });
        }
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        let value = match &self.token {
            Token::Punctuator('$') => {
                self.advance()?;
                return self.name().map(Value::Variable);
            }
            Token::Punctuator('[') => return self.nested(Self::list),
            Token::Punctuator('{') => return self.nested(Self::object),
            Token::Integer(text) => Value::Integer(text.clone()),
            Token::Float(text) => Value::Float(text.clone()),
            Token::String(text) => Value::String(text.clone()),
            Token::Name(name) => match name.as_str() {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                "null" => Value::Null,
                other => Value::Enum(other.to_owned()),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, SyntaxError> {
        self.expect('[')?;
        let mut values = Vec::new();
        while !self.skip(']')? {
            values.push(self.value()?);
        }
        Ok(Value::List(values))
    }

    fn object(&mut self) -> Result<Value, SyntaxError> {
        self.expect('{')?;
        let mut fields = Vec::new();
        while !self.skip('}')? {
            let name = self.name()?;
            self.expect(':')?;
            fields.push((name, self.value()?));
        }
        Ok(Value::Object(fields))
    }

    /// Reads one level further down. Levels are limited because each takes stack.
    fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth == NESTING_MAX {
            return Err(error(self.at, format!("nested deeper than {NESTING_MAX} levels")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn advance(&mut self) -> Result<(), SyntaxError> {
        (self.token, self.at) = self.lexer.token()?;
        Ok(())
    }

    fn skip(&mut self, punctuator: char) -> Result<bool, SyntaxError> {
        let is_next = self.token == Token::Punctuator(punctuator);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, punctuator: char) -> Result<(), SyntaxError> {
        if self.skip(punctuator)? {
            return Ok(());
        }
        Err(error(self.at, format!("Expected {punctuator}, found {}", self.token.described())))
    }

    fn name(&mut self) -> Result<String, SyntaxError> {
        let Token::Name(name) = &self.token else {
            return Err(error(self.at, format!("Expected Name, found {}", self.token.described())));
        };
        let name = name.clone();
        self.advance()?;
        Ok(name)
    }

    fn keyword_on(&mut self) -> Result<(), SyntaxError> {
        if self.token == Token::Name("on".into()) {
            return self.advance();
        }
        Err(error(self.at, format!("Expected \"on\", found {}", self.token.described())))
    }

    fn unexpected(&self) -> SyntaxError {
        error(self.at, format!("Unexpected {}", self.token.described()))
    }
}
