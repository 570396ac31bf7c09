//! Which bundle to install.
