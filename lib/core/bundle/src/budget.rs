//! What reading a bundle may still cost; one budget for all of its files.

use olm_yaml::{Limits, RepairBudget, YamlError};
use serde_json::Value;

use crate::{
    ReadError,
    limits::{COPIES, DOCUMENT, NODE_BYTES, NODES_MAX},
};

/// Memory of a map of up to [`ENTRIES`] entries, in bytes, as the standard library's tree has it.
const MAP_BYTES: usize = 632;
/// Entries of a map node that is about half full.
const ENTRIES: usize = 6;
/// The smallest allocation for a text, in bytes.
const TEXT_BYTES: usize = 16;

/// Nodes and memory that are left.
pub(crate) struct Budget {
    /// The memory that the whole rendering was given.
    memory: usize,
    /// Nodes for further documents.
    nodes: usize,
    /// Memory for further objects.
    objects: usize,
    /// Memory that those read so far take.
    spent: usize,
    /// Most nodes of one document while it is read.
    document: usize,
    /// What may be read again of all files.
    repairs: RepairBudget,
}

impl Budget {
    /// For a bundle whose files have `files` bytes, within `memory` bytes.
    pub(crate) fn new(memory: usize, files: usize) -> Self {
        let left = memory.saturating_sub(files);
        Self {
            memory,
            nodes: NODES_MAX,
            objects: left / COPIES,
            spent: 0,
            document: left / NODE_BYTES,
            repairs: RepairBudget::default(),
        }
    }

    /// The limits of the next document.
    pub(crate) fn limits(&self) -> Limits {
        let expanded_bytes = DOCUMENT.expanded_bytes.min(self.objects);
        Limits { nodes: self.nodes.min(self.document), expanded_bytes, ..DOCUMENT }
    }

    /// What may be read again of all files.
    pub(crate) fn repairs(&self) -> &RepairBudget {
        &self.repairs
    }

    /// The budget's error in place of the reader's, if the budget is why the document was not read.
    pub(crate) fn exceeded(&self, error: &YamlError) -> Option<ReadError> {
        match error {
            YamlError::Limit { what: "nodes", .. } if self.nodes <= self.document => {
                Some(Self::too_many_nodes())
            }
            YamlError::Limit { what: "nodes" | "bytes of scalars", .. } => Some(self.too_little_memory()),
            _ => None,
        }
    }

    /// Takes a document that was read off the budget.
    ///
    /// # Errors
    /// There is not enough left.
    pub(crate) fn charge(&mut self, document: &Value) -> Result<(), ReadError> {
        let (nodes, bytes) = cost(document);
        self.nodes = self.nodes.checked_sub(nodes).ok_or_else(Self::too_many_nodes)?;
        self.objects = self.objects.checked_sub(bytes).ok_or_else(|| self.too_little_memory())?;
        self.spent += bytes;
        Ok(())
    }

    /// Memory that what was read takes, in bytes.
    pub(crate) fn spent(&self) -> usize {
        self.spent
    }

    fn too_many_nodes() -> ReadError {
        ReadError::TooLarge { what: "YAML nodes", limit: NODES_MAX }
    }

    fn too_little_memory(&self) -> ReadError {
        ReadError::Memory(self.memory >> 20)
    }
}

/// Nodes of a value, keys included, and the bytes of memory it takes. Recursion ends at the depth that documents
/// are limited to.
fn cost(value: &Value) -> (usize, usize) {
    let text = |text: &str| text.len().max(TEXT_BYTES);
    let add = |(nodes, bytes): (usize, usize), (more, cost): (usize, usize)| (nodes + more, bytes + cost);
    match value {
        Value::Array(items) => items.iter().map(cost).fold((1, items.capacity() * size_of::<Value>()), add),
        Value::Object(map) => {
            let own = map.len().div_ceil(ENTRIES) * MAP_BYTES;
            map.iter().map(|(key, item)| add((1, text(key)), cost(item))).fold((1, own), add)
        }
        Value::String(scalar) => (1, text(scalar)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (1, 0),
    }
}
