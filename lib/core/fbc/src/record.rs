//! What of a document the resolver needs: the document cut down to a small line of its own.
//!
//! Records hold what [`crate::PackageContent`] is made of. Bundles lose their two large kinds of properties
//! (whole manifests and CSV metadata) and every field beside name, package, image and properties. A field of
//! an unexpected form is kept as it is, so that reading the record fails where reading the document would.

use olm_go::{field::names, json::decode};

use crate::{Meta, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};

/// Properties by which nothing is resolved, as the heads of their canonical lines. They make up 90 % of a
/// catalog. All others are kept, because constraints may ask for any.
const LARGE_PROPERTIES: [&[u8]; 2] = [b"{\"type\":\"olm.bundle.object\"", b"{\"type\":\"olm.csv.metadata\""];

impl Meta<'_> {
    /// Appends the record of this document to `records`, with a line feed; `false` if resolution does not
    /// need the document.
    pub fn write_record(&self, records: &mut Vec<u8>) -> bool {
        let fields: &[&str] = match self.envelope.schema.as_ref() {
            SCHEMA_PACKAGE => &["defaultChannel", "name", "schema"],
            SCHEMA_CHANNEL => &["entries", "name", "package", "schema"],
            SCHEMA_BUNDLE => &["image", "name", "package", "properties", "schema"],
            SCHEMA_DEPRECATIONS => &["entries", "package", "schema"],
            _ => return false,
        };
        if self.envelope.subject().is_empty() {
            return false;
        }
        let mut separator = b'{';
        for &field in fields {
            let found = self.members.iter().rfind(|member| names(&decode(&self.line[member.key()]), field));
            let Some(member) = found else { continue };
            records.push(separator);
            separator = b',';
            records.push(b'"');
            records.extend_from_slice(field.as_bytes());
            records.extend_from_slice(b"\":");
            let value = &self.line[member.value()];
            if field == "properties" && !self.properties.is_empty() {
                self.write_properties(value, records);
            } else {
                records.extend_from_slice(value);
            }
        }
        records.extend_from_slice(b"}\n");
        true
    }

    fn write_properties(&self, list: &[u8], records: &mut Vec<u8>) {
        let mut separator = b'[';
        for property in self.properties {
            let property = &list[property.clone()];
            if !LARGE_PROPERTIES.iter().any(|head| property.starts_with(head)) {
                records.push(separator);
                separator = b',';
                records.extend_from_slice(property);
            }
        }
        if separator == b'[' {
            records.push(b'[');
        }
        records.push(b']');
    }
}
