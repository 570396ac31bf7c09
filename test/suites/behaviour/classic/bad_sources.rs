//! CatalogSources that cannot work: each says what is wrong, and none stops another one.

use k8s_openapi::api::{
    core::v1::{Pod, Service},
    networking::v1::NetworkPolicy,
};
use olm_test::{
    catalog::{self, Entry},
    classic::{self, Source},
    prelude::*,
};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::{
    sources::{config_map, data},
    world::World,
};

/// A source that cannot work: name, annotations, spec, state of the connection, reason, and part of the message.
type Case = (&'static str, Value, Value, &'static str, &'static str, &'static str);

/// A source without content, of which upstream has no reason.
fn fails(name: &'static str, spec: Value, text: &'static str) -> Case {
    (name, json!({}), spec, "TRANSIENT_FAILURE", "", text)
}

fn cases([absent, invalid]: [String; 2], [dead_address, nonsense_address]: [String; 2]) -> Vec<Case> {
    let image = |name, image: &str, text| fails(name, json!({"sourceType": "grpc", "image": image}), text);
    let address =
        |name, address: &str, text| fails(name, json!({"sourceType": "grpc", "address": address}), text);
    let map = |name, map: &str, text| fails(name, json!({"sourceType": "internal", "configMap": map}), text);
    let template = json!({"olm.catalogImageTemplate": "registry/c:{kube_minor}"});
    let spec_invalid = "SpecInvalidError";
    let polled = json!({"sourceType": "grpc", "address": dead_address, "updateStrategy": unreadable()});
    let absent_map = json!({"sourceType": "configmap", "configMap": "absent"});
    vec![
        image("no-image", &absent, "classic-absent"),
        image("no-catalog", &invalid, "error storing fbc"),
        image("no-reference", "Registry/C:", "Registry/C:"),
        ("no-template", template, json!({"sourceType": "grpc"}), "", spec_invalid, "image and address unset"),
        ("no-type", json!({}), json!({"sourceType": "http"}), "", spec_invalid, "unknown sourcetype: http"),
        address("no-server", &dead_address, "Check spec.address"),
        address("no-grpc", &nonsense_address, "no gRPC server"),
        address("no-node", "169.254.169.254:80", "are not asked"),
        address("no-port", "host", "not of the form host:port"),
        ("no-interval", json!({}), polled, "TRANSIENT_FAILURE", "InvalidIntervalError", "Check spec.address"),
        map("no-yaml", "broken", "is not YAML"),
        map("no-packages", "empty", "the ConfigMap has no packages"),
        map("no-version", "dangling", "lamp.v9.0.0"),
        ("no-map", json!({}), absent_map, "", "ConfigMapError", "failed to get catalog config map absent"),
    ]
}

/// A strategy whose interval cannot be read.
fn unreadable() -> Value {
    json!({"registryPoll": {"interval": "45mError.code"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_upstreams_state_and_a_sentence_and_stops_no_other_source() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("bad").await?;
    let nonsense = TcpListener::bind("127.0.0.1:0").await?;
    let nonsense_address = nonsense.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = nonsense.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let dead = TcpListener::bind("127.0.0.1:0").await?;
    let dead_address = dead.local_addr()?.to_string();
    drop(dead);
    let invalid = world.images.push_catalog("{\"schema\": \"olm.package\", ", "classic-invalid:v1").await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client().await?, &namespace);
    let broken = json!({"packages": "[{packageName: lamp"});
    let dangling = json!({"packages": data("lamp", "9.0.0")["packages"]});
    for (name, data) in [("broken", broken), ("empty", json!({"packages": "[]"})), ("dangling", dangling)] {
        maps.create(&PostParams::default(), &config_map(&namespace, name, &data)?).await?;
    }
    let images = [world.tagged("classic-absent:v1"), invalid];
    let cases = cases(images, [dead_address, nonsense_address]);
    let mut sources = Vec::new();
    for (name, annotations, spec, state, reason, text) in cases {
        let source = Source::create(&world.cluster, &namespace, name, annotations, spec).await?;
        sources.push((source, state, reason, text));
    }
    let image = world.catalog("lamp", "1.0.0", "classic-good:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let good = Source::create(&world.cluster, &namespace, "good", json!({}), spec).await?;
    good.shows("READY", "", "True/Serving").await?;
    for (source, state, reason, text) in sources {
        let message = source.shows(state, reason, "False/Failed").await?;
        ensure!(message.contains(text), "{}: {message}", source.name);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_in_a_part_of_a_source_is_reported_beside_what_is_served() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("partly").await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client().await?, &namespace);
    maps.create(&PostParams::default(), &config_map(&namespace, "content", &data("lamp", "1.0.0"))?).await?;
    let image = world.catalog("lamp", "1.0.0", "classic-partly:v1").await?;
    let create = async |name: &str, annotations: Value, spec: Value| {
        Source::create(&world.cluster, &namespace, name, annotations, spec).await
    };
    let polled = json!({"sourceType": "internal", "configMap": "content", "updateStrategy": unreadable()});
    let polled = create("polled", json!({}), polled).await?;
    polled.shows("READY", "InvalidIntervalError", "True/Serving").await?;
    let message = polled.status().await?.message.unwrap_or_default();
    ensure!(message.contains("Using the default value of 15m0s instead"), "{message}");
    polled.patch(json!({"spec": {"updateStrategy": null}})).await?;
    polled.shows("READY", "", "True/Serving").await?;

    let template = json!({"olm.catalogImageTemplate": "r/c:v{kube_major_version}.{x}"});
    let templated = create("templated", template, json!({"sourceType": "grpc", "image": image})).await?;
    templated.shows("READY", "", "True/Serving").await?;
    let conditions = templated.status().await?.conditions;
    let filled = conditions.iter().find(|one| one.type_ == "ResolvedImage").context("no ResolvedImage")?;
    ensure!(filled.status == "False" && filled.message == "r/c:v1.{x}", "{filled:?}");

    let target =
        json!({"sourceType": "grpc", "image": image, "grpcPodConfig": {"memoryTarget": 104_857_600}});
    create("numeric", json!({}), target).await?.shows("READY", "", "True/Serving").await?;

    // No Service can have its name.
    let long = create(&"l".repeat(64), json!({}), json!({"sourceType": "grpc", "image": image})).await?;
    let message = long.shows("", "RegistryServerError", "True/ServingEarlierContent").await?;
    ensure!(message.contains("at most 63 characters"), "{message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_and_bundles_that_are_left_out_are_named_and_the_others_are_served() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("left-out").await?;
    let lamp = catalog::chain("lamp", &[("1.0.0", "r/lamp:v1")]);
    // Two heads, which opm would serve nothing for.
    let bulbs = ["1.0.0", "2.0.0"].map(|version| (Entry::new("bulb", version), "r/bulb:v1".to_owned()));
    let content = format!("{lamp}{}", catalog::text(&bulbs));
    let image = world.images.push_catalog(&content, "classic-left-out:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let source = Source::create(&world.cluster, &namespace, "partial", json!({}), spec).await?;
    let message = source.shows("READY", "", "True/Serving").await?;
    ensure!(message.contains(". Invalid packages are left out: bulb ("), "{message}");
    let packages = async || classic::listed_packages(&world.cluster, &namespace, "partial").await;
    eventually("the valid package", packages, |packages| *packages == ["lamp"]).await?;
    let image = world.images.push_catalog(&lamp, "classic-left-out:v2").await?;
    source.patch(json!({"spec": {"image": image}})).await?;
    let message = async || source.shows("READY", "", "True/Serving").await;
    eventually("nothing to be left out", message, |message| !message.contains("left out")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_somebody_else_is_left_alone() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("foreign").await?;
    let services: Api<Service> = Api::namespaced(world.cluster.client().await?, &namespace);
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken"},
        "spec": {"selector": {"app": "mine"}, "ports": [{"port": 80}]},
    });
    services.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client().await?, &namespace);
    maps.create(&PostParams::default(), &config_map(&namespace, "content", &data("lamp", "1.0.0"))?).await?;
    let spec = json!({"sourceType": "configmap", "configMap": "content"});
    let source = Source::create(&world.cluster, &namespace, "taken", json!({}), spec).await?;
    wait::until("the source to say so", DEADLINE, || async {
        let status = source.status().await?;
        let message = status.message.unwrap_or_default();
        let says =
            status.reason.as_deref() == Some("RegistryServerError") && message.contains("does not belong");
        wait::check(says, || message.clone())
    })
    .await?;
    let left = services.get("taken").await?.spec.and_then(|spec| spec.selector).unwrap_or_default();
    ensure!(left.get("app").is_some_and(|app| app == "mine"), "{left:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_runs_in_a_pod_by_request_with_what_belongs_to_it() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("pod").await?;
    let image = world.catalog("lamp", "1.0.0", "classic-pod:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let annotations = json!({"olm.classic/serve": "Pod"});
    let source = Source::create(&world.cluster, &namespace, "pods", annotations, spec).await?;
    source.shows("CONNECTING", "", "False/Failed").await?;
    let pods: Api<Pod> = Api::namespaced(source.client.clone(), &namespace);
    let found = pods.list(&ListParams::default().labels("olm.catalogSource=pods")).await?.items;
    ensure!(found.len() == 1 && found[0].name_any().starts_with("pods-"), "{} Pods", found.len());
    let services: Api<Service> = Api::namespaced(source.client.clone(), &namespace);
    let selector = async || -> Result<_> {
        Ok(services.get("pods").await?.spec.and_then(|spec| spec.selector).unwrap_or_default())
    };
    ensure!(selector().await?["olm.catalogSource"] == "pods", "it leads elsewhere");

    // What belongs to it is made anew when it should be another: Pod, ServiceAccount, NetworkPolicy.
    let policies: Api<NetworkPolicy> = Api::namespaced(source.client.clone(), &namespace);
    let opened = Patch::Merge(json!({"spec": {"ingress": [{}]}}));
    let policy = policies.list(&ListParams::default()).await?.items;
    let policy = policy.first().context("no NetworkPolicy")?;
    policies.patch(&policy.name_any(), &PatchParams::default(), &opened).await?;
    let newer = world.catalog("lamp", "1.1.0", "classic-pod:v2").await?;
    let secrets: Api<Secret> = Api::namespaced(source.client.clone(), &namespace);
    let credentials = json!({
        "metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": "{\"auths\": {}}"},
    });
    secrets.create(&PostParams::default(), &serde_json::from_value(credentials)?).await?;
    source.patch(json!({"spec": {"image": newer, "secrets": ["pull"]}})).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(source.client.clone(), &namespace);
    wait::until("other parts", DEADLINE, || async {
        let pods = pods.list(&ListParams::default().labels("olm.catalogSource=pods")).await?.items;
        let containers = pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers.first());
        let images: Vec<_> = containers.filter_map(|container| container.image.as_ref()).collect();
        let secrets = accounts.get("pods").await?.image_pull_secrets.unwrap_or_default();
        let now = policies.get(&policy.name_any()).await?;
        let anew = images == [&newer] && secrets.len() == 1 && now.spec == policy.spec;
        wait::check(anew, || format!("{images:?} {secrets:?} {now:?}"))
    })
    .await?;
    // Without the request the program serves it: the Service selects no Pods any more.
    source.patch(json!({"metadata": {"annotations": {"olm.classic/serve": null}}})).await?;
    source.shows("READY", "", "True/Serving").await?;
    ensure!(selector().await?.is_empty(), "it leads to Pods");
    Ok(())
}
