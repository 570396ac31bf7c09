//! The data that tests compare with: the sample in the tree, which is always there, and the large data of real operators
//! and catalogs, which are read in place. What did not run because data are absent is printed, never passed over.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

/// The sample with upstream's answers that is part of the project.
pub fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample")
}

/// A folder of the large data (`OLM_DATA`, else `shared/data` beside the project); the data themselves without a name.
///
/// # Errors
/// The text says what is absent.
///
/// # Panics
/// `OLM_DATA` names something that is no folder.
pub fn large(name: &str) -> Result<PathBuf, String> {
    let named = std::env::var_os("OLM_DATA").map(PathBuf::from);
    if let Some(named) = &named {
        assert!(named.is_dir(), "OLM_DATA: {} is no folder", named.display());
    }
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = named.unwrap_or_else(beside).join(name);
    if folder.is_dir() { Ok(folder) } else { Err(format!("no data in {} (set OLM_DATA)", folder.display())) }
}

/// A folder of the large data, for a test that has nothing to do without it: when it is absent, the test is reported
/// as skipped.
pub fn folder(name: &str) -> Option<PathBuf> {
    large(name).map_err(|absent| report(&format!("skipped {}: {absent}", running()))).ok()
}

/// Prints a line that libtest does not capture, and adds it to the file `OLM_TEST_COUNTS`, which `make test` shows at
/// the end.
///
/// # Panics
/// The file cannot be written.
pub fn report(line: &str) {
    // Nothing can be done where standard error is closed.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
    if let Some(file) = std::env::var_os("OLM_TEST_COUNTS") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("OLM_TEST_COUNTS");
    }
}

/// The test that is running: the name of its program, and that of its thread, which libtest names after the test.
fn running() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    match std::thread::current().name() {
        None | Some("main") => program.to_owned(),
        Some(test) => format!("{program}::{test}"),
    }
}
