//! The limits of queries, documents and answers, and the check of a query against upstream's limits.

use std::collections::BTreeSet;

use crate::ast::{Document, Selection};

/// Deepest selection of a query, as upstream.
pub const DEPTH_MAX: usize = 10;
/// Most aliases of a query, as upstream.
pub const ALIASES_MAX: usize = 50;
/// Most fields of a query, as upstream.
pub const FIELDS_MAX: usize = 500;
/// Deepest nesting of selections, lists or fragments that is parsed at all; each level takes stack.
pub const NESTING_MAX: usize = 64;
/// Elements of a list that are read to find its type, as upstream.
pub const SAMPLES_MAX: usize = 10;
/// Memory that the fields of one catalog's documents may take; those of the largest real one take 20 kB.
pub const SCHEMA_BYTES_MAX: usize = 2 << 20;
/// Longest document that can be queried, in bytes; the largest real ones have 1,048,912.
pub const DOCUMENT_BYTES_MAX: usize = 2 << 20;
/// Most values and keys of such a document; real ones of that length have 20,000. A value takes up to 300 bytes of memory.
pub const DOCUMENT_NODES_MAX: usize = 100_000;
/// Longest answer to a query: it is held in memory. A page of real bundles has 4 MB.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Rejects a query that is too deep, or has too many aliases or fields.
pub(crate) fn check(document: &Document) -> Result<(), String> {
    // Each operation selects something; with more of them than fields are allowed, counting would only take time.
    if document.operations.len() > FIELDS_MAX {
        return Err(too_many_fields());
    }
    let mut count = Count { document, aliases: 0, fields: 0, seen: BTreeSet::new() };
    for operation in &document.operations {
        // Fragments count for each operation that uses them, once.
        count.seen.clear();
        count.selections(&operation.selections, 1)?;
    }
    Ok(())
}

fn too_many_fields() -> String {
    format!("query exceeds maximum field count of {FIELDS_MAX}")
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
        if depth > DEPTH_MAX {
            return Err(format!("query exceeds maximum depth of {DEPTH_MAX}"));
        }
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    self.fields += 1;
                    if self.fields > FIELDS_MAX {
                        return Err(too_many_fields());
                    }
                    self.aliases += usize::from(field.alias.is_some());
                    if self.aliases > ALIASES_MAX {
                        return Err(format!("query exceeds maximum alias count of {ALIASES_MAX}"));
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
