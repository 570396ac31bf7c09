//! Bundles that say up to which version of the platform they work.

use kube::core::GroupVersionKind;
use olm_api::ConditionType::Upgradeable;
use olm_test::prelude::*;

use crate::small::{prepare, revisions};

pub(crate) const PROPERTIES: &str = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#;

/// What the platform reads: the properties on the highest active revision.
async fn platform_reads(scenario: &Scenario<'_>) -> Result<Option<String>> {
    let sets = revisions(scenario).await?;
    let annotations = sets.last().and_then(|set| set.metadata.annotations.clone()).unwrap_or_default();
    Ok(annotations.get("olm.properties").cloned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platform_limit_stands_where_the_platform_reads_it() -> Result<()> {
    let scenario = Scenario::new(World::shared().await?, "platform").await?;
    let first_generation = r#"{"properties":[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]}"#;
    let bundles = [
        small("limited", "1.0.0").annotation("olm.properties", PROPERTIES),
        small("limited", "1.1.0")
            .replaces("1.0.0")
            .annotation("operatorframework.io/properties", first_generation),
        small("limited", "2.0.0").replaces("1.1.0"),
    ];
    prepare(&scenario, &bundles, &[]).await?;
    scenario.create_extension("limited", json!({"version": "1.0.0"})).await?;
    scenario.installed("1.0.0").await?;
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
    wait::until("1.1.0 to be installed", DEADLINE, || async {
        let read = platform_reads(&scenario).await?;
        if read.as_deref() != Some(PROPERTIES) {
            return Err(wait::Final(format!("the platform reads {read:?}")).into());
        }
        let shown = scenario.shown().await?;
        ensure!(shown.version.as_deref() == Some("1.1.0"), "{shown:?}");
        Ok(())
    })
    .await?;
    scenario.shows(Upgradeable, blocks).await?;
    // Back again, as an administrator rolls back.
    let back = json!({"spec": {"source": {"catalog": {"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}}}});
    scenario.patch_extension(back).await?;
    wait::until("1.0.0 to be back", DEADLINE, || async {
        let read = platform_reads(&scenario).await?;
        if read.as_deref() != Some(PROPERTIES) {
            return Err(wait::Final(format!("the platform reads {read:?}")).into());
        }
        let shown = scenario.shown().await?;
        ensure!(shown.version.as_deref() == Some("1.0.0"), "{shown:?}");
        Ok(())
    })
    .await?;

    scenario.set_version("2.0.0").await?;
    scenario.installed("2.0.0").await?;
    assert_eq!(platform_reads(&scenario).await?, None);
    scenario.reports(Upgradeable, |told| told.is_empty()).await?;
    scenario.delete_extension().await?;
    wait::until("the revisions to be gone", DEADLINE, || async {
        wait::check(revisions(&scenario).await?.is_empty(), || "there are some".into())
    })
    .await
}

/// Makes the cluster a platform of this version.
pub(crate) async fn cluster_version(scenario: &Scenario<'_>, version: &str) -> Result<()> {
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterversions.config.openshift.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": {"plural": "clusterversions", "singular": "clusterversion", "kind": "ClusterVersion", "listKind": "ClusterVersionList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    }))?;
    let crds: Api<CustomResourceDefinition> = Api::all(scenario.client.clone());
    let params = PatchParams::apply("olm-test").force();
    crds.patch("clusterversions.config.openshift.io", &params, &Patch::Apply(&crd)).await?;
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
