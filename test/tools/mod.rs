//! What the demo, the measurements, the fuzzer and the tests on nodes need beside the kit.

pub mod bench;
pub mod cgroup;
pub mod e2e;
pub mod fuzz;
pub mod hostile;
pub mod node;
