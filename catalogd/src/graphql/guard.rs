//! What a query may ask for at most, checked before anything is looked up; limits and words are upstream's.

use std::collections::BTreeSet;

use super::syntax::{Document, Selection};
use crate::limits::{GRAPHQL_ALIASES_MAX, GRAPHQL_DEPTH_MAX, GRAPHQL_FIELDS_MAX};

/// Refuses a query that is too deep, or has too many aliases or fields.
pub(super) fn check(document: &Document) -> Result<(), String> {
    let mut count = Count { document, aliases: 0, fields: 0, seen: BTreeSet::new() };
    for operation in &document.operations {
        // Fragments count for each operation that uses them, once.
        count.seen.clear();
        count.selections(&operation.selections, 1)?;
    }
    Ok(())
}

struct Count<'a> {
    document: &'a Document,
    aliases: usize,
    fields: usize,
    seen: BTreeSet<&'a str>,
}

impl<'a> Count<'a> {
    fn selections(&mut self, selections: &'a [Selection], depth: usize) -> Result<(), String> {
        if selections.is_empty() {
            return Ok(());
        }
        if depth > GRAPHQL_DEPTH_MAX {
            return Err(format!("query exceeds maximum depth of {GRAPHQL_DEPTH_MAX}"));
        }
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    self.fields += 1;
                    if self.fields > GRAPHQL_FIELDS_MAX {
                        return Err(format!("query exceeds maximum field count of {GRAPHQL_FIELDS_MAX}"));
                    }
                    self.aliases += usize::from(field.alias.is_some());
                    if self.aliases > GRAPHQL_ALIASES_MAX {
                        return Err(format!("query exceeds maximum alias count of {GRAPHQL_ALIASES_MAX}"));
                    }
                    self.selections(&field.selections, depth + 1)?;
                }
                Selection::Inline { selections, .. } => self.selections(selections, depth + 1)?,
                Selection::Spread { name, .. } => {
                    if let Some((name, fragment)) = self.document.fragments.get_key_value(name)
                        && self.seen.insert(name)
                    {
                        self.selections(&fragment.selections, depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }
}
