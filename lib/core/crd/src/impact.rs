//! The impact on stored objects when their definition is replaced by another.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::{CrdError, Note, Schema, Tristate, Validation, definition::Definition, reading};

/// The replacement of a definition by another, for the objects that are read at one version.
#[derive(Debug)]
pub struct Upgrade {
    version: String,
    old: Schema,
    new: Vec<Schema>,
}

/// The reason why the impact on objects is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UpgradeError {
    /// Objects can be read at no version.
    #[error("the definition serves no version of them")]
    NotServed,
    /// The result of the new definition's conversion webhook cannot be known.
    #[error("undecided: a conversion webhook converts them between versions")]
    ConversionWebhook,
    /// A schema cannot be read.
    #[error("undecided: {0}")]
    Schema(#[from] CrdError),
}

/// The impact on one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectImpact {
    /// Violations of the new schema.
    pub violations: Vec<Note>,
    /// Whether the object violates the old schema as well.
    pub invalid_already: bool,
    /// Parts of the new schema that could not be evaluated; only where there are no violations.
    pub undecided: Vec<Note>,
    /// Fields that the new schema drops and the old one does not.
    pub lost: Vec<String>,
    /// Fields that are read with another value afterwards, or may be: of a value that is the default it is unknown
    /// whether it is stored.
    pub changed: Vec<String>,
}

/// The impact on all objects: numbers of objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UpgradeImpact {
    /// All objects that were validated.
    pub seen: usize,
    /// Those that become invalid.
    pub broken: usize,
    /// Those that are invalid before and afterwards.
    pub invalid_already: usize,
    /// Those that lose fields.
    pub losing: usize,
    /// Those that are read with other values.
    pub changed: usize,
    /// Those that may or may not stay valid.
    pub undecided: usize,
}

impl ObjectImpact {
    /// Whether the object is valid afterwards and is read as before.
    pub fn is_harmless(&self) -> bool {
        let Self { violations, invalid_already: _, undecided, lost, changed } = self;
        violations.is_empty() && undecided.is_empty() && lost.is_empty() && changed.is_empty()
    }
}

impl Upgrade {
    /// Prepares for the replacement of `old` by `new`, both as JSON in the form of `apiextensions.k8s.io/v1`;
    /// `versions` are those whose changes matter.
    ///
    /// # Errors
    /// The impact on objects is unknown.
    pub fn new(old: &Value, new: &Value, versions: &[String]) -> Result<Self, UpgradeError> {
        let (old, new) = (Definition::read(old)?, Definition::read(new)?);
        let served = || old.versions.iter().filter(|version| version.served);
        let storage = served().find(|version| version.storage).or_else(|| served().next());
        let version = storage.ok_or(UpgradeError::NotServed)?.name;
        if old.webhook_conversion || new.webhook_conversion {
            let is_alone = old.stored_versions.iter().all(|stored| *stored == version);
            if !is_alone || versions != [version] {
                return Err(UpgradeError::ConversionWebhook);
            }
        }
        Self::read_at(&old, &new, version, versions)
    }

    /// For objects that are read at `version`, which the old definition serves.
    pub(crate) fn read_at(
        old: &Definition<'_>,
        new: &Definition<'_>,
        version: &str,
        versions: &[String],
    ) -> Result<Self, UpgradeError> {
        // A version that the new definition does not have is a finding of its own.
        let kept = versions.iter().filter(|name| new.version(name).is_some());
        let schemas = kept.map(|name| Schema::of_version(new, name)).collect::<Result<_, _>>()?;
        Ok(Self { old: Schema::of_version(old, version)?, version: version.to_owned(), new: schemas })
    }

    /// The version at which objects are to be read.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The impact on an object that was read at [`Self::version`].
    pub fn impact_on(&self, object: &Value) -> ObjectImpact {
        let before = self.old.validate(object);
        let after: Vec<Validation> = self.new.iter().map(|schema| schema.validate(object)).collect();
        let known: BTreeSet<&String> = before.dropped.iter().collect();
        let lost =
            after.iter().flat_map(|validation| &validation.dropped).filter(|path| !known.contains(path));
        let changed = self.new.iter().flat_map(|new| reading::changed(&self.old, new, object)).collect();
        let mut impact = ObjectImpact { lost: lost.cloned().collect(), changed, ..ObjectImpact::default() };
        let first = |answer| after.iter().find(|validation| validation.is_valid() == answer);
        if let Some(invalid) = first(Tristate::No) {
            impact.violations.clone_from(&invalid.violations);
            impact.invalid_already = before.is_valid() == Tristate::No;
        } else if let Some(undecided) = first(Tristate::Undecided) {
            impact.undecided.clone_from(&undecided.undecided);
        }
        for fields in [&mut impact.lost, &mut impact.changed] {
            fields.sort_unstable();
            fields.dedup();
        }
        impact.changed.retain(|path| impact.lost.binary_search(path).is_err());
        impact
    }
}

impl UpgradeImpact {
    /// Counts one more object.
    pub fn add(&mut self, impact: &ObjectImpact) {
        self.seen += 1;
        let is_invalid = !impact.violations.is_empty();
        self.broken += usize::from(is_invalid && !impact.invalid_already);
        self.invalid_already += usize::from(is_invalid && impact.invalid_already);
        self.losing += usize::from(!impact.lost.is_empty());
        self.changed += usize::from(!impact.changed.is_empty());
        self.undecided += usize::from(!impact.undecided.is_empty());
    }

    /// Whether every object is valid afterwards and is read as before.
    pub fn is_harmless(&self) -> bool {
        let Self { seen: _, broken, invalid_already, losing, changed, undecided } = *self;
        [broken, invalid_already, losing, changed, undecided] == [0; 5]
    }
}

impl fmt::Display for UpgradeImpact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seen, broken, invalid_already, losing, changed, undecided } = *self;
        let objects = if seen == 1 { "object" } else { "objects" };
        match (seen, broken) {
            (0, _) => return f.write_str("there are no objects"),
            (_, 0) if undecided > 0 => write!(f, "undecided for {undecided} of {seen} {objects}")?,
            (_, 0) => write!(f, "{seen} {objects} checked, none would become invalid")?,
            _ => write!(f, "{broken} of {seen} {objects} would become invalid")?,
        }
        if broken > 0 && undecided > 0 {
            write!(f, ", undecided for {undecided}")?;
        }
        if losing > 0 {
            write!(f, ", {losing} would lose fields")?;
        }
        if changed > 0 {
            write!(f, ", {changed} may be read with other values")?;
        }
        if invalid_already > 0 {
            write!(f, ", {invalid_already} invalid already")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Upgrade, UpgradeError, UpgradeImpact};

    fn definition(spec: &Value) -> Value {
        json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {"versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }]},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn impact(old: &Value, new: &Value, specs: &[Value]) -> String {
        let upgrade = Upgrade::new(&definition(old), &definition(new), &["v1".to_owned()]).unwrap();
        assert_eq!(upgrade.version(), "v1");
        let mut impact = UpgradeImpact::default();
        for spec in specs {
            impact.add(&upgrade.impact_on(&json!({"metadata": {}, "spec": spec})));
        }
        impact.to_string()
    }

    #[test]
    fn objects_are_counted_by_the_impact_on_them() {
        let object = |size: Value| json!({"type": "object", "properties": {"size": size}});
        let loose = object(json!({"type": "integer", "maximum": 9}));
        let specs = [json!({"size": 1}), json!({"size": 5}), json!({"size": 20}), json!({})];
        let tight = object(json!({"type": "integer", "maximum": 3}));
        assert_eq!(impact(&loose, &tight, &specs), "1 of 4 objects would become invalid, 1 invalid already");
        assert_eq!(
            impact(&loose, &tight, &[json!({"size": 2})]),
            "1 object checked, none would become invalid"
        );
        assert_eq!(impact(&loose, &tight, &[]), "there are no objects");
        let renamed = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
        let lost = "4 objects checked, none would become invalid, 3 would lose fields";
        assert_eq!(impact(&loose, &renamed, &specs), lost);
        let unclear =
            object(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "isURL(string(self))"}]}));
        assert_eq!(impact(&loose, &unclear, &specs), "undecided for 3 of 4 objects");
    }

    #[test]
    fn a_webhook_between_versions_makes_it_undecided() {
        let mut old = definition(&json!({"type": "object"}));
        let new = old.clone();
        let version = |old: &Value, versions: &[&str]| {
            let versions: Vec<String> = versions.iter().map(|v| (*v).to_owned()).collect();
            Upgrade::new(old, &new, &versions).map(|upgrade| upgrade.version)
        };
        assert_eq!(version(&old, &["v1", "v2"]).unwrap(), "v1");
        old["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(version(&old, &["v1"]).unwrap(), "v1");
        assert_eq!(version(&old, &["v1", "v2"]), Err(UpgradeError::ConversionWebhook));
        old["status"]["storedVersions"] = json!(["v1", "v1beta1"]);
        assert_eq!(version(&old, &["v1"]), Err(UpgradeError::ConversionWebhook));
        old["spec"]["versions"][0]["served"] = false.into();
        assert_eq!(version(&old, &["v1"]), Err(UpgradeError::NotServed));
    }
}
