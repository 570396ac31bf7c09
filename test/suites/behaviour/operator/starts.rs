//! A process that starts, or begins to lead, knows nothing of the cluster at first, and must not say so.
//!
//! A control plane of its own: settings, policies and the version of the platform are everybody's.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Resource;
use olm_api::ConditionType::Upgradeable;
use olm_test::{
    operator::GRACE,
    prelude::*,
    proxy::{Fault, Proxy, Weather},
};
use serde::de::DeserializeOwned;

use crate::platform::{PROPERTIES, cluster_version};

const FLAGS: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=12s",
    "--leader-elect-retry-period=1s",
];
/// A pause after which nothing more is to come.
const STILL: Duration = Duration::from_secs(3);

/// Each object's version, which every write changes, and what it says.
type Shown = BTreeMap<String, (String, String)>;

async fn shown(scenario: &Scenario<'_>) -> Result<Shown> {
    async fn of<K>(scenario: &Scenario<'_>, all: &mut Shown, status: impl Fn(K) -> String) -> Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        for object in Api::<K>::all(scenario.client.clone()).list(&ListParams::default()).await? {
            let name = format!("{} {}", K::kind(&()), object.name_any());
            all.insert(name, (object.resource_version().unwrap_or_default(), status(object)));
        }
        Ok(())
    }
    let mut all = Shown::new();
    of::<ClusterExtension>(scenario, &mut all, |object| format!("{:?}", object.status)).await?;
    of::<ClusterObjectSet>(scenario, &mut all, |object| format!("{:?}", object.status)).await?;
    of::<ClusterCatalog>(scenario, &mut all, |object| format!("{:?}", object.status)).await?;
    Ok(all)
}

/// How often reconciles of the extension have ended in this process, by its log.
pub(crate) fn reconciled(operator: &Operator, name: &str) -> usize {
    let log = operator.process().log();
    let of_extension = |line: &&str| {
        line.contains("reconcile ending") && line.contains("cluster-extension") && line.contains(name)
    };
    log.lines().filter(of_extension).count()
}

/// Waits until the extension has been reconciled anew and nothing goes on, and compares.
async fn is_quiet(
    scenario: &Scenario<'_>,
    (operator, proxy): (&Operator, &Proxy),
    reconciled_before: usize,
    before: &Shown,
) -> Result<()> {
    wait::until("a reconcile by the new leader", DEADLINE, async || {
        operator.process().check_running()?;
        let count = reconciled(operator, &scenario.name);
        wait::check(count > reconciled_before, || format!("{count} reconciles"))
    })
    .await?;
    proxy.quiet(STILL, DEADLINE).await?;
    let after = shown(scenario).await?;
    for (name, (version_before, status_before)) in before {
        let (version, status) = after.get(name).with_context(|| format!("{name} is gone"))?;
        ensure!(
            version == version_before,
            "{name} was written:\n{status_before}\n{status}\n{:?}",
            proxy.writes().iter().map(|write| write.name.to_string()).collect::<Vec<_>>()
        );
    }
    Ok(())
}

/// Starts the program anew, with the requests that contain a text failing at first.
async fn restarts_quietly(scenario: &Scenario<'_>, proxy: &Proxy, late: &str) -> Result<()> {
    let operator = &scenario.world.operator;
    let before = shown(scenario).await?;
    operator.process().terminate(GRACE).await?;
    proxy.reset();
    proxy.weather(Some(Weather::new(1, 1, &[Fault::Status(503)], 2).only(late)));
    let reconciled_before = reconciled(operator, &scenario.name);
    operator.process().restart()?;
    operator.ready().await?;
    is_quiet(scenario, (operator, proxy), reconciled_before, &before).await?;
    ensure!(proxy.damage().len() == 2, "{late} was not late: {:?}", proxy.damage());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_and_a_change_of_leaders_change_no_condition_and_write_nothing() -> Result<()> {
    let world = World::start_behind_proxy(&FLAGS).await?;
    let proxy = world.proxy();
    let scenario = Scenario::new(&world, "starts").await?;
    let bundle = small("limited", "1.0.0").annotation("olm.properties", PROPERTIES);
    scenario.offer(&[bundle]).await?;
    cluster_version(&scenario, "4.17.3").await?;
    // The extension names no account.
    let settings: Api<ConfigMap> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let account = json!({"data": {"default-service-account": format!("{}/{ACCOUNT}", scenario.name)}});
    settings.merge("olmv1-settings", &account).await?;
    let extension: ClusterExtension = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": scenario.name},
        "spec": {
            "namespace": scenario.name,
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "limited"}},
        },
    }))?;
    wait::until("the API server to know the default account", DEADLINE, async || {
        Ok(scenario.extensions().create(&PostParams::default(), &extension).await.map(drop)?)
    })
    .await?;
    scenario.installed("1.0.0").await?;
    scenario.shows(Upgradeable, "True/CompatibleWithNextPlatformVersion/").await?;
    proxy.quiet(STILL, DEADLINE).await?;

    for late in [
        "list customresourcedefinitions",
        "list clusterversions",
        "list configmaps olmv1-system/",
        "list clustercatalogs",
        "list clusterobjectsets",
        "list validatingadmissionpolicies",
    ] {
        restarts_quietly(&scenario, proxy, late).await.with_context(|| format!("with {late} late"))?;
    }

    // Another process, which has only followed so far.
    let mut before = shown(&scenario).await?;
    // The address under which a catalog is served is another one here for each process.
    before.retain(|name, _| !name.starts_with("ClusterCatalog "));
    let second = Operator::start_as(&world, proxy.kubeconfig(), &FLAGS).await?;
    world.operator.process().terminate(GRACE).await?;
    is_quiet(&scenario, (&second, proxy), 0, &before).await.context("by a new leader")?;
    second.process().terminate(GRACE).await?;
    world.operator.process().restart()?;
    world.operator.ready().await?;

    // A cluster without its guard is not taken for a guarded one.
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scenario.client.clone());
    let binding = bindings.all().await?.into_iter().map(|one| one.name_any());
    let binding =
        binding.into_iter().find(|name| name.starts_with("clusterobjectset-account")).context("a binding")?;
    bindings.remove(&binding).await?;
    scenario.shows(Ready, "False/Unguarded/").await?;
    proxy.quiet(STILL, DEADLINE).await?;
    restarts_quietly(&scenario, proxy, "list validatingadmissionpolicies").await.context("unguarded")
}
