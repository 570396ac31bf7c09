//! Expressions of `olm.constraint`, in the Common Expression Language.
//!
//! An expression sees one variable, `properties`: the list of a bundle's properties, each a map of `type` and
//! `value`. Beside the standard functions there is `semver_compare(a, b)`, which gives -1, 0 or 1 and reads
//! versions tolerantly (a leading `v`, missing numbers, leading zeros).

use std::{cmp::Ordering, rc::Rc, sync::Arc};

use olm_cel::{Budget, Evaluated, Patterns, Stop, Typing, Untyped, Value, evaluate, parse};
use olm_fbc::Property;
use olm_semver::Version;

use crate::{RequirementError, limits::EXPRESSION_BYTES_MAX, work::Work};

/// A compiled expression. Equality is that of the texts.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    text: String,
    parsed: Arc<olm_cel::Expression>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl Expression {
    /// # Errors
    /// It is too long, does not parse, or takes too many steps even without properties.
    pub(crate) fn compile(
        text: &str,
        patterns: &mut Patterns,
        budget: &mut Budget,
    ) -> Result<Self, RequirementError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(RequirementError::ExpressionSize);
        }
        let parsed = parse(text, patterns).map_err(RequirementError::Expression)?;
        let compiled = Self { text: text.to_owned(), parsed: Arc::new(parsed) };
        match compiled.run(&[], budget) {
            // Without properties it may fail, but a result must be true or false.
            Ok(Value::Bool(_)) | Err(Stop::Failed(_) | Stop::Undecided(_)) => {}
            Ok(_) => return Err(RequirementError::Expression("it must give true or false".to_owned())),
            Err(Stop::Exhausted) => return Err(RequirementError::ExpressionCost),
        }
        Ok(compiled)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text in it that identifies it best in a catalog: the longest that is not one of OLM's own types, which every
    /// bundle has.
    pub(crate) fn search_term(&self) -> Option<&str> {
        // Between every second pair of quotes; an escaped quote only makes the text shorter.
        let texts = ['\'', '"'].map(|quote| self.text.split(quote).skip(1).step_by(2));
        let plain = texts.into_iter().flatten().filter(|text| !text.contains(['\'', '"', '\\']));
        plain.filter(|text| !text.is_empty()).max_by_key(|text| (!text.starts_with("olm."), text.len()))
    }

    /// Whether it gives true for these properties; an error is as good as false.
    pub(crate) fn holds(&self, properties: &[Property], work: &Work) -> bool {
        work.evaluate(|budget| self.run(properties, budget).map(|value| matches!(value, Value::Bool(true))))
    }

    fn run<'a>(&'a self, properties: &'a [Property], budget: &mut Budget) -> Evaluated<'a> {
        let of = |property: &'a Property| {
            let fields = vec![
                (Value::text("type"), Value::text(property.kind.as_str())),
                (Value::text("value"), Untyped.value(&property.value)?),
            ];
            Ok(Value::Map(Rc::new(fields)))
        };
        let listed: Result<Vec<_>, Stop> = properties.iter().map(of).collect();
        let variables = vec![("properties", Value::List(Rc::new(listed?)))];
        evaluate(&self.parsed, variables, Some(function), budget)
    }
}

/// OLM's own function.
fn function<'a>(name: &str, arguments: &[Value<'a>]) -> Option<Evaluated<'a>> {
    match (name, arguments) {
        ("semver_compare", [Value::Text(a), Value::Text(b)]) => {
            Some(semver_compare(a, b).map(Value::Int).ok_or(Stop::Failed("not a version")))
        }
        _ => None,
    }
}

fn semver_compare(a: &str, b: &str) -> Option<i64> {
    let (a, b) = (Version::parse_tolerant(a).ok()?, Version::parse_tolerant(b).ok()?);
    Some(match a.cmp_precedence(&b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::EXPRESSION_STEPS_MAX;

    fn properties(value: serde_json::Value) -> Vec<Property> {
        serde_json::from_value(value).unwrap()
    }

    fn compile(rule: &str) -> Result<Expression, RequirementError> {
        Expression::compile(rule, &mut Patterns::default(), &mut Budget::new(EXPRESSION_STEPS_MAX))
    }

    fn holds(rule: &str, value: serde_json::Value) -> bool {
        compile(rule).unwrap_or_else(|e| panic!("{rule}: {e}")).holds(&properties(value), &Work::default())
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
            assert!(compile(rule).is_err(), "{rule}");
        }
        assert_eq!(compile(&" ".repeat(5000)), Err(RequirementError::ExpressionSize));
        for deep in ["(".repeat(2000), "[".repeat(2000), "!".repeat(2000) + "true", "-".repeat(500) + "1 > 0"]
        {
            assert!(compile(&deep).is_err(), "{}", &deep[..10]);
        }
    }

    #[test]
    fn the_search_term_is_the_longest_text() {
        for (rule, term) in [
            ("properties.exists(p, p.type == 'certified' && p.value == true)", Some("certified")),
            ("properties.exists(p, p.type == \"olm.package\" && p.value.packageName == \"db\")", Some("db")),
            ("properties.exists(p, p.type == 'olm.label')", Some("olm.label")),
            ("true", None),
        ] {
            assert_eq!(compile(rule).unwrap().search_term(), term, "{rule}");
        }
    }

    #[test]
    fn work_has_a_limit() {
        let nested =
            "properties.all(a, properties.all(b, properties.all(c, properties.all(d, a == a && d == d))))";
        let all = |count| json!((0..count).map(|i| json!({"type": "t", "value": i})).collect::<Vec<_>>());
        assert!(holds(nested, all(5)));
        assert!(!holds(nested, all(50)), "undecided is as good as false");
        let bomb = format!("['aaaaaaaaaaaaaaaa']{}.size() > 0", ".map(x, x + x)".repeat(100));
        assert_eq!(compile(&bomb), Err(RequirementError::ExpressionCost));
        let quadratic = compile("properties.all(a, properties.exists(b, a.type == b.type))").unwrap();
        let few: Vec<Property> =
            (0..40).map(|i| Property { kind: format!("t{i}"), value: json!(i) }).collect();
        assert!(quadratic.holds(&few, &Work::default()));
        let many: Vec<Property> =
            (0..4000).map(|i| Property { kind: format!("t{i}"), value: json!(i) }).collect();
        assert!(!quadratic.holds(&many, &Work::default()), "undecided is as good as false");
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
            assert_eq!(semver_compare(a, b), want, "{a} {b}");
        }
    }

    /// Each is a few kilobytes and would take minutes.
    #[test]
    fn regular_expressions_and_comparisons_are_charged() {
        let texts: Vec<String> = (0..150).map(|i| format!("'\\\\pL{{100}}{i}'")).collect();
        let computed = format!("[{}].all(x, !''.matches(x))", texts.join(","));
        assert_eq!(compile(&computed), Err(RequirementError::ExpressionCost));
        let literal = format!("!{}", vec!["'a'.matches('\\\\pL{10}')"; 100].join(" && !"));
        assert!(compile(&literal).is_ok(), "one pattern is made once");
        let long = json!([{"type": "t", "value": "a".repeat(1 << 20)}]);
        let compared = "properties.all(p, [1,2,3,4,5,6,7,8,9].all(i, p.value == p.value))";
        assert!(!holds(compared, long.clone()), "undecided is as good as false");
        let matched = "properties.all(p, p.value.matches('^(a|b|ab)*$'))";
        assert!(!holds(matched, long));
    }
}
