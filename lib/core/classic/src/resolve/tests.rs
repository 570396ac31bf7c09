//! Resolutions of small worlds, beside what upstream's rules say of them.

mod candidates;
mod choices;
mod conflicts;
mod hostile;
mod properties;
mod reference;
mod rules;
mod world;
