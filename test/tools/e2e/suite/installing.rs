//! Installed, over upstream and on nothing; a catalog from a registry of one's own.

use olm_test::{prelude::*, tools::e2e::MIRRORED, upstream};

use crate::sample;
use crate::world::{CATALOGD, DEADLINE, OPERATOR, SYSTEM, World};

/// A namespace with everything in it takes its time to go.
pub(crate) const REMOVAL: &str = "--timeout=180s";

/// Upstream's objects first, then ours over them; then all of it removed.
pub(crate) async fn over_upstream(world: &World) -> Result<()> {
    let Some(dump) = upstream::dump() else {
        world.leave_out("upstream's objects: the data of a cluster that it ran are not at hand");
        return Ok(());
    };
    let theirs = upstream::list_file(&upstream::objects(&dump)?)?;
    world.kubectl(&["apply", "-f", &theirs.path().display().to_string()])?;
    world.apply(&world.manifests("install.yaml")?)?;
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    world.deployed(SYSTEM, CATALOGD, 0).await?;

    // Upstream's webhook failed closed, and nobody answers there.
    world.apply(&clustercatalog("over-upstream", &format!("{}/nothing:latest", world.pull)).to_string())?;
    let account = format!("--as=system:serviceaccount:{SYSTEM}:{OPERATOR}");
    let may = |verb: &str, resource: &str| {
        world.kubectl(&["auth", "can-i", verb, resource, &account]).is_ok_and(|told| told.trim() == "yes")
    };
    ensure!(!may("*", "*") && !may("create", "pods"), "our account has kept upstream's rights");
    ensure!(may("update", "clusterextensions/status"), "our account lacks what it needs");
    println!("   our account is no cluster-admin; catalogs can be created");

    world.kubectl(&["delete", "clustercatalog", "over-upstream", REMOVAL])?;
    let left = theirs.path().display().to_string();
    world.kubectl(&["delete", "--ignore-not-found", REMOVAL, "-f", &left])?;
    removed(world)
}

/// Takes away everything that `install.yaml` brought.
pub(crate) fn removed(world: &World) -> Result<()> {
    let manifests = world.manifests("install.yaml")?;
    world.kubectl_with(&["delete", "--ignore-not-found", REMOVAL, "-f", "-"], &manifests).map(drop)
}

/// One apply and nothing else; how long it takes.
pub(crate) async fn on_nothing(world: &World) -> Result<()> {
    let started = Instant::now();
    world.apply(&world.manifests("install.yaml")?)?;
    let applied = started.elapsed();
    world.deployed(SYSTEM, OPERATOR, 2).await?;
    println!("BENCH e2e_apply {:.2} s", applied.as_secs_f64());
    println!("BENCH e2e_apply_to_ready {:.2} s", started.elapsed().as_secs_f64());
    let namespace = world.get(&["namespace", SYSTEM])?;
    ensure!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted");
    wait::until("somebody to lead", DEADLINE, async || world.leader()).await?;
    println!("BENCH e2e_apply_to_leader {:.2} s", started.elapsed().as_secs_f64());
    println!("{}", world.kubectl(&["get", "pods", "-n", SYSTEM, "-o=wide"])?.trim_end());
    Ok(())
}

/// The programs' configuration of registries, as an administrator mounts it.
pub(crate) async fn registries(world: &World) -> Result<()> {
    world.apply(&registries_conf(world, SYSTEM).to_string())?;
    mount_registries(world, SYSTEM, OPERATOR)?;
    world.deployed(SYSTEM, OPERATOR, 2).await
}

/// The configuration of registries, for a namespace.
pub(crate) fn registries_conf(world: &World, namespace: &str) -> serde_json::Value {
    let host = &world.pull;
    let text = format!(
        "[[registry]]\nlocation = {host:?}\ninsecure = true\n\n\
         [[registry]]\nprefix = {MIRRORED:?}\nlocation = {host:?}\ninsecure = true\n"
    );
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "registries", "namespace": namespace},
        "data": {"registries.conf": text},
    })
}

/// Mounts the configuration of registries where programs look for it.
pub(crate) fn mount_registries(world: &World, namespace: &str, deployment: &str) -> Result<()> {
    let patch = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "manager", "volumeMounts": [{"name": "registries", "mountPath": "/etc/containers"}]}],
        "volumes": [{"name": "registries", "configMap": {"name": "registries"}}],
    }}}});
    world.kubectl(&["patch", "deployment", deployment, "-n", namespace, "-p", &patch.to_string()])?;
    Ok(())
}

/// A catalog.
pub(crate) fn clustercatalog(name: &str, image: &str) -> serde_json::Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": image, "pollIntervalMinutes": 10}}},
    })
}

/// A catalog with the sample's versions, pulled through the link and served.
pub(crate) async fn catalog(world: &World) -> Result<()> {
    let content = sample::push(world).await?;
    let started = Instant::now();
    let image = format!("{}/{}", world.pull, sample::CATALOG_IMAGE);
    world.apply(&clustercatalog(sample::CATALOG, &image).to_string())?;
    world.condition(&["clustercatalog", sample::CATALOG], "Serving").await?;
    println!("BENCH e2e_catalog_to_serving {:.2} s", started.elapsed().as_secs_f64());
    // The other replica has its copy a moment later; whoever of both answers, answers the same.
    let mut same = 0;
    wait::until("both replicas to serve it", DEADLINE, async || {
        let served = world.catalog_content(sample::CATALOG).await;
        same =
            if served.as_deref().is_ok_and(|served| lines(served) == lines(&content)) { same + 1 } else { 0 };
        wait::check(same > 20, || {
            format!("answers in a row that were right: {same}; the last one: {served:?}")
        })
    })
    .await?;
    println!("   {} blobs served, the same from whoever answers", content.lines().count());
    Ok(())
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    let mut values: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    values.sort_by_key(ToString::to_string);
    values
}
