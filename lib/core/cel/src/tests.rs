//! What evaluation costs.

use serde_json::{Value as Json, json};

use crate::{Budget, Evaluated, Patterns, Stop, Typing, Untyped, Value, evaluate, parse};

const STEPS: u64 = 1_000_000;

/// Whether the rule holds for `self`.
fn evaluated(rule: &str, this: &Json) -> Result<bool, Stop> {
    let expression = parse(rule, &mut Patterns::default()).expect(rule);
    let this = Untyped.value(this).expect("a value");
    let result: Evaluated<'_> = evaluate(&expression, vec![("self", this)], None, &mut Budget::new(STEPS));
    result.map(|value| matches!(value, Value::Bool(true)))
}

#[test]
fn what_costs_much_exhausts_the_budget() {
    let text = "a".repeat(1 << 20);
    let numbers: Vec<usize> = (0..2_000).collect();
    let fields: Json =
        numbers.iter().map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
    for (rule, this) in [
        ("self.n.all(i, self.t == self.t)", json!({"n": numbers, "t": text})),
        ("self.n.all(i, self.t <= self.t)", json!({"n": numbers, "t": text})),
        ("self.n.all(i, [self.t, self.t].isSorted())", json!({"n": numbers, "t": text})),
        ("self.n.all(i, self == self)", json!({"n": numbers})),
        ("self.all(a, self.exists(b, true))", fields),
        ("self.t.matches('^(a|b|ab)*$')", json!({"t": text})),
        (
            "self.n.all(i, !'a'.matches(self.p + self.n.filter(j, j < i).map(j, 'x').join('')))",
            json!({"n": numbers, "p": "\\pL{50}"}),
        ),
    ] {
        assert_eq!(evaluated(rule, &this), Err(Stop::Exhausted), "{rule}");
    }
}

#[test]
fn a_computed_pattern_is_made_once() {
    let numbers: Vec<usize> = (0..5_000).collect();
    let this = json!({"n": numbers, "p": r"^\pL{10}$"});
    assert_eq!(evaluated("self.n.all(i, !'a'.matches(self.p))", &this), Ok(true));
}

#[test]
fn copies_of_computed_texts_cost_nothing() {
    let numbers: Vec<usize> = (0..1_000).collect();
    let this = json!({"n": numbers, "t": "a".repeat(1 << 20)});
    let rule = "[self.t + 'b'].all(t, self.n.all(i, [t, t, t].size() == 3))";
    assert_eq!(evaluated(rule, &this), Ok(true));
}

#[test]
fn sums_of_durations_do_not_overflow() {
    let doubled = ".map(d, d + d)".repeat(70);
    let rule = format!("[duration('2540000h')]{doubled}.size() == 1");
    assert_eq!(evaluated(&rule, &json!(null)), Err(Stop::Failed("duration overflow")));
}
