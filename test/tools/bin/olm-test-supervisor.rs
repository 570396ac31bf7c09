//! Starts programs for a test process and ends them when it is gone. See [`olm_test::supervisor`].

fn main() -> anyhow::Result<()> {
    olm_test::supervisor::run(std::env::args_os())
}
