//! Types, limits, formats and combinations of schemas.

use olm_cel::Budget;
use serde_json::{Map, Value};

use super::{
    number,
    validation::{Path, Validation},
};
use crate::{
    Tristate,
    schema::{Node, NodeKind as Kind, Pattern, Range},
};

/// Checks a value against all of its schema but rules and the uniqueness of list elements.
pub(crate) fn check(value: &Value, node: &Node, path: &mut Path, budget: &mut Budget) -> Validation {
    let mut found = Validation::default();
    if budget.spend(1 + node.required.len()).is_err() {
        found.doubt(path.as_str(), "the object and its schema are too large to be compared");
        return found;
    }
    if value.is_null() {
        if !node.kinds.is_empty() && !node.nullable {
            found.violate(path.as_str(), "must not be null");
        }
        if !node.enumeration.is_empty() {
            found.violate(path.as_str(), "is none of the supported values");
        }
        return found;
    }
    if !has_type(value, node) {
        found.violate(path.as_str(), "has another type than the schema's");
    }
    combinations(value, node, path, budget, &mut found);
    match value {
        Value::String(text) => string(text, node, path, budget, &mut found),
        Value::Number(value) => {
            for violation in number::violations(value, node) {
                found.violate(path.as_str(), violation);
            }
        }
        Value::Array(items) => list(items, node, path, budget, &mut found),
        Value::Object(fields) => object(fields, node, path, budget, &mut found),
        Value::Bool(_) | Value::Null => {}
    }
    if !node.enumeration.is_empty() {
        if budget.spend(node.enumeration.len()).is_err() {
            found.doubt(path.as_str(), "the object and its schema are too large to be compared");
        } else if !node.enumeration.iter().any(|one| number::same(value, one)) {
            found.violate(path.as_str(), "is none of the supported values");
        }
    }
    found
}

fn has_type(value: &Value, node: &Node) -> bool {
    let has = |kind| node.kinds.contains(&kind);
    let (kind, suits) = match value {
        Value::Null => return true,
        Value::Bool(_) => (Kind::Boolean, false),
        Value::String(_) => (Kind::String, false),
        Value::Array(_) => (Kind::Array, false),
        Value::Object(_) => (Kind::Object, false),
        Value::Number(number) if number.as_i64().is_some() => (Kind::Integer, has(Kind::Number)),
        Value::Number(number) => {
            (Kind::Number, has(Kind::Integer) && number.as_f64().is_some_and(number::is_whole))
        }
    };
    let suits = suits || has(kind);
    let in_words = matches!(value, Value::String(_) | Value::Array(_));
    match node.format {
        None => node.kinds.is_empty() || suits,
        // The server checks the format instead of the type here, also for lists.
        Some(_) if in_words && !has(Kind::Number) && !has(Kind::Integer) => true,
        Some(_) => suits,
    }
}

fn combinations(value: &Value, node: &Node, path: &mut Path, budget: &mut Budget, found: &mut Validation) {
    let mut count = |schemas: &[Node]| {
        let verdicts: Vec<_> = schemas.iter().map(|one| check(value, one, path, budget).is_valid()).collect();
        let number = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        (number(Tristate::Yes), number(Tristate::Undecided))
    };
    let (any_of, one_of) = (count(&node.any_of), count(&node.one_of));
    match any_of {
        (0, 0) if !node.any_of.is_empty() => {
            found.violate(path.as_str(), "satisfies none of the schemas of anyOf");
        }
        (0, 1..) => found.doubt(path.as_str(), "a schema of anyOf is not understood"),
        _ => {}
    }
    match one_of {
        (0, 0) if node.one_of.is_empty() => {}
        (0, 0) | (2.., _) => {
            found.violate(path.as_str(), "satisfies none, or more than one, of the schemas of oneOf");
        }
        (_, 1..) => found.doubt(path.as_str(), "a schema of oneOf is not understood"),
        _ => {}
    }
    for one in &node.all_of {
        found.add(check(value, one, path, budget));
    }
    if let Some(not) = &node.not {
        match check(value, not, path, budget).is_valid() {
            Tristate::Yes => found.violate(path.as_str(), "satisfies the schema of not"),
            Tristate::Undecided => found.doubt(path.as_str(), "the schema of not is not understood"),
            Tristate::No => {}
        }
    }
}

fn string(text: &str, node: &Node, path: &Path, budget: &mut Budget, found: &mut Validation) {
    bounds(text.chars().count(), node.length, ["is too short", "is too long"], path, found);
    match &node.pattern {
        Pattern::Regex(regex) => match budget.matches(regex, text) {
            Ok(true) => {}
            Ok(false) => found.violate(path.as_str(), "does not match the pattern"),
            Err(_) => found.doubt(path.as_str(), "the pattern takes too many steps"),
        },
        Pattern::Unknown => found.doubt(path.as_str(), "the pattern is not understood"),
        Pattern::None => {}
    }
    match node.format.map(|format| format.fits(text)) {
        Some(Tristate::No) => found.violate(path.as_str(), "does not have the format"),
        Some(Tristate::Undecided) => found.doubt(path.as_str(), "the format is not understood"),
        _ => {}
    }
}

fn list(items: &[Value], node: &Node, path: &mut Path, budget: &mut Budget, found: &mut Validation) {
    if let Some(below) = &node.items {
        for (index, item) in items.iter().enumerate() {
            found.add(path.element(index, |path| check(item, below, path, budget)));
        }
    }
    bounds(items.len(), node.item_count, ["has too few elements", "has too many elements"], path, found);
}

fn object(
    fields: &Map<String, Value>,
    node: &Node,
    path: &mut Path,
    budget: &mut Budget,
    found: &mut Validation,
) {
    bounds(fields.len(), node.property_count, ["has too few fields", "has too many fields"], path, found);
    for (name, value) in fields {
        if let Some(below) = node.child(name) {
            found.add(path.field(name, |path| check(value, below, path, budget)));
        }
    }
    for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
        path.field(name, |path| found.violate(path.as_str(), "is required"));
    }
}

fn bounds(size: usize, range: Range, texts: [&str; 2], path: &Path, found: &mut Validation) {
    let [few, many] = texts;
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if let Some(minimum) = range.minimum.filter(|minimum| size < *minimum) {
        found.violate(path.as_str(), format!("{few}, at least {minimum} are required"));
    }
    if let Some(maximum) = range.maximum.filter(|maximum| size > *maximum) {
        found.violate(path.as_str(), format!("{many}, at most {maximum} are possible"));
    }
}
