//! Documentation that is followed to the letter: files and commands of a page, in its order, on a cluster. What a page
//! calls `registry.example.com` is the registry of the test.

use olm_test::{catalog, operator::overlay, prelude::*};

use crate::installed::own_cluster;

/// Hosts that stand for the reader's own registry.
const REGISTRIES: [&str; 2] = ["mirror.internal.example.com", "registry.example.com"];
const DEADLINE: Duration = Duration::from_mins(2);

/// What a page asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A file, whose name stands in its first line.
    File(String, String),
    /// A command line.
    Command(String),
}

/// The steps of a page of `docs` below a heading, or of all of it.
pub(crate) fn steps(page: &str, heading: Option<&str>) -> Result<Vec<Step>> {
    let path = kubectl::config("../docs").join(page);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let text = match heading {
        None => text.as_str(),
        Some(heading) => {
            let below = text.split(&format!("\n## {heading}\n")).nth(1).context("no such heading")?;
            below.split("\n## ").next().unwrap_or_default()
        }
    };
    let mut steps = Vec::new();
    // Between fences: text, block, text, block ...
    for block in text.split("\n```").skip(1).step_by(2) {
        let (language, content) = block.split_once('\n').context("an empty block")?;
        let name = content.lines().next().and_then(|line| line.strip_prefix("# "));
        match (language, name) {
            ("yaml", Some(name)) if Path::new(name).extension().is_some_and(|one| one == "yaml") => {
                steps.push(Step::File(name.to_owned(), content.to_owned() + "\n"));
            }
            ("", _) => {
                let commands = content.lines().filter_map(|line| line.strip_prefix("$ "));
                steps.extend(commands.map(|command| Step::Command(command.to_owned())));
            }
            _ => {}
        }
    }
    Ok(steps)
}

/// Follows a page in a folder of its own, in which the repository's `config` lies.
fn follow(cluster: &Cluster, images: &Images, page: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(kubectl::config("").canonicalize()?, folder.path().join("config"))?;
    let steps = steps(page, None)?;
    let mut told = String::new();
    for step in &steps {
        match step {
            Step::File(name, text) => std::fs::write(folder.path().join(name), here(text, images))?,
            Step::Command(line) => {
                let answer = run(cluster, images, folder.path(), line)?;
                told.push_str(&answer);
            }
        }
    }
    let commands = steps.iter().filter(|step| matches!(step, Step::Command(_))).count();
    ensure!(commands >= 5, "{page}: only {commands} commands were found");
    Ok(told)
}

fn here(text: &str, images: &Images) -> String {
    REGISTRIES.iter().fold(text.to_owned(), |text, host| text.replace(host, images.host()))
}

/// Runs a line with a shell that finds `olm`, `kubectl` and the cluster.
fn run(cluster: &Cluster, images: &Images, folder: &Path, line: &str) -> Result<String> {
    let programs = [cargo_program("olm-cli", "olm")?, cluster.kubectl()];
    let mut places: Vec<_> = programs.iter().filter_map(|path| path.parent().map(Path::to_owned)).collect();
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let output = Command::new("sh")
        .args(["-ec", &here(line, images)])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(places)?)
        .env("KUBECONFIG", cluster.kubeconfig_admin())
        .env("CONTAINERS_REGISTRIES_CONF", images.registries_conf())
        .output()?;
    let told =
        [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    // `olm diff` ends with 2 where there are changes, which a reader sees as well.
    let differs = line.starts_with("olm diff ") && output.status.code() == Some(2);
    ensure!(output.status.success() || differs, "$ {line}\n{told}");
    Ok(format!("$ {line}\n{told}"))
}

/// A catalog with the package of the first tutorial, as the community's has it.
async fn community(cluster: &Cluster, images: &Images) -> Result<()> {
    let mut listed = Vec::new();
    let package = "grafana-operator";
    for bundle in [small(package, "5.22.2"), small(package, "5.24.0").replaces("5.22.2")] {
        let name = format!("community/{package}:v{}", bundle.entry.version);
        listed.push((bundle.entry.clone(), images.push_made(&bundle, &name).await?));
    }
    let reference = images.push_catalog(&catalog::text(&listed), "community:latest").await?;
    let client = cluster.client().await?;
    let community = catalog::cluster_catalog("community", &json!({"ref": reference}));
    Api::all(client.clone()).create(&PostParams::default(), &community).await?;
    catalog::serves(&client, "community", DEADLINE).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorials_work_as_they_are_written() -> Result<()> {
    let Some(cluster) = own_cluster().await? else { return Ok(()) };
    let site = Site::around(cluster)?;
    let (cluster, images) = (&site.cluster, &site.images);
    let operator = Operator::start(&site, &[]).await?;
    // Its commands wait, and the program's log is asked for when they wait in vain.
    let followed = |page: &str| follow(cluster, images, page).with_context(|| operator.process().log_tail());

    community(cluster, images).await?;
    let told = followed("tutorials/first-extension.md")?;
    ensure!(told.contains("grafana-operator.v5.24.0 is installed"), "{told}");
    ensure!(told.contains("grafana-operator: removed"), "{told}");

    let told = followed("tutorials/step-by-step.md")?;
    ensure!(told.contains("clusterextension.olm.operatorframework.io/lighthouse condition met"), "{told}");
    ensure!(
        told.contains("lighthouse would become revision lighthouse-2\n"),
        "olm diff before the upgrade: {told}"
    );
    wait::until("what the extension installed to be gone", DEADLINE, async || {
        let left = kubectl(cluster, &["get", "deployments,configmaps", "-n=lighthouse", "-o=name"])?;
        wait::check(left.trim() == "configmap/kube-root-ca.crt", || left.clone())
    })
    .await?;

    kubectl(cluster, &["delete", "namespace", "lighthouse", "--timeout=120s"])?;
    overlay(cluster, "restricted-accounts")?;
    let told = followed("tutorials/least-privilege.md")?;
    ensure!(told.lines().filter(|line| *line == "yes").count() == 2, "{told}");

    let told = followed("tutorials/own-catalog.md")?;
    ensure!(told.contains("lighthouse-operator.v1.1.0"), "{told}");
    // The operator's image, which is mirrored too, from a registry that no test reaches.
    let pause = olm_image::ImageBuilder::new().build();
    images.push(&pause, "pause:3.10").await?;
    let folder = tempfile::tempdir()?;
    let conf = folder.path().join("registries.conf");
    let host = images.host();
    let text = format!(
        "[[registry]]\nlocation = {host:?}\ninsecure = true\n[[registry]]\nlocation = \"registry.k8s.io\"\n\
         [[registry.mirror]]\nlocation = {host:?}\ninsecure = true\n"
    );
    std::fs::write(&conf, text)?;
    let told = follow(cluster, &Images::with_conf(&site.registry, &conf)?, "tutorials/air-gapped.md")?;
    ensure!(told.contains("/olm/registry.k8s.io/pause:3.10"), "{told}");
    operator.process().terminate(DEADLINE).await.map(drop)
}

#[test]
fn files_and_commands_of_a_page_are_found_in_their_order() -> Result<()> {
    let steps = steps("tutorials/own-catalog.md", Some("From bundles"))?;
    let kinds: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            Step::File(name, text) => {
                assert!(text.starts_with("# template.yaml\nschema: "), "{text}");
                name.as_str()
            }
            Step::Command(line) => line.split(' ').next().unwrap_or_default(),
        })
        .collect();
    assert_eq!(kinds, ["olm", "olm", "olm", "template.yaml", "mkdir", "olm"]);
    Ok(())
}
