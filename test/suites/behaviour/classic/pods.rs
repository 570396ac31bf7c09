//! CatalogSources whose image runs in a Pod. The kubelet's part is the test's.

use k8s_openapi::api::core::v1::{Pod, Service};
use olm_test::{catalog, catalog_server::CatalogServer, classic::Source, prelude::*};

use crate::world::World;

const SERVES: &str = "olm.catalogSource=pods";
const POLLS: &str = "catalogsource.operators.coreos.com/update=pods";

/// A source with the annotation that asks for a Pod.
struct InPod {
    source: Source,
    pods: Api<Pod>,
}

impl InPod {
    async fn create(world: &World, base: &str, more: Value) -> Result<Self> {
        let namespace = world.namespace(base).await?;
        let mut spec = json!({"sourceType": "grpc", "image": world.tagged("classic-pod:v1")});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let annotations = json!({"olm.classic/serve": "Pod"});
        let source = Source::create(&world.cluster, &namespace, "pods", annotations, spec).await?;
        let pods = Api::namespaced(source.client.clone(), &namespace);
        Ok(Self { source, pods })
    }

    fn service(&self) -> String {
        format!("pods.{}.svc:50051", self.source.namespace)
    }

    /// The one Pod with a label, once there is one.
    async fn pod(&self, label: &str) -> Result<Pod> {
        wait::until(label, DEADLINE, || async {
            let mut found = self.pods.list(&ListParams::default().labels(label)).await?.items;
            ensure!(found.len() == 1, "{} Pods", found.len());
            found.pop().context("no Pod")
        })
        .await
    }

    /// The one Pod that serves, once it is another one.
    async fn other_than(&self, pod: &Pod) -> Result<Pod> {
        wait::until("another Pod", DEADLINE, || async {
            let found = self.pod(SERVES).await?;
            wait::check(found.uid() != pod.uid(), || format!("{} serves", found.name_any()))?;
            Ok(found)
        })
        .await
    }

    /// Sets the status that a kubelet would report.
    async fn set(&self, pod: &Pod, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Reports a Pod as ready, with an image.
    async fn ready(&self, pod: &Pod, image: &str) -> Result<()> {
        let server = json!({
            "name": "registry-server", "imageID": image, "image": image, "ready": true, "restartCount": 0,
        });
        let ready = json!({"type": "Ready", "status": "True"});
        self.set(pod, json!({"phase": "Running", "conditions": [ready], "containerStatuses": [server]})).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_content_of_a_pod_is_read_by_its_service() -> Result<()> {
    let world = World::shared().await?;
    let server = CatalogServer::start(&catalog::chain("lamp", &[("1.0.0", "r/bundle:v1")])).await?;
    let run = InPod::create(world, "pod", json!({})).await?;
    world.proxy.lead(&run.service(), &server.address());
    run.source.shows("CONNECTING", "", "False/Failed").await?;
    let pod = run.pod(SERVES).await?;
    ensure!(pod.name_any().starts_with("pods-"), "{}", pod.name_any());
    let services: Api<Service> = Api::namespaced(run.source.client.clone(), &run.source.namespace);
    let selector = services.get("pods").await?.spec.and_then(|spec| spec.selector).unwrap_or_default();
    ensure!(selector["olm.catalogSource"] == "pods", "{selector:?}");
    run.ready(&pod, "a").await?;
    let message = run.source.shows("READY", "", "True/Serving").await?;
    ensure!(message.contains(&run.service()), "{message}");
    run.set(&pod, json!({"conditions": [{"type": "Ready", "status": "False"}]})).await?;
    run.source.shows("CONNECTING", "", "True/ServingEarlierContent").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_pod_polls_the_image_and_takes_over_if_it_got_another_one() -> Result<()> {
    let world = World::shared().await?;
    let server = CatalogServer::start(&catalog::chain("lamp", &[("1.0.0", "r/bundle:v1")])).await?;
    let strategy = json!({"updateStrategy": {"registryPoll": {"interval": "10s"}}});
    let run = InPod::create(world, "pod-poll", strategy).await?;
    world.proxy.lead(&run.service(), &server.address());
    let first = run.pod(SERVES).await?;
    run.ready(&first, "a").await?;
    run.source.shows("READY", "", "True/Serving").await?;
    // A Pod that comes to nothing.
    let update = run.pod(POLLS).await?;
    ensure!(update.labels()["olm.catalogSource"].is_empty(), "clients are led to it");
    let polled = async || Ok(run.source.status().await?.latest_image_registry_poll.is_some());
    eventually("the time of the poll", polled, |polled| *polled).await?;
    run.set(&update, json!({"phase": "Failed"})).await?;
    let failed = format!("update pod {} in a Failed state: deleted update pod", update.name_any());
    wait::until("the failure", DEADLINE, || async {
        let status = run.source.status().await?;
        let message = status.message.unwrap_or_default();
        let is = status.reason.as_deref() == Some("RegistryServerError") && message.ends_with(&failed);
        wait::check(is, || message.clone())
    })
    .await?;
    // One that pulled the same image, then one that pulled another.
    let same = run.pod(POLLS).await?;
    run.ready(&same, "a").await?;
    let gone = async || Ok(run.pods.get_opt(&same.name_any()).await?.is_none());
    eventually("the same image to be left", gone, |gone| *gone).await?;
    let newer = run.pod(POLLS).await?;
    server.serve(&catalog::chain("bulb", &[("1.0.0", "r/bundle:v1")])).await?;
    run.ready(&newer, "b").await?;
    let serving = async || run.pod(SERVES).await;
    eventually("the newer image to take over", serving, |serving| serving.uid() == newer.uid()).await?;
    run.source.shows("READY", "", "True/Serving").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_crashes_again_and_again_is_replaced_after_five_restarts() -> Result<()> {
    let world = World::shared().await?;
    let server = CatalogServer::start(&catalog::chain("lamp", &[("1.0.0", "r/bundle:v1")])).await?;
    let run = InPod::create(world, "pod-crashes", json!({})).await?;
    world.proxy.lead(&run.service(), &server.address());
    let first = run.pod(SERVES).await?;
    let crashed = |restarts: i32| {
        let waiting =
            json!({"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"});
        json!({"phase": "Running", "containerStatuses": [{
            "name": "registry-server", "imageID": "a", "image": "a", "ready": false, "restartCount": restarts,
            "state": {"waiting": waiting},
        }]})
    };
    run.set(&first, crashed(4)).await?;
    let message = async || run.source.shows("CONNECTING", "", "False/Failed").await;
    eventually("the crashes to be named", message, |message| message.contains("CrashLoopBackOff")).await?;
    ensure!(run.pod(SERVES).await?.uid() == first.uid(), "it was replaced after four restarts");
    run.set(&first, crashed(5)).await?;
    let second = run.other_than(&first).await?;
    run.ready(&second, "a").await?;
    run.source.shows("READY", "", "True/Serving").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_a_file_based_catalog_runs_in_a_pod() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("pod-own").await?;
    let image = world.images.push_made(&small("lamp", "1.0.0"), "classic-no-catalog:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let source = Source::create(&world.cluster, &namespace, "pods", json!({}), spec).await?;
    let run = InPod { pods: Api::namespaced(source.client.clone(), &namespace), source };
    let pod = run.pod(SERVES).await?;
    let served = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
    ensure!(served.as_ref() == Some(&image), "{served:?}");
    let message = run.source.shows("CONNECTING", "", "False/Failed").await?;
    ensure!(message.contains("is not ready: see kubectl describe pod"), "{message}");
    let listener = CatalogServer::start(&catalog::chain("lamp", &[("1.0.0", "r/bundle:v1")])).await?;
    world.proxy.lead(&run.service(), &listener.address());
    run.ready(&pod, "a").await?;
    run.source.shows("READY", "", "True/Serving").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_configured_for_a_pod_is_accepted_and_makes_another_one_when_it_changes() -> Result<()> {
    let world = World::shared().await?;
    let extract = json!({"grpcPodConfig": {
        "memoryTarget": 104_857_600, "priorityClassName": "system-node-critical",
        "extractContent": {"catalogDir": "/configs", "cacheDir": "/tmp/cache"},
    }});
    let run = InPod::create(world, "pod-set", extract).await?;
    let first = run.pod(SERVES).await?;
    let spec = first.spec.clone().context("no spec")?;
    let first_ones = spec.init_containers.clone().unwrap_or_default();
    let [copies, extracts] = &first_ones[..] else { bail!("{first_ones:?}") };
    ensure!(copies.name == "extract-utilities" && extracts.name == "extract-content", "{copies:?}");
    ensure!(extracts.image == Some(world.tagged("classic-pod:v1")), "{:?}", extracts.image);
    let server = &spec.containers[0];
    let args = server.args.clone().unwrap_or_default();
    ensure!(args.contains(&"--cache-dir=/extracted-catalog/cache".to_owned()), "{args:?}");
    let limit = server.env.iter().flatten().find(|one| one.name == "GOMEMLIMIT");
    ensure!(limit.and_then(|one| one.value.as_deref()) == Some("100MiB"), "{limit:?}");
    ensure!(spec.priority_class_name.as_deref() == Some("system-node-critical"), "{spec:?}");
    let annotation = json!({"operatorframework.io/priorityclass": "system-cluster-critical"});
    run.source.patch(json!({"metadata": {"annotations": annotation}})).await?;
    let second = run.other_than(&first).await?;
    let class = second.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    ensure!(class.as_deref() == Some("system-cluster-critical"), "the annotation does not win: {class:?}");
    let hash = |pod: &Pod| pod.labels().get("olm.pod-spec-hash").cloned();
    ensure!(hash(&first).is_some() && hash(&first) != hash(&second), "{:?}", hash(&second));
    run.source.shows("CONNECTING", "", "False/Failed").await?;
    // What is no quantity for memory is the API server's to refuse.
    run.source.patch(json!({"spec": {"grpcPodConfig": {"memoryTarget": "-1"}}})).await?;
    let message = run.source.shows("CONNECTING", "RegistryServerError", "False/Failed").await?;
    ensure!(message.contains("must be greater than or equal to 0"), "{message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_has_all_images_run_in_pods() -> Result<()> {
    let world = World::begin(&["--catalog-pods=always"]).await?;
    let image = world.catalog("lamp", "1.0.0", "classic-pod:v1").await?;
    let namespace = world.namespace("pod-all").await?;
    let spec = json!({"sourceType": "grpc", "image": image});
    let source = Source::create(&world.cluster, &namespace, "pods", json!({}), spec).await?;
    source.shows("CONNECTING", "", "False/Failed").await?;
    InPod { pods: Api::namespaced(source.client.clone(), &namespace), source }.pod(SERVES).await.map(drop)
}
