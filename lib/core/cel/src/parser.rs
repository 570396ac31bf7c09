//! Makes an expression of a rule.

use std::collections::BTreeSet;

use crate::{
    ast::{Call, Expression, Fold, FoldKind, Literal, Node, Operator},
    lexer::{Token, is_keyword, tokens},
    limits::{RULE_BYTES_MAX, RULE_DEPTH_MAX},
    pattern::Patterns,
};

/// Operators with two operands, by how weakly they bind; longer signs are tokens of their own.
const OPERATORS: [&[(&str, Operator)]; 3] = [
    &[
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("in", Operator::In),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

type Parsed = Result<Node, String>;

/// Parses an expression. The regular expressions in it are made by `patterns`.
///
/// # Errors
/// The part that is not understood, without its own text.
pub fn parse(text: &str, patterns: &mut Patterns) -> Result<Expression, String> {
    if text.len() > RULE_BYTES_MAX {
        return Err(format!("it has more than {RULE_BYTES_MAX} bytes"));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, names: BTreeSet::new(), patterns };
    let root = parser.expression()?;
    match parser.peek() {
        None => Ok(Expression { root, names: parser.names }),
        Some(_) => Err("something behind its end".to_owned()),
    }
}

struct Parser<'p> {
    patterns: &'p mut Patterns,
    tokens: Vec<Token>,
    at: usize,
    /// Variables so far.
    names: BTreeSet<String>,
    /// Nesting so far. Chains of operators nest their result and count as well.
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(format!("a missing {sign:?}")) }
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > RULE_DEPTH_MAX {
            return Err(format!("it nests more than {RULE_DEPTH_MAX} levels"));
        }
        Ok(())
    }

    fn expression(&mut self) -> Parsed {
        let before = self.depth;
        self.deeper()?;
        let condition = self.junction("||")?;
        let expression = if self.take("?") {
            let then = self.junction("||")?;
            self.expect(":")?;
            Node::Choice(Box::new([condition, then, self.expression()?]))
        } else {
            condition
        };
        self.depth = before;
        Ok(expression)
    }

    /// Operands of `||`, which are operands of `&&`.
    fn junction(&mut self, sign: &str) -> Parsed {
        let is_or = sign == "||";
        let mut operands = Vec::new();
        loop {
            operands.push(if is_or { self.junction("&&")? } else { self.binary(0)? });
            if !self.take(sign) {
                break;
            }
        }
        match (operands.pop(), operands.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                operands.extend(last);
                Ok(if is_or { Node::Or(operands) } else { Node::And(operands) })
            }
        }
    }

    /// Operands of the operators of this level.
    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let before = self.depth;
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            self.deeper()?;
            left = Node::Binary(*operator, Box::new([left, self.binary(level + 1)?]));
        }
        self.depth = before;
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let before = self.depth;
        let mut signs = Vec::new();
        loop {
            if self.take("!") {
                signs.push('!');
            } else if self.take("-") {
                signs.push('-');
            } else {
                break;
            }
            self.deeper()?;
        }
        let mut operand = self.member()?;
        for sign in signs.into_iter().rev() {
            operand = match sign {
                '!' => Node::Not(Box::new(operand)),
                _ => Node::Negate(Box::new(operand)),
            };
        }
        self.depth = before;
        Ok(operand)
    }

    fn member(&mut self) -> Parsed {
        let before = self.depth;
        let mut operand = self.primary()?;
        loop {
            self.deeper()?;
            if self.take(".") {
                let Some(Token::Name(name)) = self.peek().cloned() else {
                    return Err("a field that is no name".to_owned());
                };
                self.at += 1;
                operand = if self.take("(") {
                    let arguments = self.list(")")?;
                    self.method(operand, name, arguments)?
                } else {
                    Node::Select(Box::new(operand), name)
                };
            } else if self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                operand = Node::Index(Box::new(operand), Box::new(index));
            } else {
                break;
            }
        }
        self.depth = before;
        Ok(operand)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek().cloned().ok_or("an end too early")?;
        self.at += 1;
        Ok(match token {
            Token::Literal(literal) => Node::Literal(literal),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                inner
            }
            Token::Sign("[") => Node::List(self.list("]")?),
            Token::Sign("{") => self.map()?,
            Token::Name(name) => self.named(name)?,
            Token::Sign(sign) => return Err(format!("an unexpected {sign:?}")),
        })
    }

    fn named(&mut self, name: String) -> Parsed {
        match name.as_str() {
            "true" | "false" => return Ok(Node::Literal(Literal::Bool(name == "true"))),
            "null" => return Ok(Node::Literal(Literal::Null)),
            name if is_keyword(name) => return Err(format!("the reserved word {name:?}")),
            _ => {}
        }
        if !self.take("(") {
            self.names.insert(name.clone());
            return Ok(Node::Name(name));
        }
        let mut arguments = self.list(")")?;
        if name == "has" {
            return match (arguments.pop(), arguments.is_empty()) {
                (Some(Node::Select(operand, field)), true) => Ok(Node::Has(operand, field)),
                _ => Err("has() of something else than a field".to_owned()),
            };
        }
        Ok(self.call(name, None, arguments))
    }

    /// Expressions up to the closing sign; the last may have a comma behind it.
    fn list(&mut self, end: &str) -> Result<Vec<Node>, String> {
        let mut list = Vec::new();
        while !self.take(end) {
            list.push(self.expression()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(list)
    }

    fn map(&mut self) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Node::Map(entries))
    }

    fn call(&mut self, function: String, target: Option<Node>, arguments: Vec<Node>) -> Node {
        let pattern = match (function.as_str(), arguments.last()) {
            ("matches", Some(Node::Literal(Literal::Text(text)))) => self.patterns.compile(text),
            _ => None,
        };
        Node::Call(Box::new(Call { function, target, arguments, pattern }))
    }

    /// A method, or a macro, which is written like one.
    fn method(&mut self, target: Node, name: String, mut arguments: Vec<Node>) -> Parsed {
        let kind = match (name.as_str(), arguments.len()) {
            ("all", 2) => FoldKind::All,
            ("exists", 2) => FoldKind::Exists,
            ("exists_one" | "existsOne", 2) => FoldKind::ExistsOne,
            ("filter", 2) => FoldKind::Filter,
            ("map", 2 | 3) => FoldKind::Map,
            _ => return Ok(self.call(name, Some(target), arguments)),
        };
        let body = arguments.pop();
        let condition = if arguments.len() == 2 { arguments.pop() } else { None };
        match (arguments.pop(), body) {
            (Some(Node::Name(variable)), Some(body)) => {
                Ok(Node::Fold(Box::new(Fold { kind, range: target, variable, condition, body })))
            }
            _ => Err(format!("{name}() without a variable")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Expression, Patterns};

    fn parse(text: &str) -> Result<Expression, String> {
        super::parse(text, &mut Patterns::default())
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for rule in [
            "",
            "self.",
            "self ==",
            "a b",
            "(a",
            "[a",
            "{a: b",
            "has(a)",
            "a.all(1, b)",
            "self.?a",
            "while",
            "a ? b",
            "self[?0]",
            "x{a: 1}",
        ] {
            parse(rule).map(|e| format!("{e:?}")).unwrap_err();
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        parse(&format!("{}a{}", "(".repeat(60), ")".repeat(60))).unwrap();
        for deep in ["(", "[", "!", "-", "a.b(", "a ? b : "] {
            parse(&deep.repeat(100_000 / deep.len())).unwrap_err();
            parse(&deep.repeat(20_000 / deep.len())).unwrap_err();
        }
        parse(&vec!["a"; 400].join("+")).unwrap_err();
        parse(&vec!["a"; 400].join("||")).unwrap();
    }

    #[test]
    fn names_are_found_at_any_depth() {
        let rule = parse("self.all(x, x > 0 && [1, {'a': size(oldSelf)}] != [] ? true : false)").unwrap();
        assert!(rule.names("oldSelf"));
        assert!(!rule.names("other"));
    }
}
