//! Functions and arithmetic.

use std::rc::Rc;

use crate::{
    ast::{Call, Operator},
    budget::{Budget, Stop},
    duration::duration,
    equality::elements,
    eval::{Evaluated, Scope},
    methods,
    value::Value,
};

/// Calls a function or a method.
pub(crate) fn call<'a>(scope: &mut Scope<'_, 'a>, call: &'a Call) -> Evaluated<'a> {
    let target = call.target.as_ref().map(|target| scope.eval(target)).transpose()?;
    let mut values = Vec::with_capacity(call.arguments.len() + 1);
    let is_method = target.is_some();
    values.extend(target);
    for argument in &call.arguments {
        values.push(scope.eval(argument)?);
    }
    for value in &values {
        if let Value::Text(text) = value {
            scope.budget.spend_text(text.len())?;
        }
    }
    if let Some(result) = scope.function.and_then(|function| function(&call.function, &values)) {
        return result;
    }
    match (call.function.as_str(), values.as_slice()) {
        ("size", [value]) => size(value),
        ("matches", [Value::Text(text), Value::Text(expression)]) => {
            let pattern = match &call.pattern {
                Some(pattern) => pattern.clone(),
                None => scope.budget.pattern(expression)?,
            };
            scope.budget.matches(&pattern, text).map(Value::Bool)
        }
        (name, values) if is_method => methods::call(name, values, scope.budget),
        (name, [value]) => conversion(name, value),
        (name, _) => Err(unknown(name)),
    }
}

pub(crate) fn unknown(name: &str) -> Stop {
    Stop::undecided(format!("the function {name:?} on these values"))
}

fn size<'a>(value: &Value<'a>) -> Evaluated<'a> {
    let size = match value {
        Value::Text(text) => text.chars().count(),
        _ => value.len().ok_or_else(|| unknown("size"))?,
    };
    i64::try_from(size).map(Value::Int).map_err(|_| Stop::Failed("integer overflow"))
}

fn conversion<'a>(name: &str, value: &Value<'a>) -> Evaluated<'a> {
    let unreadable = Stop::Failed("a text that cannot be converted");
    Ok(match (name, value) {
        ("dyn", value)
        | ("string", value @ Value::Text(_))
        | ("int", value @ Value::Int(_))
        | ("uint", value @ Value::Uint(_))
        | ("double", value @ Value::Double(_))
        | ("bool", value @ Value::Bool(_))
        | ("duration", value @ Value::Duration(_)) => value.clone(),
        ("type", value) => Value::Kind(value.kind().ok_or_else(|| unknown("type"))?),
        ("string", Value::Int(number)) => Value::text(number.to_string()),
        ("string", Value::Uint(number)) => Value::text(number.to_string()),
        ("string", Value::Bool(flag)) => Value::text(flag.to_string()),
        ("int", Value::Text(text)) => Value::Int(text.parse().map_err(|_| unreadable)?),
        ("int", Value::Uint(number)) => {
            Value::Int(i64::try_from(*number).map_err(|_| Stop::Failed("integer overflow"))?)
        }
        ("uint", Value::Int(number)) => {
            Value::Uint(u64::try_from(*number).map_err(|_| Stop::Failed("integer overflow"))?)
        }
        ("double", Value::Int(number)) => Value::Double(float(*number)),
        ("double", Value::Text(text)) => Value::Double(text.parse().map_err(|_| unreadable)?),
        ("bool", Value::Text(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Value::Bool(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Value::Bool(false),
            _ => return Err(unreadable),
        },
        ("duration", Value::Text(text)) => Value::Duration(duration(text).ok_or(unreadable)?),
        _ => return Err(unknown(name)),
    })
}

#[expect(clippy::cast_precision_loss, reason = "the language converts integers to floats this way")]
fn float(number: i64) -> f64 {
    number as f64
}

/// `+`, `-`, `*`, `/`, `%`.
pub(crate) fn arithmetic<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
    budget: &mut Budget,
) -> Evaluated<'a> {
    let overflow = || Stop::Failed("integer overflow");
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => {
            let result = whole(operator, (*a).into(), (*b).into());
            result.and_then(|result| i64::try_from(result).ok()).map(Value::Int).ok_or_else(overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => {
            let result = whole(operator, (*a).into(), (*b).into());
            result.and_then(|result| u64::try_from(result).ok()).map(Value::Uint).ok_or_else(overflow)
        }
        (Value::Double(a), Value::Double(b)) => match operator {
            Operator::Add => Ok(Value::Double(a + b)),
            Operator::Subtract => Ok(Value::Double(a - b)),
            Operator::Multiply => Ok(Value::Double(a * b)),
            Operator::Divide => Ok(Value::Double(a / b)),
            _ => Err(Stop::undecided("a remainder of fractions")),
        },
        (Value::Duration(a), Value::Duration(b))
            if matches!(operator, Operator::Add | Operator::Subtract) =>
        {
            let fits = |nanoseconds: &i128| i64::try_from(*nanoseconds).is_ok();
            whole(operator, *a, *b).filter(fits).map(Value::Duration).ok_or(Stop::Failed("duration overflow"))
        }
        (Value::Text(a), Value::Text(b)) if operator == Operator::Add => {
            budget.spend_text(a.len().saturating_add(b.len()))?;
            Ok(Value::text([&**a, &**b].concat()))
        }
        _ if operator == Operator::Add => joined(left, right, budget),
        _ => Err(Stop::undecided("arithmetic with something else than numbers")),
    }
}

fn whole(operator: Operator, a: i128, b: i128) -> Option<i128> {
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    }
}

fn joined<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    let is_plain = |v: &Value<'_>| match v {
        Value::Items(_, typing) => !typing.is_unordered(),
        Value::List(_) => true,
        _ => false,
    };
    if !is_plain(left) || !is_plain(right) {
        return Err(Stop::undecided("a sum of something else than plain lists"));
    }
    let mut list = elements(left, budget)?;
    list.extend(elements(right, budget)?);
    Ok(Value::List(Rc::new(list)))
}
