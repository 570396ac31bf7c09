//! File-based catalogs: model, streaming reader, index.
