//! Expressions of `olm.constraint`, in the Common Expression Language.
//!
//! An expression sees one variable, `properties`: the list of a bundle's properties, each a map of `type` and
//! `value`. Beside the standard functions there is `semver_compare(a, b)`, which gives -1, 0 or 1 and reads
//! versions tolerantly (a leading `v`, missing numbers, leading zeros).
//!
//! The interpreter has no limits of its own. What an expression could cost at worst is therefore worked out from
//! its form before it is run: every loop counts as long as the longest list it could meet.

use std::{cmp::Ordering, sync::Arc};

use cel::{
    Context, ExecutionError, IdedExpr, Value,
    common::ast::{EntryExpr, Expr},
    objects::{Key, Map},
    parser::Parser,
};
use olm_fbc::Property;
use olm_semver::Version;
use olm_text::{cut, one_line};

use crate::{
    RequirementError,
    limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX, EXPRESSION_STEPS_MAX},
};

/// A compiled expression. Equality is that of the texts.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    text: String,
    root: Arc<IdedExpr>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl Expression {
    /// # Errors
    /// It is too long, does not parse, or could not be run on even a small bundle.
    pub(crate) fn compile(text: &str) -> Result<Self, RequirementError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(RequirementError::ExpressionSize);
        }
        if depth(text) > usize::from(EXPRESSION_DEPTH_MAX) {
            return Err(RequirementError::Expression("it is nested too deeply".to_owned()));
        }
        let root = Parser::new()
            .max_recursion_depth(EXPRESSION_DEPTH_MAX)
            .parse(text)
            .map_err(|errors| RequirementError::Expression(first_line(&errors.to_string())))?;
        let compiled = Self { text: text.to_owned(), root: Arc::new(root) };
        if compiled.steps(&[]) > EXPRESSION_STEPS_MAX {
            return Err(RequirementError::ExpressionCost);
        }
        match compiled.run(&[]) {
            // What it says of no properties may be an error, but if it says something, it must be yes or no.
            Ok(Value::Bool(_)) | Err(_) => Ok(compiled),
            Ok(_) => Err(RequirementError::Expression("it must give true or false".to_owned())),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text in it that tells most: the longest that is not one of OLM's own types, which every bundle has.
    pub(crate) fn sign(&self) -> Option<&str> {
        // Between every second pair of quotes; an escaped quote only makes the text shorter.
        let texts = ['\'', '"'].map(|quote| self.text.split(quote).skip(1).step_by(2));
        let told = texts.into_iter().flatten().filter(|text| !text.contains(['\'', '"', '\\']));
        told.filter(|text| !text.is_empty()).max_by_key(|text| (!text.starts_with("olm."), text.len()))
    }

    /// Whether it gives true for these properties; an error is as good as false.
    pub(crate) fn holds(&self, properties: &[Property]) -> bool {
        self.steps(properties) <= EXPRESSION_STEPS_MAX
            && matches!(self.run(properties), Ok(Value::Bool(true)))
    }

    fn run(&self, properties: &[Property]) -> Result<Value, ExecutionError> {
        let mut context = Context::default();
        let listed: Vec<Value> = properties
            .iter()
            .map(|property| {
                object([
                    ("type".to_owned(), Value::String(Arc::new(property.kind.clone()))),
                    ("value".to_owned(), value(&property.value)),
                ])
            })
            .collect();
        let failed = |cause: String| ExecutionError::function_error("properties", cause);
        context
            .add_variable("properties", Value::List(listed.into()))
            .map_err(|error| failed(error.to_string()))?;
        context
            .add_function("semver_compare", |a: Arc<String>, b: Arc<String>| {
                semver_compare(&a, &b).map_err(|text| ExecutionError::function_error("semver_compare", text))
            })
            .map_err(|error| failed(error.to_string()))?;
        context.resolve(&self.root)
    }

    /// The most steps that it could take with these properties.
    fn steps(&self, properties: &[Property]) -> u64 {
        let data: u64 = properties.iter().map(|property| 2 + nodes(&property.value)).sum();
        let written = u64::try_from(self.text.len()).unwrap_or(u64::MAX);
        // Each sum of texts or lists could double what it is given.
        let doublings = u32::try_from(self.text.matches('+').count()).unwrap_or(u32::MAX);
        let longest = data.max(written / 2).max(1).saturating_mul(2u64.saturating_pow(doublings));
        cost(&self.root.expr, longest).saturating_mul(1 + u64::from(doublings > 0) * longest / 64)
    }
}

/// Nested brackets, and operators that a parser goes a level deeper for.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut signs) = (0usize, 0usize, 0usize);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '!' | '-' | '?' => signs += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest.max(signs / 2)
}

/// What a person needs of the parser's words: the place and what is wrong there.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.trim_start_matches("ERROR: ").trim_start_matches("<input>:");
    let line = line.split(" expecting ").next().unwrap_or_default();
    cut(&one_line(line), 120).into_owned()
}

fn nodes(value: &serde_json::Value) -> u64 {
    1 + match value {
        serde_json::Value::Array(items) => items.iter().map(nodes).sum(),
        serde_json::Value::Object(fields) => fields.values().map(nodes).sum(),
        serde_json::Value::String(text) => u64::try_from(text.len() / 64).unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// Steps at worst, when no list is longer than `longest`.
fn cost(expression: &Expr, longest: u64) -> u64 {
    let of = |one: &IdedExpr| cost(&one.expr, longest);
    let sum = |all: &[IdedExpr]| all.iter().map(&of).fold(0u64, u64::saturating_add);
    let entries = |all: &[cel::common::ast::IdedEntryExpr]| {
        all.iter()
            .map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => of(&field.value),
                EntryExpr::MapEntry(entry) => of(&entry.key).saturating_add(of(&entry.value)),
            })
            .fold(0u64, u64::saturating_add)
    };
    let within = match expression {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
        Expr::Call(call) => call.target.as_deref().map_or(0, of).saturating_add(sum(&call.args)),
        Expr::List(list) => sum(&list.elements),
        Expr::Select(select) => of(&select.operand),
        Expr::Map(map) => entries(&map.entries),
        Expr::Struct(fields) => entries(&fields.entries),
        Expr::Comprehension(all) => {
            let once = of(&all.loop_cond).saturating_add(of(&all.loop_step)).saturating_add(1);
            of(&all.iter_range)
                .saturating_add(of(&all.accu_init))
                .saturating_add(of(&all.result))
                .saturating_add(once.saturating_mul(longest))
        }
    };
    within.saturating_add(1)
}

fn object(fields: impl IntoIterator<Item = (String, Value)>) -> Value {
    let fields = fields.into_iter().map(|(key, value)| (Key::String(Arc::new(key)), value)).collect();
    Value::Map(Map { map: Arc::new(fields) })
}

/// A value as an expression sees it. Numbers are floating point, as the original decodes them.
fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(yes) => Value::Bool(*yes),
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => Value::String(Arc::new(text.clone())),
        serde_json::Value::Array(items) => Value::List(items.iter().map(value).collect::<Vec<_>>().into()),
        serde_json::Value::Object(fields) => object(fields.iter().map(|(key, v)| (key.clone(), value(v)))),
    }
}

fn semver_compare(a: &str, b: &str) -> Result<i64, String> {
    let read = |text: &str| tolerant(text).ok_or_else(|| "not a version".to_owned());
    Ok(match read(a)?.cmp_precedence(&read(b)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

/// A version in the tolerant reading: blanks around it, a leading `v`, missing numbers and leading zeros do no
/// harm.
fn tolerant(text: &str) -> Option<Version> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = core.split('.').map(|n| n.trim_start_matches('0')).collect();
    if numbers.len() > 3 || (numbers.len() < 3 && !rest.is_empty()) {
        return None;
    }
    numbers.resize(3, "0");
    let numbers: Vec<&str> = numbers.into_iter().map(|n| if n.is_empty() { "0" } else { n }).collect();
    format!("{}{rest}", numbers.join(".")).parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn properties(value: serde_json::Value) -> Vec<Property> {
        serde_json::from_value(value).unwrap()
    }

    fn holds(rule: &str, value: serde_json::Value) -> bool {
        Expression::compile(rule).unwrap_or_else(|e| panic!("{rule}: {e}")).holds(&properties(value))
    }

    #[test]
    fn expressions_see_types_and_values() {
        let all = json!([
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.2.0"}},
            {"type": "certified", "value": true},
            {"type": "size", "value": 5},
            {"type": "colors", "value": ["red", "green"]},
            {"type": "none", "value": null},
        ]);
        for (rule, want) in [
            ("properties.exists(p, p.type == 'certified' && p.value == true)", true),
            ("properties.exists(p, p.type == 'certified' && p.value == false)", false),
            ("properties.exists(p, p.type == 'certified')", true),
            ("properties.exists(p, p.type == 'size' && p.value >= 5)", true),
            ("properties.exists(p, p.type == 'size' && p.value == 5)", true),
            ("properties.exists(p, p.type == 'size' && p.value > 5.5)", false),
            ("properties.exists(p, p.type == 'colors' && 'red' in p.value)", true),
            ("properties.exists(p, p.type == 'none' && p.value == null)", true),
            (
                "properties.exists(p, p.type == 'olm.package' && (semver_compare(p.value.version, '1.1.9') >= 0))",
                true,
            ),
            (
                "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, 'v1.3') == 1)",
                false,
            ),
            ("properties.all(p, p.type != 'forbidden')", true),
            ("properties.filter(p, p.type.startsWith('olm.')).size() == 1", true),
            ("properties.exists(p, p.type.matches('^cert.*d$'))", true),
            // Errors are as good as false.
            ("properties.exists(p, p.value.missing == 1)", false),
            ("nonsense == 1", false),
        ] {
            assert_eq!(holds(rule, all.clone()), want, "{rule}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for rule in ["", "properties.exists(", "1 + 1", "'text'", "a b c", "properties"] {
            assert!(Expression::compile(rule).is_err(), "{rule}");
        }
        assert_eq!(Expression::compile(&" ".repeat(5000)), Err(RequirementError::ExpressionSize));
        for deep in ["(".repeat(2000), "[".repeat(2000), "!".repeat(2000) + "true", "-".repeat(500) + "1 > 0"]
        {
            assert!(Expression::compile(&deep).is_err(), "{}", &deep[..10]);
        }
    }

    #[test]
    fn the_text_that_tells_most_is_found() {
        for (rule, sign) in [
            ("properties.exists(p, p.type == 'certified' && p.value == true)", Some("certified")),
            ("properties.exists(p, p.type == \"olm.package\" && p.value.packageName == \"db\")", Some("db")),
            ("properties.exists(p, p.type == 'olm.label')", Some("olm.label")),
            ("true", None),
        ] {
            assert_eq!(Expression::compile(rule).unwrap().sign(), sign, "{rule}");
        }
    }

    #[test]
    fn work_has_a_limit() {
        let nested =
            "properties.all(a, properties.all(b, properties.all(c, properties.all(d, a == b && c == d))))";
        assert!(Expression::compile(nested).is_err() || !holds(nested, json!([])));
        let bomb = format!("['a']{}.size() > 0", ".map(x, x + x)".repeat(100));
        assert_eq!(Expression::compile(&bomb), Err(RequirementError::ExpressionCost));
        let quadratic =
            Expression::compile("properties.all(a, properties.exists(b, a.type == b.type))").unwrap();
        let few: Vec<Property> =
            (0..40).map(|i| Property { kind: format!("t{i}"), value: json!(i) }).collect();
        assert!(quadratic.holds(&few));
        let many: Vec<Property> =
            (0..4000).map(|i| Property { kind: format!("t{i}"), value: json!(i) }).collect();
        assert!(!quadratic.holds(&many), "undecided is as good as false");
    }

    #[test]
    fn versions_are_read_tolerantly() {
        for (a, b, want) in [
            ("1.0.0", "1.0.0", Some(0)),
            ("v1", "1.0.0", Some(0)),
            ("01.2", "1.2.0", Some(0)),
            ("1.0.0-rc.1", "1.0.0", Some(-1)),
            (" 1.10 ", "1.9", Some(1)),
            ("one", "1.9", None),
            ("1.2.3.4", "1.9", None),
        ] {
            assert_eq!(semver_compare(a, b).ok(), want, "{a} {b}");
        }
    }
}
