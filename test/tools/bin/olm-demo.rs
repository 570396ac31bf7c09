//! `make demo`: an operator installed and upgraded on a real control plane, from images in a real registry.
//!
//! With `DEMO_EXIT=1` it ends then, with exit code 0 only if everything was installed; otherwise it stays up
//! and prints lines to try.

use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use kube::Api;
use olm_api::{
    ConditionType,
    v1::{ClusterCatalog, ClusterExtension},
};
use olm_test::{
    cluster::{Cluster, Options},
    images::Images,
    operator::{self, Operator},
    registry::Registry,
    wait,
};
use owo_colors::{OwoColorize, Stream::Stdout};

const DEADLINE: Duration = Duration::from_mins(2);
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];

#[tokio::main]
async fn main() -> ExitCode {
    match demo().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} {error:#}", "demo failed:".if_supports_color(Stdout, |t| t.red()));
            ExitCode::FAILURE
        }
    }
}

/// Prints steps with the time they took.
struct Steps {
    started: Instant,
}

impl Steps {
    fn done(&self, text: &str) {
        let at = format!("{:6.2}s", self.started.elapsed().as_secs_f64());
        println!(
            "{} {} {text}",
            "✓".if_supports_color(Stdout, |t| t.green()),
            at.if_supports_color(Stdout, |t| t.dimmed())
        );
    }
}

fn begin(text: &str) {
    if std::io::stdout().is_terminal() {
        println!("{} {text}", "•".if_supports_color(Stdout, |t| t.cyan()));
    }
}

fn note(text: &str) {
    println!("          {}", text.if_supports_color(Stdout, |t| t.dimmed()));
}

async fn demo() -> Result<()> {
    let steps = Steps { started: Instant::now() };
    let samples =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/lighthouse").canonicalize()?;
    begin("starting a control plane (the first time its programs are built, which takes some minutes)");
    let (cluster, registry) = tokio::try_join!(Cluster::start(Options::default()), Registry::start())?;
    steps.done("control plane and registry are up");

    let images = Images::new(&registry)?;
    push(&images, &samples).await?;
    steps.done(&format!("sample catalog and {} bundles pushed to {}", VERSIONS.len(), images.host()));

    let operator = Operator::start(&cluster, &images, &[]).await?;
    steps.done("operator-controller is ready, catalogd inside");

    let manifests = tempfile::tempdir()?;
    let catalog = manifests.path().join("catalog.yaml");
    fs::write(&catalog, catalog_manifest(&images))?;
    operator::kubectl(&cluster, &["apply", "-f", &catalog.display().to_string()])?;
    serving(&cluster, &operator).await?;
    steps.done("ClusterCatalog lighthouse is serving");

    for file in ["installer.yaml", "extension.yaml"] {
        operator::kubectl(&cluster, &["apply", "-f", &samples.join(file).display().to_string()])?;
    }
    installed(&cluster, &operator, "1.0.0").await?;
    steps.done("ClusterExtension lighthouse is installed at 1.0.0, as service account lighthouse-installer");

    let patch = r#"{"spec":{"source":{"catalog":{"version":"1.x"}}}}"#;
    operator::kubectl(&cluster, &["patch", "clusterextension", "lighthouse", "--type=merge", "-p", patch])?;
    installed(&cluster, &operator, "1.1.0").await?;
    steps.done("upgraded within its channel to 1.1.0");
    println!(
        "\n{}",
        operator::kubectl(&cluster, &["get", "clusterextensions,clusterobjectsets,clustercatalogs"])?
    );

    if std::env::var_os("DEMO_EXIT").is_some_and(|v| v != "0" && !v.is_empty()) {
        return Ok(());
    }
    print_lines(&cluster, &operator)?;
    tokio::signal::ctrl_c().await?;
    println!("\nending");
    Ok(())
}

async fn push(images: &Images, samples: &Path) -> Result<()> {
    for version in VERSIONS {
        let folder = samples.join("bundles").join(version);
        images.push_bundle(&folder, &format!("lighthouse-operator-bundle:v{version}")).await?;
    }
    let catalog = fs::read_to_string(samples.join("catalog/catalog.yaml")).context("the sample catalog")?;
    images.push_catalog(&catalog.replace("REGISTRY", images.host()), "lighthouse-catalog:latest").await?;
    Ok(())
}

fn catalog_manifest(images: &Images) -> String {
    format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata:\n  name: lighthouse\nspec:\n  \
         source:\n    type: Image\n    image:\n      ref: {}/lighthouse-catalog:latest\n      pollIntervalMinutes: 1\n",
        images.host()
    )
}

async fn serving(cluster: &Cluster, operator: &Operator) -> Result<()> {
    let api: Api<ClusterCatalog> = Api::all(cluster.client().await?);
    wait::until("the catalog to serve", DEADLINE, || async {
        operator.process().check_running()?;
        let status = api.get("lighthouse").await?.status.unwrap_or_default();
        let told = status.conditions.find(ConditionType::Progressing).map(|c| c.message.clone());
        wait::check(status.conditions.is_true(ConditionType::Serving), || told.unwrap_or_default())
    })
    .await
}

/// Waits until the version is installed and everything is ready; shows on the way what the extension says.
async fn installed(cluster: &Cluster, operator: &Operator, version: &str) -> Result<()> {
    let api: Api<ClusterExtension> = Api::all(cluster.client().await?);
    let mut shown = String::new();
    wait::until(&format!("version {version} to be installed"), DEADLINE, async || {
        operator.process().check_running()?;
        let extension = api.get("lighthouse").await?;
        let generation = extension.metadata.generation;
        let status = extension.status.unwrap_or_default();
        let ready = status.conditions.find(ConditionType::Ready).cloned();
        let message = ready.as_ref().map(|c| format!("{}: {}", c.reason, c.message)).unwrap_or_default();
        if message != shown && !message.is_empty() {
            note(&message);
            shown = message;
        }
        let now = status.install.map(|i| i.bundle.version);
        ensure!(now.as_deref() == Some(version), "installed is {now:?}");
        let current = ready.is_some_and(|c| c.status == "True" && c.observed_generation == generation);
        wait::check(current, || shown.clone())
    })
    .await
}

fn print_lines(cluster: &Cluster, operator: &Operator) -> Result<()> {
    let kubectl: PathBuf = cluster.kubectl();
    let folder = kubectl.parent().context("kubectl has no folder")?;
    println!("Everything stays up until Ctrl-C. In another terminal:\n");
    for (what, line) in [
        ("use this control plane", format!("export KUBECONFIG={}", cluster.kubeconfig_admin().display())),
        ("and its kubectl", format!("export PATH={}:$PATH", folder.display())),
        ("what is installed", "kubectl get clusterextensions".to_owned()),
        ("and how it got there", "kubectl describe clusterextension lighthouse".to_owned()),
        (
            "upgrade to the candidate channel",
            r#"kubectl patch clusterextension lighthouse --type=merge -p '{"spec":{"source":{"catalog":{"channels":["candidate"],"version":"2.x"}}}}'"#.to_owned(),
        ),
        (
            "a range that cannot be met: see the conditions explain it",
            r#"kubectl patch clusterextension lighthouse --type=merge -p '{"spec":{"source":{"catalog":{"version":">=9"}}}}' && sleep 2 && kubectl get clusterextension lighthouse -o yaml"#.to_owned(),
        ),
        ("drift is repaired", "kubectl -n lighthouse delete deployment lighthouse-operator && sleep 2 && kubectl -n lighthouse get deployments".to_owned()),
        ("catalog content", format!("curl -ks '{}/catalogs/lighthouse/api/v1/metas?schema=olm.channel'", operator.catalogs_url())),
        ("uninstall", "kubectl delete clusterextension lighthouse && sleep 2 && kubectl -n lighthouse get all,configmaps".to_owned()),
    ] {
        println!("  {}\n  {line}\n", format!("# {what}").if_supports_color(Stdout, |t| t.dimmed()));
    }
    Ok(())
}
