//! Phases, ownership, probes and the plan of a roll-out.
