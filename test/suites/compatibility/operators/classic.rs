//! The real operators that upstream's OLM Classic was seen to install, installed and upgraded by olm-classic through
//! Subscriptions, with Pods that are played, and removed.
//!
//! What upstream came to is read from the recorded runs. A version counts as far as upstream brought it to Succeeded: its
//! chains ended early, because it lost track of an upgrade.

use futures::{StreamExt, stream};
use olm_api_classic::{ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription};
use olm_test::{
    catalog::{self, Entry},
    classic::{self, Classic, Source},
    prelude::*,
};

use crate::place::{DEADLINE, bundles, name_in};

/// The recorded runs, one operator a line.
const RECORDED: &str = "real.jsonl";
const CATALOG: &str = "real";
/// What `make test` has the time for: APIs alone, webhooks, and a chain of two.
const SAMPLE: [&str; 3] = ["etcd", "nfs-provisioner-operator", "node-healthcheck-operator"];
const AT_A_TIME: usize = 3;

/// An operator, and the versions that upstream brought to Succeeded, with their folders.
struct Operator {
    package: String,
    group: Value,
    versions: Vec<(String, PathBuf)>,
}

struct World {
    _classic: Classic,
    site: Site,
    client: Client,
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_that_upstreams_classic_installs_are_installed_and_upgraded() -> Result<()> {
    let all = olm_test::long::wanted();
    let (Some(folder), Some(records)) = (bundles(), olm_test::data::find("classic")) else { return Ok(()) };
    let only = std::env::var("OLM_TEST_OPERATORS").ok();
    let mut operators = recorded(&folder, &fs::read_to_string(records.join(RECORDED))?)?;
    operators.retain(|operator| match &only {
        Some(only) => only.split(',').any(|one| one == operator.package),
        None => all || SAMPLE.contains(&operator.package.as_str()),
    });
    operators.retain(|operator| !operator.versions.is_empty());
    if operators.is_empty() {
        println!("no recorded operator is among those that were asked for");
        return Ok(());
    }
    let world = &World::start(&operators).await?;
    let lives = stream::iter(&operators).map(|operator| async move {
        let begun = Instant::now();
        let result = world.live(operator).await;
        (operator, result, begun.elapsed())
    });
    let lives: Vec<_> = lives.buffer_unordered(AT_A_TIME).collect().await;
    println!("\n| operator of OLM Classic | versions | seen | s |\n|---|---|---|---|");
    let mut wrong = Vec::new();
    for (operator, result, took) in &lives {
        let seen = result.as_ref().map_or_else(|error| format!("{error:#}"), |()| "Succeeded".to_owned());
        let (package, versions) = (&operator.package, operator.versions.len());
        println!("| {package} | {versions} | {} | {:.0} |", seen.replace('\n', " "), took.as_secs_f64());
        wrong.extend(result.is_err().then_some(package));
    }
    let versions: usize = operators.iter().map(|operator| operator.versions.len()).sum();
    println!("\n{} operators in {versions} versions", operators.len());
    ensure!(wrong.is_empty(), "not as upstream: {wrong:?}");
    Ok(())
}

/// Reads the recorded runs, and finds the folders of the bundles.
fn recorded(folder: &Path, text: &str) -> Result<Vec<Operator>> {
    let mut operators = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        let package = record["operator"].as_str().context("no operator")?.to_owned();
        let mut folders = BTreeMap::new();
        for entry in fs::read_dir(folder.join(&package)).with_context(|| package.clone())? {
            let path = entry?.path();
            folders.insert(name_in(&path)?, path);
        }
        let mut versions = Vec::new();
        for version in record["versions"].as_array().into_iter().flatten() {
            if version["phase"] != "Succeeded" {
                break;
            }
            let name = version["csv"].as_str().context("no name")?.to_owned();
            let folder = folders.get(&name).with_context(|| format!("no bundle is {name}"))?.clone();
            versions.push((name, folder));
        }
        if !versions.is_empty() {
            operators.push(Operator { package, group: record["group"].clone(), versions });
        }
    }
    Ok(operators)
}

impl World {
    /// Starts the program, with one catalog of all versions.
    async fn start(operators: &[Operator]) -> Result<Self> {
        let site = Site::start_on(Options::default()).await?;
        classic::install(&site.cluster)?;
        let mut entries: Vec<(Entry, String)> = Vec::new();
        for operator in operators {
            let mut before = None;
            for (name, folder) in &operator.versions {
                let version = folder.file_name().context("no version")?.to_string_lossy().into_owned();
                let tag = format!("{}:v{version}", operator.package);
                let image = site.images.push_bundle(folder, &tag).await?;
                let mut entry = Entry::new(&operator.package, &version);
                entry.name.clone_from(name);
                if let Some(before) = before.replace(name) {
                    entry.edges = json!({"replaces": before});
                }
                entries.push((entry, image));
            }
        }
        let image = site.images.push_catalog(&catalog::text(&entries), &format!("{CATALOG}:latest")).await?;
        let program = Classic::start(&site.cluster, &site.images.settings(&[])).await?;
        let spec = json!({"sourceType": "grpc", "image": image});
        let source = Source::create(&site.cluster, classic::NAMESPACE, CATALOG, json!({}), spec).await?;
        source.shows("READY", "", "True/Serving").await?;
        Ok(Self { _classic: program, client: site.cluster.client().await?, site })
    }

    fn api<K>(&self, operator: &Operator) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &namespace(operator))
    }

    /// Installs the first version, upgrades to each of the others, and removes the last.
    async fn live(&self, operator: &Operator) -> Result<()> {
        self.site.cluster.create_namespace(&namespace(operator)).await?;
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g"},
            "spec": operator.group,
        });
        self.api::<OperatorGroup>(operator).make(group).await?;
        let subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "s"},
            "spec": {
                "name": operator.package, "source": CATALOG, "sourceNamespace": classic::NAMESPACE,
                "startingCSV": operator.versions[0].0, "installPlanApproval": "Manual",
            },
        });
        self.api::<Subscription>(operator).make(subscription).await?;
        let mut before: Option<&str> = None;
        for (name, _) in &operator.versions {
            self.approve(operator, name).await?;
            self.runs(operator, name).await?;
            if let Some(before) = before.replace(name) {
                self.gone(operator, before).await?;
            }
        }
        self.api::<Subscription>(operator).remove("s").await?;
        let last = before.context("no version")?;
        self.api::<ClusterServiceVersion>(operator).remove(last).await?;
        self.gone(operator, last).await?;
        let deployments: Api<Deployment> = self.api(operator);
        wait::until(&format!("the Deployments of {} to be gone", operator.package), DEADLINE, async || {
            let left = deployments.all().await?;
            let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
            wait::check(names.is_empty(), || format!("{names:?}"))
        })
        .await
    }

    /// Approves the InstallPlan of a version.
    async fn approve(&self, operator: &Operator, version: &str) -> Result<()> {
        let subscriptions: Api<Subscription> = self.api(operator);
        let plan = wait::until(&format!("a plan for {version}"), DEADLINE, async || {
            let status = subscriptions.get("s").await?.status.unwrap_or_default();
            let plan = status.install_plan_ref.and_then(|one| one.name);
            let is_current = status.current_csv.as_deref() == Some(version);
            plan.filter(|_| is_current).with_context(|| format!("{:?}", status.conditions))
        })
        .await?;
        self.api::<InstallPlan>(operator).merge(&plan, json!({"spec": {"approved": true}})).await.map(drop)
    }

    /// Waits until a version runs.
    async fn runs(&self, operator: &Operator, version: &str) -> Result<()> {
        let (csvs, plans) = (self.api::<ClusterServiceVersion>(operator), self.api::<InstallPlan>(operator));
        wait::until(&format!("{version} to run"), DEADLINE, async || {
            let Some(csv) = csvs.get_opt(version).await? else {
                let steps: Vec<_> = plans.all().await?.into_iter().filter_map(|plan| plan.status).collect();
                let last = steps.last().map(|status| (&status.phase, &status.conditions));
                bail!("there is none: {last:?}");
            };
            let status = csv.status.unwrap_or_default();
            let unmet: Vec<_> =
                status.requirement_status.iter().filter(|one| !one.status.starts_with("Present")).collect();
            let phase = status.phase.as_deref();
            wait::check(phase == Some("Succeeded"), || {
                format!("{phase:?} {:?} {:?} {unmet:?}", status.reason, status.message)
            })
        })
        .await
    }

    async fn gone(&self, operator: &Operator, version: &str) -> Result<()> {
        let csvs: Api<ClusterServiceVersion> = self.api(operator);
        csvs.gone(version).await
    }
}

fn namespace(operator: &Operator) -> String {
    format!("r-{}", operator.package)
}
