//! When two values are equal, and which comes first.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json};

use crate::{
    budget::{Budget, Stop},
    value::Value,
};

/// Whether two values are equal. Values of different types are not, numbers excepted.
pub(crate) fn equal<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
    budget.spend(1)?;
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => same_text(a, b, budget)?,
        (Value::Kind(a), Value::Kind(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => same_data(a, b, budget)?,
        (Value::Opaque(_), _) | (_, Value::Opaque(_)) => {
            return Err(Stop::undecided("data without a type, compared with others"));
        }
        (Value::Fields(..) | Value::Map(_), Value::Fields(..) | Value::Map(_)) => {
            equal_maps(left, right, budget)?
        }
        (Value::List(_) | Value::Items(..), Value::List(_) | Value::Items(..)) => {
            equal_lists(left, right, budget)?
        }
        _ => order(left, right, budget)? == Some(Ordering::Equal),
    })
}

/// Whether two texts are equal. Texts of different lengths are not looked at.
fn same_text(left: &str, right: &str, budget: &mut Budget) -> Result<bool, Stop> {
    if left.len() == right.len() {
        budget.spend_text(left.len())?;
    }
    Ok(left == right)
}

/// The order of two values of which one may come before the other.
pub(crate) fn order(
    left: &Value<'_>,
    right: &Value<'_>,
    budget: &mut Budget,
) -> Result<Option<Ordering>, Stop> {
    let wide = |value: &Value<'_>| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    Ok(match (left, right) {
        (Value::Text(a), Value::Text(b)) => {
            budget.spend_text(a.len().min(b.len()))?;
            Some((**a).cmp(&**b))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), other) => wide(other).and_then(|other| a.partial_cmp(&float(other))),
        (other, Value::Double(b)) => wide(other).and_then(|other| float(other).partial_cmp(b)),
        _ => wide(left).zip(wide(right)).map(|(left, right)| left.cmp(&right)),
    })
}

#[expect(clippy::cast_precision_loss, reason = "integers and floats are compared as floats")]
fn float(number: i128) -> f64 {
    number as f64
}

fn equal_lists<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
    if [left, right].into_iter().any(|v| matches!(v, Value::Items(_, typing) if typing.is_unordered())) {
        return equal_sets(left, right, budget);
    }
    if length(left) != length(right) {
        return Ok(false);
    }
    let (left, right) = (elements(left, budget)?, elements(right, budget)?);
    for (a, b) in left.iter().zip(&right) {
        if !equal(a, b, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sets, and lists that are maps, are equal in any order.
fn equal_sets<'a>(left: &Value<'a>, right: &Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
    if length(left) != length(right) {
        return Ok(false);
    }
    let (left, right) = (elements(left, budget)?, elements(right, budget)?);
    for a in &left {
        let mut found = false;
        for b in &right {
            found = found || equal(a, b, budget)?;
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many elements a list has.
fn length(list: &Value<'_>) -> usize {
    match list {
        Value::List(list) => list.len(),
        Value::Items(items, _) => items.len(),
        _ => 0,
    }
}

/// The elements of a list, each of which costs a step.
pub(crate) fn elements<'a>(list: &Value<'a>, budget: &mut Budget) -> Result<Vec<Value<'a>>, Stop> {
    budget.spend(length(list))?;
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
    if let (Value::Fields(a, x), Value::Fields(b, y)) = (left, right)
        && std::ptr::addr_eq(*x, *y)
        && same_fields(a, b, budget)?
    {
        return Ok(true);
    }
    let sizes = [left, right].map(size);
    budget.spend(sizes[0].saturating_add(sizes[1]))?;
    if sizes[0] != sizes[1] {
        return Ok(false);
    }
    let (left, right) = (entries(left)?, entries(right)?);
    for (key, a) in &left {
        let mut found = None;
        for (other, b) in &right {
            if equal(key, other, budget)? {
                found = Some(b);
                break;
            }
        }
        match found {
            Some(b) if equal(a, b, budget)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn size(map: &Value<'_>) -> usize {
    match map {
        Value::Map(entries) => entries.len(),
        Value::Fields(fields, _) => fields.len(),
        _ => 0,
    }
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

fn same_data(left: &Json, right: &Json, budget: &mut Budget) -> Result<bool, Stop> {
    budget.spend(1)?;
    match (left, right) {
        (Json::Array(a), Json::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !same_data(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Object(a), Json::Object(b)) => same_fields(a, b, budget),
        (Json::String(a), Json::String(b)) => same_text(a, b, budget),
        _ => Ok(left == right),
    }
}

fn same_fields(
    left: &Map<String, Json>,
    right: &Map<String, Json>,
    budget: &mut Budget,
) -> Result<bool, Stop> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, a) in left {
        match right.get(key) {
            Some(b) if same_data(a, b, budget)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
