//! The Service by which clients of the registry API find a CatalogSource, and the addresses behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::Resource;
use olm_api_classic::{
    CatalogSource,
    names::{CATALOG_SOURCE_LABEL, MANAGED_LABEL, SERVICE_HASH_LABEL},
};
use olm_object::hex;
use sha2::{Digest, Sha256};

/// The port of the Services of sources, which clients of the registry API know by heart.
pub const PORT: u16 = 50051;
/// Label of an EndpointSlice: its Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Label of an EndpointSlice: its writer.
pub const SLICE_WRITER_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Most addresses that are taken of a slice, as many as Kubernetes writes.
const ADDRESSES_MAX: usize = 100;
/// Longest name of a Service.
const NAME_BYTES_MAX: usize = 63;

/// The name of a source's Service.
///
/// # Errors
/// No Service can have it.
pub fn name(source: &str) -> Result<String, String> {
    let name = source.replace('.', "-");
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    if starts && name.len() <= NAME_BYTES_MAX {
        return Ok(name);
    }
    Err(format!(
        "Service {name:?} is invalid: the name of a Service begins with a letter and has at most {NAME_BYTES_MAX} characters"
    ))
}

/// The address that clients use.
pub fn address(service: &str, namespace: &str) -> String {
    format!("{service}.{namespace}.svc:{PORT}")
}

/// The Service of a source. With `selects_pods` it finds the source's Pod, else an EndpointSlice has its addresses.
pub fn service(source: &CatalogSource, name: &str, selects_pods: bool) -> Service {
    let selector = selects_pods.then(|| labels(source));
    let spec = ServiceSpec {
        ports: Some(vec![ServicePort {
            name: Some("grpc".to_owned()),
            port: PORT.into(),
            target_port: Some(IntOrString::Int(PORT.into())),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        }]),
        selector,
        type_: Some("ClusterIP".to_owned()),
        ..ServiceSpec::default()
    };
    let mut metadata = owned(source, name);
    let hash = hash(&serde_json::json!(spec).to_string());
    metadata.labels.get_or_insert_default().insert(SERVICE_HASH_LABEL.to_owned(), hash);
    Service { metadata, spec: Some(spec), ..Service::default() }
}

/// What is behind the Service of a source that has no Pod: the registry API at `addresses`, which are of one family.
pub fn endpoints(
    source: &CatalogSource,
    service: &str,
    addresses: &BTreeSet<IpAddr>,
    port: u16,
) -> EndpointSlice {
    let mut metadata = owned(source, service);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(SERVICE_LABEL.to_owned(), service.to_owned());
    labels.insert(SLICE_WRITER_LABEL.to_owned(), "olm-classic".to_owned());
    EndpointSlice {
        metadata,
        address_type: if addresses.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" }.to_owned(),
        endpoints: Some(addresses.iter().map(endpoint).collect()),
        ports: Some(vec![EndpointPort {
            name: Some("grpc".to_owned()),
            port: Some(port.into()),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }
}

fn endpoint(address: &IpAddr) -> Endpoint {
    Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
        ..Endpoint::default()
    }
}

/// The addresses of a slice that lead to `port` of something that is ready.
pub fn ready_addresses(slice: &EndpointSlice, port: u16) -> BTreeSet<IpAddr> {
    if !slice.ports.iter().flatten().any(|one| one.port == Some(port.into())) {
        return BTreeSet::new();
    }
    // Without a word it is ready.
    let is_ready =
        |one: &&Endpoint| one.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false);
    let ready = slice.endpoints.iter().flatten().filter(is_ready);
    ready
        .flat_map(|one| &one.addresses)
        .filter_map(|address| address.parse().ok())
        .take(ADDRESSES_MAX)
        .collect()
}

/// The metadata of an object that belongs to a source.
pub(super) fn owned(source: &CatalogSource, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: source.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([(MANAGED_LABEL.to_owned(), "true".to_owned())])),
        owner_references: Some(vec![owner(source)]),
        ..ObjectMeta::default()
    }
}

/// The labels of a source's Pod.
pub(super) fn labels(source: &CatalogSource) -> BTreeMap<String, String> {
    let name = source.metadata.name.clone().unwrap_or_default();
    [(CATALOG_SOURCE_LABEL.to_owned(), name), (MANAGED_LABEL.to_owned(), "true".to_owned())].into()
}

/// The reference of an object to its source.
pub fn owner(source: &CatalogSource) -> OwnerReference {
    OwnerReference {
        api_version: CatalogSource::api_version(&()).into_owned(),
        kind: CatalogSource::kind(&()).into_owned(),
        name: source.metadata.name.clone().unwrap_or_default(),
        uid: source.metadata.uid.clone().unwrap_or_default(),
        controller: Some(false),
        block_owner_deletion: Some(false),
    }
}

/// Whether an object belongs to a source: another one of its name is not to be touched.
pub fn is_owned(object: &ObjectMeta, source: &CatalogSource) -> bool {
    let uid = source.metadata.uid.as_deref().unwrap_or_default();
    !uid.is_empty() && object.owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

/// A value for labels that changes with a text.
pub(super) fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    hex(&digest[..16])
}

#[cfg(test)]
mod tests {
    use olm_api_classic::CatalogSourceSpec;

    use super::*;

    fn source() -> CatalogSource {
        let mut source = CatalogSource::new("busy.box", CatalogSourceSpec::default());
        source.metadata.namespace = Some("happy".to_owned());
        source.metadata.uid = Some("u".to_owned());
        source
    }

    #[test]
    fn the_name_is_the_sources_without_dots() {
        assert_eq!(name("busy.box").unwrap(), "busy-box");
        assert_eq!(address("busy-box", "happy"), "busy-box.happy.svc:50051");
        assert!(name("1busy").is_err() && name(&"a".repeat(64)).is_err());
    }

    #[test]
    fn a_service_belongs_to_its_source_alone() {
        let service = service(&source(), "busy-box", false);
        assert!(is_owned(&service.metadata, &source()));
        let other = CatalogSource {
            metadata: ObjectMeta { uid: Some("v".to_owned()), ..source().metadata },
            ..source()
        };
        assert!(!is_owned(&service.metadata, &other));
        let unknown = CatalogSource { metadata: ObjectMeta { uid: None, ..source().metadata }, ..source() };
        assert!(!is_owned(&service.metadata, &unknown));
        assert_eq!(service.spec.unwrap().selector, None, "the addresses are written, not selected");
        let selecting = super::service(&source(), "busy-box", true);
        assert_eq!(selecting.spec.unwrap().selector.unwrap()["olm.catalogSource"], "busy.box");
    }

    #[test]
    fn a_slice_leads_to_all_replicas_that_are_ready() {
        let addresses = BTreeSet::from(["10.0.0.8", "10.0.0.7"].map(|text| text.parse().unwrap()));
        let mut slice = endpoints(&source(), "busy-box", &addresses, 6000);
        assert_eq!(slice.address_type, "IPv4");
        assert_eq!(slice.metadata.labels.as_ref().unwrap()["kubernetes.io/service-name"], "busy-box");
        assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(6000));
        assert_eq!(ready_addresses(&slice, 6000), addresses);
        assert!(ready_addresses(&slice, 6001).is_empty(), "another port");
        let endpoints = slice.endpoints.as_mut().unwrap();
        endpoints[0].conditions = Some(EndpointConditions { ready: Some(false), ..Default::default() });
        endpoints[1].conditions = None;
        assert_eq!(ready_addresses(&slice, 6000), BTreeSet::from(["10.0.0.8".parse().unwrap()]));
    }
}
