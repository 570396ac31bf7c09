//! The data that tests compare with: the sample in the tree, which is always there, and the large data of real operators
//! and catalogs, which are read in place. What does not run because something is absent is printed and counted.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf};

use crate::{test_folder, variable};

/// The sample with upstream's answers that is part of the project.
pub fn sample() -> PathBuf {
    test_folder().join("data/sample")
}

/// A folder or file of the large data (`OLM_DATA`, else `shared/data` beside the project); all of them without a name.
///
/// # Errors
/// The text names what is absent.
///
/// # Panics
/// `OLM_DATA` names something that is no folder.
pub fn large(name: &str) -> Result<PathBuf, String> {
    let named = variable("OLM_DATA").map(PathBuf::from);
    if let Some(named) = &named {
        assert!(named.is_dir(), "OLM_DATA: {} is no folder", named.display());
    }
    let path = named.unwrap_or_else(|| test_folder().join("../../shared/data")).join(name);
    if path.exists() { Ok(path) } else { Err(format!("no data in {} (set OLM_DATA)", path.display())) }
}

/// The same, for a test that has less to do without it: when it is absent, the test is reported as skipped.
pub fn find(name: &str) -> Option<PathBuf> {
    large(name).map_err(|absent| skip(&absent)).ok()
}

/// The cases of a part of the large data, else those of the sample, which is reported.
pub fn large_or_sample(large: &str, of_sample: &str) -> PathBuf {
    find(large).unwrap_or_else(|| sample().join(of_sample))
}

/// Reports that the running test, or the part of it that is about the large data, is skipped.
pub fn skip(reason: &str) {
    report(&format!("skipped {}: {reason}", running()));
}

/// Reports that the running test is skipped, if tests run on the cluster of `KUBECONFIG`: it needs one of its own.
pub fn skip_on_given_cluster() -> bool {
    let is_given = variable("KUBECONFIG").is_some();
    if is_given {
        skip("it needs a cluster of its own (unset KUBECONFIG)");
    }
    is_given
}

/// Prints a line that libtest does not capture, and adds it to the file `OLM_TEST_COUNTS`, which `make test` shows at
/// the end.
///
/// # Panics
/// The file cannot be written.
#[expect(clippy::expect_used, reason = "a test that cannot report fails")]
pub fn report(line: &str) {
    // Nothing can be done where standard error is closed.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
    if let Some(file) = variable("OLM_TEST_COUNTS") {
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
