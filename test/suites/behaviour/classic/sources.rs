//! CatalogSources that work: of images, of ConfigMaps, of templates.

use k8s_openapi::api::core::v1::{Pod, Service};
use olm_test::{
    classic::{self, Source},
    prelude::*,
};

use crate::world::World;

/// A ConfigMap's data with a package of one version.
pub(crate) fn data(package: &str, version: &str) -> Value {
    json!({
        "packages": format!("[{{packageName: {package}, channels: [{{name: stable, currentCSV: {package}.v{version}}}]}}]"),
        "clusterServiceVersions": format!(
            "[{{kind: ClusterServiceVersion, metadata: {{name: {package}.v{version}}}, spec: {{version: {version}}}}}]"
        ),
    })
}

pub(crate) fn config_map(namespace: &str, name: &str, data: &Value) -> Result<ConfigMap> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    });
    Ok(serde_json::from_value(object)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_served_by_a_service_without_pod_job_or_config_map() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("image").await?;
    let image = world.catalog("lamp", "1.0.0", "classic-lamp:v1").await?;
    let spec = json!({
        "sourceType": "grpc", "image": image, "displayName": "Lamps", "priority": -400,
        "grpcPodConfig": {"securityContextConfig": "restricted"},
    });
    let source = Source::create(&world.cluster, &namespace, "lamps.catalog", json!({}), spec).await?;
    let message = source.shows("READY", "", "True/Serving").await?;
    ensure!(message.contains("@sha256:"), "{message}");
    let status = source.status().await?;
    let address = status.connection_state.and_then(|connection| connection.address);
    let host = format!("lamps-catalog.{namespace}.svc:50051");
    ensure!(address.as_ref() == Some(&host), "{address:?}");
    let registry = status.registry_service.context("no registryService")?;
    ensure!(registry.protocol.as_deref() == Some("grpc") && registry.port.as_deref() == Some("50051"));
    let services: Api<Service> = Api::namespaced(source.client.clone(), &namespace);
    let service = services.get("lamps-catalog").await?;
    let spec = service.spec.context("no spec")?;
    ensure!(spec.selector.is_none_or(|selector| selector.is_empty()), "the Service selects no Pod");
    let behind = classic::behind(&world.cluster, &namespace, "lamps-catalog").await?;
    ensure!(behind == (classic::ADVERTISED.to_owned(), world.classic.registry_port().into()), "{behind:?}");
    let pods: Api<Pod> = Api::namespaced(source.client.clone(), &namespace);
    ensure!(pods.list(&ListParams::default()).await?.items.is_empty(), "a Pod was made");
    let maps: Api<ConfigMap> = Api::namespaced(source.client.clone(), &namespace);
    let maps = maps.list(&ListParams::default()).await?.items;
    ensure!(maps.iter().all(|map| map.name_any() == "kube-root-ca.crt"), "a ConfigMap was made");
    // The Service comes back when somebody deletes it.
    let uid = service.metadata.uid;
    services.delete("lamps-catalog", &DeleteParams::default()).await?;
    let found = async || Ok(services.get("lamps-catalog").await?);
    eventually("the Service to come back", found, |found| found.metadata.uid != uid).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_read_again_when_it_changes_and_keeps_good_content_while_it_is_broken() -> Result<()>
{
    let world = World::shared().await?;
    let namespace = world.namespace("configmap").await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client().await?, &namespace);
    maps.create(&PostParams::default(), &config_map(&namespace, "content", &data("lamp", "1.0.0"))?).await?;
    let spec = json!({"sourceType": "internal", "configMap": "content"});
    let source = Source::create(&world.cluster, &namespace, "maps", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    let map = maps.get("content").await?;
    ensure!(map.labels()["olm.managed"] == "false" && map.owner_references()[0].name == "maps");
    let reference = source.status().await?.config_map_reference.context("no configMapReference")?;
    ensure!(reference.uid == map.metadata.uid, "{reference:?}");
    let set = async |data: Value| {
        maps.patch("content", &PatchParams::default(), &Patch::Merge(json!({ "data": data }))).await
    };
    set(json!({"packages": "[{packageName: "})).await?;
    let message = source.shows("READY", "", "True/ServingEarlierContent").await?;
    ensure!(message.contains("the key packages of the ConfigMap is not YAML"), "{message}");
    set(data("lamp", "1.1.0")).await?;
    source.shows("READY", "", "True/Serving").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_sets_the_image_and_one_that_fails_leaves_it() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("template").await?;
    let version = world.cluster.client().await?.apiserver_version().await?;
    let (major, minor) = (&version.major, version.minor.trim_end_matches('+'));
    world.catalog("lamp", "1.0.0", &format!("classic-template:v{major}.{minor}")).await?;
    let repository = world.tagged("classic-template");
    let template = format!("{repository}:v{{kube_major_version}}.{{kube_minor_version}}");
    let annotations = json!({"olm.catalogImageTemplate": template});
    let spec = json!({"sourceType": "grpc"});
    let source = Source::create(&world.cluster, &namespace, "templated", annotations, spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    let image = source.api.get("templated").await?.spec.image;
    ensure!(image == Some(format!("{repository}:v{major}.{minor}")), "{image:?}");
    let conditions = async || -> Result<Vec<String>> {
        let all = source.status().await?.conditions;
        Ok(all.iter().map(|c| format!("{} {} {}", c.type_, c.status, c.reason)).collect())
    };
    let all = conditions().await?;
    ensure!(all.contains(&"TemplatesHaveResolved True AllTemplatesResolved".to_owned()), "{all:?}");
    source
        .patch(
            json!({"metadata": {"annotations": {"olm.catalogImageTemplate": format!("{repository}:{{x}}")}}}),
        )
        .await?;
    let fails = async || Ok(conditions().await?.contains(&"ResolvedImage False UnableToResolve".to_owned()));
    eventually("the template to fail", fails, |fails| *fails).await?;
    source.shows("READY", "", "True/Serving").await?;
    ensure!(source.api.get("templated").await?.spec.image == image, "the image was changed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_image_of_a_tag_is_found_by_polling() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("polled").await?;
    world.catalog("lamp", "1.0.0", "classic-polled:latest").await?;
    let spec = json!({
        "sourceType": "grpc", "image": world.tagged("classic-polled:latest"),
        "updateStrategy": {"registryPoll": {"interval": "1s"}},
    });
    let source = Source::create(&world.cluster, &namespace, "polled", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    let newer = world.catalog("lamp", "1.1.0", "classic-polled:latest").await?;
    let digest = newer.rsplit_once('@').map(|(_, digest)| digest.to_owned()).context("no digest")?;
    let message = async || source.shows("READY", "", "True/Serving").await;
    eventually("the newer image", message, |message| message.contains(&digest)).await?;
    ensure!(source.status().await?.latest_image_registry_poll.is_some(), "no time of the poll");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_breaks_or_vanishes_keeps_its_last_content_and_touches_no_other_source() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("kept").await?;
    // Tests of other files see the package only where the source is.
    let package = format!("{namespace}-lamp");
    let poll = |tag: &str| {
        let image = world.tagged(tag);
        json!({"sourceType": "grpc", "image": image, "updateStrategy": {"registryPoll": {"interval": "10s"}}})
    };
    for tag in ["classic-kept:latest", "classic-beside:latest"] {
        world.catalog(&package, "1.0.0", tag).await?;
    }
    let create = async |name: &str, tag: &str| {
        Source::create(&world.cluster, &namespace, name, json!({}), poll(tag)).await
    };
    let (kept, beside) =
        (create("kept", "classic-kept:latest").await?, create("beside", "classic-beside:latest").await?);
    let offers = async |source: &Source, head: &str| {
        wait::until(&format!("{} to offer {head}", source.name), DEADLINE, || async {
            let packages = classic::listed_packages(&world.cluster, &namespace, &source.name).await?;
            wait::check(packages == [package.as_str()], || format!("{packages:?}"))?;
            let selector = format!("catalog={}", source.name);
            let columns = "jsonpath={.items[*].status.channels[*].currentCSV}";
            let get = ["get", "packagemanifests", "-n", &namespace, "-l", &selector, "-o", columns];
            let heads = kubectl(&world.cluster, &get)?;
            wait::check(heads == format!("{package}.v{head}"), || heads.clone())
        })
        .await
    };
    let is_reported = async |is_invalid: bool| {
        wait::until("the fault to be reported", DEADLINE, || async {
            let message = kept.shows("READY", "", "True/ServingEarlierContent").await?;
            ensure!(message.contains("Still serving"), "{message}");
            wait::check(message.contains("error storing fbc") == is_invalid, || message.clone())
        })
        .await
    };
    for source in [&kept, &beside] {
        source.shows("READY", "", "True/Serving").await?;
        offers(source, "1.0.0").await?;
    }
    world.images.push_catalog("{\"schema\": \"olm.package\", ", "classic-kept:latest").await?;
    is_reported(true).await?;
    offers(&kept, "1.0.0").await?;
    let manifest = format!("{}/v2/classic-kept/manifests/latest", world.registry.url());
    reqwest::Client::builder().no_proxy().build()?.delete(manifest).send().await?.error_for_status()?;
    is_reported(false).await?;
    // Whatever happens to the one, the other follows its tag.
    world.catalog(&package, "2.0.0", "classic-beside:latest").await?;
    offers(&beside, "2.0.0").await?;
    beside.shows("READY", "", "True/Serving").await?;
    offers(&kept, "1.0.0").await?;
    world.catalog(&package, "3.0.0", "classic-kept:latest").await?;
    offers(&kept, "3.0.0").await
}
