//! Two replicas: both serve packages, one leads.

use k8s_openapi::{
    ByteString, api::discovery::v1::EndpointSlice,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use olm_test::{
    classic::{
        ADVERTISED, Classic, NAMESPACE, Source, all_behind, behind, install, listed_packages,
        listed_packages_at, packages_available,
    },
    instance::Settings,
    operator::GRACE,
    prelude::*,
};
use tokio::net::TcpListener;

use crate::sources::{config_map, data};

/// The address of the Pod in whose place the second replica runs.
const OTHER: &str = "10.9.8.8";

/// A cluster, its leading replica, and a namespace with the package `lamp`.
async fn led() -> Result<(Cluster, Classic, Source)> {
    let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
    install(&cluster)?;
    let leader = Classic::start(&cluster, &Settings::default().arg("--leader-elect")).await?;
    leader.serve_packages(&cluster).await?;
    let namespace = unique_name("replicas");
    cluster.create_namespace(&namespace).await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, &namespace);
    let map = config_map(&namespace, "lamps", &data("lamp", "1.0.0"))?;
    maps.create(&PostParams::default(), &map).await?;
    let spec = json!({"sourceType": "internal", "configMap": "lamps"});
    let source = Source::create(&cluster, &namespace, "lamps", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    packages_available(&cluster).await?;
    shown(&cluster, &namespace).await?;
    led_to(&cluster, &namespace, ADVERTISED, leader.registry_port()).await?;
    Ok((cluster, leader, source))
}

/// The settings of the second replica.
fn second() -> Settings {
    Settings::default().arg("--leader-elect").arg(format!("--registry-advertise-address={OTHER}"))
}

/// Waits until kube-apiserver shows the package.
async fn shown(cluster: &Cluster, namespace: &str) -> Result<()> {
    wait::until("the package", DEADLINE, || async {
        let names = kubectl(cluster, &["get", "packagemanifests", "-o=name", "-n", namespace])?;
        wait::check(names.trim() == "packagemanifest.packages.operators.coreos.com/lamp", || names.clone())
    })
    .await
}

/// Waits until clients of the registry API are led to a replica, which answers them.
async fn led_to(cluster: &Cluster, namespace: &str, address: &str, port: u16) -> Result<()> {
    wait::until("the Service to lead there", DEADLINE, || async {
        let found = behind(cluster, namespace, "lamps").await?;
        wait::check(found == (address.to_owned(), port.into()), || format!("{found:?}"))?;
        let packages = listed_packages(cluster, namespace, "lamps").await?;
        wait::check(packages == ["lamp"], || format!("{packages:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_are_shown_while_the_leader_is_gone_by_a_replica_that_read_every_catalog() -> Result<()> {
    let (cluster, leader, source) = led().await?;
    // A registry that takes its time holds a new replica back, which has nothing on its disk.
    let registry = TcpListener::bind("127.0.0.1:0").await?;
    let image = format!("{}/slow:v1", registry.local_addr()?);
    let held = tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = registry.accept().await {
            connections.push(connection);
        }
    });
    let spec = json!({"sourceType": "grpc", "image": image});
    Source::create(&cluster, &source.namespace, "slow", json!({}), spec).await?;
    let follower = Classic::begin(&cluster, &second())?;
    let wanted = format!("CatalogSource {}/slow not read yet", source.namespace);
    wait::until("it to have read the others", DEADLINE, || async {
        follower.process().check_running()?;
        let answer = reqwest::get(follower.readiness_url()).await?;
        let (status, text) = (answer.status(), answer.text().await?);
        wait::check(!status.is_success() && text.contains(&wanted), || format!("{status} {text}"))
    })
    .await?;
    // One that breaks does not.
    held.abort();
    follower.ready().await?;
    ensure!(follower.packages(&cluster).await? == ["lamp"], "it is ready without the packages");
    ensure!(behind(&cluster, &source.namespace, "lamps").await?.0 == ADVERTISED, "only the leader writes");

    follower.serve_packages(&cluster).await?;
    leader.process().kill()?;
    // As the end of its Pod does.
    leader.withdraw_packages(&cluster).await?;
    shown(&cluster, &source.namespace).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_leads_clients_of_the_registry_to_itself_and_renews_whom_to_trust() -> Result<()> {
    let (cluster, leader, source) = led().await?;
    let follower = Classic::start(&cluster, &second()).await?;
    follower.serve_packages(&cluster).await?;
    leader.process().terminate(GRACE).await?;
    leader.withdraw_packages(&cluster).await?;
    led_to(&cluster, &source.namespace, OTHER, follower.registry_port()).await?;

    let client = cluster.client().await?;
    let services: Api<APIService> = Api::all(client.clone());
    let trusted = async || -> Result<ByteString> {
        let spec = services.get("v1.packages.operators.coreos.com").await?.spec;
        spec.and_then(|spec| spec.ca_bundle).context("no caBundle")
    };
    let before = trusted().await?;
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let broken = json!({"data": {"ca.crt": "", "ca.key": "", "tls.crt": "", "tls.key": ""}});
    secrets.patch("olm-classic-serving-cert", &PatchParams::default(), &Patch::Merge(broken)).await?;
    eventually("another authority", async || trusted().await, |now| *now != before).await?;
    shown(&cluster, &source.namespace).await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_registry_are_led_to_every_replica_that_is_ready() -> Result<()> {
    // An address of loopback of its own, as a Pod has: the port is that of the leader.
    const SECOND: &str = "127.0.0.2";
    let (cluster, leader, source) = led().await?;
    let port = leader.registry_port();
    let settings = second().arg(format!("--registry-bind-address={SECOND}:{port}"));
    let _follower = Classic::start(&cluster, &settings).await?;
    // As Kubernetes writes it of the Service of the program.
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client().await?, NAMESPACE);
    let endpoint =
        |address: &str, ready: bool| json!({"addresses": [address], "conditions": {"ready": ready}});
    let slice = json!({
        "metadata": {"name": "catalog-operator-1", "labels": {"kubernetes.io/service-name": "catalog-operator"}},
        "addressType": "IPv4",
        "endpoints": [endpoint(ADVERTISED, true), endpoint(OTHER, false)],
        "ports": [{"name": "grpc", "port": port, "protocol": "TCP"}],
    });
    slices.make(slice).await?;
    let leads_to = async |wanted: &[&str]| {
        wait::until("the Service to lead to these replicas", DEADLINE, || async {
            let found = all_behind(&cluster, &source.namespace, "lamps").await?;
            wait::check(found.0 == wanted && found.1 == i32::from(port), || format!("{found:?}"))
        })
        .await
    };
    leads_to(&[ADVERTISED]).await?;
    let uid = async || -> Result<Option<String>> {
        let slices: Api<EndpointSlice> = Api::namespaced(cluster.client().await?, &source.namespace);
        Ok(slices.get("lamps").await?.metadata.uid)
    };
    let before = uid().await?;
    let set = async |ready: bool| {
        let endpoints = [endpoint(ADVERTISED, true), endpoint(OTHER, ready)];
        slices.merge("catalog-operator-1", json!({"endpoints": endpoints})).await
    };
    set(true).await?;
    leads_to(&[ADVERTISED, OTHER]).await?;
    ensure!(uid().await? == before, "the addresses were gone for a moment");
    set(false).await?;
    leads_to(&[ADVERTISED]).await?;
    set(true).await?;
    leads_to(&[ADVERTISED, OTHER]).await?;
    // A crash: no one is left who writes, and the replica that is left answers.
    leader.process().kill()?;
    leads_to(&[ADVERTISED, OTHER]).await?;
    let packages = listed_packages_at(SECOND, &cluster, &source.namespace, "lamps").await?;
    ensure!(packages == ["lamp"], "{packages:?}");
    Ok(())
}
