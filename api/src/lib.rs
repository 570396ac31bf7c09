//! The custom resources of OLM v1: types, conditions, names, CRDs.
