//! Validates custom resources against the schema of their definition, as the API server does.
//!
//! The server knows only the definition it has. Before a definition is replaced, [`Schema`] tells for the
//! objects that are stored what the server would say of them afterwards: unknown fields are dropped,
//! defaults filled in, types, limits and forms checked, and validation rules evaluated with a budget. What
//! is not understood makes an object [`Verdict::Undecided`], never valid or invalid.
//!
//! The crate reads and writes nothing. It does not convert between versions, and it does not check the
//! metadata of the object itself, which stored objects have in order.

mod embedded;
mod error;
mod format;
mod limits;
mod lists;
mod node;
mod number;
mod outcome;
mod prune;
mod rules;
mod scale;
#[cfg(test)]
mod tests;
mod typing;
mod upgrade;
mod validate;

use olm_cel::Budget;
use serde_json::Value;

pub use error::SchemaError;
pub use limits::{
    DEFAULTS_MAX, DROPPED_MAX, OBJECT_STEPS_MAX, PATH_BYTES_MAX, SCHEMA_DEPTH_MAX, VALIDATION_STEPS_MAX,
    VIOLATIONS_MAX,
};
pub use outcome::{Judgement, Note, Verdict};
pub use upgrade::{Fate, Fates, Upgrade, UpgradeError};

use crate::{node::Node, outcome::Path, scale::Scale};

/// The schema of one version of a definition.
#[derive(Debug)]
pub struct Schema {
    root: Node,
    scale: Scale,
}

impl Schema {
    /// The schema of `version` in a definition, given as JSON in the form of `apiextensions.k8s.io/v1`.
    ///
    /// A version without a schema has an empty one.
    ///
    /// # Errors
    /// There is no such version, or its schema is none that the API server accepts.
    pub fn of(definition: &Value, version: &str) -> Result<Self, SchemaError> {
        let name =
            || definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
            return Err(SchemaError::NotStructural {
                at: "spec".to_owned(),
                member: "preserveUnknownFields",
            });
        }
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let named = versions
            .into_iter()
            .flatten()
            .find(|one| one.get("name").and_then(Value::as_str) == Some(version));
        let named =
            named.ok_or_else(|| SchemaError::NoVersion { name: name(), version: version.to_owned() })?;
        let root = Node::root(named.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null))?;
        Ok(Self { root, scale: Scale::of(named) })
    }

    /// What the API server would say if `object` were created now.
    pub fn judge(&self, object: &Value) -> Judgement {
        let mut object = object.clone();
        let mut path = Path::default();
        let mut found = Judgement::default();
        let mut defaults_left = DEFAULTS_MAX;
        if prune::fill_in(&mut object, &self.root, &mut defaults_left).is_err() {
            found.doubt("", format!("defaults add more than {DEFAULTS_MAX} values"));
            return found;
        }
        prune::prune(&mut object, Some(&self.root), &mut path, &mut found);
        prune::remove_nulls(&mut object, Some(&self.root));
        let mut budget = Budget::new(VALIDATION_STEPS_MAX);
        found.add(validate::validate(&object, &self.root, &mut path, &mut budget));
        self.scale.check(&object, &mut found);
        embedded::check(&object, &self.root, &mut path, &mut found);
        lists::check(&object, &self.root, &mut path, &mut found);
        // The server, too, evaluates rules only on objects that are in order so far.
        if found.violations.is_empty() {
            let mut budget = Budget::new(OBJECT_STEPS_MAX);
            rules::check(&object, &self.root, &self.root, &mut path, &mut budget, &mut found);
        }
        found
    }
}
