//! The programs as the manifests start them: with the arguments, the environment and the mounted files of a rendering,
//! on ports of this machine, with the rights that the rendering gives their accounts. Certificates come from an
//! authority of the test, as the Secrets and ConfigMaps that the pods mount.

use std::net::Ipv4Addr;

use olm_test::{kubectl::kubectl_with, pki::Authority, prelude::*, process::free_ports, supervisor::Program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::alerts::scraped;
use crate::lived::extension;
use crate::rendering::{Objects, kustomized, templated};

const DEADLINE: Duration = Duration::from_mins(3);
const OPERATOR_CONTROLLER: &str = "operator-controller-controller-manager";
const CATALOGD: &str = "catalogd-controller-manager";
const CATALOGS: &str = "catalogd-service.olmv1-system.svc";

/// What pods can mount: the keys of Secrets and ConfigMaps by their names.
type Mountable = BTreeMap<String, BTreeMap<String, String>>;

/// A program of a Deployment. Dropped, it is gone.
struct Started {
    process: Process,
    catalogs: u16,
    metrics: u16,
    health: u16,
    _root: StateDirectory,
}

/// Writes what a container mounts below `root`; the folders it finds it in.
fn mount(root: &Path, pod: &Value, given: &Mountable) -> Result<Vec<String>> {
    let mut folders = Vec::new();
    for mounted in pod["containers"][0]["volumeMounts"].as_array().context("volumeMounts")? {
        let volumes = pod["volumes"].as_array().into_iter().flatten();
        let volume = volumes.into_iter().find(|volume| volume["name"] == mounted["name"]);
        let volume = volume.with_context(|| format!("no volume for {mounted}"))?;
        let path = mounted["mountPath"].as_str().context("mountPath")?;
        let folder = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(&folder)?;
        let projected = volume["projected"]["sources"].as_array();
        for source in projected.map_or_else(|| vec![volume], |sources| sources.iter().collect()) {
            let (secret, map) = (&source["secret"]["secretName"], &source["configMap"]["name"]);
            let Some(name) = secret.as_str().or(map.as_str()) else { continue };
            let keys = given.get(name).with_context(|| format!("nothing stands for {name}"))?;
            let items = source.pointer("/secret/items").or(source.pointer("/configMap/items"));
            let files: Vec<(String, String)> = match items.and_then(Value::as_array) {
                None => keys.keys().map(|key| (key.clone(), key.clone())).collect(),
                Some(items) => items
                    .iter()
                    .map(|item| Ok((text(&item["key"])?, text(&item["path"])?)))
                    .collect::<Result<_>>()?,
            };
            for (key, file) in files {
                let content = keys.get(&key).with_context(|| format!("{name} has no {key}"))?;
                std::fs::write(folder.join(file), content)?;
            }
        }
        folders.push(path.to_owned());
    }
    Ok(folders)
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).context("a text is missing")
}

impl Started {
    /// Starts the program of a Deployment as its container says; `env` is what this machine needs beside that.
    async fn new(
        cluster: &Cluster,
        objects: &Objects,
        deployment: &str,
        given: &Mountable,
        env: &[(&str, String)],
    ) -> Result<Self> {
        let found = objects.iter().find(|((kind, _, name), _)| kind == "Deployment" && name == deployment);
        let pod = &found.context("no such Deployment")?.1["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let root = StateDirectory::new(deployment)?;
        let folders = mount(root.path(), pod, given)?;
        // A path that a container names must be one that it mounts.
        let placed = |path: &str| -> Result<String> {
            ensure!(folders.iter().any(|folder| path.starts_with(folder.as_str())), "{path} is not mounted");
            Ok(format!("{}{path}", root.path().display()))
        };
        let [catalogs, metrics, health] = free_ports()?;
        let ports = BTreeMap::from([
            ("--catalogs-server-addr", catalogs),
            ("--metrics-bind-address", metrics),
            ("--health-probe-bind-address", health),
        ]);
        let mut args = Vec::new();
        for arg in container["args"].as_array().context("args")? {
            let arg = text(arg)?;
            args.push(match arg.split_once('=') {
                Some((flag, _)) if ports.contains_key(flag) => format!("{flag}=127.0.0.1:{}", ports[flag]),
                Some((flag, path)) if path.starts_with('/') => format!("{flag}={}", placed(path)?),
                _ => arg,
            });
        }
        let program = text(&container["command"][0])?.trim_start_matches('/').to_owned();
        let user = format!("system:serviceaccount:olmv1-system:{}", text(&pod["serviceAccountName"])?);
        let groups =
            ["system:serviceaccounts", "system:serviceaccounts:olmv1-system", "system:authenticated"];
        args.push(format!("--kubeconfig={}", cluster.kubeconfig_for(&user, &groups)?.display()));
        args.push(format!("--cache-dir={}", placed("/var/cache/catalogd")?));
        if program == "operator-controller" {
            args.push(format!("--cache-path={}", placed("/var/cache/operator-controller")?));
        }
        let mut variables: BTreeMap<String, String> =
            env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = text(&variable["value"])?;
            let value = if value.starts_with('/') { placed(&value)? } else { value };
            variables.insert(text(&variable["name"])?, value);
        }
        let process = Process::start(
            deployment,
            Program {
                program: cargo_program(&program, &program)?,
                args,
                env: variables,
                env_remove: vec!["KUBECONFIG".to_owned(), "RUST_LOG".to_owned()],
                log: root.path().join("log"),
            },
        )?;
        let started = Self { process, catalogs, metrics, health, _root: root };
        started.ready().await?;
        Ok(started)
    }

    async fn ready(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/readyz", self.health);
        wait::until(&format!("{} to be ready", self.process.name()), DEADLINE, || async {
            self.process.check_running()?;
            let answer = reqwest::get(&url).await?;
            ensure!(answer.status().is_success(), "{}", answer.text().await?);
            Ok(())
        })
        .await
    }
}

/// A proxy that leads everybody to one port of this machine, whatever they ask for: the Service's part.
async fn service(port: u16) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(tunnel(client, port));
        }
    });
    Ok(address)
}

async fn tunnel(mut client: TcpStream, port: u16) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(client.read_u8().await?);
    }
    let wanted = head.starts_with(format!("CONNECT {CATALOGS}:443 ").as_bytes());
    ensure!(wanted, "{}", String::from_utf8_lossy(&head));
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// What cert-manager and OpenShift's service CA would have made for these objects.
fn issued(objects: &Objects, authority: &Authority) -> Result<Mountable> {
    let ca = authority.identity().certificate;
    let pair = |names: &[&str]| -> Result<BTreeMap<String, String>> {
        let server = authority.server(names.first().context("no name")?, names)?;
        let keys = [("tls.crt", server.certificate), ("tls.key", server.key)];
        Ok(keys.map(|(key, value)| (key.to_owned(), value)).into())
    };
    let map = |key: &str| BTreeMap::from([(key.to_owned(), ca.clone())]);
    let mut made = Mountable::from([
        ("olmv1-trusted-ca-bundle".to_owned(), map("ca-bundle.crt")),
        ("openshift-service-ca.crt".to_owned(), map("service-ca.crt")),
    ]);
    for ((kind, namespace, name), object) in objects {
        if kind == "Certificate" && object["spec"]["isCA"] != true {
            let names = object["spec"]["dnsNames"].as_array().into_iter().flatten();
            let names: Vec<&str> = names.filter_map(Value::as_str).collect();
            let mut secret = pair(&names)?;
            secret.extend(map("ca.crt"));
            made.insert(text(&object["spec"]["secretName"])?, secret);
        }
        let asked = &object["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
        if let Some(secret) = asked.as_str() {
            let host = format!("{name}.{namespace}.svc");
            made.insert(secret.to_owned(), pair(&[&host, &format!("{host}.cluster.local")])?);
        }
    }
    Ok(made)
}

fn apply_list(cluster: &Cluster, items: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    kubectl_with(cluster, &["apply", "--server-side", "-f", "-"], list.to_string().as_bytes()).map(drop)
}

/// Applies what a cluster without cert-manager takes.
fn apply(cluster: &Cluster, objects: &Objects) -> Result<()> {
    for namespace in ["openshift-config", "cert-manager"] {
        kubectl(cluster, &["create", "namespace", namespace])?;
    }
    let of = |wanted: &[&str], others: bool| -> Result<()> {
        let foreign = |object: &&Value| {
            object["apiVersion"].as_str().is_some_and(|version| version.starts_with("cert-manager.io/"))
        };
        let items: Vec<Value> = objects
            .values()
            .filter(|object| !foreign(object))
            .filter(|object| object["kind"].as_str().is_some_and(|kind| wanted.contains(&kind)) != others)
            .cloned()
            .collect();
        apply_list(cluster, &items)
    };
    let first = ["Namespace", "CustomResourceDefinition"];
    of(&first, false)?;
    kubectl(cluster, &["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])?;
    of(&first, true)
}

/// What the monitors of an overlay need to be scraped with: their account's token. Monitors themselves take kinds that
/// this cluster does not have.
async fn scraper(cluster: &Cluster, monitors: &Objects) -> Result<String> {
    // In this order: tokens of accounts that are not there are taken away.
    for wanted in ["ServiceAccount", "Secret", "ClusterRoleBinding"] {
        let of_kind = monitors.iter().filter(|((kind, ..), _)| kind == wanted);
        apply_list(cluster, &of_kind.map(|(_, object)| object.clone()).collect::<Vec<_>>())?;
    }
    wait::until("the token of the account that reads metrics", DEADLINE, async || {
        let secret = kubectl::get(cluster, &["secret", "olmv1-metrics-token", "-n=olmv1-system"])?;
        let token = secret["data"]["token"].as_str().context("no token")?;
        Ok(String::from_utf8(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, token)?)?)
    })
    .await
}

/// Reads metrics as Prometheus would, with the authority and the name that each monitor says.
async fn scrapes(
    cluster: &Cluster,
    (monitors, objects): (&Objects, &Objects),
    given: &Mountable,
    port: impl Fn(&str) -> u16,
) -> Result<()> {
    let token = scraper(cluster, monitors).await?;
    let found = scraped(monitors, objects);
    ensure!(!found.is_empty(), "nothing is scraped");
    for (service, monitor) in found {
        let tls = &monitor["spec"]["endpoints"][0]["tlsConfig"];
        let (map, secret) = (&tls["ca"]["configMap"], &tls["ca"]["secret"]);
        let place = if map.is_null() { secret } else { map };
        let (name, key) = (text(&place["name"])?, text(&place["key"])?);
        let authority = match given.get(&name) {
            Some(keys) => keys.get(&key).cloned(),
            None => kubectl::get(cluster, &["configmap", &name, "-n=olmv1-system"])?["data"][&key]
                .as_str()
                .map(str::to_owned),
        };
        let authority = authority.with_context(|| format!("{name} has no {key}"))?;
        let (host, port) = (text(&tls["serverName"])?, port(service));
        let client = trusting(&authority, &host, port)?;
        let url = format!("https://{host}:{port}/metrics");
        let answer = client
            .get(&url)
            .bearer_auth(&token)
            .send()
            .await
            .with_context(|| format!("{service} as {host}"))?;
        ensure!(answer.status().is_success(), "{service}: {}", answer.status());
        ensure!(answer.text().await?.contains("leader_election_master_status"), "{service}");
    }
    Ok(())
}

/// A client that trusts nobody else, and finds the host on a port of this machine.
fn trusting(authority: &str, host: &str, port: u16) -> Result<reqwest::Client> {
    let trusted = reqwest::Certificate::from_pem_bundle(authority.as_bytes())?;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only(trusted);
    Ok(client.resolve(host, (Ipv4Addr::LOCALHOST, port).into()).build()?)
}

/// Starts what the chart makes of values, sees a catalog served and read, an extension installed from it, and metrics
/// read as the overlay of `config/observability` says.
async fn lives(values: &[&str], observability: &str) -> Result<()> {
    if skip_on_given_cluster() {
        return Ok(());
    }
    let objects = templated(values)?;
    let site = Site::start().await?;
    let (cluster, images) = (&site.cluster, &site.images);
    apply(cluster, &objects)?;
    let authority = Authority::new("the authority of this cluster")?;
    let given = issued(&objects, &authority)?;
    let registries = ("CONTAINERS_REGISTRIES_CONF", images.registries_conf().display().to_string());
    let split = values.contains(&"options.catalogd.separate=true");
    let catalogd = if split {
        Some(Started::new(cluster, &objects, CATALOGD, &given, std::slice::from_ref(&registries)).await?)
    } else {
        None
    };
    let mut env = vec![registries];
    if let Some(catalogd) = &catalogd {
        env.push(("HTTPS_PROXY", service(catalogd.catalogs).await?));
        env.push(("NO_PROXY", "127.0.0.1,localhost".to_owned()));
    }
    let operator = Started::new(cluster, &objects, OPERATOR_CONTROLLER, &given, &env).await?;
    extension(cluster, images).await?;
    wait::until("the extension to be installed", DEADLINE, async || {
        operator.process.check_running()?;
        let status = kubectl::get(cluster, &["clusterextension", "lighthouse"])?["status"].clone();
        wait::check(status["install"]["bundle"]["version"] == "1.0.0", || {
            format!("{status}\n{}", operator.process.log_tail())
        })
    })
    .await?;
    let served_by = catalogd.as_ref().unwrap_or(&operator);
    let with_own_certificates = container_args(&objects, OPERATOR_CONTROLLER)?.contains("--tls-cert=");
    let published = kubectl(cluster, &["get", "configmaps", "-n=olmv1-system", "-o=name"])?;
    // Nobody publishes an authority that nobody made; clients trust the one of the certificate that was mounted.
    ensure!(published.contains("catalogd-serving-cert") != with_own_certificates, "{published}");
    let authority = if with_own_certificates {
        authority.identity().certificate
    } else {
        text(
            &kubectl::get(cluster, &["configmap", "catalogd-serving-cert", "-n=olmv1-system"])?["data"]["ca.crt"],
        )?
    };
    let port = served_by.catalogs;
    let url = format!("https://{CATALOGS}:{port}/catalogs/lighthouse/api/v1/all");
    let answer = trusting(&authority, CATALOGS, port)?.get(url).send().await?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    ensure!(answer.text().await?.contains("lighthouse-operator.v1.0.0"), "another catalog is served");
    let port =
        |service: &str| if service == "catalogd-service" { served_by.metrics } else { operator.metrics };
    scrapes(cluster, (&kustomized(observability)?, &objects), &given, port).await
}

/// The arguments of a container, one after the other.
fn container_args(objects: &Objects, deployment: &str) -> Result<String> {
    let found = objects.iter().find(|((kind, _, name), _)| kind == "Deployment" && name == deployment);
    let args = &found.context("no such Deployment")?.1["spec"]["template"]["spec"]["containers"][0]["args"];
    Ok(args.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_live_with_certificates_of_their_own() -> Result<()> {
    lives(&["options.catalogd.separate=true"], "overlays/observability/split").await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_program_lives_with_a_certificate_of_its_own() -> Result<()> {
    lives(&[], "observability").await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_program_lives_with_certificates_of_cert_manager() -> Result<()> {
    lives(&["options.certManager.enabled=true"], "overlays/observability/cert-manager").await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_live_with_certificates_of_cert_manager() -> Result<()> {
    let values = ["options.certManager.enabled=true", "options.catalogd.separate=true"];
    lives(&values, "overlays/observability/cert-manager").await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_program_lives_with_certificates_of_the_service_ca() -> Result<()> {
    lives(&["options.openshift.enabled=true"], "overlays/observability/openshift").await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_live_with_certificates_of_the_service_ca() -> Result<()> {
    let values = ["options.openshift.enabled=true", "options.catalogd.separate=true"];
    lives(&values, "overlays/observability/openshift").await
}
