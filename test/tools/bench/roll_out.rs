//! A roll-out: the requests between another version in an extension's spec and the end of the revision before.

use super::sample::Sample;
use super::watching::Watch;
use super::{catalogs, extensions, figure, subject, usage};
use crate::prelude::*;

const NAME: &str = "bench-roll-out";
const CATALOG: &str = "bench-roll-out-catalog";
/// The version that is installed, and the one that is rolled out.
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];

/// Installs the sample operator and upgrades it to its next version.
pub(super) async fn measure(world: &World) -> Result<()> {
    let client = world.cluster.client().await?;
    let sample = Sample::lighthouses(world, NAME, &VERSIONS).await?;
    catalogs::push(&subject(world), sample.catalog.as_bytes(), CATALOG).await?;
    catalogs::create_and_serve(&subject(world), CATALOG).await?;
    sample.prepare(world, &client).await?;
    let extensions_api: Api<ClusterExtension> = Api::all(client.clone());
    let mut installing = Watch::begin(&extensions_api, "the first version to be installed").await?;
    let first = sample.extension_of(CATALOG, &json!({"version": VERSIONS[0]}))?;
    extensions_api.create(&PostParams::default(), &first).await?;
    installing
        .first(|one, _| (one.name_any() == NAME && extensions::is_installed(one)).then_some(()))
        .await?;
    let pid = world.operator.process().pid();
    usage::idle(pid).await?;
    let Ok(mark) = world.cluster.audit_mark() else {
        println!("skipped: requests of a roll-out, the cluster of KUBECONFIG shows no audit log");
        return extensions::remove(&client, NAME).await;
    };
    let sets: Api<ClusterObjectSet> = Api::all(client.clone());
    let mut rolling_out = Watch::begin(&sets, "the next version to take the place of the first").await?;
    let start = Instant::now();
    Extension::new(&client, NAME).set_version(VERSIONS[1]).await?;
    let (mut has_succeeded, mut is_archived) = (false, false);
    let (at, ()) = rolling_out
        .first(|set, _| {
            let conditions = set.status.clone().unwrap_or_default().conditions;
            let state = conditions.state(Progressing).map(|(_, reason)| reason);
            has_succeeded |= set.name_any() == format!("{NAME}-2") && conditions.is_true(Succeeded);
            is_archived |= set.name_any() == format!("{NAME}-1") && state == Some("Archived");
            (has_succeeded && is_archived).then_some(())
        })
        .await?;
    figure("roll-out", (at - start).as_secs_f64() * 1e3, "ms");
    usage::idle(pid).await?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for event in extensions::events_of(world, mark, &[&sample])? {
        let resource = [event.resource, event.subresource].join("/");
        *counts.entry(format!("{} {}", event.verb, resource.trim_end_matches('/'))).or_default() += 1;
    }
    for (request, count) in &counts {
        println!("note: a roll-out makes {count} requests {request}");
    }
    let of = |wanted: &dyn Fn(&str) -> bool| -> Result<f64> {
        let counted = counts.iter().filter(|(request, _)| wanted(request)).map(|(_, count)| count);
        Ok(f64::from(u32::try_from(counted.sum::<usize>())?))
    };
    let is_read = |request: &str| request.starts_with("get ") || request.starts_with("list ");
    figure("roll-out-requests", of(&|_| true)?, "requests");
    figure("roll-out-writes", of(&|request| !is_read(request))?, "requests");
    figure("roll-out-revision-lists", of(&|request| request == "list clusterobjectsets")?, "requests");
    extensions::remove(&client, NAME).await
}
