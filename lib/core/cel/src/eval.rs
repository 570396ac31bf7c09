//! Evaluates expressions with a budget of steps.

use std::rc::Rc;

use serde_json::{Map, Value as Json};

use crate::{
    ast::{Expression, Fold, FoldKind, Literal, Node, Operator},
    budget::{Budget, Stop},
    equality::{elements, equal, lookup, order, position},
    functions,
    value::{Typing, Value},
};

/// A value, or why there is none.
pub type Evaluated<'a> = Result<Value<'a>, Stop>;

/// A function beside the standard ones: nothing for a name, or values, that it does not know.
pub type Function = for<'a> fn(&str, &[Value<'a>]) -> Option<Evaluated<'a>>;

/// The value of an expression.
///
/// # Errors
/// See [`Stop`].
pub fn evaluate<'a>(
    expression: &'a Expression,
    variables: Vec<(&'a str, Value<'a>)>,
    function: Option<Function>,
    budget: &mut Budget,
) -> Evaluated<'a> {
    Scope { variables, function, budget }.eval(&expression.root)
}

/// The variables, and the budget of the evaluation.
pub(crate) struct Scope<'b, 'a> {
    variables: Vec<(&'a str, Value<'a>)>,
    pub(crate) function: Option<Function>,
    pub(crate) budget: &'b mut Budget,
}

impl<'a> Scope<'_, 'a> {
    pub(crate) fn eval(&mut self, expression: &'a Node) -> Evaluated<'a> {
        self.budget.spend(1)?;
        match expression {
            Node::Literal(literal) => Ok(of_literal(literal)),
            Node::Name(name) => self.name(name),
            Node::Select(operand, field) => {
                let operand = self.eval(operand)?;
                self.select(&operand, field)?.ok_or(Stop::Failed("no such key"))
            }
            Node::Has(operand, field) => {
                let operand = self.eval(operand)?;
                Ok(Value::Bool(self.select(&operand, field)?.is_some()))
            }
            Node::Index(operand, index) => {
                let (operand, index) = (self.eval(operand)?, self.eval(index)?);
                self.element(&operand, &index)
            }
            Node::Call(call) => functions::call(self, call),
            Node::Not(operand) => Ok(Value::Bool(!flag(&self.eval(operand)?)?)),
            Node::Negate(operand) => match self.eval(operand)? {
                Value::Int(number) => {
                    number.checked_neg().map(Value::Int).ok_or(Stop::Failed("integer overflow"))
                }
                Value::Double(number) => Ok(Value::Double(-number)),
                _ => Err(Stop::undecided("a sign before something else than a number")),
            },
            Node::Or(operands) => self.junction(operands, true),
            Node::And(operands) => self.junction(operands, false),
            Node::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                if flag(&self.eval(condition)?)? { self.eval(then) } else { self.eval(otherwise) }
            }
            Node::Binary(operator, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                self.binary(*operator, &left, &right)
            }
            Node::List(list) => {
                let list: Result<Vec<_>, _> = list.iter().map(|e| self.eval(e)).collect();
                Ok(Value::List(Rc::new(list?)))
            }
            Node::Map(entries) => {
                let entries: Result<Vec<_>, _> =
                    entries.iter().map(|(key, value)| Ok((self.eval(key)?, self.eval(value)?))).collect();
                Ok(Value::Map(Rc::new(entries?)))
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn name(&self, name: &str) -> Evaluated<'a> {
        const KINDS: [&str; 9] =
            ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        let kind = KINDS.iter().find(|kind| **kind == name);
        kind.map(|kind| Value::Kind(kind)).ok_or_else(|| Stop::undecided(format!("the name {name:?}")))
    }

    /// `||` and `&&`: an operand that decides wins over those without a value, wherever it stands.
    fn junction(&mut self, operands: &'a [Node], deciding: bool) -> Evaluated<'a> {
        let mut stopped: Option<Stop> = None;
        for operand in operands {
            match self.eval(operand).and_then(|value| flag(&value)) {
                Ok(value) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(_) => {}
                Err(Stop::Exhausted) => return Err(Stop::Exhausted),
                Err(stop) => merge(&mut stopped, stop),
            }
        }
        stopped.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn binary(&mut self, operator: Operator, left: &Value<'a>, right: &Value<'a>) -> Evaluated<'a> {
        let mut compared = |wanted: fn(std::cmp::Ordering) -> bool| {
            order(left, right, self.budget).map(|order| Value::Bool(wanted(order)))
        };
        match operator {
            Operator::Equal => Ok(Value::Bool(equal(left, right, self.budget)?)),
            Operator::NotEqual => Ok(Value::Bool(!equal(left, right, self.budget)?)),
            Operator::Less => compared(std::cmp::Ordering::is_lt),
            Operator::LessOrEqual => compared(std::cmp::Ordering::is_le),
            Operator::Greater => compared(std::cmp::Ordering::is_gt),
            Operator::GreaterOrEqual => compared(std::cmp::Ordering::is_ge),
            Operator::In => self.contains(left, right),
            _ => functions::arithmetic(operator, left, right, self.budget),
        }
    }

    fn contains(&mut self, wanted: &Value<'a>, container: &Value<'a>) -> Evaluated<'a> {
        Ok(Value::Bool(match (container, wanted) {
            (Value::Fields(fields, _), Value::Text(key)) => fields.contains_key(&**key),
            (Value::Map(entries), _) => lookup(entries, wanted, self.budget)?.is_some(),
            _ => position(&elements(container, self.budget)?, wanted, self.budget)?.is_some(),
        }))
    }

    fn element(&mut self, operand: &Value<'a>, index: &Value<'a>) -> Evaluated<'a> {
        let outside = Stop::Failed("index out of bounds");
        match (operand, index) {
            (Value::Items(items, typing), Value::Int(index)) => {
                let item = usize::try_from(*index).ok().and_then(|i| items.get(i)).ok_or(outside)?;
                typing.items().ok_or_else(|| Stop::undecided("a list without a schema"))?.value(item)
            }
            (Value::List(list), Value::Int(index)) => {
                usize::try_from(*index).ok().and_then(|i| list.get(i)).cloned().ok_or(outside)
            }
            (Value::Fields(fields, typing), Value::Text(key)) => {
                of_field(fields, *typing, key)?.ok_or(Stop::Failed("no such key"))
            }
            (Value::Map(entries), _) => {
                lookup(entries, index, self.budget)?.cloned().ok_or(Stop::Failed("no such key"))
            }
            _ => Err(Stop::undecided("an index of something else than a list or map")),
        }
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = match self.eval(&fold.range)? {
            Value::Fields(fields, _) => {
                self.budget.spend(fields.len())?;
                fields.keys().map(|key| Value::text(key.as_str())).collect()
            }
            Value::Map(entries) => {
                self.budget.spend(entries.len())?;
                entries.iter().map(|(key, _)| key.clone()).collect()
            }
            list => elements(&list, self.budget)?,
        };
        let (mut kept, mut found, mut stopped) = (Vec::new(), 0_usize, None);
        for element in range {
            self.budget.spend(1)?;
            self.variables.push((&fold.variable, element.clone()));
            let result = self.one(fold);
            self.variables.pop();
            match (fold.kind, result) {
                (FoldKind::All, Ok(Some(Value::Bool(false)))) => return Ok(Value::Bool(false)),
                (FoldKind::Exists, Ok(Some(Value::Bool(true)))) => return Ok(Value::Bool(true)),
                (FoldKind::ExistsOne, Ok(Some(Value::Bool(holds)))) => found += usize::from(holds),
                (FoldKind::Filter, Ok(Some(Value::Bool(holds)))) => kept.extend(holds.then_some(element)),
                (FoldKind::Map, Ok(value)) => kept.extend(value),
                (FoldKind::All | FoldKind::Exists, Ok(Some(Value::Bool(_)))) => {}
                (FoldKind::All | FoldKind::Exists, Err(stop)) if stop != Stop::Exhausted => {
                    merge(&mut stopped, stop);
                }
                (_, Err(stop)) => return Err(stop),
                (_, Ok(_)) => return Err(Stop::undecided("a condition that is neither true nor false")),
            }
        }
        if let Some(stop) = stopped {
            return Err(stop);
        }
        Ok(match fold.kind {
            FoldKind::All => Value::Bool(true),
            FoldKind::Exists => Value::Bool(false),
            FoldKind::ExistsOne => Value::Bool(found == 1),
            FoldKind::Filter | FoldKind::Map => Value::List(Rc::new(kept)),
        })
    }

    /// A field, or nothing if it is not set.
    fn select(&mut self, operand: &Value<'a>, written: &str) -> Result<Option<Value<'a>>, Stop> {
        match operand {
            Value::Fields(fields, typing) => of_field(fields, *typing, &typing.name(written)),
            Value::Map(entries) => {
                self.budget.spend(entries.len())?;
                let named =
                    |(key, _): &&(Value<'a>, Value<'a>)| matches!(key, Value::Text(key) if **key == *written);
                Ok(entries.iter().find(named).map(|(_, value)| value.clone()))
            }
            _ => Err(Stop::undecided("a field of something else than an object")),
        }
    }

    /// The body for one element; nothing where `map`'s condition leaves it out.
    fn one(&mut self, fold: &'a Fold) -> Result<Option<Value<'a>>, Stop> {
        if let Some(condition) = &fold.condition
            && !flag(&self.eval(condition)?)?
        {
            return Ok(None);
        }
        self.eval(&fold.body).map(Some)
    }
}

/// Joins two reasons: an undecided operand wins over a failed one, as it could have decided.
fn merge(before: &mut Option<Stop>, stop: Stop) {
    if matches!(before, None | Some(Stop::Failed(_))) {
        *before = Some(stop);
    }
}

fn of_literal(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Text(text) => Value::text(text.as_str()),
    }
}

/// A field of data, or nothing if it is not set.
fn of_field<'a>(
    fields: &'a Map<String, Json>,
    typing: &'a dyn Typing,
    name: &str,
) -> Result<Option<Value<'a>>, Stop> {
    let typing = typing.field(name).ok_or_else(|| Stop::undecided("a field without a schema"))?;
    fields.get(name).map(|data| typing.value(data)).transpose()
}

fn flag(value: &Value<'_>) -> Result<bool, Stop> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        _ => Err(Stop::undecided("a condition that is neither true nor false")),
    }
}
