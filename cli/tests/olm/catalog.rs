//! The commands for catalogs.

mod authoring;
mod data;
mod drawing;
mod input;
mod mirror;
mod parts;
mod registry;
mod sample;
mod several;
mod validate;
