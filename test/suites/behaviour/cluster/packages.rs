//! The API of PackageManifests behind the aggregator of a real API server, as kubectl and others use it.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use catalogd::{CatalogFiles, CatalogStore, Generation};
use jiff::Timestamp;
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use olm_aggregate::ApiServer;
use olm_api_classic::{CatalogSource, CatalogSourceSpec, PackageManifest};
use olm_classic::{Content, Contents, Packages, SourceKey, package_registration};
use olm_runtime::{Chance, ServerLimits, ServingSecret, TlsProfile, listen, serve, server_config_for};
use olm_test::{
    catalog::{self, Entry},
    classic::{PACKAGES, manifests, packages_available},
    cli::olm,
    data,
    kubectl::kubectl_with,
    prelude::*,
};
use reqwest::{StatusCode, header};
use tokio_util::sync::CancellationToken;

const GROUP: &str = "/apis/packages.operators.coreos.com/v1";

/// A file-based catalog in one file.
struct Documents(String);

impl CatalogFiles for Documents {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.json".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> std::io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(self.0.as_bytes()))
    }
}

/// Packages with two channels each, the second of which has two bundles and is the default.
fn documents() -> Documents {
    let mut bundles = Vec::new();
    for package in ["anchor", "buoy", "compass"] {
        for number in 1..=3 {
            let mut entry = Entry::new(package, &format!("{number}.0.0"));
            match number {
                2 => entry.edges = json!({"replaces": format!("{package}.v1.0.0")}),
                3 => entry.channels = vec!["candidate".to_owned()],
                _ => {}
            }
            entry.properties.push(json!({"type": "olm.csv.metadata", "value": {
                "displayName": package, "annotations": {"capabilities": "Basic Install"},
                "provider": {"name": "Harbour"},
                "crdDescriptions": {"owned": [{"name": "x.example.com", "version": "v1", "kind": "X"}]},
            }}));
            bundles.push((entry, format!("registry.example.com/{package}:{number}")));
        }
    }
    Documents(catalog::text(&bundles))
}

/// A server of packages that a cluster forwards requests to.
struct Server {
    cluster: &'static Cluster,
    namespace: String,
    contents: Contents,
    generation: Arc<Generation>,
    address: String,
    shutdown: CancellationToken,
    store: CatalogStore,
    _state: StateDirectory,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Server {
    async fn start() -> Result<Self> {
        let (cluster, namespace) = (Cluster::shared().await?, unique_name("packages"));
        cluster.create_namespace(&namespace).await?;
        let (client, chance) = (cluster.client().await?, Chance::default());
        let (state, shutdown) = (StateDirectory::new("packages")?, CancellationToken::new());
        let store = CatalogStore::open(state.path())?;
        let generation = installed(&store, '1', &documents())?;
        let contents = Contents::default();
        let packages = Packages::new(namespace.clone(), state.path().join("packages"));
        let server = ApiServer::new(Arc::clone(&packages), client.clone());
        let names = [format!("{}.{namespace}.svc", PACKAGES.0), "localhost".to_owned()];
        let secret = "packages-serving-cert";
        let certificate = ServingSecret::open(client.clone(), &namespace, secret, &names, &chance).await?;
        let clients = ApiServer::<Packages>::client_verifier();
        let tls = server_config_for(certificate.serving(), &TlsProfile::default(), clients)?;
        let listener = listen("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        register(cluster, &namespace)?;
        cluster.add_endpoint(&namespace, PACKAGES.0, PACKAGES.1, port).await?;
        contents.listed([]);
        let serving = serve(listener, server.router(), Some(tls), ServerLimits::default(), shutdown.clone());
        tokio::spawn(serving);
        tokio::spawn(server.follow(chance.clone(), shutdown.clone()));
        tokio::spawn(packages.follow(contents.clone(), shutdown.clone()));
        let registration = package_registration(&namespace, secret);
        tokio::spawn(registration.run(client, chance, shutdown.clone()));
        let address = format!("https://localhost:{port}");
        let this = Self { cluster, namespace, contents, generation, address, shutdown, store, _state: state };
        this.offer("community", "Community Operators", &this.generation);
        packages_available(cluster).await?;
        Ok(this)
    }

    /// Offers the packages under the name of a CatalogSource.
    fn offer(&self, name: &str, display_name: &str, generation: &Arc<Generation>) {
        let spec = CatalogSourceSpec {
            display_name: Some(display_name.to_owned()),
            publisher: Some("Example".to_owned()),
            ..CatalogSourceSpec::default()
        };
        let mut source = CatalogSource::new(name, spec);
        source.metadata.namespace = Some(self.namespace.clone());
        source.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
        let content = Content { source: Arc::new(source), generation: Arc::clone(generation) };
        self.contents.set(&self.key(name), Some(content));
    }

    fn key(&self, name: &str) -> SourceKey {
        SourceKey { namespace: self.namespace.clone(), name: name.to_owned() }
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        kubectl(self.cluster, &[args, &["--namespace", &self.namespace]].concat())
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&[args, &["-o", "json"]].concat())?)?)
    }
}

/// Applies the Service and the APIService of the manifests, for a server in this namespace.
fn register(cluster: &Cluster, namespace: &str) -> Result<()> {
    let mut objects = manifests()?;
    objects.retain(|object| object["kind"] == "APIService" || object["metadata"]["name"] == PACKAGES.0);
    for object in &mut objects {
        let service = object["kind"] == "Service";
        let place = if service { "/metadata/namespace" } else { "/spec/service/namespace" };
        *object.pointer_mut(place).context("no namespace")? = json!(namespace);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    kubectl_with(cluster, &["apply", "--server-side", "-f", "-"], list.as_bytes()).map(drop)
}

fn installed(store: &CatalogStore, digest: char, files: &dyn CatalogFiles) -> Result<Arc<Generation>> {
    let reference = format!("example.com/catalog@sha256:{}", digest.to_string().repeat(64));
    Ok(store.install(&format!("catalog-{digest}"), &reference, Timestamp::now(), files)?)
}

/// One test, since a cluster has one server of packages.
#[tokio::test(flavor = "multi_thread")]
async fn packages_are_shown_by_the_api_server() -> Result<()> {
    let server = Server::start().await?;
    lists_and_tables(&server)?;
    described(&server)?;
    searched(&server).await?;
    watched(&server)?;
    icons(&server).await?;
    permissions(&server).await?;
    forged(&server).await?;
    replaced(&server).await?;
    whole(&server)?;
    large(&server)
}

fn lists_and_tables(server: &Server) -> Result<()> {
    let table = server.kubectl(&["get", "packagemanifests"])?;
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(lines.next().as_deref(), Some("NAME CATALOG AGE"));
    let rows: Vec<_> = lines.collect();
    let list = server.json(&["get", "packagemanifests"])?;
    let items = list["items"].as_array().context("no items")?;
    assert_eq!((rows.len(), items.is_empty()), (items.len(), false));
    let name = items[0]["metadata"]["name"].as_str().context("no name")?;
    assert!(rows[0].starts_with(&format!("{name} Community Operators ")), "{rows:?}");
    let one = server.json(&["get", "packagemanifest", name])?;
    assert_eq!(one, items[0]);
    let shown: PackageManifest = serde_json::from_value(one.clone())?;
    let default = shown.status.channels.iter().find(|one| one.name == shown.status.default_channel);
    let default = default.context("no default channel")?;
    let entries: Vec<_> = default.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(
        (default.current_csv.as_str(), entries),
        ("anchor.v2.0.0", vec!["anchor.v2.0.0", "anchor.v1.0.0"])
    );
    let fields: Vec<_> = one.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata", "spec", "status"]);
    let fields: Vec<_> =
        one["metadata"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    assert_eq!(fields, ["creationTimestamp", "labels", "name", "namespace"]);
    assert_eq!(shown.metadata.namespace.as_ref(), Some(&server.namespace));
    let of = |selector: &str| server.json(&["get", "packagemanifests", "-l", selector]);
    assert_eq!(of("catalog=community")?["items"].as_array(), Some(items));
    assert_eq!(of("catalog notin (community)")?["items"], json!([]));
    let named =
        server.json(&["get", "packagemanifests", "--field-selector", &format!("metadata.name={name}")])?;
    assert_eq!(named["items"], json!([items[0]]));
    let error = server.kubectl(&["get", "packagemanifests", "--field-selector", "spec.x=1"]).unwrap_err();
    assert!(error.to_string().contains("field label not supported: spec.x"), "{error}");
    let error = server.kubectl(&["get", "packagemanifest", "none"]).unwrap_err().to_string();
    assert!(error.contains("packagemanifests.packages.operators.coreos.com \"none\" not found"), "{error}");
    let error = server.kubectl(&["delete", "packagemanifest", name]).unwrap_err().to_string();
    assert!(error.contains("does not allow this method"), "{error}");
    // The packages of the global namespace are shown in all.
    let elsewhere = kubectl(server.cluster, &["get", "packagemanifests", "-n", "default", "-o", "name"])?;
    assert_eq!(elsewhere.lines().count(), items.len());
    Ok(())
}

async fn searched(server: &Server) -> Result<()> {
    let kubeconfig = server.cluster.kubeconfig_admin();
    let found = olm(&kubeconfig, &["search", "anchor", "-o", "wide"]).await?;
    found.ensure(0, &["anchor", "2.0.0", "Harbour", &format!("{}/community (Classic)", server.namespace)])?;
    ensure!(!found.text.contains("compass"), "{}", found.text);
    Ok(())
}

fn described(server: &Server) -> Result<()> {
    let resources = kubectl(server.cluster, &["api-resources", "--api-group=packages.operators.coreos.com"])?;
    let row = resources.lines().nth(1).unwrap_or_default();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["packagemanifests", "packages.operators.coreos.com/v1", "true", "PackageManifest"]
    );
    let explained = kubectl(server.cluster, &["explain", "packagemanifest.status.channels"])?;
    assert!(
        explained.contains("currentCSVDesc") && explained.contains("The channels, by name."),
        "{explained}"
    );
    let explained = kubectl(server.cluster, &["explain", "packagemanifest.metadata.labels"])?;
    assert!(explained.contains("map[string]string"), "{explained}");
    // Clients of both generations: one document for all groups, one for each, and both forms of OpenAPI.
    let all = kubectl(server.cluster, &["get", "--raw", "/openapi/v2"])?;
    assert!(all.contains("com.coreos.operators.packages.v1.PackageManifest"));
    let resources: Value = serde_json::from_str(&kubectl(server.cluster, &["get", "--raw", GROUP])?)?;
    let names: Vec<_> =
        resources["resources"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
    assert_eq!(names, ["packagemanifests", "packagemanifests/icon"]);
    Ok(())
}

fn watched(server: &Server) -> Result<()> {
    let mut watching = server
        .cluster
        .kubectl_command()
        .arg(format!("--kubeconfig={}", server.cluster.kubeconfig_admin().display()))
        .args(["get", "packagemanifests", "--watch", "--output-watch-events", "--no-headers"])
        // What never comes is not waited for.
        .arg(format!("--request-timeout={}s", DEADLINE.as_secs()))
        .args(["--namespace", &server.namespace])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(watching.stdout.take().context("no output")?).lines();
    let packages = server.generation.packages().count();
    let mut events = |kind: &str| -> Result<()> {
        let seen: Vec<_> = lines.by_ref().take(packages).collect::<Result<_, _>>()?;
        ensure!(seen.len() == packages && seen.iter().all(|line| line.starts_with(kind)), "{kind}: {seen:?}");
        Ok(())
    };
    events("ADDED")?;
    // Perhaps before the watch begins: it continues from the version that was listed.
    server.offer("community", "Renamed", &server.generation);
    events("MODIFIED")?;
    server.contents.set(&server.key("community"), None);
    events("DELETED")?;
    server.offer("community", "Community Operators", &server.generation);
    events("ADDED")?;
    watching.kill()?;
    watching.wait()?;
    Ok(())
}

async fn icons(server: &Server) -> Result<()> {
    let name = server.generation.packages().next().context("no package")?.to_owned();
    let path = format!("{GROUP}/namespaces/{}/packagemanifests/{name}/icon", server.namespace);
    let request = http::Request::get(&path).body(Vec::new())?;
    let picture = server.cluster.client().await?.request_text(request).await?;
    assert!(picture.starts_with("<svg"), "{picture}");
    let missing = http::Request::get(path.replace(&name, "none")).body(Vec::new())?;
    let error = server.cluster.client().await?.request_text(missing).await.unwrap_err();
    assert!(error.to_string().contains("\"none\" not found"), "{error}");
    Ok(())
}

/// Who may read is a question of RBAC, as for every kind.
async fn permissions(server: &Server) -> Result<()> {
    let client = server.cluster.client_for("ann", &["devs"]).await?;
    let packages: Api<PackageManifest> = Api::namespaced(client, &server.namespace);
    let error = packages.list(&ListParams::default()).await.unwrap_err().to_string();
    let wanted = format!(
        "User \"ann\" cannot list resource \"packagemanifests\" in API group \"packages.operators.coreos.com\" in the \
         namespace \"{}\"",
        server.namespace
    );
    assert!(error.contains(&wanted), "{error}");
    let name = unique_name("packages-view");
    let allowed = json!({
        "apiGroups": ["packages.operators.coreos.com"], "resources": ["packagemanifests"], "verbs": ["get", "list"],
    });
    let role = json!({ "metadata": { "name": name }, "rules": [allowed] });
    let binding = json!({
        "metadata": { "name": name }, "subjects": [{ "kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io" },
    });
    let admin = server.cluster.client().await?;
    let params = PostParams::default();
    Api::<ClusterRole>::all(admin.clone()).create(&params, &serde_json::from_value(role)?).await?;
    Api::<ClusterRoleBinding>::all(admin).create(&params, &serde_json::from_value(binding)?).await?;
    let list = async || Ok(packages.list(&ListParams::default()).await?);
    eventually("the packages to be readable", list, |list| !list.items.is_empty()).await?;
    // The subresource is a right of its own.
    let listed = packages.list(&ListParams::default()).await?;
    let error = packages.get_subresource("icon", &listed.items[0].name_any()).await.unwrap_err().to_string();
    assert!(error.contains("cannot get resource \"packagemanifests/icon\""), "{error}");
    Ok(())
}

/// Headers of the front proxy count with its certificate only.
async fn forged(server: &Server) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(server.cluster.client().await?, &server.namespace);
    let map = maps.get("packages-serving-cert").await?.data.unwrap_or_default();
    let authority = reqwest::Certificate::from_pem(map["ca.crt"].as_bytes())?;
    let client = |identity: Option<reqwest::Identity>| -> Result<reqwest::Client> {
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only([authority.clone()]);
        Ok(identity.into_iter().fold(builder, reqwest::ClientBuilder::identity).build()?)
    };
    let ask = |client: reqwest::Client| {
        let request = client
            .get(format!("{}{GROUP}/packagemanifests", server.address))
            .header("X-Remote-User", "admin")
            .header("X-Remote-Group", "system:masters");
        async move { Ok::<_, anyhow::Error>(request.send().await?) }
    };
    let answer = ask(client(None)?).await?;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(answer.text().await?.contains("User \\\"system:anonymous\\\" cannot list"));
    let of = |kubeconfig: &Path| -> Result<reqwest::Identity> {
        let config: Value = serde_json::from_slice(&fs::read(kubeconfig)?)?;
        let user = &config["users"][0]["user"];
        let file = |field: &str| fs::read(user[field].as_str().unwrap_or_default());
        let pem = [file("client-certificate")?, file("client-key")?].concat();
        Ok(reqwest::Identity::from_pem(&pem)?)
    };
    // A user of the cluster is who the certificate says.
    let answer = ask(client(Some(of(&server.cluster.kubeconfig_for("bob", &[])?)?))?).await?;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(answer.text().await?.contains("User \\\"bob\\\" cannot list"));
    let answer = ask(client(Some(of(&server.cluster.kubeconfig_admin())?))?).await?;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
    let health = client(None)?.get(format!("{}/readyz", server.address)).send().await?;
    assert_eq!(health.status(), StatusCode::OK);
    Ok(())
}

/// Whom to trust is written again when others change it, or make the APIService anew.
async fn replaced(server: &Server) -> Result<()> {
    let api: Api<APIService> = Api::all(server.cluster.client().await?);
    let name = "v1.packages.operators.coreos.com";
    let before = api.get(name).await?.spec;
    let patch = json!({ "spec": { "caBundle": "QUJD" } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    eventually(
        "the APIService to be as before",
        async || Ok(api.get(name).await?.spec),
        |now| *now == before,
    )
    .await?;
    api.delete(name, &DeleteParams::default()).await?;
    register(server.cluster, &server.namespace)?;
    packages_available(server.cluster).await
}

/// A list is one answer, whatever limit a client sets, as by upstream's server.
fn whole(server: &Server) -> Result<()> {
    let rows = server.kubectl(&["get", "packagemanifests", "--no-headers", "--chunk-size=2"])?;
    assert_eq!(rows.lines().count(), server.generation.packages().count());
    let path = format!("{GROUP}/namespaces/{}/packagemanifests?limit=1", server.namespace);
    let list: Value = serde_json::from_str(&kubectl(server.cluster, &["get", "--raw", &path])?)?;
    assert_eq!(
        (list["items"].as_array().map(Vec::len), &list["metadata"]["continue"]),
        (Some(3), &Value::Null)
    );
    let error = kubectl(server.cluster, &["get", "--raw", &format!("{path}&continue=x")]).unwrap_err();
    assert!(error.to_string().contains("list again without one"), "{error}");
    Ok(())
}

/// A large catalog of real operators. Each of its channels becomes one chain: as it is, most of them have several
/// heads.
fn community(path: &Path) -> Result<Documents> {
    let mut text = String::new();
    for line in BufReader::new(zstd::Decoder::new(fs::File::open(path)?)?).lines() {
        let line = line?;
        let mut document: Value = serde_json::from_str(&line)?;
        if document["schema"] == "olm.channel" {
            let mut before = json!("");
            for entry in document["entries"].as_array_mut().into_iter().flatten() {
                let name = entry["name"].clone();
                *entry = json!({ "name": name, "replaces": std::mem::replace(&mut before, name) });
            }
        }
        text.push_str(&document.to_string());
        text.push('\n');
    }
    Ok(Documents(text))
}

/// All packages of a large catalog are shown; how long that takes is printed.
fn large(server: &Server) -> Result<()> {
    let Some(folder) = data::find("") else { return Ok(()) };
    let generation = installed(&server.store, '2', &community(&folder.join("community.jsonl.zst"))?)?;
    let start = Instant::now();
    server.offer("large", "Large", &generation);
    let path =
        format!("{GROUP}/namespaces/{}/packagemanifests?labelSelector=catalog%3Dlarge", server.namespace);
    let count = |text: &str| -> Result<usize> {
        let list: Value = serde_json::from_str(text)?;
        Ok(list["items"].as_array().map_or(0, Vec::len))
    };
    let deadline = Instant::now() + DEADLINE;
    while count(&kubectl(server.cluster, &["get", "--raw", &path])?)? == 0 {
        ensure!(Instant::now() < deadline, "the packages are not shown");
    }
    let shown = start.elapsed();
    let timed = |args: &[&str]| -> Result<(Duration, String)> {
        let start = Instant::now();
        let text = server.kubectl(args)?;
        Ok((start.elapsed(), text))
    };
    let select = ["get", "packagemanifests", "-l", "catalog=large"];
    let (table, rows) = timed(&[&select[..], &["--chunk-size=5"]].concat())?;
    let (all, text) = timed(&[&select[..], &["-o", "json"]].concat())?;
    let (one, _) = timed(&["get", "packagemanifest", "prometheus", "-o", "json"])?;
    assert_eq!(rows.lines().count(), count(&text)? + 1);
    data::report(&format!(
        "{} of {} packages of {} MB shown after {:.1} s; kubectl get: {} ms, with -o json: {} ms ({} MB), of one: {} ms",
        count(&text)?,
        generation.packages().count(),
        generation.bytes() / 1_000_000,
        shown.as_secs_f32(),
        table.as_millis(),
        all.as_millis(),
        text.len() / 1_000_000,
        one.as_millis(),
    ));
    server.contents.set(&server.key("large"), None);
    Ok(())
}
