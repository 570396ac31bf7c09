//! Suites that take longer than `make test` may: they run, or run whole, when they are asked for by name.

/// Whether everything of `make test-faults`, `test-operators` and `test-takeover` is asked for (`OLM_TEST_LONG`).
pub fn is_asked() -> bool {
    std::env::var_os("OLM_TEST_LONG").is_some_and(|value| !value.is_empty())
}

/// The same, for tests that are reported as skipped otherwise.
pub fn wanted() -> bool {
    let wanted = is_asked();
    if !wanted {
        crate::data::skip("set OLM_TEST_LONG=1, as make test-operators, test-takeover and e2e do");
    }
    wanted
}
