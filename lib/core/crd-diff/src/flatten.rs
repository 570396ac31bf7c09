//! Walks two schemas side by side and names the places in them, as the original names them when it
//! flattens a schema into a map from path to schema.
//!
//! The root is `^`. The original's map has one entry where two members happen to have the same path
//! (a property `items` beside an `items` schema); here each is visited.

use std::fmt::Write;

use serde_json::Value;

use crate::{
    error::Misfit,
    limits::SCHEMA_DEPTH_MAX,
    schema::{Schema, element},
};

/// What the walk tells about a place that the old schema has: its path, the old schema there, and
/// the new one's, if it has the place.
pub(crate) type Visit<'v, 'a> = dyn FnMut(&str, &'a Schema, Option<&'a Schema>) -> Result<(), Misfit> + 'v;

/// Why a walk ended early, and where.
pub(crate) struct Stop {
    pub(crate) path: String,
    pub(crate) why: StopReason,
}

/// Why a walk ended early.
pub(crate) enum StopReason {
    /// A member has the wrong JSON type.
    Misfit(Misfit),
    /// Schemas are nested deeper than [`SCHEMA_DEPTH_MAX`].
    TooDeep,
}

/// Visits every place of `old`, parents first.
pub(crate) fn walk<'a>(
    old: &'a Schema,
    new: Option<&'a Schema>,
    visit: &mut Visit<'_, 'a>,
) -> Result<(), Stop> {
    let mut walker = Walker { path: "^".to_owned(), depth: 0, visit };
    walker.place(old, new).map_err(|why| Stop { path: walker.path, why })
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

/// The members with schemas, in the order in which the original descends.
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
    fn place(&mut self, old: &'a Schema, new: Option<&'a Schema>) -> Result<(), StopReason> {
        if self.depth == SCHEMA_DEPTH_MAX {
            return Err(StopReason::TooDeep);
        }
        (self.visit)(&self.path, old, new).map_err(StopReason::Misfit)?;
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
    ) -> Result<(), StopReason> {
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
        old: &'a Schema,
        new: Option<&'a Schema>,
        extend: impl FnOnce(&mut String),
    ) -> Result<(), StopReason> {
        let length = self.path.len();
        extend(&mut self.path);
        // On an error the path is left as it is: it says where.
        self.place(old, new)?;
        self.path.truncate(length);
        Ok(())
    }
}

fn misfit(member: &'static str, expected: &'static str) -> StopReason {
    StopReason::Misfit(Misfit::new(member, expected))
}
