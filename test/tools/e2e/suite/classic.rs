//! OLM Classic: an operator by Subscription, whose ServiceAccount does its work.

use olm_test::{
    prelude::*,
    sample_operator::{PROGRAM, SampleOperator, VERSIONS},
};

use crate::{
    installing::{REMOVAL, mount_registries, registries_conf},
    world::{DEADLINE, World},
};

/// Where the program runs, and its Deployment.
const NAMESPACE: &str = "olm";
const DEPLOYMENT: &str = "olm-operator";
/// The package, its Subscription, and their namespace.
const PACKAGE: &str = "classic-keeper";

/// Installs the program, and with it an operator that makes a ConfigMap; then removes both.
pub(crate) async fn life(world: &World) -> Result<()> {
    let manifests = world.manifests("classic")?;
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    world.kubectl_with(&apply, &manifests)?;
    world.apply(&registries_conf(world, NAMESPACE).to_string())?;
    mount_registries(world, NAMESPACE, DEPLOYMENT)?;
    world.deployed(NAMESPACE, DEPLOYMENT, 2).await?;
    let started = Instant::now();
    let package = offer(world).await?;
    subscribe(world)?;
    let csv = format!("{PACKAGE}.v{}", VERSIONS[0]);
    wait::until("the operator to run", DEADLINE, async || {
        let found = world.get(&["clusterserviceversion", &csv, "-n", PACKAGE])?;
        let status = &found["status"];
        wait::check(status["phase"] == "Succeeded", || format!("{}: {}", status["reason"], status["message"]))
    })
    .await?;
    println!("BENCH e2e_classic_subscription_to_succeeded {:.2} s", started.elapsed().as_secs_f64());
    works(world, &package).await?;
    let subscription = "subscriptions.operators.coreos.com";
    for object in [[subscription, PACKAGE], ["clusterserviceversion", csv.as_str()]] {
        world.kubectl(&["delete", object[0], object[1], "-n", PACKAGE, REMOVAL])?;
    }
    let left = async || Ok(world.get(&["deployments", "-n", PACKAGE])?);
    eventually("its Deployment to be gone", left, |left| left["items"].as_array().is_some_and(Vec::is_empty))
        .await?;
    world.kubectl(&["delete", "crd", &package.crd_name(), REMOVAL])?;
    world.kubectl(&["delete", "namespace", PACKAGE, REMOVAL])?;
    world.kubectl_with(&["delete", "--ignore-not-found", REMOVAL, "-f", "-"], &manifests).map(drop)
}

/// Pushes the package, and has all namespaces see its catalog.
async fn offer(world: &World) -> Result<SampleOperator> {
    let prefix = std::env::var(olm_test::tools::e2e::IMAGE_PREFIX);
    let prefix = prefix.as_deref().unwrap_or("localhost/olmv1");
    let image = format!("{prefix}/{PROGRAM}:{}", env!("CARGO_PKG_VERSION"));
    let package = SampleOperator::new(PACKAGE, &image);
    package.push(&world.images, &VERSIONS[..1], "e2e").await?;
    // As the cluster reaches the registry, which may be another name than the one pushed to.
    let bundle = format!("{}/{PACKAGE}-bundle:v{}", world.pull, VERSIONS[0]);
    let content = olm_test::catalog::chain(PACKAGE, &[(VERSIONS[0], &bundle)]);
    let catalog = format!("{PACKAGE}-catalog:e2e");
    world.images.push_catalog(&content, &catalog).await?;
    let source = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": PACKAGE, "namespace": NAMESPACE},
        "spec": {"sourceType": "grpc", "image": format!("{}/{catalog}", world.pull)},
    });
    world.apply(&source.to_string())?;
    world.kubectl(&[
        "wait",
        "-n",
        NAMESPACE,
        "--for=condition=Ready",
        &format!("catalogsource/{PACKAGE}"),
        "--timeout=180s",
    ])?;
    Ok(package)
}

fn subscribe(world: &World) -> Result<()> {
    let metadata = json!({"name": PACKAGE, "namespace": PACKAGE});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PACKAGE}},
        {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata, "spec": {}},
        {
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": metadata,
            "spec": {"name": PACKAGE, "source": PACKAGE, "sourceNamespace": NAMESPACE},
        },
    ]});
    world.apply(&objects.to_string())
}

/// Creates an object of the operator's kind: its webhooks let it through, and its ServiceAccount makes a ConfigMap of it.
async fn works(world: &World, package: &SampleOperator) -> Result<()> {
    let mut object = package.object_v1("first", "hello", None);
    object["metadata"]["namespace"] = PACKAGE.into();
    wait::until("the object to be taken", DEADLINE, async || world.apply(&object.to_string())).await?;
    let kind = format!("samples.{}", package.group);
    let map = wait::until("the operator to report its ConfigMap", DEADLINE, async || {
        let status = world.get(&[&kind, "first", "-n", PACKAGE])?["status"].clone();
        let is_ours = status["operatorVersion"] == VERSIONS[0];
        wait::check(is_ours, || status.to_string())?;
        status["configMap"].as_str().map(str::to_owned).context("no ConfigMap")
    })
    .await?;
    let data = world.get(&["configmap", &map, "-n", PACKAGE])?["data"].clone();
    ensure!(data.to_string().contains("hello"), "{data}");
    println!("   the operator's ServiceAccount has written {map}: {data}");
    Ok(())
}
