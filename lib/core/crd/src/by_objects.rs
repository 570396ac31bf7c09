//! Whether the stored objects can decide about a change that is refused.
//!
//! They can if all that is refused is a danger to them. They are then read at each version whose schema changes, and
//! validated under the new schema of that version.

use serde_json::Value;
use thiserror::Error;

use crate::{Finding, Report, Upgrade, UpgradeError, change::Danger, definition::Definition};

/// The reason why stored objects cannot decide about a change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotByObjects {
    /// More than objects is in danger.
    #[error("{0} is no danger to stored objects only")]
    Structural(String),
    /// The new definition converts between versions in another way.
    #[error("the conversion between versions changes from {old} to {new}")]
    Conversion {
        /// The strategy of the live definition.
        old: &'static str,
        /// That of the new one.
        new: &'static str,
    },
    /// Objects are to be stored at another version.
    #[error("the storage version changes from {old} to {new}")]
    StorageVersion {
        /// The version of the live definition.
        old: String,
        /// That of the new one.
        new: String,
    },
    /// Objects that the change is about cannot be read.
    #[error("objects that are stored at version {0} cannot be read at it, because it is not served")]
    NotServed(String),
    /// The impact on objects is unknown.
    #[error(transparent)]
    Unknown(#[from] UpgradeError),
}

/// What to validate stored objects with before `old` is replaced by `new`, one for each version at which they are to be
/// read; `report` has what is refused of the change.
///
/// # Errors
/// The objects cannot decide.
pub fn by_objects(old: &Value, new: &Value, report: &Report) -> Result<Vec<Upgrade>, NotByObjects> {
    if let Some(finding) = report.refused().find(|finding| finding.danger() == Danger::Structural) {
        return Err(NotByObjects::Structural(shown(finding)));
    }
    let read = |value| Definition::read(value).map_err(UpgradeError::from);
    let (old, new) = (read(old)?, read(new)?);
    let strategy = |of: &Definition<'_>| if of.webhook_conversion { "Webhook" } else { "None" };
    if old.webhook_conversion != new.webhook_conversion {
        return Err(NotByObjects::Conversion { old: strategy(&old), new: strategy(&new) });
    }
    let storage = |of: &Definition<'_>| {
        of.versions.iter().find(|version| version.storage).map_or("", |version| version.name).to_owned()
    };
    let (old_storage, new_storage) = (storage(&old), storage(&new));
    if old_storage != new_storage {
        return Err(NotByObjects::StorageVersion { old: old_storage, new: new_storage });
    }
    let versions: Vec<String> = report.versions_refused().into_iter().collect();
    let is_alone = old.stored_versions.iter().all(|stored| *stored == old_storage);
    if old.webhook_conversion && (!is_alone || versions != [old_storage]) {
        return Err(UpgradeError::ConversionWebhook.into());
    }
    let mut upgrades = Vec::new();
    for version in &versions {
        if old.version(version).is_some_and(|old| old.served) {
            upgrades.push(Upgrade::read_at(&old, &new, version, std::slice::from_ref(version))?);
        } else if old.stored_versions.is_empty() || old.stored_versions.contains(&version.as_str()) {
            return Err(NotByObjects::NotServed(version.clone()));
        }
    }
    Ok(upgrades)
}

/// The finding without its values.
fn shown(finding: &Finding) -> String {
    let Finding { scope, path, check, .. } = finding;
    let scope = scope.to_string();
    if scope.is_empty() { format!("{check} of {path}") } else { format!("{check} of {path} ({scope})") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NotByObjects, by_objects};
    use crate::{Policy, UpgradeError, compare};

    fn version(name: &str, most: u8, served: bool, storage: bool) -> Value {
        json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"size": {"type": "integer", "maximum": most}}}}})
    }

    fn definition(scope: &str, versions: &[Value], stored: &[&str]) -> Value {
        json!({"metadata": {"name": "a.b"}, "spec": {"scope": scope, "versions": versions},
            "status": {"storedVersions": stored}})
    }

    fn decide(old: &Value, new: &Value) -> Result<Vec<String>, NotByObjects> {
        let report = compare(old, new, Policy::Ours).unwrap();
        assert!(report.is_refused());
        let upgrades = by_objects(old, new, &report)?;
        Ok(upgrades.iter().map(|upgrade| upgrade.version().to_owned()).collect())
    }

    #[test]
    fn objects_are_read_at_each_version_that_changes() {
        let old =
            [version("v1", 9, true, true), version("v2", 9, true, false), version("v0", 9, false, false)];
        let new =
            [version("v1", 3, true, true), version("v2", 3, true, false), version("v0", 3, false, false)];
        let new = definition("Cluster", &new, &[]);
        assert_eq!(decide(&definition("Cluster", &old, &["v1"]), &new).unwrap(), ["v1", "v2"]);
        let not_served = Err(NotByObjects::NotServed("v0".to_owned()));
        assert_eq!(decide(&definition("Cluster", &old, &["v0", "v1"]), &new), not_served);
        assert_eq!(decide(&definition("Cluster", &old, &[]), &new), not_served);
    }

    #[test]
    fn structural_changes_are_not_decided_by_objects() {
        let one = |most, name: &str| version(name, most, true, true);
        let old = definition("Cluster", &[one(9, "v1")], &["v1"]);
        let structural = |new: &Value| matches!(decide(&old, new), Err(NotByObjects::Structural(_)));
        assert!(structural(&definition("Namespaced", &[one(9, "v1")], &[])));
        assert!(structural(&definition("Cluster", &[one(9, "v2")], &[])));
        // What is served side by side and differs is a danger to what will be written.
        assert!(structural(&definition("Cluster", &[one(9, "v1"), version("v2", 3, true, false)], &[])));
        let mut webhook = definition("Cluster", &[one(3, "v1")], &[]);
        assert_eq!(decide(&old, &webhook).unwrap(), ["v1"]);
        webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
        let changed = NotByObjects::Conversion { old: "None", new: "Webhook" };
        assert_eq!(decide(&old, &webhook), Err(changed));
        let both = [version("v1", 9, true, true), version("v2", 9, true, false)];
        let mut old = definition("Cluster", &both, &["v1"]);
        let new = definition("Cluster", &[version("v1", 3, true, false), version("v2", 3, true, true)], &[]);
        let moved = NotByObjects::StorageVersion { old: "v1".into(), new: "v2".into() };
        assert_eq!(decide(&old, &new), Err(moved));
        old["spec"]["conversion"] = json!({"strategy": "Webhook"});
        let mut new =
            definition("Cluster", &[version("v1", 3, true, true), version("v2", 3, true, false)], &[]);
        new["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(decide(&old, &new), Err(NotByObjects::Unknown(UpgradeError::ConversionWebhook)));
    }
}
