//! What becomes of stored objects when their definition is replaced by another.

use std::{collections::BTreeSet, fmt};

use serde_json::{Value, json};
use thiserror::Error;

use crate::{Judgement, Note, Schema, SchemaError, Verdict};

/// A definition and what is to replace it, for the objects that are read at one version.
#[derive(Debug)]
pub struct Upgrade {
    version: String,
    old: Schema,
    new: Vec<Schema>,
}

/// Why nothing can be said of the objects.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UpgradeError {
    /// Objects can be read at no version.
    #[error("no version of them is served")]
    NotServed,
    /// What a webhook would make of the objects with the new definition cannot be known.
    #[error("undecided: a conversion webhook stands between")]
    ConversionWebhook,
    /// A schema cannot be used.
    #[error("undecided: {0}")]
    Schema(#[from] SchemaError),
}

/// What becomes of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    /// What the new schema refuses.
    pub violations: Vec<Note>,
    /// Whether the old schema refuses it as well.
    pub invalid_already: bool,
    /// What of the new schema could not be evaluated; only where it refuses nothing.
    pub undecided: Vec<Note>,
    /// Fields that the new schema drops and the old one does not.
    pub lost: Vec<String>,
}

/// How many objects become what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// All that were looked at.
    pub seen: usize,
    /// Those that become invalid.
    pub broken: usize,
    /// Those that are invalid before and afterwards.
    pub invalid_already: usize,
    /// Those that lose fields.
    pub losing: usize,
    /// Those of which it cannot be said whether they stay valid.
    pub undecided: usize,
}

impl Upgrade {
    /// Prepares for the replacement of `old` by `new`, both as JSON in the form of `apiextensions.k8s.io/v1`;
    /// `versions` are those whose changes matter.
    ///
    /// # Errors
    /// Nothing can be said of the objects.
    pub fn of(old: &Value, new: &Value, versions: &[String]) -> Result<Self, UpgradeError> {
        let listed = old.pointer("/spec/versions").and_then(Value::as_array);
        let served: Vec<&Value> = listed.into_iter().flatten().filter(|v| v["served"] == true).collect();
        let storage = served.iter().find(|v| v["storage"] == true).or(served.first());
        let version = storage.and_then(|v| v["name"].as_str()).ok_or(UpgradeError::NotServed)?.to_owned();
        let is_webhook = |crd: &Value| crd["spec"]["conversion"]["strategy"] == "Webhook";
        if is_webhook(old) || is_webhook(new) {
            let stored = &old["status"]["storedVersions"];
            let alone = stored.is_null() || *stored == json!([version]);
            if !alone || versions != [version.as_str()] {
                return Err(UpgradeError::ConversionWebhook);
            }
        }
        // That a version is gone is a matter of its own.
        let has = |name: &&String| {
            let listed = new.pointer("/spec/versions").and_then(Value::as_array);
            listed.into_iter().flatten().any(|v| v["name"] == name.as_str())
        };
        let new = versions.iter().filter(has).map(|name| Schema::of(new, name)).collect::<Result<_, _>>()?;
        Ok(Self { old: Schema::of(old, &version)?, version, new })
    }

    /// The version at which objects are to be read.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What becomes of an object that was read at [`Self::version`].
    pub fn fate(&self, object: &Value) -> Fate {
        let before = self.old.judge(object);
        let after: Vec<Judgement> = self.new.iter().map(|schema| schema.judge(object)).collect();
        let known: BTreeSet<&String> = before.dropped.iter().collect();
        let lost = after.iter().flat_map(|judged| &judged.dropped).filter(|path| !known.contains(path));
        let mut fate = Fate { lost: lost.cloned().collect(), ..Fate::default() };
        if let Some(refused) = after.iter().find(|judged| judged.verdict() == Verdict::Invalid) {
            fate.violations.clone_from(&refused.violations);
            fate.invalid_already = before.verdict() == Verdict::Invalid;
        } else if let Some(open) = after.iter().find(|judged| judged.verdict() == Verdict::Undecided) {
            fate.undecided.clone_from(&open.undecided);
        }
        fate.lost.sort_unstable();
        fate.lost.dedup();
        fate
    }
}

impl Fates {
    /// Counts one more object.
    pub fn count(&mut self, fate: &Fate) {
        self.seen += 1;
        let is_invalid = !fate.violations.is_empty();
        self.broken += usize::from(is_invalid && !fate.invalid_already);
        self.invalid_already += usize::from(is_invalid && fate.invalid_already);
        self.losing += usize::from(!fate.lost.is_empty());
        self.undecided += usize::from(!fate.undecided.is_empty());
    }
}

impl fmt::Display for Fates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seen, broken, invalid_already, losing, undecided } = *self;
        let objects = if seen == 1 { "object" } else { "objects" };
        match (seen, broken) {
            (0, _) => return f.write_str("there are no objects"),
            (_, 0) if undecided > 0 => write!(f, "undecided for {undecided} of {seen} {objects}")?,
            (_, 0) => write!(f, "none of {seen} {objects} would become invalid")?,
            _ => write!(f, "{broken} of {seen} {objects} would become invalid")?,
        }
        if broken > 0 && undecided > 0 {
            write!(f, ", undecided for {undecided}")?;
        }
        if losing > 0 {
            write!(f, ", {losing} would lose fields")?;
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

    use super::{Fates, Upgrade, UpgradeError};

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

    fn fates(old: &Value, new: &Value, specs: &[Value]) -> String {
        let upgrade = Upgrade::of(&definition(old), &definition(new), &["v1".to_owned()]).unwrap();
        assert_eq!(upgrade.version(), "v1");
        let mut fates = Fates::default();
        for spec in specs {
            fates.count(&upgrade.fate(&json!({"metadata": {}, "spec": spec})));
        }
        fates.to_string()
    }

    #[test]
    fn objects_are_counted_by_what_becomes_of_them() {
        let object = |size: Value| json!({"type": "object", "properties": {"size": size}});
        let loose = object(json!({"type": "integer", "maximum": 9}));
        let specs = [json!({"size": 1}), json!({"size": 5}), json!({"size": 20}), json!({})];
        let tight = object(json!({"type": "integer", "maximum": 3}));
        assert_eq!(fates(&loose, &tight, &specs), "1 of 4 objects would become invalid, 1 invalid already");
        assert_eq!(fates(&loose, &tight, &[json!({"size": 2})]), "none of 1 object would become invalid");
        assert_eq!(fates(&loose, &tight, &[]), "there are no objects");
        let renamed = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
        let lost = "none of 4 objects would become invalid, 3 would lose fields";
        assert_eq!(fates(&loose, &renamed, &specs), lost);
        let unclear =
            object(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "isURL(string(self))"}]}));
        assert_eq!(fates(&loose, &unclear, &specs), "undecided for 3 of 4 objects");
    }

    #[test]
    fn a_webhook_between_versions_makes_it_undecided() {
        let mut old = definition(&json!({"type": "object"}));
        let new = old.clone();
        let of = |old: &Value, versions: &[&str]| {
            let versions: Vec<String> = versions.iter().map(|v| (*v).to_owned()).collect();
            Upgrade::of(old, &new, &versions).map(|upgrade| upgrade.version)
        };
        assert_eq!(of(&old, &["v1", "v2"]).unwrap(), "v1");
        old["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(of(&old, &["v1"]).unwrap(), "v1");
        assert_eq!(of(&old, &["v1", "v2"]), Err(UpgradeError::ConversionWebhook));
        old["status"]["storedVersions"] = json!(["v1", "v1beta1"]);
        assert_eq!(of(&old, &["v1"]), Err(UpgradeError::ConversionWebhook));
        old["spec"]["versions"][0]["served"] = false.into();
        assert_eq!(of(&old, &["v1"]), Err(UpgradeError::NotServed));
    }
}
