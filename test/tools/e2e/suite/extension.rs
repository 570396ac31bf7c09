//! An extension with a webhook of each type: installed as its account, used, upgraded, rolled back, deleted.

use olm_test::prelude::*;

use crate::sample::{self, PACKAGE};
use crate::world::{DEADLINE, World};

/// The annotation by which an administrator goes back.
const ROLLBACK: &str = "extensions.olm.operatorframework.io/rollback-to";
/// An object of the operator's.
const OBJECT: &str = "keeper";

/// Installed, used, upgraded, rolled back; it stays installed at 1.1.0. The layout is part of the figures' names.
pub(crate) async fn life(world: &World, layout: &str) -> Result<()> {
    namespace_and_rights(world)?;
    let started = Instant::now();
    world.apply(&sample::extension("1.0.0").to_string())?;
    installed(world, "1.0.0").await?;
    world.deployed(PACKAGE, PACKAGE, 1).await?;
    println!("BENCH e2e_{layout}extension_to_ready {:.2} s", started.elapsed().as_secs_f64());
    println!("{}", world.kubectl(&["get", "clusterextensions,clusterobjectsets"])?.trim_end());
    used(world).await?;

    let started = Instant::now();
    world.apply(&sample::extension("1.1.0").to_string())?;
    installed(world, "1.1.0").await?;
    operated(world, "1.1.0").await?;
    println!("BENCH e2e_{layout}upgrade_to_operated {:.2} s", started.elapsed().as_secs_f64());
    both_versions_readable(world)?;

    world.kubectl(&["annotate", "clusterextension", PACKAGE, &format!("{ROLLBACK}=1")])?;
    operated(world, "1.0.0").await?;
    installed(world, "1.0.0").await?;
    both_versions_readable(world)?;
    println!("   rolled back to revision 1; its operator works again");
    // Without the annotation the wanted version is installed again.
    world.kubectl(&["annotate", "clusterextension", PACKAGE, &format!("{ROLLBACK}-")])?;
    operated(world, "1.1.0").await?;
    installed(world, "1.1.0").await
}

/// A namespace in which Pods are restricted, and the account with the rights that `olm bundle rbac` prints.
pub(crate) fn namespace_and_rights(world: &World) -> Result<()> {
    let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": PACKAGE, "labels": restricted});
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).to_string())?;
    world.apply(&sample::rights()?)
}

/// Waits until the extension says that it is ready at this version.
pub(crate) async fn installed(world: &World, version: &str) -> Result<()> {
    wait::until(&format!("version {version} to be installed"), DEADLINE, async || {
        let extension = world.get(&["clusterextension", PACKAGE])?;
        let now = &extension["status"]["install"]["bundle"]["version"];
        wait::check(now == version, || extension["status"].to_string())
    })
    .await?;
    world.condition(&["clusterextension", PACKAGE], "Ready").await
}

/// Waits until the operator of this version has worked on the object.
pub(crate) async fn operated(world: &World, version: &str) -> Result<()> {
    wait::until(&format!("the operator {version} to work"), DEADLINE, async || {
        let object = world.get(&[&resource("v1"), OBJECT, "-n", PACKAGE])?;
        let map = world.get(&["configmap", OBJECT, "-n", PACKAGE])?;
        let told = (&object["status"]["operatorVersion"], &map["data"]["operator-version"]);
        wait::check(told == (&version.into(), &version.into()), || format!("{told:?}"))
    })
    .await
}

fn resource(version: &str) -> String {
    format!("samples.{version}.{}", sample::package().group)
}

/// Its objects are filled in, refused, converted and worked on by the running operator.
async fn used(world: &World) -> Result<()> {
    let package = sample::package();
    let apply =
        |object: &Value| world.kubectl_with(&["apply", "-n", PACKAGE, "-f", "-"], &object.to_string());
    // The API server may take a moment to believe in a webhook's new certificate.
    wait::until("an object to be admitted", DEADLINE, async || {
        apply(&package.object_v1(OBJECT, "the light burns", None))
    })
    .await?;
    let object = world.get(&[&resource("v1"), OBJECT, "-n", PACKAGE])?;
    ensure!(object["spec"]["copies"] == 1, "no default was filled in: {object}");
    let refused = apply(&package.object_v1("too-many", "the light burns", Some(11)));
    let refused = format!("{:#}", refused.err().context("eleven copies were admitted")?);
    ensure!(refused.contains("spec.copies is 11: a Sample has 1 to 10 copies"), "{refused}");
    println!("   {}", refused.lines().last().unwrap_or_default());
    operated(world, "1.0.0").await?;
    both_versions_readable(world)
}

/// The object in the version that is stored, and in the one that the webhook makes.
pub(crate) fn both_versions_readable(world: &World) -> Result<()> {
    let one = world.get(&[&resource("v1"), OBJECT, "-n", PACKAGE])?;
    let two = world.get(&[&resource("v2"), OBJECT, "-n", PACKAGE])?;
    let texts = (&one["spec"]["message"], &two["spec"]["content"]["text"]);
    ensure!(texts == (&"the light burns".into(), &"the light burns".into()), "{one}\n{two}");
    Ok(())
}

/// Deleted; nothing of it is left.
pub(crate) async fn deleted(world: &World) -> Result<()> {
    let started = Instant::now();
    world.kubectl(&["delete", "clusterextension", PACKAGE, "--timeout=180s"])?;
    println!("BENCH e2e_extension_deleted {:.2} s", started.elapsed().as_secs_f64());
    let kinds = "deployments,services,configmaps,secrets,pods,serviceaccounts,roles,rolebindings";
    let ours = "olm.operatorframework.io/owner-name";
    wait::until("everything of the extension to go", DEADLINE, async || {
        let cluster = "clusterobjectsets,clusterroles,clusterrolebindings,validatingwebhookconfigurations,\
                       mutatingwebhookconfigurations,customresourcedefinitions";
        let selector = format!("{ours}={PACKAGE}");
        let namespaced = world.kubectl(&["get", kinds, "-n", PACKAGE, "-l", &selector, "-o=name"])?;
        let cluster = world.kubectl(&["get", cluster, "-l", &selector, "-o=name"])?;
        let pods = world.kubectl(&["get", "pods", "-n", PACKAGE, "-o=name"])?;
        let left = [namespaced, cluster, pods].concat();
        wait::check(left.is_empty(), || format!("left: {left}"))
    })
    .await?;
    world.kubectl(&["delete", "namespace", PACKAGE, "--timeout=180s"])?;
    Ok(())
}
