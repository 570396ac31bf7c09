//! CatalogSources: what an object asks for, how its image is named and polled, and what its status says.
//!
//! [`target`] decides where the content comes from, [`template`] and [`polling`] what is said of the image, [`status`]
//! computes the status from what was found, [`config_map`] reads the content of a ConfigMap, and [`service`] and [`pod`]
//! make the objects that clients of the registry API use.

pub mod config_map;
pub mod pod;
pub mod polling;
pub mod service;
pub mod status;
pub mod target;
pub mod template;
pub mod texts;
