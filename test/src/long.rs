//! Suites that take longer than `make test` may: they run when they are asked for by name.

/// Whether the suites of `make test-faults`, `test-operators` and `test-takeover` are asked for (`OLM_TEST_LONG`); otherwise says
/// on standard output that a test is left out.
pub fn wanted() -> bool {
    let wanted = std::env::var_os("OLM_TEST_LONG").is_some_and(|value| !value.is_empty());
    if !wanted {
        println!("left out: set OLM_TEST_LONG=1, as make test-faults, test-operators and test-takeover do");
    }
    wanted
}
