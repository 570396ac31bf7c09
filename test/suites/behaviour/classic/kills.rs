//! The program killed before and after its writes on the way from a Subscription to its InstallPlan.

use olm_api_classic::{InstallPlan, OperatorGroup, Subscription};
use olm_test::{
    classic::{Classic, Source, USER, csv, install},
    instance::Settings,
    operator::GROUPS,
    prelude::*,
    proxy::{Blow, Proxy, WriteName},
};

use crate::sources::config_map;

/// A ConfigMap's data with a package of one version, whose bundle is in it as a whole.
fn data() -> Value {
    let csv = csv::csv("lamp.v1.0.0", &json!({"version": "1.0.0"}));
    json!({
        "packages": "[{packageName: lamp, channels: [{name: stable, currentCSV: lamp.v1.0.0}]}]",
        "clusterServiceVersions": json!([csv]).to_string(),
    })
}

/// A namespace whose catalog is served.
async fn namespace(cluster: &Cluster) -> Result<String> {
    let namespace = unique_name("kills");
    cluster.create_namespace(&namespace).await?;
    let client = cluster.client().await?;
    let group = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "group"}, "spec": {},
    });
    let groups: Api<OperatorGroup> = Api::namespaced(client.clone(), &namespace);
    groups.create(&PostParams::default(), &serde_json::from_value(group)?).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    maps.create(&PostParams::default(), &config_map(&namespace, "lamps", &data())?).await?;
    let spec = json!({"sourceType": "internal", "configMap": "lamps"});
    let source = Source::create(cluster, &namespace, "cat", json!({}), spec).await?;
    source.shows("READY", "", "True/Serving").await?;
    Ok(namespace)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_writes_it_makes_one_plan() -> Result<()> {
    let cluster = Cluster::start(Options { nodes: 0, ..Options::default() }).await?;
    install(&cluster)?;
    let proxy = Proxy::start(&cluster.kubeconfig_for(USER, &GROUPS)?).await?;
    let settings = Settings::default().arg(format!("--kubeconfig={}", proxy.kubeconfig().display()));
    let mut classic = Classic::start(&cluster, &settings).await?;
    // The first write says that the catalog is read, the second names the plan, which is made by then.
    for (nth, blow) in [(1, Blow::Before), (1, Blow::After), (2, Blow::Before), (2, Blow::After)] {
        let namespace = namespace(&cluster).await?;
        let at = WriteName {
            verb: "update".to_owned(),
            resource: "subscriptions.operators.coreos.com/status".to_owned(),
            object: format!("{namespace}/lamp"),
            nth,
        };
        proxy.strike(at.clone(), blow);
        let subscriptions: Api<Subscription> = Api::namespaced(cluster.client().await?, &namespace);
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "lamp"},
            "spec": {
                "name": "lamp", "source": "cat", "sourceNamespace": namespace,
                "installPlanApproval": "Manual",
            },
        });
        subscriptions.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        tokio::time::timeout(DEADLINE, proxy.struck()).await.with_context(|| format!("no write {at}"))?;
        classic.process().kill()?;
        proxy.reset();
        classic = Classic::start(&cluster, &settings).await?;
        let plans: Api<InstallPlan> = Api::namespaced(cluster.client().await?, &namespace);
        wait::until(&format!("a plan after {blow:?} {at}"), DEADLINE, async || {
            let status = subscriptions.get("lamp").await?.status.unwrap_or_default();
            let all = plans.list(&ListParams::default()).await?.items;
            let names: Vec<_> = all.iter().map(ResourceExt::name_any).collect();
            let reference = status.install_plan_ref.and_then(|one| one.name);
            let phases: Vec<_> =
                all.iter().filter_map(|one| Some(one.status.as_ref()?.phase.clone())).collect();
            wait::check(
                reference.is_some() && names.first() == reference.as_ref() && phases == ["RequiresApproval"],
                || format!("{reference:?} of {names:?} in {phases:?}: {:?}", status.conditions),
            )?;
            ensure!(status.current_csv.as_deref() == Some("lamp.v1.0.0"), "{:?}", status.current_csv);
            Ok(())
        })
        .await?;
        ensure!(plans.list(&ListParams::default()).await?.items.len() == 1, "{blow:?} {at}: two plans");
    }
    Ok(())
}
