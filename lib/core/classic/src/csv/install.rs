//! The objects that an operator is made of.
//!
//! [`deployments`] makes the Deployments, [`serving`] what stands behind webhooks and APIServices, [`permissions`] the
//! roles that give an operator its permissions in the namespaces that it serves. Names, labels and annotations are
//! upstream's.

pub mod deployments;
pub mod permissions;
pub mod serving;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use olm_api_classic::ClusterServiceVersion;

/// The reference of an object in the operator's namespace to the operator.
pub fn owner(csv: &ClusterServiceVersion) -> OwnerReference {
    OwnerReference {
        api_version: ClusterServiceVersion::api_version(&()).into_owned(),
        kind: ClusterServiceVersion::kind(&()).into_owned(),
        name: csv.metadata.name.clone().unwrap_or_default(),
        uid: csv.metadata.uid.clone().unwrap_or_default(),
        controller: Some(false),
        block_owner_deletion: Some(false),
    }
}

/// Namespace and name of an operator.
pub(super) fn key(csv: &ClusterServiceVersion) -> (&str, &str) {
    (csv.metadata.namespace.as_deref().unwrap_or_default(), csv.metadata.name.as_deref().unwrap_or_default())
}
