//! A chart's life under a user's extension: upgraded, uninstalled and installed again around it, and removed in the
//! order that leaves nothing. No Pod runs the program here, so a process does, with the rights of the chart.

use olm_test::prelude::*;

use crate::followed::{Step, steps};
use crate::installed::own_cluster;
use crate::released::Helm;
use crate::rendering::config_arg;

const DEADLINE: Duration = Duration::from_mins(3);
const PACKAGE: &str = "lighthouse-operator";
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];

/// The sample's catalog, its account, and its extension.
pub(crate) async fn extension(cluster: &Cluster, images: &Images) -> Result<()> {
    let sample = kubectl::config("samples/lighthouse");
    for version in VERSIONS {
        let folder = sample.join("bundles").join(version);
        images.push_bundle(&folder, &format!("{PACKAGE}-bundle:v{version}")).await?;
    }
    let catalog = std::fs::read_to_string(sample.join("catalog/catalog.yaml"))?;
    let reference =
        images.push_catalog(&catalog.replace("REGISTRY", images.host()), "lighthouse:latest").await?;
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "lighthouse"},
        "spec": {"source": {"type": "Image", "image": {"ref": reference}}},
    });
    let mut file = tempfile::Builder::new().suffix(".json").tempfile()?;
    std::io::Write::write_all(&mut file, catalog.to_string().as_bytes())?;
    for manifest in [
        file.path().display().to_string(),
        config_arg("samples/lighthouse/installer.yaml"),
        config_arg("samples/lighthouse/extension.yaml"),
    ] {
        kubectl(cluster, &["apply", "-f", &manifest])?;
    }
    Ok(())
}

/// Waits until the extension is ready with a version.
async fn ready(cluster: &Cluster, operator: &Operator, version: &str) -> Result<()> {
    wait::until(&format!("lighthouse at {version}"), DEADLINE, async || {
        operator.process().check_running()?;
        let status = kubectl::get(cluster, &["clusterextension", "lighthouse"])?["status"].clone();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        wait::check(ready && status["install"]["bundle"]["version"] == version, || status.to_string())
    })
    .await
}

/// What the extension is and what it installed, by UID; nothing of it may be on its way out.
fn identities(cluster: &Cluster) -> Result<Vec<(String, Value)>> {
    let installed = [
        &["clusterextensions,clusterobjectsets"][..],
        &["crd", "-l=olm.operatorframework.io/owner-name=lighthouse"],
        &[
            "deployments,configmaps,serviceaccounts",
            "-n=lighthouse",
            "-l=olm.operatorframework.io/owner-name=lighthouse",
        ],
    ];
    let mut identities = Vec::new();
    for what in installed {
        for object in kubectl::get(cluster, what)?["items"].as_array().context("items")? {
            let metadata = &object["metadata"];
            ensure!(
                metadata["deletionTimestamp"].is_null(),
                "{} {} is being deleted",
                object["kind"],
                metadata["name"]
            );
            identities.push((format!("{} {}", object["kind"], metadata["name"]), metadata["uid"].clone()));
        }
    }
    ensure!(identities.len() >= 5, "{identities:?}");
    Ok(identities)
}

/// The program runs with what was applied, and an extension is installed.
async fn in_use(cluster: Cluster) -> Result<(Site, Operator)> {
    kubectl(&cluster, &["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])?;
    let site = Site::around(cluster)?;
    let operator = Operator::start_installed(&site, &[]).await?;
    extension(&site.cluster, &site.images).await?;
    ready(&site.cluster, &operator, "1.0.0").await?;
    Ok((site, operator))
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_outlive_upgrade_and_uninstall_of_the_chart_and_go_in_the_documented_order() -> Result<()>
{
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    let helm = Helm::of(&cluster)?;
    let (chart, in_default) = (config_arg("helm/olmv1"), "--namespace=default");
    helm.run(&["install", "olmv1", &chart, in_default])?;
    let (site, operator) = in_use(cluster).await?;
    let cluster = &site.cluster;
    let before = identities(cluster)?;

    helm.run(&[
        "upgrade",
        "olmv1",
        &chart,
        in_default,
        "--set=options.operatorController.deployment.replicas=1",
    ])?;
    ready(cluster, &operator, "1.0.0").await?;
    assert_eq!(identities(cluster)?, before, "after the upgrade");

    // The Pods go with the release, and with them the rights.
    operator.process().terminate(DEADLINE).await?;
    helm.run(&["uninstall", "olmv1", in_default, "--wait"])?;
    assert_eq!(identities(cluster)?, before, "after the uninstallation");
    drop(operator);

    helm.run(&["install", "olmv1", &chart, in_default])?;
    let operator = Operator::start_installed(&site, &[]).await?;
    ready(cluster, &operator, "1.0.0").await?;
    assert_eq!(identities(cluster)?, before, "after another installation");
    // It is managed again, not only still there.
    let newer = r#"{"spec":{"source":{"catalog":{"version":"1.1.x"}}}}"#;
    kubectl(cluster, &["patch", "clusterextension", "lighthouse", "--type=merge", "-p", newer])?;
    ready(cluster, &operator, "1.1.0").await?;

    // The order of docs/upgrade-and-uninstall.md: each step ends by itself.
    kubectl(cluster, &["delete", "clusterextensions", "--all", "--timeout=120s"])?;
    kubectl(cluster, &["delete", "clusterobjectsets", "--all", "--timeout=120s"])?;
    kubectl(cluster, &["delete", "clustercatalogs", "--all", "--timeout=120s"])?;
    operator.process().terminate(DEADLINE).await?;
    helm.run(&["uninstall", "olmv1", in_default, "--wait"])?;
    kubectl(cluster, &["delete", "crd", "-l=app.kubernetes.io/part-of=olm", "--timeout=120s"])?;
    kubectl(cluster, &["delete", "namespace", "olmv1-system", "--timeout=120s"])?;
    nothing_is_left(cluster)
}

/// Only the sample's own account and roles, which are the user's.
fn nothing_is_left(cluster: &Cluster) -> Result<()> {
    let kinds = "crd,namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings,mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let left = kubectl(cluster, &["get", kinds, "-o=name"])?;
    let signs = ["olm", "lighthouse", "operator-controller", "catalogd", "clusterextension"];
    let ours = left.lines().filter(|name| signs.iter().any(|sign| name.contains(sign)));
    let ours: Vec<&str> = ours.filter(|name| *name != "namespace/lighthouse").collect();
    ensure!(ours.iter().all(|name| name.ends_with("/lighthouse-installer")), "left: {ours:?}");
    let deployments = kubectl(cluster, &["get", "deployments", "-n=lighthouse", "-o=name"])?;
    ensure!(deployments.is_empty(), "{deployments}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_remove_everything_that_was_applied() -> Result<()> {
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    kubectl(&cluster, &["apply", "--server-side", "-f", &config_arg("install.yaml")])?;
    let (site, operator) = in_use(cluster).await?;
    let cluster = &site.cluster;
    let steps = steps("upgrade-and-uninstall.md", Some("Removing everything"))?;
    ensure!(steps.len() >= 8, "{steps:?}");
    for step in &steps {
        let Step::Command(line) = step else { anyhow::bail!("a file: {step:?}") };
        let words: Vec<&str> = line.split(' ').collect();
        ensure!(words[0] == "kubectl", "{line}");
        // The Pods go with their Deployment.
        if line.contains("deployments") {
            operator.process().terminate(DEADLINE).await?;
        }
        kubectl(cluster, &words[1..])?;
    }
    nothing_is_left(cluster)
}
