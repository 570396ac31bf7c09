//! Methods of strings and lists.

use std::{cmp::Ordering, rc::Rc};

use crate::{
    ast::Operator,
    budget::{Budget, Stop},
    equality::{elements, order, position},
    eval::Evaluated,
    functions::{arithmetic, unknown},
    value::Value,
};

/// Calls a method of the first value with the others.
pub(crate) fn call<'a>(name: &str, values: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    match values {
        [Value::Text(text)] => of_text(name, text),
        [Value::Text(text), Value::Text(argument)] => with_text(name, text, argument, budget),
        [Value::Text(text), Value::Int(index)] => with_index(name, text, *index, None),
        [Value::Text(text), Value::Int(start), Value::Int(end)] => with_index(name, text, *start, Some(*end)),
        [Value::Text(text), Value::Text(old), Value::Text(new)] if name == "replace" => {
            if old.is_empty() {
                return Err(unknown("replace"));
            }
            // Replacing may grow the text by the length of the new part for each of its bytes.
            budget.spend_text(text.len().saturating_mul(new.len().max(1)))?;
            Ok(Value::text(text.replace(&**old, new)))
        }
        [list @ (Value::List(_) | Value::Items(..)), arguments @ ..] => {
            of_list(name, list, arguments, budget)
        }
        _ => Err(unknown(name)),
    }
}

fn of_text<'a>(name: &str, text: &str) -> Evaluated<'a> {
    Ok(Value::text(match name {
        "lowerAscii" => text.to_ascii_lowercase(),
        "upperAscii" => text.to_ascii_uppercase(),
        "trim" => text.trim().to_owned(),
        _ => return Err(unknown(name)),
    }))
}

fn with_text<'a>(name: &str, text: &str, argument: &str, budget: &mut Budget) -> Evaluated<'a> {
    let at = |found: Option<usize>| index(found.map(|bytes| text[..bytes].chars().count()));
    match name {
        "contains" => Ok(Value::Bool(text.contains(argument))),
        "startsWith" => Ok(Value::Bool(text.starts_with(argument))),
        "endsWith" => Ok(Value::Bool(text.ends_with(argument))),
        "indexOf" => at(text.find(argument)),
        "lastIndexOf" => at(text.rfind(argument)),
        "split" if !argument.is_empty() => {
            // A part takes as much memory as a few steps may.
            budget.spend(text.matches(argument).count().saturating_mul(4))?;
            let parts: Vec<_> = text.split(argument).map(|part| Value::text(part.to_owned())).collect();
            Ok(Value::List(Rc::new(parts)))
        }
        _ => Err(unknown(name)),
    }
}

/// An index as the language gives it: -1 for none.
fn index<'a>(found: Option<usize>) -> Evaluated<'a> {
    found.map_or(Ok(-1), i64::try_from).map(Value::Int).map_err(|_| Stop::Failed("integer overflow"))
}

fn with_index<'a>(name: &str, text: &str, start: i64, end: Option<i64>) -> Evaluated<'a> {
    let outside = Stop::Failed("index out of bounds");
    let length = text.chars().count();
    let position =
        |index: i64| usize::try_from(index).ok().filter(|index| *index <= length).ok_or(outside.clone());
    let start = position(start)?;
    match (name, end) {
        ("charAt", None) => Ok(Value::text(text.chars().skip(start).take(1).collect::<String>())),
        ("substring", None) => Ok(Value::text(text.chars().skip(start).collect::<String>())),
        ("substring", Some(end)) => {
            let length = position(end)?.checked_sub(start).ok_or(outside)?;
            Ok(Value::text(text.chars().skip(start).take(length).collect::<String>()))
        }
        _ => Err(unknown(name)),
    }
}

fn of_list<'a>(name: &str, list: &Value<'a>, arguments: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let list = elements(list, budget)?;
    match (name, arguments) {
        ("min" | "max", []) => {
            let beyond = if name == "min" { Ordering::Less } else { Ordering::Greater };
            let mut extreme = list.first().ok_or(Stop::Failed("the extreme of an empty list"))?;
            for element in &list {
                if order(element, extreme, budget)? == beyond {
                    extreme = element;
                }
            }
            Ok(extreme.clone())
        }
        ("isSorted", []) => {
            for (a, b) in list.iter().zip(list.iter().skip(1)) {
                if order(a, b, budget)?.is_gt() {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        ("sum", []) => {
            // The zero of an empty list depends on the list's type.
            let (first, rest) = list.split_first().ok_or_else(|| unknown("sum"))?;
            rest.iter().try_fold(first.clone(), |sum, next| arithmetic(Operator::Add, &sum, next, budget))
        }
        ("join", _) => {
            let separator = match arguments {
                [] => "",
                [Value::Text(separator)] => separator,
                _ => return Err(unknown("join")),
            };
            let texts = list
                .iter()
                .map(|v| if let Value::Text(text) = v { Ok(&**text) } else { Err(unknown("join")) });
            let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
            let bytes = texts.iter().map(|text| text.len().saturating_add(separator.len()));
            budget.spend_text(bytes.fold(0, usize::saturating_add))?;
            Ok(Value::text(texts.join(separator)))
        }
        ("indexOf" | "lastIndexOf", [wanted]) => {
            let mut list = list;
            let found = if name == "indexOf" {
                position(&list, wanted, budget)?
            } else {
                list.reverse();
                position(&list, wanted, budget)?.map(|from_end| list.len() - 1 - from_end)
            };
            index(found)
        }
        _ => Err(unknown(name)),
    }
}
