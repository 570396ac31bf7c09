//! olm-classic, run against a cluster as an administrator would, with the permissions that it is installed with.

pub mod csv;
pub mod many;

use std::ops::Deref;

use futures::TryStreamExt;
use http::uri::PathAndQuery;
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use olm_api_classic::{CatalogSource, CatalogSourceStatus};
use tonic::{client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;

use crate::{
    instance::{Instance, Settings},
    kubectl::kubectl_with,
    operator::GROUPS,
    prelude::*,
    process::free_ports,
};

/// Namespace of the program, and of the catalogs that all namespaces see.
pub const NAMESPACE: &str = "olm";
/// The Service that kube-apiserver forwards requests for PackageManifests to, and its port's name.
pub const PACKAGES: (&str, &str) = ("packageserver-service", "packages");
/// The user that the program is known as in the cluster.
pub const USER: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";
/// The address of the Pod in whose place the program runs, to which the Services of catalogs lead. Kubernetes refuses
/// addresses of loopback there; what connects to it finds 127.0.0.1.
pub const ADVERTISED: &str = "10.9.8.7";

/// The objects of the manifests but the CRDs.
pub fn manifests() -> Result<Vec<Value>> {
    documents("classic.yaml")
}

fn documents(file: &str) -> Result<Vec<Value>> {
    let path = kubectl::config(&format!("classic/{file}"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(olm_yaml::documents(&text).collect::<Result<_, _>>()?)
}

/// Applies the manifests without the program's Pods.
pub fn install(cluster: &Cluster) -> Result<()> {
    let mut objects = [documents("crds.yaml")?, manifests()?].concat();
    objects.retain(|object| object["kind"] != "Deployment");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    kubectl_with(cluster, &apply, list.as_bytes())?;
    let wait =
        ["wait", "--for=condition=Established", "--timeout=60s", "crd/catalogsources.operators.coreos.com"];
    kubectl(cluster, &wait).map(drop)
}

/// Adds what the variant has in which the program serves ClusterCatalogs.
pub fn install_cluster_catalogs(cluster: &Cluster) -> Result<()> {
    for (option, part) in [("-k", "crd"), ("-f", "components/cluster-catalogs/objects.yaml")] {
        let path = kubectl::config(part).display().to_string();
        kubectl(cluster, &["apply", "--server-side", "--force-conflicts", option, &path])?;
    }
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    kubectl(cluster, &wait).map(drop)
}

/// olm-classic. Dropped, it is gone.
pub struct Classic {
    instance: Instance,
    packages_port: u16,
    registry_port: u16,
}

impl Deref for Classic {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl Classic {
    /// Starts the program where CRDs and permissions are installed already.
    pub async fn start(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        let this = Self::begin(cluster, settings)?;
        this.ready().await?;
        Ok(this)
    }

    /// The same, without waiting for it to be ready.
    pub fn begin(cluster: &Cluster, settings: &Settings) -> Result<Self> {
        let [packages_port, registry_port] = free_ports()?;
        let flags = |cache: &Path| {
            vec![
                format!("--namespace={NAMESPACE}"),
                format!("--cache-dir={}", cache.display()),
                format!("--registry-advertise-address={ADVERTISED}"),
                format!("--packages-bind-address=127.0.0.1:{packages_port}"),
                format!("--registry-bind-address=127.0.0.1:{registry_port}"),
            ]
        };
        let kubeconfig = cluster.kubeconfig_for(USER, &GROUPS)?;
        let instance = Instance::begin("olm-classic", (&kubeconfig, NAMESPACE), settings, flags)?;
        Ok(Self { instance, packages_port, registry_port })
    }

    /// Has kube-apiserver find its PackageManifests, as the readiness of its Pod would.
    pub async fn serve_packages(&self, cluster: &Cluster) -> Result<()> {
        let (service, port_name) = PACKAGES;
        cluster.add_endpoint(NAMESPACE, service, port_name, self.packages_port).await
    }

    /// Has kube-apiserver find them there no more.
    pub async fn withdraw_packages(&self, cluster: &Cluster) -> Result<()> {
        cluster.remove_endpoint(NAMESPACE, PACKAGES.0, self.packages_port).await
    }

    /// The names of the packages that it shows, asked without kube-apiserver as its administrator would.
    pub async fn packages(&self, cluster: &Cluster) -> Result<Vec<String>> {
        let config: Value = serde_json::from_slice(&fs::read(cluster.kubeconfig_admin())?)?;
        let user = &config["users"][0]["user"];
        let file = |field: &str| fs::read(user[field].as_str().unwrap_or_default());
        let identity = [file("client-certificate")?, file("client-key")?].concat();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_danger_accept_invalid_certs(true)
            .identity(reqwest::Identity::from_pem(&identity)?)
            .build()?;
        let path = "apis/packages.operators.coreos.com/v1/packagemanifests";
        let answer = client.get(format!("https://127.0.0.1:{}/{path}", self.packages_port)).send().await?;
        let list: Value = serde_json::from_str(&answer.error_for_status()?.text().await?)?;
        let names = list["items"].as_array().into_iter().flatten();
        Ok(names.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// Asks for the content of a ClusterCatalog: the status and the text of the answer.
    pub async fn content(&self, catalog: &str) -> Result<(u16, String)> {
        let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?;
        let answer = client.get(self.all(catalog)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// The port of its registry API.
    pub fn registry_port(&self) -> u16 {
        self.registry_port
    }
}

/// Waits until kube-apiserver has PackageManifests, and explains their kind, which it learns a moment later.
pub async fn packages_available(cluster: &Cluster) -> Result<()> {
    let api: Api<APIService> = Api::all(cluster.client().await?);
    wait::until("the APIService to be available", DEADLINE, || async {
        let status = api.get("v1.packages.operators.coreos.com").await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let available = conditions.iter().any(|one| one.type_ == "Available" && one.status == "True");
        wait::check(available, || format!("{conditions:?}"))
    })
    .await?;
    wait::until("the kind to be explained", DEADLINE, || async {
        kubectl(cluster, &["explain", "packagemanifest"]).map(drop)
    })
    .await
}

/// The first address behind the Service of a CatalogSource.
pub async fn behind(cluster: &Cluster, namespace: &str, service: &str) -> Result<(String, i32)> {
    let (addresses, port) = all_behind(cluster, namespace, service).await?;
    Ok((addresses.into_iter().next().context("no address")?, port))
}

/// The addresses behind the Service of a CatalogSource, and their port.
pub async fn all_behind(cluster: &Cluster, namespace: &str, service: &str) -> Result<(Vec<String>, i32)> {
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client().await?, namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let slices = slices.list(&of_service).await?.items;
    let [slice] = slices.as_slice() else { bail!("{} EndpointSlices of {service}", slices.len()) };
    let addresses = slice.endpoints.iter().flatten().flat_map(|one| one.addresses.clone()).collect();
    let port = slice.ports.iter().flatten().find_map(|one| one.port);
    Ok((addresses, port.context("no port")?))
}

/// The packages that the registry API says it has, asked as clients do: by the name and port of the Service, at what is
/// behind it.
pub async fn listed_packages(cluster: &Cluster, namespace: &str, service: &str) -> Result<Vec<String>> {
    listed_packages_at("127.0.0.1", cluster, namespace, service).await
}

/// The same of the replica at this address of loopback.
pub async fn listed_packages_at(
    host: &str,
    cluster: &Cluster,
    namespace: &str,
    service: &str,
) -> Result<Vec<String>> {
    let services: Api<Service> = Api::namespaced(cluster.client().await?, namespace);
    let spec = services.get(service).await?.spec.context("no spec")?;
    let port = spec.ports.iter().flatten().next().context("no port")?.port;
    let (_, behind) = behind(cluster, namespace, service).await?;
    let endpoint = Endpoint::from_shared(format!("http://{host}:{behind}"))?;
    let endpoint = endpoint.origin(format!("http://{service}.{namespace}.svc:{port}").parse()?);
    let mut grpc = Grpc::new(endpoint.connect_lazy());
    grpc.ready().await?;
    let path = PathAndQuery::from_static("/api.Registry/ListPackages");
    // Messages without fields, and with one text as their first.
    let codec = ProstCodec::<(), String>::default();
    let answer = grpc.server_streaming(tonic::Request::new(()), path, codec).await?;
    Ok(answer.into_inner().try_collect().await?)
}

/// A CatalogSource in a namespace.
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The API of its kind there.
    pub api: Api<CatalogSource>,
    /// A client of an administrator.
    pub client: Client,
}

impl Source {
    /// Creates a source with these annotations and this spec.
    pub async fn create(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        annotations: Value,
        spec: Value,
    ) -> Result<Self> {
        let client = cluster.client().await?;
        let api = Api::namespaced(client.clone(), namespace);
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec,
        });
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(Self { name: name.to_owned(), namespace: namespace.to_owned(), api, client })
    }

    /// Changes the object by a merge patch.
    pub async fn patch(&self, patch: Value) -> Result<()> {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The status.
    pub async fn status(&self) -> Result<CatalogSourceStatus> {
        Ok(self.api.get(&self.name).await?.status.unwrap_or_default())
    }

    /// Waits until state of the connection, reason, and `Ready` with its reason are these; answers the message of `Ready`.
    pub async fn shows(&self, state: &str, reason: &str, ready: &str) -> Result<String> {
        wait::until(
            &format!("{}/{} to be {state} {reason} {ready}", self.namespace, self.name),
            DEADLINE,
            || async {
                let status = self.status().await?;
                let connection = status.connection_state.map(|connection| connection.last_observed_state);
                let condition = status.conditions.iter().find(|condition| condition.type_ == "Ready");
                let found = (
                    connection.unwrap_or_default(),
                    status.reason.unwrap_or_default(),
                    condition.map(|c| format!("{}/{}", c.status, c.reason)).unwrap_or_default(),
                );
                let message = condition.map(|c| c.message.clone()).unwrap_or_default();
                wait::check(found == (state.to_owned(), reason.to_owned(), ready.to_owned()), || {
                    format!("it is {found:?}: {message}")
                })?;
                Ok(message)
            },
        )
        .await
    }
}
