//! Texts as Go's standard library writes and reads them. Users, digests and conditions see them, so they are reproduced
//! exactly, and only here.
//!
//! [`json`] writes like `encoding/json`, [`field`] finds fields as its decoder does, [`decode`] fills
//! structures, [`Quoted`] is `%q`, [`float`] is `%v`
//! of floats, [`base64`] decodes with Go's error positions, [`big_int`] writes digests as numbers.

pub mod base64;
pub mod big_int;
pub mod decode;
pub mod duration;
pub mod field;
pub mod float;
pub mod json;
mod quoted;

pub use quoted::Quoted;
