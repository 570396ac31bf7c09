//! The members of a definition that are used here, borrowed from its JSON.
//!
//! Group, names and printer columns are ignored, as crdify ignores them; members that the v1 API does not have are
//! ignored as well, as its decoder drops them.

use serde_json::Value;

use crate::{
    CrdError,
    limits::VERSIONS_MAX,
    schema::{Members, Misfit, access},
};

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
    /// Whether the whole definition keeps unknown fields, as those of v1beta1 did.
    pub(crate) preserve_unknown_fields: bool,
}

/// One version of a definition.
pub(crate) struct Version<'a> {
    /// Name of the definition, for errors.
    pub(crate) definition: &'a str,
    pub(crate) name: &'a str,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    /// `None` if the version has no schema, which the API's types allow.
    pub(crate) schema: Option<&'a Members>,
    pub(crate) subresources: Option<&'a Members>,
}

impl<'a> Definition<'a> {
    pub(crate) fn read(value: &'a Value) -> Result<Self, CrdError> {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let definition = Self::members(name, value).map_err(|misfit| CrdError::Malformed {
            name: name.to_owned(),
            at: misfit.member,
            expected: misfit.expected,
        })?;
        if definition.versions.len() > VERSIONS_MAX {
            return Err(CrdError::TooLarge {
                name: name.to_owned(),
                at: ".spec.versions".to_owned(),
                limit: VERSIONS_MAX,
                unit: "elements",
            });
        }
        Ok(definition)
    }

    fn members(name: &'a str, value: &'a Value) -> Result<Self, Misfit> {
        let root = access::required_object(Some(value), "the document")?;
        let spec = access::required_object(root.get("spec"), ".spec")?;
        let status = access::object(root.get("status"), ".status")?;
        let conversion = access::object(spec.get("conversion"), ".spec.conversion")?;
        let strategy = conversion.and_then(|conversion| conversion.get("strategy"));
        let mut versions = Vec::new();
        for (index, version) in access::list(spec.get("versions"), ".spec.versions")?.iter().enumerate() {
            versions.push(Version::read(name, version, index)?);
        }
        let stored = status.and_then(|status| status.get("storedVersions"));
        Ok(Self {
            name,
            scope: access::text(spec.get("scope"), ".spec.scope")?,
            versions,
            stored_versions: access::texts(stored, ".status.storedVersions")?,
            webhook_conversion: access::text(strategy, ".spec.conversion.strategy")? == "Webhook",
            preserve_unknown_fields: access::flag(
                spec.get("preserveUnknownFields"),
                ".spec.preserveUnknownFields",
            )?,
        })
    }

    /// The version of that name; the first, should there be several.
    pub(crate) fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }
}

impl<'a> Version<'a> {
    fn read(definition: &'a str, value: &'a Value, index: usize) -> Result<Self, Misfit> {
        let at = format!(".spec.versions[{index}]");
        let version = access::required_object(Some(value), &at)?;
        let validation = access::object(version.get("schema"), &format!("{at}.schema"))?;
        let schema = validation.and_then(|validation| validation.get("openAPIV3Schema"));
        Ok(Self {
            definition,
            name: access::text(version.get("name"), &format!("{at}.name"))?,
            served: access::flag(version.get("served"), &format!("{at}.served"))?,
            storage: access::flag(version.get("storage"), &format!("{at}.storage"))?,
            schema: access::object(schema, &format!("{at}.schema.openAPIV3Schema"))?,
            subresources: access::object(version.get("subresources"), &format!("{at}.subresources"))?,
        })
    }
}
