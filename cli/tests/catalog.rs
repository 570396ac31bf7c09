//! The commands for catalogs, as a person runs them.

mod catalog {
    mod authoring;
    mod data;
    mod drawing;
    mod input;
    mod parts;
    mod registry;
    mod sample;
    mod validate;
}
