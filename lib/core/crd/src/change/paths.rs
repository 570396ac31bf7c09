//! Paths of the schemas within a schema, named as crdify names them (`pkg/validations`, `FlattenCRDVersion`).
//!
//! The root is `^`. crdify keeps one entry where two members have the same path (a property `items` beside an `items`
//! schema); here each is visited.

use std::fmt::Write;

use serde_json::Value;

use crate::{
    limits::SCHEMA_DEPTH_MAX,
    schema::{FaultCause, Members, Misfit, SchemaFault, element},
};

/// Called with a path of the old schema, the old schema there, and the new one if it has that path.
pub(crate) type Visit<'v, 'a> = dyn FnMut(&str, &'a Members, Option<&'a Members>) -> Result<(), Misfit> + 'v;

/// Visits every path of `old`, parents first.
pub(crate) fn visit<'a>(
    old: &'a Members,
    new: Option<&'a Members>,
    visit: &mut Visit<'_, 'a>,
) -> Result<(), SchemaFault> {
    let mut walker = Walker { path: "^".to_owned(), depth: 0, visit };
    walker.schema(old, new).map_err(|cause| SchemaFault { path: walker.path, cause })
}

struct Walker<'v, 'w, 'a> {
    path: String,
    depth: usize,
    visit: &'w mut Visit<'v, 'a>,
}

/// How the schemas of a member are named.
enum Form {
    /// A schema.
    One,
    /// A list of schemas, named by index.
    List,
    /// Either of the two.
    OneOrList,
    /// Schemas by name, each directly below the parent.
    Properties,
    /// Schemas by name, named with the member.
    Named,
}

/// The members with schemas, in the order in which crdify descends.
static BRANCHES: [(&str, Form); 11] = [
    ("items", Form::OneOrList),
    ("allOf", Form::List),
    ("anyOf", Form::List),
    ("oneOf", Form::List),
    ("not", Form::One),
    ("properties", Form::Properties),
    ("additionalProperties", Form::One),
    ("patternProperties", Form::Named),
    ("additionalItems", Form::One),
    ("definitions", Form::Named),
    ("dependencies", Form::Named),
];

impl<'a> Walker<'_, '_, 'a> {
    fn schema(&mut self, old: &'a Members, new: Option<&'a Members>) -> Result<(), FaultCause> {
        if self.depth == SCHEMA_DEPTH_MAX {
            return Err(FaultCause::TooDeep);
        }
        (self.visit)(&self.path, old, new)?;
        self.depth += 1;
        for (name, form) in &BRANCHES {
            if let Some(branch) = old.get(*name) {
                self.branch(name, form, branch, new.and_then(|new| new.get(*name)))?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn branch(
        &mut self,
        name: &'static str,
        form: &Form,
        old: &'a Value,
        new: Option<&'a Value>,
    ) -> Result<(), FaultCause> {
        match (form, old) {
            (_, Value::Null) | (Form::One, Value::Bool(_)) => Ok(()),
            (Form::One | Form::OneOrList, Value::Object(schema)) => {
                self.below(schema, new.and_then(Value::as_object), |path| {
                    path.push('.');
                    path.push_str(name);
                })
            }
            (Form::List | Form::OneOrList, Value::Array(schemas)) => {
                let new = new.and_then(Value::as_array);
                for (index, schema) in schemas.iter().enumerate() {
                    let schema = element(schema).ok_or_else(|| misfit(name, "a list of schemas"))?;
                    let new = new.and_then(|new| new.get(index)).and_then(element);
                    self.below(schema, new, |path| {
                        // Writing to a string cannot fail.
                        let _ = write!(path, ".{name}[{index}]");
                    })?;
                }
                Ok(())
            }
            (Form::Properties | Form::Named, Value::Object(schemas)) => {
                let new = new.and_then(Value::as_object);
                for (key, schema) in schemas {
                    if name == "dependencies" && !schema.is_object() {
                        // A list of names.
                        continue;
                    }
                    let schema = element(schema).ok_or_else(|| misfit(name, "an object of schemas"))?;
                    let new = new.and_then(|new| new.get(key)).and_then(element);
                    self.below(schema, new, |path| {
                        // Writing to a string cannot fail.
                        let _ = match form {
                            Form::Properties => write!(path, ".{key}"),
                            _ => write!(path, ".{name}[{key}]"),
                        };
                    })?;
                }
                Ok(())
            }
            (Form::One | Form::OneOrList, _) => Err(misfit(name, "a schema")),
            (Form::List, _) => Err(misfit(name, "a list of schemas")),
            (Form::Properties | Form::Named, _) => Err(misfit(name, "an object of schemas")),
        }
    }

    fn below(
        &mut self,
        old: &'a Members,
        new: Option<&'a Members>,
        extend: impl FnOnce(&mut String),
    ) -> Result<(), FaultCause> {
        let length = self.path.len();
        extend(&mut self.path);
        // On an error the path stays: it is part of the message.
        self.schema(old, new)?;
        self.path.truncate(length);
        Ok(())
    }
}

fn misfit(member: &str, expected: &'static str) -> FaultCause {
    Misfit::new(member, expected).into()
}
