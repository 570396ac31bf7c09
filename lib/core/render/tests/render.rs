//! Bundles written in the tests, and what becomes of them.

#[cfg(test)]
#[path = "render/builder.rs"]
mod builder;
#[cfg(test)]
#[path = "render/built_in.rs"]
mod built_in;
#[cfg(test)]
#[path = "render/configuration.rs"]
mod configuration;
#[cfg(test)]
#[path = "render/deployment_config.rs"]
mod deployment_config;
#[cfg(test)]
#[path = "render/generating.rs"]
mod generating;
#[cfg(test)]
#[path = "render/limits.rs"]
mod limits;
#[cfg(test)]
#[path = "render/loading.rs"]
mod loading;
#[cfg(test)]
#[path = "render/properties.rs"]
mod properties;
#[cfg(test)]
#[path = "render/trees.rs"]
mod trees;
#[cfg(test)]
#[path = "render/typed.rs"]
mod typed;
#[cfg(test)]
#[path = "render/validation.rs"]
mod validation;
