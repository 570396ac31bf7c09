//! Writes the generated part of config/.
fn main() {}
