//! Very many extensions at once, and what they cost when nothing happens.
//!
//! Each has a package, a namespace and an account of its own. Two sorts: packages of ConfigMaps only, where the
//! program's own work shows, and packages with a CRD and a Deployment, where the cluster's shows as well. The first are
//! compared with a bare client that creates the same ConfigMaps on the same cluster before.

use futures::{StreamExt, TryStreamExt, stream};
use olm_api::v1alpha1::UpdatePolicy;

use super::extensions::is_installed;
use super::sample::{Content, Sample, config_maps};
use super::watching::Watch;
use super::{catalogs, figure, start, subject, usage};
use crate::operator;
use crate::{cluster::AuditEvent, prelude::*};

/// Packages that are pushed and prepared at a time.
const PREPARED_AT_A_TIME: usize = 8;
/// Extensions that are created at a time; the API server takes them faster than they are installed.
const CREATED_AT_A_TIME: usize = 50;
/// How long all may take to be installed.
const DEADLINE: Duration = Duration::from_mins(4);
/// How long nothing is done, to see what it costs: longer than any renewal of leases and watches takes turns.
const IDLE_TIME: Duration = Duration::from_mins(1);
/// Sorts of requests that are shown.
const SORTS_SHOWN: usize = 12;

/// Takes the figures: few extensions by default, those of the budgets with `BENCH_FULL=1`.
pub(super) async fn measure() -> Result<()> {
    let full = std::env::var_os("BENCH_FULL").is_some_and(|value| !value.is_empty());
    let runs: &[(Content, usize)] = if full {
        &[(Content::ConfigMaps, 200), (Content::ConfigMaps, 1000), (Content::Operator, 200)]
    } else {
        println!("note: few extensions at once; BENCH_FULL=1 for 200 and 1,000");
        &[(Content::ConfigMaps, 50), (Content::Operator, 20)]
    };
    for (content, count) in runs {
        run(*content, *count).await.with_context(|| format!("{count} extensions of {content:?}"))?;
    }
    Ok(())
}

async fn run(content: Content, count: usize) -> Result<()> {
    let sort = match content {
        Content::ConfigMaps => "config-maps",
        Content::Deployment => "deployments",
        Content::Operator => "operators",
    };
    let name = format!("volume-{sort}-{count}");
    let world = start().await?;
    let client = world.cluster.client().await?;
    let samples = prepare(&world, &client, content, count + 1).await?;
    let catalog: String = samples.iter().map(|sample| sample.catalog.as_str()).collect();
    catalogs::push(&subject(&world), catalog.as_bytes(), &name).await?;
    catalogs::create_and_serve(&subject(&world), &name).await?;
    let pid = world.operator.process().pid();
    usage::idle(pid).await?;
    figure(&format!("{name}-memory-before"), usage::memory(pid)?.resident, "MB");
    let each = f64::from(u32::try_from(samples.len())?);
    let floor = if content == Content::ConfigMaps {
        let (took, cpu) = bare(&world, &client, &samples).await?;
        figure(&format!("{name}-floor"), took.as_secs_f64(), "s");
        figure(&format!("{name}-floor-api-server-cpu-each"), cpu / each, "s");
        Some(took)
    } else {
        None
    };

    let servers = || -> Result<(f64, f64)> { Ok((usage::cpu_seconds(pid)?, server_cpu(&world)?)) };
    let mark = world.cluster.audit_mark()?;
    let before = servers()?;
    let (took, last) = install(&client, &samples, &name).await?;
    figure(&format!("{name}-at-once"), took.as_secs_f64(), "s");
    if let Some(floor) = floor {
        figure(&format!("{name}-ratio"), took.as_secs_f64() / floor.as_secs_f64(), "x the floor");
    }
    figure(&format!("{name}-per-second"), each / took.as_secs_f64(), "1/s");
    figure(&format!("{name}-one-after-all"), last.as_secs_f64(), "s");
    usage::idle(pid).await?;
    let after = servers()?;
    figure(&format!("{name}-cpu-each"), (after.0 - before.0) / each, "s");
    figure(&format!("{name}-api-server-cpu-each"), (after.1 - before.1) / each, "s");
    let events = ours(&world, mark, &samples)?;
    figure(&format!("{name}-requests-each"), number(events.len()) / each, "requests");
    figure(
        &format!("{name}-writes-each"),
        number(events.iter().filter(|e| writes(e)).count()) / each,
        "requests",
    );
    show(&events, each);
    figure(&format!("{name}-memory"), usage::memory(pid)?.resident, "MB");
    figure(&format!("{name}-memory-peak"), usage::memory(pid)?.peak, "MB");
    idle(&world, pid, &samples, &name).await?;
    let name = format!("{name}-with-policy");
    select(&client, samples.len()).await?;
    usage::idle(pid).await?;
    figure(&format!("{name}-memory"), usage::memory(pid)?.resident, "MB");
    idle(&world, pid, &samples, &name).await
}

/// Creates an update policy with a window that selects all extensions, and waits until it says so.
async fn select(client: &Client, count: usize) -> Result<()> {
    let window =
        json!({"kind": "Allow", "schedule": "0 2 * * 0", "duration": "4h", "timeZone": "Europe/Berlin"});
    let policy = json!({
        "apiVersion": "extensions.olm.operatorframework.io/v1alpha1", "kind": "UpdatePolicy",
        "metadata": {"name": "volume"}, "spec": {"selector": {}, "approval": "Manual", "windows": [window]},
    });
    let api: Api<UpdatePolicy> = Api::all(client.clone());
    let mut watch = Watch::begin(&api, "the policy to select all extensions").await?;
    api.make(policy).await?;
    let selects_all = |policy: &UpdatePolicy, _| {
        let selected = policy.status.as_ref().and_then(|status| status.selected);
        (selected.and_then(|selected| usize::try_from(selected).ok()) == Some(count)).then_some(())
    };
    watch.first_within(DEADLINE, selects_all).await.map(drop)
}

async fn prepare(world: &World, client: &Client, content: Content, count: usize) -> Result<Vec<Sample>> {
    stream::iter(0..count)
        .map(|number| async move {
            let sample = Sample::generated(world, &format!("volume-{number}"), content).await?;
            sample.prepare(world, client).await?;
            anyhow::Ok(sample)
        })
        .buffer_unordered(PREPARED_AT_A_TIME)
        .try_collect()
        .await
        .context("preparing packages")
}

/// Creates the ConfigMaps of all packages as a bare client does, and deletes them again; the time that creating them took,
/// and CPU seconds of the API server.
async fn bare(world: &World, client: &Client, samples: &[Sample]) -> Result<(Duration, f64)> {
    let mut maps: Vec<(Api<ConfigMap>, ConfigMap)> = Vec::new();
    for sample in samples {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &sample.name);
        for map in config_maps(&sample.name) {
            maps.push((api.clone(), serde_json::from_value(map)?));
        }
    }
    let (before, start) = (server_cpu(world)?, Instant::now());
    let created = stream::iter(&maps).map(async |(api, map)| api.create(&PostParams::default(), map).await);
    created
        .buffer_unordered(CREATED_AT_A_TIME)
        .try_collect::<Vec<_>>()
        .await
        .context("creating ConfigMaps")?;
    let (took, cpu) = (start.elapsed(), server_cpu(world)? - before);
    let removed = stream::iter(&maps).map(async |(api, map)| api.remove(&map.name_any()).await);
    removed
        .buffer_unordered(CREATED_AT_A_TIME)
        .try_collect::<Vec<_>>()
        .await
        .context("deleting ConfigMaps")?;
    Ok((took, cpu))
}

/// Creates all extensions, the last one when all others exist; the time until all are installed, and the time from the
/// creation of the last one until it is.
async fn install(client: &Client, samples: &[Sample], catalog: &str) -> Result<(Duration, Duration)> {
    let api: Api<ClusterExtension> = Api::all(client.clone());
    let mut watch = Watch::begin(&api, "all extensions to be installed").await?;
    let start = Instant::now();
    let mut extensions =
        samples.iter().map(|sample| sample.extension(catalog)).collect::<Result<Vec<_>>>()?;
    let last = extensions.pop().context("no extensions")?;
    let create = async |extension: &ClusterExtension| api.create(&PostParams::default(), extension).await;
    let created = async {
        let all = stream::iter(&extensions).map(&create).buffer_unordered(CREATED_AT_A_TIME);
        all.try_collect::<Vec<_>>().await?;
        let begun = Instant::now();
        create(&last).await?;
        Ok::<_, kube::Error>(begun)
    };
    let (mut installed, mut last_installed) = (BTreeSet::new(), None);
    let all_installed = watch.first_within(DEADLINE, |one, _| {
        if is_installed(one) && installed.insert(one.name_any()) && one.name_any() == last.name_any() {
            last_installed = Some(Instant::now());
        }
        (installed.len() == samples.len()).then_some(())
    });
    let (begun, (at, ())) =
        tokio::try_join!(async { created.await.context("creating extensions") }, all_installed)?;
    let last = last_installed.context("the last one was not seen")? - begun;
    Ok((at - start, last))
}

/// What the program asks for when there is nothing to do, and how busy it is.
async fn idle(world: &World, pid: u32, samples: &[Sample], name: &str) -> Result<()> {
    let mark = world.cluster.audit_mark()?;
    let cpu = usage::cpu_seconds(pid)?;
    tokio::time::sleep(IDLE_TIME).await;
    let minutes = IDLE_TIME.as_secs_f64() / 60.0;
    let busy = (usage::cpu_seconds(pid)? - cpu) / IDLE_TIME.as_secs_f64() * 100.0;
    let events = ours(world, mark, samples)?;
    figure(&format!("{name}-idle-cpu"), busy, "% of a core");
    figure(&format!("{name}-idle-requests"), number(events.len()) / minutes, "requests/min");
    let changing = events.iter().filter(|e| writes(e)).count();
    figure(&format!("{name}-idle-writes"), number(changing) / minutes, "requests/min");
    show(&events, minutes);
    Ok(())
}

/// What the program and the extensions' accounts asked for since `mark`, leases left out.
fn ours(world: &World, mark: u64, samples: &[Sample]) -> Result<Vec<AuditEvent>> {
    let mut users: BTreeSet<String> = samples.iter().map(Sample::user).collect();
    users.insert(operator::USER.to_owned());
    let mut events = world.cluster.audit_events_since(mark)?;
    events.retain(|event| users.contains(&event.user) && event.resource != "leases");
    Ok(events)
}

/// Whether a request changes what is stored.
fn writes(event: &AuditEvent) -> bool {
    let asks = ["selfsubjectrulesreviews", "selfsubjectaccessreviews", "subjectaccessreviews"];
    !matches!(event.verb.as_str(), "get" | "list")
        && !event.is_dry_run()
        && !asks.contains(&event.resource.as_str())
        && event.subresource != "token"
}

/// Shows where the requests went, the most frequent first, divided by `each`.
fn show(events: &[AuditEvent], each: f64) {
    let mut sorts: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        let who = if event.user == operator::USER { "program" } else { "account" };
        let dry = if event.is_dry_run() { " (dry run)" } else { "" };
        let sub =
            if event.subresource.is_empty() { String::new() } else { format!("/{}", event.subresource) };
        let failed = if event.code >= 400 { format!(" -> {}", event.code) } else { String::new() };
        let sort = format!("{who} {} {}{sub}{dry}{failed}", event.verb, event.resource);
        *sorts.entry(sort).or_default() += 1;
    }
    let mut sorts: Vec<(String, usize)> = sorts.into_iter().collect();
    sorts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (sort, count) in sorts.iter().take(SORTS_SHOWN) {
        println!("note:   {:8.2} {sort}", number(*count) / each);
    }
}

/// CPU seconds of the API server so far.
fn server_cpu(world: &World) -> Result<f64> {
    let servers = world.cluster.processes().iter().filter(|process| process.name() == "kube-apiserver");
    servers.map(|process| usage::cpu_seconds(process.pid())).sum()
}

pub(super) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
