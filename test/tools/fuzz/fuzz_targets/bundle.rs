#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| olm_test::tools::fuzz::run("bundle", input));
