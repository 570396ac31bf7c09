//! The fields that Kubernetes' published OpenAPI document (v3, `api/v1`) requires, of the types that a
//! `deploymentConfig` may contain.

use super::{
    Fields,
    meta::{LABEL_SELECTOR_REQUIREMENT, OWNER_REFERENCE},
    scheduling::{
        NODE_SELECTOR, NODE_SELECTOR_REQUIREMENT, POD_AFFINITY_TERM, PREFERRED_SCHEDULING_TERM,
        WEIGHTED_POD_AFFINITY_TERM,
    },
    volume::{
        AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, AZURE_DISK_VOLUME_SOURCE, AZURE_FILE_VOLUME_SOURCE,
        CEPH_FS_VOLUME_SOURCE, CINDER_VOLUME_SOURCE, CLUSTER_TRUST_BUNDLE_PROJECTION, CSI_VOLUME_SOURCE,
        DOWNWARD_API_VOLUME_FILE, FLEX_VOLUME_SOURCE, GCE_PERSISTENT_DISK_VOLUME_SOURCE,
        GIT_REPO_VOLUME_SOURCE, GLUSTERFS_VOLUME_SOURCE, HOST_PATH_VOLUME_SOURCE, ISCSI_VOLUME_SOURCE,
        KEY_TO_PATH, NFS_VOLUME_SOURCE, PERSISTENT_VOLUME_CLAIM_TEMPLATE,
        PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE, PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
        POD_CERTIFICATE_PROJECTION, PORTWORX_VOLUME_SOURCE, QUOBYTE_VOLUME_SOURCE, RBD_VOLUME_SOURCE,
        SCALE_IO_VOLUME_SOURCE, SERVICE_ACCOUNT_TOKEN_PROJECTION, VOLUME, VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    },
    workload::{
        CONFIG_MAP_KEY_SELECTOR, ENV_VAR, FILE_KEY_SELECTOR, OBJECT_FIELD_SELECTOR, RESOURCE_CLAIM,
        RESOURCE_FIELD_SELECTOR, SECRET_KEY_SELECTOR, TYPED_LOCAL_OBJECT_REFERENCE, TYPED_OBJECT_REFERENCE,
        VOLUME_MOUNT,
    },
};

static REQUIRED: &[(&Fields, &[&str])] = &[
    (&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, &["volumeID"]),
    (&AZURE_DISK_VOLUME_SOURCE, &["diskName", "diskURI"]),
    (&AZURE_FILE_VOLUME_SOURCE, &["secretName", "shareName"]),
    (&CEPH_FS_VOLUME_SOURCE, &["monitors"]),
    (&CINDER_VOLUME_SOURCE, &["volumeID"]),
    (&CLUSTER_TRUST_BUNDLE_PROJECTION, &["path"]),
    (&CONFIG_MAP_KEY_SELECTOR, &["key"]),
    (&CSI_VOLUME_SOURCE, &["driver"]),
    (&DOWNWARD_API_VOLUME_FILE, &["path"]),
    (&ENV_VAR, &["name"]),
    (&FILE_KEY_SELECTOR, &["volumeName", "path", "key"]),
    (&FLEX_VOLUME_SOURCE, &["driver"]),
    (&GCE_PERSISTENT_DISK_VOLUME_SOURCE, &["pdName"]),
    (&GIT_REPO_VOLUME_SOURCE, &["repository"]),
    (&GLUSTERFS_VOLUME_SOURCE, &["endpoints", "path"]),
    (&HOST_PATH_VOLUME_SOURCE, &["path"]),
    (&ISCSI_VOLUME_SOURCE, &["targetPortal", "iqn", "lun"]),
    (&KEY_TO_PATH, &["key", "path"]),
    (&LABEL_SELECTOR_REQUIREMENT, &["key", "operator"]),
    (&NFS_VOLUME_SOURCE, &["server", "path"]),
    (&NODE_SELECTOR, &["nodeSelectorTerms"]),
    (&NODE_SELECTOR_REQUIREMENT, &["key", "operator"]),
    (&OBJECT_FIELD_SELECTOR, &["fieldPath"]),
    (&OWNER_REFERENCE, &["apiVersion", "kind", "name", "uid"]),
    (&PERSISTENT_VOLUME_CLAIM_TEMPLATE, &["spec"]),
    (&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE, &["claimName"]),
    (&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE, &["pdID"]),
    (&POD_AFFINITY_TERM, &["topologyKey"]),
    (&POD_CERTIFICATE_PROJECTION, &["signerName", "keyType"]),
    (&PORTWORX_VOLUME_SOURCE, &["volumeID"]),
    (&PREFERRED_SCHEDULING_TERM, &["weight", "preference"]),
    (&QUOBYTE_VOLUME_SOURCE, &["registry", "volume"]),
    (&RBD_VOLUME_SOURCE, &["monitors", "image"]),
    (&RESOURCE_CLAIM, &["name"]),
    (&RESOURCE_FIELD_SELECTOR, &["resource"]),
    (&SCALE_IO_VOLUME_SOURCE, &["gateway", "system", "secretRef"]),
    (&SECRET_KEY_SELECTOR, &["key"]),
    (&SERVICE_ACCOUNT_TOKEN_PROJECTION, &["path"]),
    (&TYPED_LOCAL_OBJECT_REFERENCE, &["kind", "name"]),
    (&TYPED_OBJECT_REFERENCE, &["kind", "name"]),
    (&VOLUME, &["name"]),
    (&VOLUME_MOUNT, &["name", "mountPath"]),
    (&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE, &["volumePath"]),
    (&WEIGHTED_POD_AFFINITY_TERM, &["weight", "podAffinityTerm"]),
];

/// The required fields of a type.
pub(crate) fn required(fields: &'static Fields) -> &'static [&'static str] {
    REQUIRED.iter().find(|entry| std::ptr::eq(entry.0, fields)).map(|entry| entry.1).unwrap_or_default()
}
