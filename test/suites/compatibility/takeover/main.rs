//! Clusters on which upstream ran: our program goes on with what it installed.
//!
//! The dumps are recordings of upstream's two runtimes; the control plane is real, and no Pod of theirs may
//! be started anew. Two tests with parts of the dumps run always, the others when they are asked for.

mod boxcutter;
mod helm;
mod policy;
mod seen;
mod world;
