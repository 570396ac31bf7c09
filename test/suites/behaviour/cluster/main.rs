//! Tests on a real control plane. They share one; each takes names of its own.

mod by_objects;
mod cli;
mod crds;
mod demo;
mod harness;
mod packages;
mod renderings;
mod schemas;
