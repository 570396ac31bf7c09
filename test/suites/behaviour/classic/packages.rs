//! PackageManifests and the registry API of the program as it is installed, with its own permissions.

use k8s_openapi::api::rbac::v1::RoleBinding;
use olm_test::{
    classic::{NAMESPACE, Source, listed_packages},
    kubectl::kubectl_as,
    prelude::*,
    scrape::{Scraper, count},
};

use crate::{
    sources::{config_map, data},
    world::World,
};

/// A source of a package with this name, from a ConfigMap.
async fn offered(world: &World, namespace: &str, package: &str) -> Result<Source> {
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster.client().await?, namespace);
    maps.create(&PostParams::default(), &config_map(namespace, package, &data(package, "1.0.0"))?).await?;
    let spec = json!({"sourceType": "internal", "configMap": package, "displayName": "Some"});
    let source = Source::create(&world.cluster, namespace, package, json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    Ok(source)
}

/// The names of the packages that kubectl lists with these arguments.
fn listed(world: &World, user: &Path, args: &[&str]) -> Result<Vec<String>> {
    let args = [&["get", "packagemanifests", "-o=name"], args].concat();
    let text = kubectl_as(&world.cluster, user, &args)?;
    let name = |line: &str| line.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(text.lines().map(name).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_clients_of_the_registry_reach_what_a_source_offers() -> Result<()> {
    let world = World::shared().await?;
    let namespace = world.namespace("reached").await?;
    let image = world.catalog("beacon", "1.0.0", "classic-reached:v1").await?;
    let spec = json!({"sourceType": "grpc", "image": image, "displayName": "Beacons"});
    let source = Source::create(&world.cluster, &namespace, "beacons", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    let packages = async || listed_packages(&world.cluster, &namespace, "beacons").await;
    eventually("the registry API behind the Service", packages, |packages| *packages == ["beacon"]).await?;
    let table = wait::until("the package", DEADLINE, || async {
        kubectl(&world.cluster, &["get", "packagemanifest", "beacon", "-n", &namespace])
    })
    .await?;
    let row = table.lines().nth(1).unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    ensure!(row.starts_with(&["beacon", "Beacons"]), "{table}");
    // A user who may read metrics sees that it is served.
    let scraper = Scraper::new(&source.client, &namespace).await?;
    let metrics = scraper.read(&world.classic.metrics_url()).await?;
    let ready = count(&metrics, "catalogsource_ready", &["name=\"beacons\"", &namespace]);
    ensure!(ready == 1, "{metrics}");
    let snapshots = format!("catalog_source_snapshots_total{{namespace=\"{namespace}\"");
    ensure!(!metrics.contains(&snapshots), "no Subscription asked for it: {metrics}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_view_a_namespace_sees_its_packages_and_the_global_ones() -> Result<()> {
    let world = World::shared().await?;
    let (own, other) = (world.namespace("viewed").await?, world.namespace("hidden").await?);
    let [local, global, foreign] = ["local", "global", "foreign"].map(unique_name);
    for (namespace, package) in [(own.as_str(), &local), (NAMESPACE, &global), (other.as_str(), &foreign)] {
        offered(world, namespace, package).await?;
    }
    let admin = world.cluster.kubeconfig_admin();
    wait::until("the packages", DEADLINE, || async {
        let all = listed(world, &admin, &["--all-namespaces"])?;
        wait::check([&local, &global, &foreign].into_iter().all(|one| all.contains(one)), || {
            format!("{all:?}")
        })
    })
    .await?;
    let name = unique_name("vera");
    let vera = world.cluster.kubeconfig_for(&name, &[])?;
    let error = listed(world, &vera, &["-n", &own]).unwrap_err().to_string();
    ensure!(error.contains("cannot list resource \"packagemanifests\""), "{error}");
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "vera"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }))?;
    let bindings: Api<RoleBinding> = Api::namespaced(world.cluster.client().await?, &own);
    bindings.create(&PostParams::default(), &binding).await?;
    // Answers about users are kept for some seconds.
    let seen =
        wait::until("the role to count", DEADLINE, || async { listed(world, &vera, &["-n", &own]) }).await?;
    ensure!(seen.contains(&local) && seen.contains(&global) && !seen.contains(&foreign), "{seen:?}");
    let may = |verb: &str, subresource: &str, namespace: &str| {
        let subresource = format!("--subresource={subresource}");
        let ask = ["auth", "can-i", verb, "packagemanifests", &subresource, "-n", namespace];
        kubectl_as(&world.cluster, &vera, &ask).is_ok_and(|answer| answer.trim() == "yes")
    };
    ensure!(may("watch", "", &own) && may("get", "icon", &own));
    ensure!(!may("delete", "", &own) && !may("list", "", &other));
    let error = listed(world, &vera, &["-n", &other]).unwrap_err().to_string();
    ensure!(error.contains(&format!("in the namespace \"{other}\"")), "{error}");
    let error = listed(world, &vera, &["--all-namespaces"]).unwrap_err().to_string();
    ensure!(error.contains("at the cluster scope"), "{error}");
    Ok(())
}
