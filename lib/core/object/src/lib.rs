//! Facts about Kubernetes objects that several crates need, each in one place.
//!
//! [`ObjectKey`] identifies an object, [`known_kind`] is the table of kinds that bundles and their renderings hold,
//! [`names`] has the forms of DNS names, [`Rule`] is a rule of RBAC, [`managed_fields`] joins and applies sets of
//! fields, [`encode_string_data`] gives a Secret the form that the API server keeps, [`hex`] writes digests.

mod gvk;
mod key;
mod kinds;
pub mod managed_fields;
pub mod names;
mod rule;
mod secret;
mod value;

pub use gvk::GroupVersionKind;
pub use key::ObjectKey;
pub use kinds::{DefinedKind, KNOWN_KINDS, KnownKind, PHASES, Use, defined_kinds, known_kind, provider};
pub use rule::Rule;
pub use secret::{encode_string_data, is_secret};
pub use value::{hex, is_empty, text};
