//! The members of a definition that are used here.
//!
//! Group, names and printer columns are ignored, as crdify ignores them; members that the v1 API does not have are
//! ignored as well, as its decoder drops them.

use serde_json::{Map, Value};

use crate::{CrdError, limits::VERSIONS_MAX, schema::Reader};

/// A definition.
pub(crate) struct Definition<'a> {
    pub(crate) name: &'a str,
    /// `Namespaced` or `Cluster`.
    pub(crate) scope: &'a str,
    /// The versions in the order of the definition.
    pub(crate) versions: Vec<Version<'a>>,
    /// Versions at which objects may be stored, from the status.
    pub(crate) stored_versions: Vec<&'a str>,
    /// Whether a webhook converts between versions.
    pub(crate) webhook_conversion: bool,
    /// Whether the whole definition preserves unknown fields, as those of v1beta1 did.
    pub(crate) preserve_unknown_fields: bool,
}

/// One version of a definition.
pub(crate) struct Version<'a> {
    pub(crate) name: &'a str,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    /// The schema in the API's form; `None` if the version has none, which the API's types allow.
    pub(crate) schema: Option<Value>,
    pub(crate) subresources: Option<&'a Map<String, Value>>,
}

impl<'a> Definition<'a> {
    pub(crate) fn read(value: &'a Value) -> Result<Self, CrdError> {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let root = Object { definition: name, path: String::new(), members: value.as_object() };
        root.required("the document")?;
        let (spec, status) = (root.object("spec")?, root.object("status")?);
        spec.required(".spec")?;
        let versions = spec.list("versions")?;
        if versions.len() > VERSIONS_MAX {
            return Err(CrdError::TooLarge {
                name: name.to_owned(),
                at: ".spec.versions".to_owned(),
                limit: VERSIONS_MAX,
                unit: "elements",
            });
        }
        let texts = |list: &'a Vec<Value>| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
        Ok(Self {
            name,
            scope: spec.text("scope")?,
            versions: versions
                .iter()
                .enumerate()
                .map(|(index, version)| Version::read(name, version, index))
                .collect::<Result<_, _>>()?,
            stored_versions: status
                .get("storedVersions", "a list of strings", |value| value.as_array().and_then(texts))?
                .unwrap_or_default(),
            webhook_conversion: spec.object("conversion")?.text("strategy")? == "Webhook",
            preserve_unknown_fields: spec.flag("preserveUnknownFields")?,
        })
    }

    /// The version of that name; the first, should there be several.
    pub(crate) fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }
}

impl<'a> Version<'a> {
    fn read(definition: &'a str, value: &'a Value, index: usize) -> Result<Self, CrdError> {
        let path = format!(".spec.versions[{index}]");
        let version = Object { definition, path, members: value.as_object() };
        version.required(&version.path)?;
        let name = version.text("name")?;
        let schema = version.object("schema")?.get("openAPIV3Schema", "an object", Some)?;
        Ok(Self {
            name,
            served: version.flag("served")?,
            storage: version.flag("storage")?,
            schema: schema.map(|schema| Reader::new(definition, name).schema(schema)).transpose()?,
            subresources: version.object("subresources")?.members,
        })
    }
}

/// An object of a definition; null and absent members are the same, as in the API.
struct Object<'a> {
    definition: &'a str,
    path: String,
    members: Option<&'a Map<String, Value>>,
}

impl<'a> Object<'a> {
    fn get<T>(
        &self,
        member: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, CrdError> {
        let value = self.members.and_then(|members| members.get(member)).filter(|value| !value.is_null());
        let malformed = || self.malformed(format!("{}.{member}", self.path), expected);
        value.map(|value| read(value).ok_or_else(malformed)).transpose()
    }

    fn text(&self, member: &str) -> Result<&'a str, CrdError> {
        Ok(self.get(member, "a string", Value::as_str)?.unwrap_or_default())
    }

    fn flag(&self, member: &str) -> Result<bool, CrdError> {
        Ok(self.get(member, "a boolean", Value::as_bool)?.unwrap_or_default())
    }

    fn list(&self, member: &str) -> Result<&'a [Value], CrdError> {
        Ok(self.get(member, "a list", Value::as_array)?.map_or(&[], Vec::as_slice))
    }

    fn object(&self, member: &str) -> Result<Self, CrdError> {
        let members = self.get(member, "an object", Value::as_object)?;
        Ok(Self { definition: self.definition, path: format!("{}.{member}", self.path), members })
    }

    /// Fails if the object itself, called `at`, is absent.
    fn required(&self, at: &str) -> Result<(), CrdError> {
        self.members.map(drop).ok_or_else(|| self.malformed(at.to_owned(), "an object"))
    }

    fn malformed(&self, at: String, expected: &'static str) -> CrdError {
        CrdError::Malformed { name: self.definition.to_owned(), at, expected }
    }
}
