//! Serves the content of cluster catalogs.
