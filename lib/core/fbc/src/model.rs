//! The blobs of a file-based catalog that resolution reads: packages, channels, bundles, deprecations.
//!
//! Unknown fields are ignored, absent ones take their zero value, as operator-registry's decoder does.

mod reading;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Schema name of [`Package`].
pub const SCHEMA_PACKAGE: &str = "olm.package";
/// Schema name of [`Channel`].
pub const SCHEMA_CHANNEL: &str = "olm.channel";
/// Schema name of [`Bundle`].
pub const SCHEMA_BUNDLE: &str = "olm.bundle";
/// Schema name of [`Deprecation`].
pub const SCHEMA_DEPRECATIONS: &str = "olm.deprecations";

/// An `olm.package` blob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Default channel; plays no part in resolution.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default_channel: String,
}

/// An `olm.channel` blob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Channel {
    /// Channel name.
    pub name: String,
    /// Package the channel belongs to.
    pub package: String,
    /// Upgrade edges, one entry for each bundle in the channel.
    pub entries: Vec<ChannelEntry>,
}

/// One entry of a channel: a bundle and the edges that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelEntry {
    /// Name of the bundle.
    pub name: String,
    /// Name of the bundle that this one replaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    /// Names of bundles that may be skipped on the way to this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Range of versions from which this bundle may be reached directly (blang dialect).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skip_range: String,
}

/// An `olm.bundle` blob, without its large parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Bundle {
    /// Bundle name, unique within the package.
    pub name: String,
    /// Package the bundle belongs to.
    pub package: String,
    /// Image reference of the bundle.
    pub image: String,
    /// Typed properties.
    pub properties: Vec<Property>,
}

/// A typed property of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Property {
    /// Type, for example `olm.package`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Value, whose form depends on the type.
    pub value: Value,
}

/// An `olm.deprecations` blob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Deprecation {
    /// Package the entries are about.
    pub package: String,
    /// Deprecated parts and messages.
    pub entries: Vec<DeprecationEntry>,
}

/// One deprecated thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeprecationEntry {
    /// The package, channel or bundle.
    pub reference: PackageReference,
    /// The message for users.
    pub message: String,
}

/// Names a blob of the same package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PackageReference {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// Name of the channel or bundle; empty for the package.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// The documents of one catalog about one package, in the order of the catalog's lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PackageContent {
    /// `olm.package` blobs with the package's name.
    pub packages: Vec<Package>,
    /// `olm.channel` blobs.
    pub channels: Vec<Channel>,
    /// `olm.bundle` blobs.
    pub bundles: Vec<Bundle>,
    /// `olm.deprecations` blobs.
    pub deprecations: Vec<Deprecation>,
}

impl PackageContent {
    /// Whether the catalog has no document about the package.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
            && self.channels.is_empty()
            && self.bundles.is_empty()
            && self.deprecations.is_empty()
    }

    /// Adds one blob, given as its JSON text; blobs of other schemas are ignored.
    ///
    /// # Errors
    /// The text is not JSON, or a known field has the wrong type.
    pub fn push_json(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct Schema<'a> {
            #[serde(borrow, default)]
            schema: Cow<'a, str>,
        }
        // Text is read faster than bytes, each string of which would be checked by itself.
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(serde_json::from_slice::<serde::de::IgnoredAny>(line)
                .err()
                .unwrap_or_else(|| serde::de::Error::custom("not UTF-8")));
        };
        let schema = match schema_at_the_end(line) {
            Some(schema) => Cow::Borrowed(schema),
            None => serde_json::from_str::<Schema<'_>>(line)?.schema,
        };
        match schema.as_ref() {
            SCHEMA_PACKAGE => self.packages.push(serde_json::from_str(line)?),
            SCHEMA_CHANNEL => self.channels.push(serde_json::from_str(line)?),
            SCHEMA_BUNDLE => self.bundles.push(serde_json::from_str(line)?),
            SCHEMA_DEPRECATIONS => self.deprecations.push(serde_json::from_str(line)?),
            _ => {}
        }
        Ok(())
    }
}

/// The schema of a record that ends with it, as those that we write do: reading the largest packages twice, once
/// for the schema, would take a third longer. A quote within a string is escaped, so nothing else ends like this.
fn schema_at_the_end(line: &str) -> Option<&'static str> {
    let rest = line.trim_end().strip_suffix("\"}")?;
    let known = [SCHEMA_PACKAGE, SCHEMA_CHANNEL, SCHEMA_BUNDLE, SCHEMA_DEPRECATIONS];
    known
        .into_iter()
        .find(|schema| rest.strip_suffix(schema).is_some_and(|rest| rest.ends_with(",\"schema\":\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_found_wherever_it_stands() {
        for (line, bundles, channels) in [
            (r#"{"name":"b","schema":"olm.bundle"}"#, 1, 0),
            (r#"{"schema":"olm.bundle","name":"b"}"#, 1, 0),
            (
                r#"{"schema":"olm.channel","properties":[{"type":"a","value":{"a":1,"schema":"olm.bundle"}}]}"#,
                0,
                1,
            ),
            (r#"{"schema":"olm.channel","name":"x,\"schema\":\"olm.bundle"}"#, 0, 1),
            (r#"{"name":"b","schema":"other"}"#, 0, 0),
            (r#"{"name":"b"}"#, 0, 0),
        ] {
            let mut content = PackageContent::default();
            content.push_json(line.as_bytes()).unwrap();
            assert_eq!((content.bundles.len(), content.channels.len()), (bundles, channels), "{line}");
        }
        assert!(PackageContent::default().push_json(b"{\"schema\":\"olm.bundle\"").is_err());
        assert!(
            PackageContent::default().push_json(b"{\"name\":\"\xff\",\"schema\":\"olm.bundle\"}").is_err()
        );
    }
}
