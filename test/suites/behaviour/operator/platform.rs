//! Bundles that say up to which version of the platform they work.

use kube::core::GroupVersionKind;
use olm_api::ConditionType::Upgradeable;
use olm_test::{bundle, prelude::*};

pub(crate) const PROPERTIES: &str = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#;

/// What the platform reads: the properties on the highest active revision.
async fn platform_reads(scenario: &Scenario<'_>) -> Result<Option<String>> {
    let sets = scenario.revisions().await?;
    let annotations = sets.last().and_then(|set| set.metadata.annotations.clone()).unwrap_or_default();
    Ok(annotations.get("olm.properties").cloned())
}

/// Waits until the version is installed; fails when the platform reads another limit meanwhile.
async fn installed_within_the_limit(scenario: &Scenario<'_>, version: &str) -> Result<()> {
    wait::until(&format!("{version} to be installed"), DEADLINE, || async {
        let read = platform_reads(scenario).await?;
        if read.as_deref() != Some(PROPERTIES) {
            return Err(wait::Final(format!("the platform reads {read:?}")).into());
        }
        let shown = scenario.shown().await?;
        ensure!(shown.version.as_deref() == Some(version), "{shown:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platform_limit_stands_where_the_platform_reads_it() -> Result<()> {
    let scenario = Scenario::shared("platform").await?;
    let first_generation = r#"{"properties":[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]}"#;
    let bundles = [
        small("limited", "1.0.0").annotation("olm.properties", PROPERTIES),
        small("limited", "1.1.0")
            .replaces("1.0.0")
            .annotation("operatorframework.io/properties", first_generation),
        small("limited", "2.0.0").replaces("1.1.0"),
    ];
    scenario.offer(&bundles).await?;
    scenario.install("limited", json!({"version": "1.0.0"}), "1.0.0").await?;
    assert_eq!(platform_reads(&scenario).await?.as_deref(), Some(PROPERTIES));
    assert_eq!(scenario.shown().await?.condition(Upgradeable), "", "there is no platform yet");

    cluster_version(&scenario, "4.17.3").await?;
    scenario
        .shows(Upgradeable, "True/CompatibleWithNextPlatformVersion/the bundle supports platform versions up to 4.18, 4.18 included")
        .await?;
    cluster_version(&scenario, "4.18.0-rc1").await?;
    let blocks = "False/IncompatibleWithNextPlatformVersion/the bundle supports platform versions up to 4.18 only: the platform will not be updated to 4.19";
    scenario.shows(Upgradeable, blocks).await?;
    println!("[platform]\n{}\n", scenario.shown().await?.condition(Upgradeable));

    // At no moment of a roll-out does the highest active revision lack the limit.
    scenario.set_version("1.1.0").await?;
    installed_within_the_limit(&scenario, "1.1.0").await?;
    scenario.shows(Upgradeable, blocks).await?;
    // Back again, as an administrator rolls back.
    let back = json!({"spec": {"source": {"catalog": {"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}}}});
    scenario.patch_extension(back).await?;
    installed_within_the_limit(&scenario, "1.0.0").await?;

    scenario.upgrade("2.0.0").await?;
    assert_eq!(platform_reads(&scenario).await?, None);
    scenario.reports(Upgradeable, str::is_empty).await?;
    scenario.delete_extension().await?;
    wait::until("the revisions to be gone", DEADLINE, || async {
        wait::check(scenario.revisions().await?.is_empty(), || "there are some".into())
    })
    .await
}

/// Makes the cluster a platform of this version.
pub(crate) async fn cluster_version(scenario: &Scenario<'_>, version: &str) -> Result<()> {
    let mut crd = bundle::open_crd("config.openshift.io", "ClusterVersion");
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    crd["spec"]["scope"] = "Cluster".into();
    let params = PatchParams::apply("olm-test").force();
    scenario.crds().patch("clusterversions.config.openshift.io", &params, &Patch::Apply(&crd)).await?;
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusterversions");
    let api: Api<DynamicObject> = Api::all_with(scenario.client.clone(), &resource);
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "status": {"desired": {"version": version}},
    });
    wait::until("the kind to be served", DEADLINE, || async {
        api.patch("version", &params, &Patch::Apply(&object)).await?;
        Ok(())
    })
    .await
}
