//! The three fields by which a document of a catalog is found: schema, package and name.

use std::borrow::Cow;

use olm_go::{
    field::names,
    json::{Member, decode},
};

use crate::{FbcError, limits::NAME_BYTES_MAX};

/// The fields that every document may have, borrowed from its line; absent ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// What kind of document it is, for example `olm.bundle`.
    pub schema: Cow<'a, str>,
    /// The package it belongs to; empty for `olm.package`, which names itself.
    pub package: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
}

impl<'a> Envelope<'a> {
    /// Picks the fields out of the members of a line. Keys are compared regardless of case, as
    /// `extractUniqueMetaKeys` in operator-registry's `alpha/declcfg/declcfg.go`; `offset` is where the document
    /// starts, for errors.
    pub(crate) fn of(line: &'a [u8], members: &[Member], offset: u64) -> Result<Self, FbcError> {
        if has_duplicates(line, members) {
            return Err(FbcError::DuplicateKeys(offset));
        }
        let mut envelope = Self::default();
        for member in members {
            let (key, field) = match decode(&line[member.key()]) {
                key if names(&key, "schema") => ("schema", &mut envelope.schema),
                key if names(&key, "package") => ("package", &mut envelope.package),
                key if names(&key, "name") => ("name", &mut envelope.name),
                _ => continue,
            };
            let value = &line[member.value()];
            if value.first() != Some(&b'"') {
                return Err(FbcError::NotAString(key));
            }
            if value.len() > NAME_BYTES_MAX {
                return Err(FbcError::NameTooLong(key, NAME_BYTES_MAX));
            }
            *field = decode(value);
        }
        Ok(envelope)
    }

    /// The package a document is about: an `olm.package` is about itself.
    pub fn subject(&self) -> &str {
        if self.schema == crate::SCHEMA_PACKAGE { &self.name } else { &self.package }
    }
}

/// Whether keys are equal under Unicode's full case folding, by which one character may become two.
fn has_duplicates(line: &[u8], members: &[Member]) -> bool {
    // Upper case merges characters that lower case alone keeps apart.
    let fold = |key: &str| key.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    let mut keys: Vec<String> = members.iter().map(|member| fold(&decode(&line[member.key()]))).collect();
    keys.sort_unstable();
    !keys.is_sorted_by(|key, next| key < next)
}
