//! The controllers of the program.

pub(crate) mod cluster_extension;
pub(crate) mod cluster_object_set;

pub(crate) use cluster_object_set::api_text;
