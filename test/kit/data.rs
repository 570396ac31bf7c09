//! The data of real operators and catalogs that tests read in place.

use std::path::{Path, PathBuf};

/// A folder of the data (`OLM_DATA`, else `shared/data` beside the project); the data themselves without a name.
/// `None` when it is not here, said on standard output.
pub fn folder(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("OLM_DATA").map_or_else(beside, PathBuf::from).join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no data in {} (set OLM_DATA)", folder.display());
    None
}
