//! Kubernetes' reading of YAML.
