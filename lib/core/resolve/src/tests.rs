//! Cases in a small language: what catalogs offer, what is asked for, what the answer is.

mod case;
mod cases;
mod catalogs;
mod ceilings;
mod conditions;
mod documented;
mod failures;
mod paths;
mod properties;
mod updates;
mod versions;
