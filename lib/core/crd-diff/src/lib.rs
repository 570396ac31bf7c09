//! Whether a change of a CustomResourceDefinition is safe.
