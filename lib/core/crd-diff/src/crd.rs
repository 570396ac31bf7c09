//! The few members of a definition that comparisons look at, borrowed from its JSON.
//!
//! Group, names, printer columns, subresources and storage flags are not looked at, as in the
//! original; members that the v1 API does not have are passed over, as its decoder does.

use serde_json::{Map, Value};

use crate::{CrdError, limits::VERSIONS_MAX};

/// A definition.
pub(crate) struct Definition<'a> {
    /// `Namespaced` or `Cluster`.
    pub(crate) scope: &'a str,
    /// The versions in the order of the definition.
    pub(crate) versions: Vec<Version<'a>>,
    /// Versions at which objects may be stored, from the status.
    pub(crate) stored_versions: Vec<&'a str>,
    /// Whether a webhook converts between versions.
    pub(crate) webhook_conversion: bool,
}

/// One version of a definition.
pub(crate) struct Version<'a> {
    /// Name of the definition, for errors.
    pub(crate) definition: &'a str,
    pub(crate) name: &'a str,
    pub(crate) served: bool,
    /// Nothing if the version has no schema, which the original's types allow.
    pub(crate) schema: Option<&'a Map<String, Value>>,
}

impl<'a> Definition<'a> {
    pub(crate) fn read(value: &'a Value) -> Result<Self, CrdError> {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let reader = Reader { name };
        let root = reader.object(Some(value), "")?;
        let spec = reader.object(root.get("spec"), ".spec")?;
        let status = reader.optional_object(root.get("status"), ".status")?;
        let conversion = reader.optional_object(spec.get("conversion"), ".spec.conversion")?;
        let strategy = conversion.and_then(|conversion| conversion.get("strategy"));
        let mut versions = Vec::new();
        for (index, version) in reader.list(spec.get("versions"), ".spec.versions")?.iter().enumerate() {
            versions.push(reader.version(version, index)?);
        }
        if versions.len() > VERSIONS_MAX {
            return Err(CrdError::TooLarge {
                name: name.to_owned(),
                at: ".spec.versions".to_owned(),
                limit: VERSIONS_MAX,
                unit: "elements",
            });
        }
        let mut stored_versions = Vec::new();
        let stored = status.and_then(|status| status.get("storedVersions"));
        for version in reader.list(stored, ".status.storedVersions")? {
            stored_versions.push(reader.string(Some(version), ".status.storedVersions[]")?);
        }
        Ok(Self {
            scope: reader.string(spec.get("scope"), ".spec.scope")?,
            versions,
            stored_versions,
            webhook_conversion: reader.string(strategy, ".spec.conversion.strategy")? == "Webhook",
        })
    }

    /// The version of that name; the first, should there be several.
    pub(crate) fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }
}

/// Reads members and knows whose they are.
struct Reader<'a> {
    name: &'a str,
}

impl<'a> Reader<'a> {
    fn version(&self, value: &'a Value, index: usize) -> Result<Version<'a>, CrdError> {
        let at = format!(".spec.versions[{index}]");
        let version = self.object(Some(value), &at)?;
        let validation = self.optional_object(version.get("schema"), &format!("{at}.schema"))?;
        let schema = validation.and_then(|validation| validation.get("openAPIV3Schema"));
        let served = match version.get("served") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(served)) => *served,
            Some(_) => return Err(self.malformed(&format!("{at}.served"), "a boolean")),
        };
        Ok(Version {
            definition: self.name,
            name: self.string(version.get("name"), &format!("{at}.name"))?,
            served,
            schema: self.optional_object(schema, &format!("{at}.schema.openAPIV3Schema"))?,
        })
    }

    fn object(&self, value: Option<&'a Value>, at: &str) -> Result<&'a Map<String, Value>, CrdError> {
        self.optional_object(value, at)?.ok_or_else(|| self.malformed(at, "an object"))
    }

    fn optional_object(
        &self,
        value: Option<&'a Value>,
        at: &str,
    ) -> Result<Option<&'a Map<String, Value>>, CrdError> {
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.malformed(at, "an object")),
        }
    }

    fn list(&self, value: Option<&'a Value>, at: &str) -> Result<&'a [Value], CrdError> {
        match value {
            None | Some(Value::Null) => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.malformed(at, "a list")),
        }
    }

    /// A string; empty when absent, as in the API's types.
    fn string(&self, value: Option<&'a Value>, at: &str) -> Result<&'a str, CrdError> {
        match value {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(string)) => Ok(string),
            Some(_) => Err(self.malformed(at, "a string")),
        }
    }

    fn malformed(&self, at: &str, expected: &'static str) -> CrdError {
        CrdError::Malformed {
            name: self.name.to_owned(),
            at: if at.is_empty() { "the document".to_owned() } else { at.to_owned() },
            expected,
        }
    }
}
