//! Bounds of numbers, compared as the server does: a bound's fraction is cut off before an integer is compared with it.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::schema::{Format, Node, NodeKind as Kind};

/// Largest float that the server counts as a whole number.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// The violations of a number.
pub(crate) fn violations(value: &Number, node: &Node) -> Vec<String> {
    let mut violations = Vec::new();
    let data = value.as_f64().unwrap_or(f64::NAN);
    let whole = value.as_i64();
    if !in_range(data, whole, node) {
        violations.push("is out of the range of its type and format".to_owned());
    }
    for (bound, beyond, exclusive, sides) in [
        (node.maximum, Ordering::Greater, node.exclusive_maximum, ["at most", "less than"]),
        (node.minimum, Ordering::Less, node.exclusive_minimum, ["at least", "greater than"]),
    ] {
        let Some(bound) = bound else { continue };
        let fits_type = in_range(bound, None, node);
        let order = match whole {
            // A bound's fraction is cut off when an integer is compared with it.
            Some(whole) if fits_type => Some(whole.cmp(&integer(bound))),
            _ => data.partial_cmp(&bound),
        };
        let within = order.is_some_and(|order| order != beyond && !(exclusive && order.is_eq()));
        if !fits_type || !within {
            violations.push(format!("must be {} {bound}", sides[usize::from(exclusive)]));
        }
    }
    if let Some(factor) = node.multiple_of {
        let fits_type = in_range(factor, None, node);
        let multiple = match whole {
            Some(whole) if fits_type => {
                let factor = integer(factor);
                factor > 0 && whole.checked_rem(factor) == Some(0)
            }
            _ if factor <= 0.0 => false,
            _ if factor < 1.0 => is_whole(1.0 / factor * data),
            _ => is_whole(data / factor),
        };
        if !fits_type || !multiple {
            violations.push(format!("must be a multiple of {factor}"));
        }
    }
    violations
}

/// Whether a number, or a bound, is one that the schema's type and format can hold.
fn in_range(data: f64, whole: Option<i64>, node: &Node) -> bool {
    match (node.kinds.as_slice(), node.format) {
        ([Kind::Integer], Some(Format::Int32)) => match whole {
            Some(whole) => i32::try_from(whole).is_ok(),
            None => data.fract() == 0.0 && data >= f64::from(i32::MIN) && data <= f64::from(i32::MAX),
        },
        ([Kind::Integer], _) => {
            whole.is_some()
                || (data.fract() == 0.0
                    && (-9.223_372_036_854_775e18..9.223_372_036_854_775e18).contains(&data))
        }
        ([Kind::Number], Some(Format::Float)) => data.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

/// Whether a float counts as a whole number.
pub(crate) fn is_whole(value: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    if !value.is_finite() || value.abs() > WHOLE_MAX {
        return false;
    }
    let near = value.trunc();
    let difference = (value - near).abs();
    if difference == 0.0 {
        return true;
    }
    if near == 0.0 {
        return false;
    }
    difference / (value.abs() + near.abs()) < EPSILON
}

/// Whether a value is one of an enumeration's: numbers by value, of which a fraction is cut off where the
/// enumeration has an integer.
pub(crate) fn same(value: &Value, listed: &Value) -> bool {
    match (value, listed) {
        (Value::Number(value), Value::Number(listed)) => match (value.as_i64(), listed.as_i64()) {
            (Some(value), Some(listed)) => value == listed,
            (None, Some(listed)) => value.as_f64().map(integer) == Some(listed),
            _ => value.as_f64() == listed.as_f64(),
        },
        _ => value == listed,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is to be cut off; beyond the range any bound is as good"
)]
fn integer(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{is_whole, same, violations};
    use crate::schema::Node;

    #[test]
    fn bounds_hold_as_on_the_server() {
        for (schema, yes, no) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 3}), json!([1, 3]), json!([0, 4])),
            (json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}), json!([2]), json!([1, 0])),
            (
                json!({"type": "integer", "format": "int32"}),
                json!([2_147_483_647]),
                json!([2_147_483_648_u64]),
            ),
            (json!({"type": "integer"}), json!([1, 2.0]), json!([1e300])),
            (json!({"type": "integer", "maximum": 2.5}), json!([]), json!([1])),
            (json!({"type": "number", "maximum": 2.5}), json!([2, 2.5]), json!([3, 2.6])),
            // The fraction of the bound is cut off before it is compared with an integer.
            (json!({"type": "number", "minimum": 0.5}), json!([0, 0.5]), json!([0.4])),
            (json!({"type": "integer", "multipleOf": 3}), json!([0, 3, -6]), json!([1])),
            (json!({"type": "number", "multipleOf": 0.1}), json!([0.3, 7.7]), json!([0.35])),
            (json!({"type": "number", "format": "float"}), json!([1e38]), json!([1e39])),
        ] {
            let node = Node::root(&schema);
            let found = |value: &Value| violations(value.as_number().unwrap(), &node);
            for value in yes.as_array().unwrap() {
                assert_eq!(found(value), Vec::<String>::new(), "{value} with {schema}");
            }
            for value in no.as_array().unwrap() {
                assert_ne!(found(value), Vec::<String>::new(), "{value} with {schema}");
            }
        }
    }

    #[test]
    fn whole_and_same_numbers() {
        assert!(is_whole(3.0) && is_whole(-7.0) && is_whole(0.0));
        assert!(!is_whole(0.5) && !is_whole(1e300) && !is_whole(f64::NAN));
        assert!(same(&json!(1), &json!(1.0)) && same(&json!("a"), &json!("a")));
        assert!(!same(&json!(1), &json!("1")) && !same(&json!(1), &json!(2)));
    }
}
