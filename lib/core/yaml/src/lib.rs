//! YAML as Kubernetes reads it: the JSON values that `sigs.k8s.io/yaml` (go-yaml v2) makes of a text.
//!
//! Scalars follow YAML 1.1 as go-yaml v2 has it (`yes` is true, `0644` is 420, also as mapping keys), the
//! last of duplicate keys wins, `<<` merges, aliases are expanded. Streams are cut into documents the way
//! Kubernetes' `YAMLReader` cuts them, and [`mixed`] reads concatenated JSON as its `YAMLOrJSONDecoder` does.
//!
//! Whole numbers that fit 64 bits are integers in the result however they were written (`1.0`, `1e3`).
//! Everything has a [`Limits`], counted after aliases are expanded. Messages name line and column and
//! never quote values. Nothing here reads files.

mod block;
mod emit;
mod error;
mod limits;
mod loader;
mod repair;
mod scalar;
mod stream;

pub use emit::to_yaml;
pub use error::YamlError;
pub use limits::Limits;
pub use repair::RepairBudget;
pub use scalar::json_number;
pub use stream::{Documents, Mixed, documents, documents_within, mixed, mixed_within, one, one_within, text};
