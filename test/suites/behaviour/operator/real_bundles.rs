//! Real operators: installed with exactly the rights they need, upgraded, repaired, removed.

use olm_test::{operator::USER, prelude::*};
use tokio::sync::Mutex;

/// Held by tests that install strimzi-kafka-operator: its CRDs can be there once only.
pub(crate) static STRIMZI: Mutex<()> = Mutex::const_new(());

/// The folder with real bundles, or `None`, reported on standard output.
pub(crate) fn real_bundles() -> Option<PathBuf> {
    olm_test::data::folder("bundles")
}

/// A real operator and two of its versions.
#[derive(Clone, Copy)]
struct Operator {
    package: &'static str,
    first: &'static str,
    next: &'static str,
    /// The CRD whose change keeps the upgrade from happening until the check is turned off.
    unsafe_crd: Option<&'static str>,
}

const fn safe(package: &'static str, first: &'static str, next: &'static str) -> Operator {
    Operator { package, first, next, unsafe_crd: None }
}

const OPERATORS: [Operator; 5] = [
    safe("grafana-operator", "5.22.2", "5.24.0"),
    safe("keda", "2.6.0", "2.6.1"),
    safe("external-secrets-operator", "0.10.6", "0.10.7"),
    safe("flux", "2.2.0", "2.2.2"),
    Operator {
        unsafe_crd: Some("kafkausers.kafka.strimzi.io"),
        ..safe("strimzi-kafka-operator", "1.0.1", "1.1.0")
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn real_operators_live_from_installation_to_removal() -> Result<()> {
    let Some(folder) = real_bundles() else { return Ok(()) };
    let world = World::shared().await?;
    let lives = OPERATORS.map(|operator| {
        let folder = folder.clone();
        async move { life(world, &folder, operator).await.with_context(|| operator.package.to_owned()) }
    });
    // One after another would take five times as long as the cluster needs.
    futures::future::try_join_all(lives).await?;
    Ok(())
}

async fn life(world: &World, folder: &Path, operator: Operator) -> Result<()> {
    let Operator { package, first, next, unsafe_crd } = operator;
    let _alone = if unsafe_crd.is_some() { Some(STRIMZI.lock().await) } else { None };
    let scenario = Scenario::new(world, package).await?;
    let bundles = [first, next].map(|version| (version, folder.join(package).join(version)));
    scenario.prepare(package, &bundles).await?;
    let mark = world.cluster.audit_mark()?;

    scenario.install(package, json!({"version": first}), first).await?;

    scenario.set_version(next).await?;
    if let Some(crd) = unsafe_crd {
        let wrapped = format!("error for resolved bundle \"{package}.v{next}\" with version \"{next}\": ");
        let text = format!("True/Retrying/{wrapped}validating upgrade for CRD {crd:?}: ");
        scenario.shows(ConditionType::Progressing, &text).await?;
        let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        scenario.patch_extension(json!({"spec": {"install": none}})).await?;
    }
    scenario.installed(next).await?;

    scenario.repairs(next).await?;
    written_by_the_account(&world.cluster, &scenario, mark)?;

    scenario.uninstall().await
}

/// The audit log: every create, and every patch by our field manager, came from the ServiceAccount; the
/// program's own identity wrote none of the revision's objects.
fn written_by_the_account(cluster: &Cluster, scenario: &Scenario<'_>, mark: u64) -> Result<()> {
    let account = format!("system:serviceaccount:{}:{}", scenario.name, ACCOUNT);
    let kinds = [
        "customresourcedefinitions",
        "deployments",
        "services",
        "serviceaccounts",
        "configmaps",
        "clusterroles",
        "clusterrolebindings",
        "roles",
        "rolebindings",
    ];
    let events = cluster.audit_events_since(mark)?;
    let mut by_user: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events.iter().filter(|e| e.namespace == scenario.name && !e.is_dry_run() && e.code < 400) {
        *by_user.entry(event.user.as_str()).or_default() += 1;
    }
    println!("writes in namespace {}, by user: {by_user:?}", scenario.name);
    let writes = events.iter().filter(|e| {
        kinds.contains(&e.resource.as_str()) && e.subresource.is_empty() && !e.is_dry_run() && e.code < 400
    });
    let mut by_account = 0;
    for write in writes {
        ensure!(write.user != USER, "the program itself wrote: {write:?}");
        if write.uri.contains("fieldManager=olm.operatorframework.io") {
            ensure!(
                write.user.starts_with("system:serviceaccount:") && write.user.ends_with(":installer"),
                "{write:?}"
            );
        }
        by_account += usize::from(write.user == account);
    }
    ensure!(by_account > 0, "the account wrote nothing");
    Ok(())
}
