//! Extensions: created to Installed, one by one and many at once; drift repaired; the cost of doing nothing.

use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::de::DeserializeOwned;

use super::sample::{Content, Sample};
use super::watching::{Watch, appears_and};
use super::{DEADLINE, catalogs, figure, milliseconds, percentile, subject, usage};
use crate::{cluster::AuditEvent, operator, prelude::*};

/// Installations of the sample, of which the median counts.
const ROUNDS: usize = 5;
/// Deletions of its Deployment.
const DELETIONS: usize = 5;
/// Extensions at once.
const MANY: usize = 20;
/// The CRD of the sample.
const CRD: &str = "beacons.lighthouse.example.com";
/// How long the removal of a CRD without objects takes at most, as a rule.
const CRD_USUAL: SignedDuration = SignedDuration::from_secs(5);
/// How long nothing is done, to see what it costs.
const IDLE_TIME: Duration = Duration::from_secs(20);

/// What one installation took.
#[derive(Default)]
struct Costs {
    wall: Vec<f64>,
    own: Vec<f64>,
    cpu: Vec<f64>,
    requests: Vec<f64>,
    writes: Vec<f64>,
}

/// Installs the sample operator several times, and deletes its Deployment.
pub(super) async fn one_by_one(world: &World) -> Result<()> {
    let client = world.cluster.client().await?;
    let sample = Sample::lighthouse(world, "bench-sample").await?;
    catalogs::push(&subject(world), sample.catalog.as_bytes(), "bench-sample-catalog").await?;
    catalogs::create_and_serve(&subject(world), "bench-sample-catalog").await?;
    sample.prepare(world, &client).await?;
    let mut costs = Costs::default();
    for round in 1..=ROUNDS {
        install(world, &client, &sample, &mut costs).await?;
        if round == ROUNDS {
            deletions(&client, &sample).await?;
        }
        remove(&client, &sample.name).await?;
    }
    figure("extension-created-to-installed", percentile(&mut costs.wall, 50), "ms");
    figure("extension-created-to-installed-own", percentile(&mut costs.own, 50), "ms");
    figure("extension-cpu", percentile(&mut costs.cpu, 50), "s");
    if costs.requests.is_empty() {
        println!("skipped: requests for an extension, the cluster of KUBECONFIG shows no audit log");
    } else {
        figure("extension-requests", percentile(&mut costs.requests, 50), "requests");
        figure("extension-writes", percentile(&mut costs.writes, 50), "requests");
    }
    Ok(())
}

async fn install(world: &World, client: &Client, sample: &Sample, costs: &mut Costs) -> Result<()> {
    let pid = world.operator.process().pid();
    usage::idle(pid).await?;
    let established = appears_and::<CustomResourceDefinition>(
        client,
        "the sample's CRD to be established",
        |crd| crd.name_any() == CRD,
        |crd| {
            let conditions = crd.status.iter().flat_map(|s| s.conditions.iter().flatten());
            conditions.into_iter().any(|c| c.type_ == "Established" && c.status == "True")
        },
    )
    .await?;
    let deployment = sample.deployment.clone();
    let available = appears_and::<Deployment>(
        client,
        "the sample's Deployment to be available",
        move |one| one.name_any() == deployment,
        |one| {
            let conditions = one.status.iter().flat_map(|s| s.conditions.iter().flatten());
            conditions.into_iter().any(|c| c.type_ == "Available" && c.status == "True")
        },
    )
    .await?;
    let api: Api<ClusterExtension> = Api::all(client.clone());
    let mut watch = Watch::begin(&api, "the sample to be installed").await?;
    let mark = world.cluster.audit_mark().ok();
    let cpu = usage::cpu_seconds(pid)?;
    let start = Instant::now();
    api.create(&PostParams::default(), &sample.extension("bench-sample-catalog")?).await?;
    let (at, ()) =
        watch.first(|one, _| (one.name_any() == sample.name && is_installed(one)).then_some(())).await?;
    let wall = at - start;
    let mut waits = Duration::ZERO;
    for wait in [established, available] {
        let (from, to) = wait.await??;
        waits += to - from;
    }
    costs.wall.push(wall.as_secs_f64() * 1e3);
    costs.own.push(wall.saturating_sub(waits).as_secs_f64() * 1e3);
    if let Some(mark) = mark {
        let (requests, writes) = requests(world, mark, &[sample])?;
        costs.requests.push(requests);
        costs.writes.push(writes);
    }
    usage::idle(pid).await?;
    costs.cpu.push(usage::cpu_seconds(pid)? - cpu);
    Ok(())
}

pub(super) fn is_installed(extension: &ClusterExtension) -> bool {
    extension.status.as_ref().is_some_and(|status| status.conditions.is_true(ConditionType::Installed))
}

/// Requests of the program and of the extensions' accounts since `mark`.
pub(super) fn events_of(world: &World, mark: u64, samples: &[&Sample]) -> Result<Vec<AuditEvent>> {
    let mut users: BTreeSet<String> = samples.iter().map(|sample| sample.user()).collect();
    users.insert(operator::USER.to_owned());
    let mut events = world.cluster.audit_events_since(mark)?;
    events.retain(|event| users.contains(&event.user) && event.resource != "leases");
    Ok(events)
}

/// How many they are; and how many of them write.
fn requests(world: &World, mark: u64, samples: &[&Sample]) -> Result<(f64, f64)> {
    let ours = events_of(world, mark, samples)?;
    let writes = ours.iter().filter(|e| !matches!(e.verb.as_str(), "get" | "list")).count();
    Ok((f64::from(u32::try_from(ours.len())?), f64::from(u32::try_from(writes)?)))
}

/// Deletes the Deployment, again and again.
async fn deletions(client: &Client, sample: &Sample) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &sample.name);
    let mut times = Vec::new();
    for _ in 0..DELETIONS {
        let before = api.get(&sample.deployment).await?.uid();
        let mut watch = Watch::begin(&api, "the Deployment to be back").await?;
        let start = Instant::now();
        api.delete(&sample.deployment, &DeleteParams::default()).await?;
        let is_back = |one: &Deployment, deleted: bool| {
            (!deleted && one.name_any() == sample.deployment && one.uid() != before).then_some(())
        };
        let (at, ()) = watch.first(is_back).await?;
        times.push((at - start).as_secs_f64() * 1e3);
    }
    figure("deployment-deleted-to-recreated", percentile(&mut times, 50), "ms");
    figure("deployment-deleted-to-recreated-max", percentile(&mut times, 100), "ms");
    Ok(())
}

/// Deletes an extension and waits until everything of it is gone.
pub(super) async fn remove(client: &Client, name: &str) -> Result<()> {
    let api: Api<ClusterExtension> = Api::all(client.clone());
    api.delete(name, &DeleteParams::default()).await?;
    wait::until("everything of the sample to be gone", DEADLINE, || async {
        ensure!(api.get_opt(name).await?.is_none(), "the extension is there");
        none::<ClusterObjectSet>(client, name).await?;
        remind_of_crds(client, name).await?;
        none::<CustomResourceDefinition>(client, name).await?;
        none::<ClusterRole>(client, name).await?;
        none::<ClusterRoleBinding>(client, name).await?;
        none::<Deployment>(client, name).await?;
        none::<ConfigMap>(client, name).await?;
        none::<ServiceAccount>(client, name).await
    })
    .await
}

/// Changes CRDs of an extension that should be gone by now: the API server forgets some that are deleted soon after they
/// were created, until they change.
async fn remind_of_crds(client: &Client, owner: &str) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={owner}"));
    let now = Timestamp::now();
    for crd in api.list_metadata(&mine).await? {
        let deleted = crd.metadata.deletion_timestamp.as_ref();
        if deleted.is_some_and(|deleted| now.duration_since(deleted.0) > CRD_USUAL) {
            let touched = json!({"metadata": {"annotations": {"olm-test/touched": now.to_string()}}});
            // It may be gone by now.
            if api.merge(&crd.name_any(), touched).await.is_ok() {
                println!("note: {} had to be touched to be removed", crd.name_any());
            }
        }
    }
    Ok(())
}

async fn none<K>(client: &Client, owner: &str) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={owner}"));
    let left = Api::<K>::all(client.clone()).list_metadata(&mine).await?.items.len();
    ensure!(left == 0, "{left} {} left", K::plural(&()));
    Ok(())
}

/// Creates many extensions at once, then leaves them alone.
pub(super) async fn many_at_once(world: &World) -> Result<()> {
    let client = world.cluster.client().await?;
    let mut samples = Vec::new();
    let mut catalog = String::new();
    for number in 0..MANY {
        let sample = Sample::generated(world, &format!("bench-many-{number}"), Content::Deployment).await?;
        sample.prepare(world, &client).await?;
        catalog.push_str(&sample.catalog);
        samples.push(sample);
    }
    catalogs::push(&subject(world), catalog.as_bytes(), "bench-many-catalog").await?;
    catalogs::create_and_serve(&subject(world), "bench-many-catalog").await?;
    let pid = world.operator.process().pid();
    usage::idle(pid).await?;

    let api: Api<ClusterExtension> = Api::all(client.clone());
    let mut watch = Watch::begin(&api, "many extensions to be installed").await?;
    let mark = world.cluster.audit_mark().ok();
    let cpu = usage::cpu_seconds(pid)?;
    let start = Instant::now();
    let created = samples.iter().map(|sample| async {
        api.create(&PostParams::default(), &sample.extension("bench-many-catalog")?).await?;
        anyhow::Ok(())
    });
    futures::future::try_join_all(created).await.context("creating many extensions")?;
    let mut installed = BTreeSet::new();
    let (at, ()) = watch
        .first(|one, _| {
            if is_installed(one) {
                installed.insert(one.name_any());
            }
            (installed.len() == MANY).then_some(())
        })
        .await
        .with_context(|| format!("{MANY} extensions at once"))?;
    figure(&format!("extensions-{MANY}-at-once"), (at - start).as_secs_f64(), "s");
    let all: Vec<&Sample> = samples.iter().collect();
    if let Some(mark) = mark {
        figure(&format!("extensions-{MANY}-requests"), requests(world, mark, &all)?.0, "requests");
    }
    usage::idle(pid).await?;
    figure(&format!("extensions-{MANY}-cpu"), usage::cpu_seconds(pid)? - cpu, "s");
    figure(&format!("memory-idle-extensions-{MANY}"), usage::at_rest(pid).await?, "MB");
    idle(world, pid, &all).await
}

/// What the program does when there is nothing to do.
async fn idle(world: &World, pid: u32, samples: &[&Sample]) -> Result<()> {
    let mark = world.cluster.audit_mark().ok();
    let cpu = usage::cpu_seconds(pid)?;
    tokio::time::sleep(IDLE_TIME).await;
    let minutes = IDLE_TIME.as_secs_f64() / 60.0;
    figure(&format!("idle-extensions-{MANY}-cpu"), (usage::cpu_seconds(pid)? - cpu) / minutes, "s/min");
    if let Some(mark) = mark {
        let (requests, _) = requests(world, mark, samples)?;
        figure(&format!("idle-extensions-{MANY}-requests"), requests / minutes, "requests/min");
    }
    milliseconds("idle-measured-for", IDLE_TIME);
    Ok(())
}
