//! Validation of a query against the types, with the messages of upstream's library.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    QueryError,
    ast::{Directive, Document, Field, Fragment, Operation, OperationKind, Position, Selection, Value},
    limits::{DEPTH_MAX, NESTING_MAX},
    types::{Argument, CONDITION, DIRECTIVES, QUERY, Type, Types, bare},
};

/// The only operation of a document, validated.
pub(crate) fn operation<'a>(document: &'a Document, types: &Types) -> Result<&'a Operation, QueryError> {
    let operation = match document.operations.as_slice() {
        [operation] => operation,
        [] => return Err(QueryError::plain("Must provide an operation.")),
        [first, second, ..] => {
            let unnamed = [first, second].into_iter().find(|operation| operation.name.is_none());
            return Err(match unnamed {
                Some(unnamed) => {
                    QueryError::at(unnamed.at, "This anonymous operation must be the only defined operation.")
                }
                None => {
                    QueryError::plain("Must provide operation name if query contains multiple operations.")
                }
            });
        }
    };
    match operation.kind {
        OperationKind::Query => {}
        OperationKind::Mutation => {
            return Err(QueryError::at(operation.at, "Schema is not configured for mutations"));
        }
        OperationKind::Subscription => {
            return Err(QueryError::at(operation.at, "Schema is not configured for subscriptions"));
        }
    }
    for variable in &operation.variables {
        if variable.kind.ends_with('!') && variable.default.is_none() {
            let (name, kind) = (&variable.name, &variable.kind);
            let text = format!("Variable \"${name}\" of required type \"{kind}\" was not provided.");
            return Err(QueryError::at(variable.at, text));
        }
        if !matches!(types.get(bare(&variable.kind)), Some(Type::Scalar)) {
            let text = format!("Unknown type \"{}\".", bare(&variable.kind));
            return Err(QueryError::at(variable.at, text));
        }
    }
    check_cycles(document)?;
    let variables = operation.variables.iter().map(|variable| variable.name.as_str()).collect();
    let check = Check { document, types, variables };
    check.selections(&operation.selections, QUERY)?;
    for fragment in document.fragments.values() {
        check.fragment_type(&fragment.on, fragment.at)?;
        check.selections(&fragment.selections, &fragment.on)?;
    }
    Ok(operation)
}

struct Check<'a> {
    document: &'a Document,
    types: &'a Types,
    variables: BTreeSet<&'a str>,
}

impl Check<'_> {
    fn selections(&self, selections: &[Selection], object: &str) -> Result<(), QueryError> {
        for selection in selections {
            match selection {
                Selection::Field(field) => self.field(field, object)?,
                Selection::Inline { on, directives, selections, at } => {
                    self.directives(directives)?;
                    if let Some(on) = on {
                        self.fragment_type(on, *at)?;
                        if on != object {
                            let text = format!(
                                "Fragment cannot be spread here as objects of type \"{object}\" can never be of type \"{on}\"."
                            );
                            return Err(QueryError::at(*at, text));
                        }
                    }
                    self.selections(selections, object)?;
                }
                Selection::Spread { name, directives, at } => {
                    self.directives(directives)?;
                    self.spread(name, object, *at)?;
                }
            }
        }
        Ok(())
    }

    fn spread(&self, name: &str, object: &str, at: Position) -> Result<(), QueryError> {
        let Some(fragment) = self.document.fragments.get(name) else {
            return Err(QueryError::at(at, format!("Unknown fragment \"{name}\".")));
        };
        self.fragment_type(&fragment.on, fragment.at)?;
        let on = &fragment.on;
        if on != object {
            let text = format!(
                "Fragment \"{name}\" cannot be spread here as objects of type \"{object}\" can never be of type \"{on}\"."
            );
            return Err(QueryError::at(at, text));
        }
        // Its selections are validated once, on their own.
        Ok(())
    }

    fn fragment_type(&self, on: &str, at: Position) -> Result<(), QueryError> {
        match self.types.get(on) {
            Some(Type::Object(_)) => Ok(()),
            Some(_) => {
                Err(QueryError::at(at, format!("Fragment cannot condition on non composite type \"{on}\".")))
            }
            None => Err(QueryError::at(at, format!("Unknown type \"{on}\"."))),
        }
    }

    fn field(&self, field: &Field, object: &str) -> Result<(), QueryError> {
        self.directives(&field.directives)?;
        let name = &field.name;
        let Some(found) = self.types.field(object, name) else {
            let text = format!("Cannot query field \"{name}\" on type \"{object}\".");
            return Err(QueryError::at(field.at, text));
        };
        self.arguments(&field.arguments, found.arguments, field.at, |argument| {
            format!("Unknown argument \"{argument}\" on field \"{name}\" of type \"{object}\".")
        })?;
        if let Some(missing) = missing(&field.arguments, found.arguments) {
            let text = format!(
                "Field \"{name}\" argument \"{}\" of type \"{}\" is required but not provided.",
                missing.name, missing.kind
            );
            return Err(QueryError::at(field.at, text));
        }
        let is_object = matches!(self.types.get(bare(found.kind)), Some(Type::Object(_)));
        match (is_object, field.selections.is_empty()) {
            (true, true) => {
                let text = format!("Field \"{name}\" of type \"{}\" must have a sub selection.", found.kind);
                Err(QueryError::at(field.at, text))
            }
            (false, false) => {
                let text =
                    format!("Field \"{name}\" of type \"{}\" must not have a sub selection.", found.kind);
                Err(QueryError::at(field.at, text))
            }
            (true, false) => self.selections(&field.selections, bare(found.kind)),
            (false, true) => Ok(()),
        }
    }

    fn directives(&self, directives: &[Directive]) -> Result<(), QueryError> {
        for directive in directives {
            let name = &directive.name;
            if !DIRECTIVES.iter().any(|known| known.name == *name) {
                return Err(QueryError::at(directive.at, format!("Unknown directive \"{name}\".")));
            }
            self.arguments(&directive.arguments, CONDITION, directive.at, |argument| {
                format!("Unknown argument \"{argument}\" on directive \"@{name}\".")
            })?;
            if let Some(missing) = missing(&directive.arguments, CONDITION) {
                let text = format!(
                    "Directive \"@{name}\" argument \"{}\" of type \"{}\" is required but not provided.",
                    missing.name, missing.kind
                );
                return Err(QueryError::at(directive.at, text));
            }
        }
        Ok(())
    }

    fn arguments(
        &self,
        given: &[(String, Value)],
        known: &[Argument],
        at: Position,
        unknown: impl Fn(&str) -> String,
    ) -> Result<(), QueryError> {
        for (name, value) in given {
            let Some(argument) = known.iter().find(|known| known.name == name) else {
                return Err(QueryError::at(at, unknown(name)));
            };
            if let Value::Variable(variable) = value {
                if !self.variables.contains(variable.as_str()) {
                    return Err(QueryError::at(at, format!("Variable \"${variable}\" is not defined.")));
                }
            } else if !fits(value, argument.kind) {
                let text = format!(
                    "Argument \"{name}\" has an invalid value.\nExpected type \"{}\".",
                    argument.kind
                );
                return Err(QueryError::at(at, text));
            }
        }
        Ok(())
    }
}

/// Rejects fragments that spread themselves, or chains of them that are too deep for the stack.
fn check_cycles(document: &Document) -> Result<(), QueryError> {
    let uses = |(name, fragment): (&'_ String, &'_ Fragment)| (name.clone(), spreads(&fragment.selections));
    let mut left: BTreeMap<String, Vec<(String, Position)>> = document.fragments.iter().map(uses).collect();
    for _ in 0..NESTING_MAX {
        let uses_others = |uses: &[(String, Position)]| uses.iter().any(|(name, _)| left.contains_key(name));
        let done: Vec<String> =
            left.iter().filter(|(_, uses)| !uses_others(uses)).map(|(name, _)| name.clone()).collect();
        if done.is_empty() {
            break;
        }
        left.retain(|name, _| !done.contains(name));
    }
    let Some((mut name, _)) = left.first_key_value() else { return Ok(()) };
    let mut passed = BTreeSet::new();
    while passed.insert(name) {
        let next = left.get(name).into_iter().flatten().find(|(next, _)| left.contains_key(next));
        let Some((next, at)) = next else {
            return Err(QueryError::plain(format!("query exceeds maximum depth of {DEPTH_MAX}")));
        };
        if passed.contains(next) {
            return Err(QueryError::at(*at, format!("Cannot spread fragment \"{next}\" within itself.")));
        }
        name = next;
    }
    Ok(())
}

/// The fragments that selections spread, at any depth.
fn spreads(selections: &[Selection]) -> Vec<(String, Position)> {
    let mut found = Vec::new();
    for selection in selections {
        match selection {
            Selection::Field(Field { selections, .. }) | Selection::Inline { selections, .. } => {
                found.extend(spreads(selections));
            }
            Selection::Spread { name, at, .. } => found.push((name.clone(), *at)),
        }
    }
    found
}

fn missing<'a>(given: &[(String, Value)], known: &'a [Argument]) -> Option<&'a Argument> {
    let is_given = |argument: &Argument| given.iter().any(|(name, _)| name == argument.name);
    known.iter().find(|argument| argument.kind.ends_with('!') && !is_given(argument))
}

/// Whether a literal has the type.
fn fits(value: &Value, kind: &str) -> bool {
    match (value, bare(kind)) {
        (Value::Null, _) => !kind.ends_with('!'),
        (Value::Integer(text), "Int") => text.parse::<i32>().is_ok(),
        (Value::String(_), "String") | (Value::Boolean(_), "Boolean") => true,
        _ => false,
    }
}
