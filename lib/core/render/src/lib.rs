//! From a bundle to Kubernetes objects.
