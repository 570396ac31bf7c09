//! Volumes of pods (core/v1).
//!
//! Field names, types and what is always written, as Kubernetes 1.36 has them.

use super::{
    Fields,
    Kind::{Bool, Int32, Int64, List, Map, Object, Quantity, Text},
    Presence::{Always, Nullable, Optional, Pointer},
    meta::{LABEL_SELECTOR, OBJECT_META},
    workload::{
        LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR, TYPED_LOCAL_OBJECT_REFERENCE,
        TYPED_OBJECT_REFERENCE,
    },
};

#[rustfmt::skip]
pub(super) static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("partition", Optional, Int32), ("readOnly", Optional, Bool),
    ("volumeID", Always, Text),
]);

#[rustfmt::skip]
pub(super) static AZURE_DISK_VOLUME_SOURCE: Fields = Fields::new(&[
    ("cachingMode", Pointer, Text), ("diskName", Always, Text), ("diskURI", Always, Text), ("fsType", Pointer, Text),
    ("kind", Pointer, Text), ("readOnly", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static AZURE_FILE_VOLUME_SOURCE: Fields = Fields::new(&[
    ("readOnly", Optional, Bool), ("secretName", Always, Text), ("shareName", Always, Text),
]);

#[rustfmt::skip]
pub(super) static CEPH_FS_VOLUME_SOURCE: Fields = Fields::new(&[
    ("monitors", Always, List(&Text)), ("path", Optional, Text), ("readOnly", Optional, Bool),
    ("secretFile", Optional, Text), ("secretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)), ("user", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static CINDER_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("readOnly", Optional, Bool), ("secretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)),
    ("volumeID", Always, Text),
]);

#[rustfmt::skip]
pub(super) static CLUSTER_TRUST_BUNDLE_PROJECTION: Fields = Fields::new(&[
    ("labelSelector", Pointer, Object(&LABEL_SELECTOR)), ("name", Pointer, Text), ("optional", Pointer, Bool),
    ("path", Always, Text), ("signerName", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static CONFIG_MAP_PROJECTION: Fields = Fields::new(&[
    ("items", Optional, List(&Object(&KEY_TO_PATH))), ("name", Optional, Text), ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static CONFIG_MAP_VOLUME_SOURCE: Fields = Fields::new(&[
    ("defaultMode", Pointer, Int32), ("items", Optional, List(&Object(&KEY_TO_PATH))), ("name", Optional, Text),
    ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static CSI_VOLUME_SOURCE: Fields = Fields::new(&[
    ("driver", Always, Text), ("fsType", Pointer, Text),
    ("nodePublishSecretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)), ("readOnly", Pointer, Bool),
    ("volumeAttributes", Optional, Map(&Text)),
]);

#[rustfmt::skip]
pub(super) static DOWNWARD_API_PROJECTION: Fields = Fields::new(&[
    ("items", Optional, List(&Object(&DOWNWARD_API_VOLUME_FILE))),
]);

#[rustfmt::skip]
pub(super) static DOWNWARD_API_VOLUME_FILE: Fields = Fields::new(&[
    ("fieldRef", Pointer, Object(&OBJECT_FIELD_SELECTOR)), ("mode", Pointer, Int32), ("path", Always, Text),
    ("resourceFieldRef", Pointer, Object(&RESOURCE_FIELD_SELECTOR)),
]);

#[rustfmt::skip]
pub(super) static DOWNWARD_API_VOLUME_SOURCE: Fields = Fields::new(&[
    ("defaultMode", Pointer, Int32), ("items", Optional, List(&Object(&DOWNWARD_API_VOLUME_FILE))),
]);

#[rustfmt::skip]
pub(super) static EMPTY_DIR_VOLUME_SOURCE: Fields = Fields::new(&[
    ("medium", Optional, Text), ("sizeLimit", Pointer, Quantity),
]);

#[rustfmt::skip]
pub(super) static EPHEMERAL_VOLUME_SOURCE: Fields = Fields::new(&[
    ("volumeClaimTemplate", Pointer, Object(&PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
]);

#[rustfmt::skip]
pub(super) static FC_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("lun", Pointer, Int32), ("readOnly", Optional, Bool),
    ("targetWWNs", Optional, List(&Text)), ("wwids", Optional, List(&Text)),
]);

#[rustfmt::skip]
pub(super) static FLEX_VOLUME_SOURCE: Fields = Fields::new(&[
    ("driver", Always, Text), ("fsType", Optional, Text), ("options", Optional, Map(&Text)),
    ("readOnly", Optional, Bool), ("secretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)),
]);

#[rustfmt::skip]
pub(super) static FLOCKER_VOLUME_SOURCE: Fields = Fields::new(&[
    ("datasetName", Optional, Text), ("datasetUUID", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("partition", Optional, Int32), ("pdName", Always, Text),
    ("readOnly", Optional, Bool),
]);

#[rustfmt::skip]
pub(super) static GIT_REPO_VOLUME_SOURCE: Fields = Fields::new(&[
    ("directory", Optional, Text), ("repository", Always, Text), ("revision", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static GLUSTERFS_VOLUME_SOURCE: Fields = Fields::new(&[
    ("endpoints", Always, Text), ("path", Always, Text), ("readOnly", Optional, Bool),
]);

#[rustfmt::skip]
pub(super) static HOST_PATH_VOLUME_SOURCE: Fields = Fields::new(&[
    ("path", Always, Text), ("type", Pointer, Text),
]);

#[rustfmt::skip]
pub(super) static IMAGE_VOLUME_SOURCE: Fields = Fields::new(&[
    ("pullPolicy", Optional, Text), ("reference", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static ISCSI_VOLUME_SOURCE: Fields = Fields::new(&[
    ("chapAuthDiscovery", Optional, Bool), ("chapAuthSession", Optional, Bool), ("fsType", Optional, Text),
    ("initiatorName", Pointer, Text), ("iqn", Always, Text), ("iscsiInterface", Optional, Text),
    ("lun", Always, Int32), ("portals", Optional, List(&Text)), ("readOnly", Optional, Bool),
    ("secretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)), ("targetPortal", Always, Text),
]);

#[rustfmt::skip]
pub(super) static KEY_TO_PATH: Fields = Fields::new(&[
    ("key", Always, Text), ("mode", Pointer, Int32), ("path", Always, Text),
]);

#[rustfmt::skip]
pub(super) static NFS_VOLUME_SOURCE: Fields = Fields::new(&[
    ("path", Always, Text), ("readOnly", Optional, Bool), ("server", Always, Text),
]);

#[rustfmt::skip]
pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: Fields = Fields::new(&[
    ("accessModes", Optional, List(&Text)), ("dataSource", Pointer, Object(&TYPED_LOCAL_OBJECT_REFERENCE)),
    ("dataSourceRef", Pointer, Object(&TYPED_OBJECT_REFERENCE)),
    ("resources", Always, Object(&VOLUME_RESOURCE_REQUIREMENTS)), ("selector", Pointer, Object(&LABEL_SELECTOR)),
    ("storageClassName", Pointer, Text), ("volumeAttributesClassName", Pointer, Text), ("volumeMode", Pointer, Text),
    ("volumeName", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Fields = Fields::new(&[
    ("metadata", Always, Object(&OBJECT_META)), ("spec", Always, Object(&PERSISTENT_VOLUME_CLAIM_SPEC)),
]);

#[rustfmt::skip]
pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Fields = Fields::new(&[
    ("claimName", Always, Text), ("readOnly", Optional, Bool),
]);

#[rustfmt::skip]
pub(super) static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("pdID", Always, Text),
]);

#[rustfmt::skip]
pub(super) static POD_CERTIFICATE_PROJECTION: Fields = Fields::new(&[
    ("certificateChainPath", Optional, Text), ("credentialBundlePath", Optional, Text), ("keyPath", Optional, Text),
    ("keyType", Optional, Text), ("maxExpirationSeconds", Pointer, Int32), ("signerName", Optional, Text),
    ("userAnnotations", Optional, Map(&Text)),
]);

#[rustfmt::skip]
pub(super) static PORTWORX_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("readOnly", Optional, Bool), ("volumeID", Always, Text),
]);

#[rustfmt::skip]
pub(super) static PROJECTED_VOLUME_SOURCE: Fields = Fields::new(&[
    ("defaultMode", Pointer, Int32), ("sources", Always, List(&Object(&VOLUME_PROJECTION))),
]);

#[rustfmt::skip]
pub(super) static QUOBYTE_VOLUME_SOURCE: Fields = Fields::new(&[
    ("group", Optional, Text), ("readOnly", Optional, Bool), ("registry", Always, Text), ("tenant", Optional, Text),
    ("user", Optional, Text), ("volume", Always, Text),
]);

#[rustfmt::skip]
pub(super) static RBD_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("image", Always, Text), ("keyring", Optional, Text),
    ("monitors", Always, List(&Text)), ("pool", Optional, Text), ("readOnly", Optional, Bool),
    ("secretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)), ("user", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static SCALE_IO_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("gateway", Always, Text), ("protectionDomain", Optional, Text),
    ("readOnly", Optional, Bool), ("secretRef", Nullable, Object(&LOCAL_OBJECT_REFERENCE)),
    ("sslEnabled", Optional, Bool), ("storageMode", Optional, Text), ("storagePool", Optional, Text),
    ("system", Always, Text), ("volumeName", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static SECRET_PROJECTION: Fields = Fields::new(&[
    ("items", Optional, List(&Object(&KEY_TO_PATH))), ("name", Optional, Text), ("optional", Pointer, Bool),
]);

#[rustfmt::skip]
pub(super) static SECRET_VOLUME_SOURCE: Fields = Fields::new(&[
    ("defaultMode", Pointer, Int32), ("items", Optional, List(&Object(&KEY_TO_PATH))), ("optional", Pointer, Bool),
    ("secretName", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static SERVICE_ACCOUNT_TOKEN_PROJECTION: Fields = Fields::new(&[
    ("audience", Optional, Text), ("expirationSeconds", Pointer, Int64), ("path", Always, Text),
]);

#[rustfmt::skip]
pub(super) static STORAGE_OS_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("readOnly", Optional, Bool), ("secretRef", Pointer, Object(&LOCAL_OBJECT_REFERENCE)),
    ("volumeName", Optional, Text), ("volumeNamespace", Optional, Text),
]);

#[rustfmt::skip]
pub(super) static VOLUME: Fields = Fields::new(&[
    ("awsElasticBlockStore", Pointer, Object(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    ("azureDisk", Pointer, Object(&AZURE_DISK_VOLUME_SOURCE)),
    ("azureFile", Pointer, Object(&AZURE_FILE_VOLUME_SOURCE)), ("cephfs", Pointer, Object(&CEPH_FS_VOLUME_SOURCE)),
    ("cinder", Pointer, Object(&CINDER_VOLUME_SOURCE)), ("configMap", Pointer, Object(&CONFIG_MAP_VOLUME_SOURCE)),
    ("csi", Pointer, Object(&CSI_VOLUME_SOURCE)), ("downwardAPI", Pointer, Object(&DOWNWARD_API_VOLUME_SOURCE)),
    ("emptyDir", Pointer, Object(&EMPTY_DIR_VOLUME_SOURCE)), ("ephemeral", Pointer, Object(&EPHEMERAL_VOLUME_SOURCE)),
    ("fc", Pointer, Object(&FC_VOLUME_SOURCE)), ("flexVolume", Pointer, Object(&FLEX_VOLUME_SOURCE)),
    ("flocker", Pointer, Object(&FLOCKER_VOLUME_SOURCE)),
    ("gcePersistentDisk", Pointer, Object(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
    ("gitRepo", Pointer, Object(&GIT_REPO_VOLUME_SOURCE)), ("glusterfs", Pointer, Object(&GLUSTERFS_VOLUME_SOURCE)),
    ("hostPath", Pointer, Object(&HOST_PATH_VOLUME_SOURCE)), ("image", Pointer, Object(&IMAGE_VOLUME_SOURCE)),
    ("iscsi", Pointer, Object(&ISCSI_VOLUME_SOURCE)), ("name", Always, Text),
    ("nfs", Pointer, Object(&NFS_VOLUME_SOURCE)),
    ("persistentVolumeClaim", Pointer, Object(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
    ("photonPersistentDisk", Pointer, Object(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    ("portworxVolume", Pointer, Object(&PORTWORX_VOLUME_SOURCE)),
    ("projected", Pointer, Object(&PROJECTED_VOLUME_SOURCE)), ("quobyte", Pointer, Object(&QUOBYTE_VOLUME_SOURCE)),
    ("rbd", Pointer, Object(&RBD_VOLUME_SOURCE)), ("scaleIO", Pointer, Object(&SCALE_IO_VOLUME_SOURCE)),
    ("secret", Pointer, Object(&SECRET_VOLUME_SOURCE)), ("storageos", Pointer, Object(&STORAGE_OS_VOLUME_SOURCE)),
    ("vsphereVolume", Pointer, Object(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
]);

#[rustfmt::skip]
pub(super) static VOLUME_PROJECTION: Fields = Fields::new(&[
    ("clusterTrustBundle", Pointer, Object(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
    ("configMap", Pointer, Object(&CONFIG_MAP_PROJECTION)),
    ("downwardAPI", Pointer, Object(&DOWNWARD_API_PROJECTION)),
    ("podCertificate", Pointer, Object(&POD_CERTIFICATE_PROJECTION)), ("secret", Pointer, Object(&SECRET_PROJECTION)),
    ("serviceAccountToken", Pointer, Object(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
]);

#[rustfmt::skip]
pub(super) static VOLUME_RESOURCE_REQUIREMENTS: Fields = Fields::new(&[
    ("limits", Optional, Map(&Quantity)), ("requests", Optional, Map(&Quantity)),
]);

#[rustfmt::skip]
pub(super) static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Fields = Fields::new(&[
    ("fsType", Optional, Text), ("storagePolicyID", Optional, Text), ("storagePolicyName", Optional, Text),
    ("volumePath", Always, Text),
]);
