//! catalogd on its own against a real control plane: bad registries, hostile images, full disks, kills,
//! replicas, certificates.

mod certificates;
mod controller;
mod disk;
mod faults;
mod hostile;
mod kills;
mod metrics;
mod replicas;
mod trust;
mod world;
