//! Installs and upgrades cluster extensions.
