//! Validation rules, at every place that has some.

use olm_cel::{Budget, Stop, Typing, Value as Computed, evaluate};
use serde_json::Value;

use crate::{
    node::{Additional, Node, Rule},
    outcome::{Judgement, Path},
};

/// Evaluates the rules of `node` and below. `spine` is the schema that types the data; it differs from
/// `node` below `allOf`, whose schemas have rules but no types.
pub(crate) fn check(
    value: &Value,
    spine: &Node,
    node: &Node,
    path: &mut Path,
    budget: &mut Budget,
    found: &mut Judgement,
) {
    // Rules say nothing of nulls; the rules around them may.
    if value.is_null() {
        return;
    }
    for rule in &node.rules {
        one(rule, value, spine, path, budget, found);
    }
    for one in &node.all_of {
        check(value, spine, one, path, budget, found);
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = match (node.properties.get(name), &node.additional) {
                    (Some(property), _) => spine.properties.get(name).map(|spine| (spine, property)),
                    (None, Additional::Schema(schema)) => match &spine.additional {
                        Additional::Schema(spine) => Some((&**spine, &**schema)),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some((spine, below)) = below {
                    path.field(name, |path| check(value, spine, below, path, budget, found));
                }
            }
        }
        Value::Array(items) => {
            let (Some(spine), Some(below)) = (&spine.items, &node.items) else { return };
            for (index, item) in items.iter().enumerate() {
                path.element(index, |path| check(item, spine, below, path, budget, found));
            }
        }
        _ => {}
    }
}

fn one(rule: &Rule, value: &Value, spine: &Node, path: &Path, budget: &mut Budget, found: &mut Judgement) {
    if rule.is_transition {
        if rule.optional_old {
            found.doubt(path.as_str(), "a rule on changes that also holds for new objects is not evaluated");
        } else {
            found.transition_rules += 1;
        }
        return;
    }
    let expression = match &rule.expression {
        Ok(expression) => expression,
        Err(what) => return found.doubt(path.as_str(), format!("a rule is not understood: {what}")),
    };
    let result = spine.value(value).and_then(|this| evaluate(expression, vec![("self", this)], None, budget));
    match result {
        Ok(Computed::Bool(true)) => {}
        Ok(Computed::Bool(false)) => {
            let message = rule.message.as_deref().unwrap_or("a validation rule does not hold");
            found.violate(path.as_str(), message);
        }
        Ok(_) => found.doubt(path.as_str(), "a rule is neither true nor false"),
        Err(Stop::Failed(why)) => found.violate(path.as_str(), format!("a validation rule fails: {why}")),
        Err(Stop::Undecided(why)) => {
            found.doubt(path.as_str(), format!("a rule cannot be evaluated: it uses {why}"));
        }
        Err(Stop::Exhausted) => {
            found.doubt(
                path.as_str(),
                "a rule cannot be evaluated: the rules of the object take too many steps",
            );
        }
    }
}
