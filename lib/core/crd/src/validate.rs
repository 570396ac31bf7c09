//! Validates custom resources against the schema of their definition, as the API server does.
//!
//! The server knows only the definition it has. Before a definition is replaced, [`Schema`] predicts how the server
//! will treat stored objects afterwards: unknown fields are dropped, defaults filled in, types, limits and formats
//! checked, and validation rules evaluated with a budget. A schema that is not understood makes an object
//! [`Tristate::Undecided`](crate::Tristate::Undecided), never valid or invalid.
//!
//! Objects are not converted between versions, and their own metadata is not checked: that of stored objects is valid.
//! Imitated: k8s.io/apiextensions-apiserver `pkg/apiserver/schema` (`defaulting`, `pruning`, `listtype`,
//! `objectmeta`, `cel`) and k8s.io/kube-openapi `pkg/validation`.

mod constraints;
mod embedded;
mod number;
pub(crate) mod prune;
mod rules;
mod scale_subresource;
#[cfg(test)]
mod tests;
mod typing;
mod unique;
pub(crate) mod validation;

use olm_cel::Budget;
use serde_json::{Map, Value};

pub use validation::{Note, Tristate, Validation};

use crate::{
    CrdError,
    definition::Definition,
    limits::{DEFAULTS_MAX, OBJECT_STEPS_MAX, VALIDATION_STEPS_MAX},
    schema::{self, Node, not_structural},
};
use scale_subresource::Scale;
use validation::Path;

/// The schema of one version of a definition.
#[derive(Debug)]
pub struct Schema {
    pub(crate) root: Node,
    scale: Scale,
}

impl Schema {
    /// Reads the schema of `version` in a definition. A version without a schema has an empty one.
    ///
    /// # Errors
    /// There is no such version, or the API server does not accept its schema.
    pub fn read(definition: &Value, version: &str) -> Result<Self, CrdError> {
        Self::of_version(&Definition::read(definition)?, version)
    }

    pub(crate) fn of_version(definition: &Definition<'_>, version: &str) -> Result<Self, CrdError> {
        let name = definition.name.to_owned();
        if definition.preserve_unknown_fields {
            return Err(CrdError::NotStructural {
                name,
                at: "spec".to_owned(),
                member: "preserveUnknownFields",
            });
        }
        let Some(version) = definition.version(version) else {
            return Err(CrdError::NoVersion { name, version: version.to_owned() });
        };
        let root = version.schema.clone().unwrap_or_else(|| Value::Object(Map::new()));
        let mut fault = None;
        schema::visit(&mut "^".to_owned(), &root, None, &mut |path, schema, _| {
            let found = not_structural(schema).map(|member| (path.to_owned(), member));
            fault = fault.take().or(found);
        });
        if let Some((path, member)) = fault {
            let at = format!("{path} in version {}", version.name);
            return Err(CrdError::NotStructural { name, at, member });
        }
        Ok(Self { root: Node::root(&root), scale: Scale::read(version.subresources) })
    }

    /// Predicts the API server's answer if `object` were created now.
    pub fn validate(&self, object: &Value) -> Validation {
        let mut path = Path::default();
        let mut validation = Validation::default();
        let Some(object) = self.completed(object, &mut validation) else { return validation };
        let mut budget = Budget::new(VALIDATION_STEPS_MAX);
        validation.add(constraints::check(&object, &self.root, &mut path, &mut budget));
        self.scale.check(&object, &mut validation);
        each_described(&object, &self.root, &mut path, &mut |value, node, path| {
            embedded::check(value, node, path, &mut validation);
            unique::check(value, node, path, &mut validation);
        });
        // The server, too, evaluates rules only on objects without other violations.
        if validation.violations.is_empty() {
            let mut budget = Budget::new(OBJECT_STEPS_MAX);
            rules::check(&object, &self.root, &self.root, &mut path, &mut budget, &mut validation);
        }
        validation
    }
}

impl Schema {
    /// The object with defaults, without unknown fields and nulls, as the API server reads it from storage; what it drops
    /// is noted. `None` if defaults add too much, which is noted as well.
    pub(crate) fn completed(&self, object: &Value, validation: &mut Validation) -> Option<Value> {
        let mut object = object.clone();
        let mut defaults_left = DEFAULTS_MAX;
        if prune::add_defaults(&mut object, &self.root, &mut defaults_left).is_err() {
            validation.doubt("", format!("defaults add more than {DEFAULTS_MAX} values"));
            return None;
        }
        prune::prune(&mut object, Some(&self.root), false, &mut Path::default(), validation);
        prune::remove_nulls(&mut object, Some(&self.root));
        Some(object)
    }
}

/// Calls `check` with the value and with all values inside it that the schema describes.
fn each_described(
    value: &Value,
    node: &Node,
    path: &mut Path,
    check: &mut dyn FnMut(&Value, &Node, &mut Path),
) {
    check(value, node, path);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(below) = node.child(name) {
                    path.field(name, |path| each_described(value, below, path, check));
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                path.element(index, |path| each_described(item, below, path, check));
            }
        }
        _ => {}
    }
}
