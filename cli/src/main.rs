//! The command line for catalogs, bundles and clusters.
fn main() {}
