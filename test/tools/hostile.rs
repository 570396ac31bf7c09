//! Eight hostile bundles and three hostile catalogs arrive at once, in a process that has the memory of the Deployment,
//! while an honest extension is installed beside them.

mod shapes;

use kube::api::Api;

use crate::extension::extension;
use crate::images::bundle_files;
use crate::operator::install;
use crate::tools::bench::usage;
use crate::tools::cgroup::MemoryGroup;
use crate::{
    catalog::{chain, cluster_catalog},
    prelude::*,
};

/// The limit of the Deployment in config/manager, in bytes.
const MEMORY_BYTES: u64 = 256 << 20;
/// For everything to be judged; a debug build on a busy machine takes minutes.
const DEADLINE: Duration = Duration::from_mins(8);
const HONEST: &str = "lighthouse-operator";
const VERSION: &str = "1.0.0";

/// What was measured.
#[derive(Debug)]
pub struct Figures {
    /// The most memory that the group was charged, in bytes: with page cache, which goes when it is needed.
    pub group_peak: u64,
    /// The most memory that the process had resident, in megabytes.
    pub resident_peak: f64,
    /// From the creation of everything to the honest extension being installed.
    pub honest: Duration,
    /// From there to the last hostile bundle and catalog having been judged.
    pub judged: Duration,
}

/// Runs it all; `None`, and reported as skipped, where no memory can be limited.
///
/// # Errors
/// The program was killed or restarted, the honest extension is not installed, or something hostile is not rejected
/// as it should be.
pub async fn run() -> Result<Option<Figures>> {
    let group = match MemoryGroup::new(MEMORY_BYTES) {
        Ok(group) => group,
        Err(why) => {
            crate::data::skip(&format!("this machine allows no control group with a limit on memory: {why}"));
            return Ok(None);
        }
    };
    let site = Site::start().await?;
    install(&site.cluster)?;
    let client = site.cluster.client().await?;
    let honest = prepare_honest(&site, &client).await?;
    let hostile = prepare_hostile(&site, &client).await?;
    let settings = site.images.settings(&[]).shell(&group.shell());
    let operator = Operator::start_installed_with(&site.cluster, &settings).await?;
    let figures = arrive(&client, &operator, &group, honest, hostile).await;
    // Before its group.
    drop(operator);
    figures.map(Some)
}

/// Objects to be created, and what is expected of each.
struct Hostile {
    catalogs: Vec<(ClusterCatalog, &'static str)>,
    extensions: Vec<(ClusterExtension, &'static str)>,
}

async fn prepare_honest(site: &Site, client: &Client) -> Result<(ClusterCatalog, ClusterExtension)> {
    let images = &site.images;
    let folder = lighthouse(VERSION);
    let image = images.push_bundle(&folder, "honest:v1").await?;
    let reference = images.push_catalog(&chain(HONEST, &[(VERSION, &image)]), "honest-catalog:v1").await?;
    site.cluster.create_namespace("honest").await?;
    create_account(client, "honest", ACCOUNT).await?;
    grant(client, "honest", ACCOUNT, &rules_for(&[bundle_files(&folder)?], "honest")?).await?;
    let extension = extension("honest", "honest", HONEST, "honest", &Value::Null);
    Ok((cluster_catalog("honest", &json!({"ref": reference})), serde_json::from_value(extension)?))
}

async fn prepare_hostile(site: &Site, client: &Client) -> Result<Hostile> {
    let images = &site.images;
    site.cluster.create_namespace("hostile").await?;
    create_account(client, "hostile", ACCOUNT).await?;
    let mut lines = String::new();
    let mut extensions = Vec::new();
    for shape in shapes::bundles() {
        let image = images.push(&shape.image()?, &format!("{}:v1", shape.name)).await?;
        lines.push_str(&chain(shape.name, &[(VERSION, &image)]));
        let extension = extension(shape.name, "hostile", shape.name, "hostile", &Value::Null);
        extensions.push((serde_json::from_value(extension)?, shape.rejection));
    }
    let reference = images.push_catalog(&lines, "hostile-catalog:v1").await?;
    let mut catalogs = vec![(cluster_catalog("hostile", &json!({"ref": reference})), "")];
    for shape in shapes::catalogs() {
        let reference = images.push_catalog(&shape.text, &format!("{}:v1", shape.name)).await?;
        catalogs.push((cluster_catalog(shape.name, &json!({"ref": reference})), shape.rejection));
    }
    Ok(Hostile { catalogs, extensions })
}

async fn arrive(
    client: &Client,
    operator: &Operator,
    group: &MemoryGroup,
    (honest_catalog, honest): (ClusterCatalog, ClusterExtension),
    hostile: Hostile,
) -> Result<Figures> {
    let catalogs: Api<ClusterCatalog> = Api::all(client.clone());
    let extensions: Api<ClusterExtension> = Api::all(client.clone());
    let pid = operator.process().pid();
    let start = Instant::now();
    for (catalog, _) in &hostile.catalogs {
        catalogs.create(&PostParams::default(), catalog).await?;
    }
    for (extension, _) in &hostile.extensions {
        extensions.create(&PostParams::default(), extension).await?;
    }
    catalogs.create(&PostParams::default(), &honest_catalog).await?;
    extensions.create(&PostParams::default(), &honest).await?;
    let lives = || {
        operator.process().check_running()?;
        ensure!(operator.process().pid() == pid && group.kills()? == 0, "the program was killed");
        Ok(())
    };
    wait::until("the honest extension to be installed", DEADLINE, async || {
        lives()?;
        let status = extensions.get(&honest.name_any()).await?.status.unwrap_or_default();
        wait::check(status.conditions.is_true(Installed), || format!("{:?}", status.conditions))
    })
    .await?;
    let honest = start.elapsed();
    for (extension, rejection) in &hostile.extensions {
        let name = extension.name_any();
        wait::until(&format!("the bundle {name} to be rejected"), DEADLINE, async || {
            lives()?;
            let conditions = extensions.get(&name).await?.status.unwrap_or_default().conditions;
            let message = conditions.find(Progressing).map(|c| c.message.clone()).unwrap_or_default();
            wait::check(message.contains(rejection), || format!("Progressing is {message:.500}"))
        })
        .await?;
    }
    for (catalog, rejection) in &hostile.catalogs {
        let name = catalog.name_any();
        wait::until(&format!("the catalog {name} to be judged"), DEADLINE, async || {
            lives()?;
            let conditions = catalogs.get(&name).await?.status.unwrap_or_default().conditions;
            let progressing = conditions.find(Progressing).context("no condition yet")?;
            let judged = match *rejection {
                "" => conditions.is_true(olm_api::ConditionType::Serving),
                text => progressing.message.contains(text),
            };
            wait::check(judged, || format!("Progressing is {:.500}", progressing.message))
        })
        .await?;
    }
    lives()?;
    let judged = start.elapsed().saturating_sub(honest);
    Ok(Figures { group_peak: group.peak()?, resident_peak: usage::memory(pid)?.peak, honest, judged })
}
