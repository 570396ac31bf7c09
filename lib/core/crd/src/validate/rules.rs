//! Validation rules (`x-kubernetes-validations`).

use olm_cel::{Budget, Stop, Typing, Value as Computed, evaluate};
use serde_json::Value;

use super::validation::{Path, Validation};
use crate::schema::{Node, Rule};

/// Evaluates the rules of `node` and below. `types` is the schema with the types of the data; it differs from `node`
/// below `allOf`, whose schemas have rules but no types.
pub(crate) fn check(
    value: &Value,
    types: &Node,
    node: &Node,
    path: &mut Path,
    budget: &mut Budget,
    found: &mut Validation,
) {
    // A null has no rules of its own.
    if value.is_null() {
        return;
    }
    for rule in &node.rules {
        check_rule(rule, value, types, path, budget, found);
    }
    for restriction in &node.all_of {
        check(value, types, restriction, path, budget, found);
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let (Some(types), Some(below)) = (types.child(name), node.child(name)) {
                    path.field(name, |path| check(value, types, below, path, budget, found));
                }
            }
        }
        Value::Array(items) => {
            let (Some(types), Some(below)) = (&types.items, &node.items) else { return };
            for (index, item) in items.iter().enumerate() {
                path.element(index, |path| check(item, types, below, path, budget, found));
            }
        }
        _ => {}
    }
}

fn check_rule(
    rule: &Rule,
    value: &Value,
    types: &Node,
    path: &Path,
    budget: &mut Budget,
    found: &mut Validation,
) {
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
        Err(why) => return found.doubt(path.as_str(), format!("a rule is not understood: {why}")),
    };
    let result = types.value(value).and_then(|this| evaluate(expression, vec![("self", this)], None, budget));
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
