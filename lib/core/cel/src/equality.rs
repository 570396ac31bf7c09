//! When two values are equal, and which comes first.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::{
    budget::{Budget, Stop},
    limits::TEXT_BYTES_PER_STEP,
    value::Value,
};

/// Whether two values are equal. Values of different types are not, numbers excepted.
pub(crate) fn equal<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
    budget.spend(1)?;
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => {
            // Texts of different lengths are not read.
            budget.spend_text(if a.len() == b.len() { a.len() } else { 0 })?;
            **a == **b
        }
        (Value::Kind(a), Value::Kind(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => {
            budget.spend(size_of_data(a))?;
            a == b
        }
        (Value::Opaque(_), _) | (_, Value::Opaque(_)) => {
            return Err(Stop::undecided("data without a type, compared with others"));
        }
        (Value::Fields(..) | Value::Map(_), Value::Fields(..) | Value::Map(_)) => {
            equal_maps(left, right, budget)?
        }
        (Value::List(_) | Value::Items(..), Value::List(_) | Value::Items(..)) => {
            equal_lists(left, right, budget)?
        }
        _ => compare(left, right) == Some(Ordering::Equal),
    })
}

/// The order of two values of which one may come before the other.
pub(crate) fn order(left: &Value<'_>, right: &Value<'_>, budget: &mut Budget) -> Result<Ordering, Stop> {
    if let (Value::Text(a), Value::Text(b)) = (left, right) {
        budget.spend_text(a.len().min(b.len()))?;
    }
    compare(left, right).ok_or_else(|| Stop::undecided("an order of values that have none"))
}

fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => Some((**a).cmp(&**b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), other) => a.partial_cmp(&float(whole(other)?)),
        (other, Value::Double(b)) => float(whole(other)?).partial_cmp(b),
        _ => Some(whole(left)?.cmp(&whole(right)?)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "integers and floats are compared as floats")]
fn float(number: i128) -> f64 {
    number as f64
}

fn equal_lists<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
    if left.len() != right.len() {
        return Ok(false);
    }
    // Sets, and lists that are maps, are equal in any order.
    let is_unordered =
        [left, right].into_iter().any(|v| matches!(v, Value::Items(_, typing) if typing.is_unordered()));
    let (left, right) = (elements(left, budget)?, elements(right, budget)?);
    for (index, element) in left.iter().enumerate() {
        let places = if is_unordered { 0..right.len() } else { index..index + 1 };
        if position(right.get(places).unwrap_or_default(), element, budget)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The index of the first element that equals `wanted`.
pub(crate) fn position<'a>(
    list: &[Value<'a>],
    wanted: &Value<'a>,
    budget: &mut Budget,
) -> Result<Option<usize>, Stop> {
    for (index, element) in list.iter().enumerate() {
        if equal(element, wanted, budget)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The value with a key that equals `wanted`.
pub(crate) fn lookup<'m, 'a>(
    entries: &'m [(Value<'a>, Value<'a>)],
    wanted: &Value<'a>,
    budget: &mut Budget,
) -> Result<Option<&'m Value<'a>>, Stop> {
    for (key, value) in entries {
        if equal(key, wanted, budget)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The elements of a list, each of which costs a step.
pub(crate) fn elements<'a>(list: &Value<'a>, budget: &mut Budget) -> Result<Vec<Value<'a>>, Stop> {
    budget.spend(list.len().unwrap_or_default())?;
    match list {
        Value::List(list) => Ok(list.to_vec()),
        Value::Items(items, typing) => {
            let typing = typing.items().ok_or_else(|| Stop::undecided("a list without a schema"))?;
            items.iter().map(|item| typing.value(item)).collect()
        }
        _ => Err(Stop::undecided("something else than a list")),
    }
}

fn equal_maps<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
    if left.len() != right.len() {
        return Ok(false);
    }
    if let (Value::Fields(a, x), Value::Fields(b, y)) = (left, right)
        && std::ptr::addr_eq(*x, *y)
    {
        budget.spend(a.values().map(size_of_data).fold(0, usize::saturating_add))?;
        if a == b {
            return Ok(true);
        }
    }
    budget.spend(left.len().unwrap_or_default().saturating_mul(2))?;
    let (left, right) = (entries(left)?, entries(right)?);
    for (key, value) in &left {
        match lookup(&right, key, budget)? {
            Some(other) if equal(value, other, budget)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn entries<'a>(map: &Value<'a>) -> Result<Vec<(Value<'a>, Value<'a>)>, Stop> {
    match map {
        Value::Map(entries) => Ok(entries.to_vec()),
        Value::Fields(fields, typing) => fields
            .iter()
            .map(|(name, data)| {
                let typing = typing.field(name).ok_or_else(|| Stop::undecided("a map without a schema"))?;
                Ok((Value::text(name.as_str()), typing.value(data)?))
            })
            .collect(),
        _ => Err(Stop::undecided("something else than a map")),
    }
}

/// Steps that comparing data takes.
fn size_of_data(data: &Json) -> usize {
    let below = match data {
        Json::Array(items) => items.iter().map(size_of_data).fold(0, usize::saturating_add),
        Json::Object(fields) => fields.values().map(size_of_data).fold(0, usize::saturating_add),
        Json::String(text) => text.len() / TEXT_BYTES_PER_STEP,
        _ => 0,
    };
    below.saturating_add(1)
}
