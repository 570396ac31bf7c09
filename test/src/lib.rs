//! Control plane, registry, scenarios and benches.
