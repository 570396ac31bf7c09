//! Which bundle an extension gets: catalogs, annotations, and what is said when it gets none.

use olm_test::prelude::*;

async fn scenario(name: &str, bundles: &[Bundle], more: &[Value]) -> Result<Scenario<'static>> {
    let scenario = Scenario::shared(name).await?;
    scenario.offer_with(bundles, more).await?;
    Ok(scenario)
}

#[tokio::test(flavor = "multi_thread")]
async fn priorities_decide_between_catalogs() -> Result<()> {
    let scenario = Scenario::shared("priorities").await?;
    let old = scenario.push_made(&[small("both", "1.0.0")], &[], "old").await?;
    let new = scenario.push_made(&[small("both", "2.0.0").replaces("1.0.0")], &[], "new").await?;
    let (a, b) =
        (scenario.further_catalog("a", 0, &old).await?, scenario.further_catalog("b", 0, &new).await?);
    scenario.serves(&a).await?;
    scenario.serves(&b).await?;
    scenario.create_extension("both", scenario.own_catalogs()).await?;
    let tie =
        format!("found bundles for package \"both\" in multiple catalogs with the same priority [{a} {b}]");
    scenario.shows(Progressing, &format!("True/Retrying/{tie}")).await?;
    scenario.shows(Stalled, &format!("True/Blocked/{tie}. Choose one: select a catalog")).await?;
    println!("[ambiguous]\n{}\n", scenario.shown().await?.condition(Stalled));
    scenario.patch_catalog(&b, json!({"spec": {"priority": -400}})).await?;
    scenario.installed("1.0.0").await?;
    let origin = "extensions.olm.operatorframework.io/catalog";
    let recorded = |sets: &[ClusterObjectSet]| {
        sets.last().and_then(|set| set.metadata.annotations.as_ref()?.get(origin).cloned())
    };
    assert_eq!(recorded(&scenario.revisions().await?), Some(a.clone()));

    // It stays with the catalog it came from, although the other one is worth more now.
    scenario.patch_catalog(&b, json!({"spec": {"priority": 7}})).await?;
    scenario.set_version(">=1.0.0").await?;
    scenario.installed("1.0.0").await?;
    scenario.annotate("same-catalog", json!("Required")).await?;
    scenario
        .shows(
            Ready,
            "True/Succeeded/Revision 1.0.0 has rolled out.\nIn force by annotation: same-catalog: Required.",
        )
        .await?;
    // Only when its catalog has no answer any more does it cross, and not against the annotation.
    scenario.set_version("2.0.0").await?;
    scenario
        .shows(Progressing, "True/Retrying/error upgrading from currently installed version \"1.0.0\"")
        .await?;
    let told = scenario.shown().await?.condition(Stalled);
    ensure!(
        told.contains(&format!("the extension must stay with {a}, the catalog it was installed from")),
        "{told}"
    );
    println!("[same catalog]\n{told}\n");
    scenario.annotate("same-catalog", Value::Null).await?;
    scenario.installed("2.0.0").await?;
    assert_eq!(recorded(&scenario.revisions().await?), Some(b.clone()));
    let changed = format!(
        "The upgrade from bundle both.v1.0.0 of catalog {a} leads to bundle both.v2.0.0 of catalog {b}"
    );
    scenario.event("ClusterExtension", &scenario.name, "CatalogChanged", &changed).await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_made_unavailable_and_available_again() -> Result<()> {
    let scenario = scenario("unavailable", &[small("away", "1.0.0")], &[]).await?;
    let mode = |mode: &str| json!({"spec": {"availabilityMode": mode}});
    scenario.install("away", json!({}), "1.0.0").await?;
    scenario.patch_catalog(&scenario.name, mode("Unavailable")).await?;
    scenario
        .shows(
            Ready,
            "True/Succeeded/Revision 1.0.0 has rolled out.\nNo catalog has the package \"away\" any more",
        )
        .await?;
    scenario.set_version("2.0.0").await?;
    scenario
        .shows(
            Progressing,
            "True/Retrying/error upgrading from currently installed version \"1.0.0\": no bundles found",
        )
        .await?;
    scenario.shows(Installed, "True/Succeeded/").await?;
    println!("[no catalog]\n{}\n", scenario.shown().await?.condition(Stalled));
    scenario.patch_catalog(&scenario.name, mode("Available")).await?;
    scenario.upgrade("1.0.0").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn major_updates_can_be_held_back() -> Result<()> {
    let bundles = [
        small("major", "1.0.0"),
        small("major", "1.1.0").replaces("1.0.0"),
        small("major", "1.2.0").replaces("1.1.0").channels(&["fast"]),
        small("major", "2.0.0").edges(json!({"skipRange": ">=1.0.0 <2.0.0"})),
    ];
    let scenario = scenario("major", &bundles, &[]).await?;
    scenario.create_extension("major", json!({"version": "1.0.0", "channels": ["stable"]})).await?;
    scenario.annotate("major-updates", json!("Block")).await?;
    scenario.installed("1.0.0").await?;
    scenario.patch_extension(json!({"spec": {"source": {"catalog": {"version": ""}}}})).await?;
    scenario.installed("1.1.0").await?;
    scenario
        .shows(Ready, "True/Succeeded/Revision 1.1.0 has rolled out.\nIn force by annotation: major-updates: Block.\nThe upgrade to bundle major.v2.0.0 is held back")
        .await?;
    println!("[held back]\n{}\n", scenario.shown().await?.condition(Ready));
    let told = scenario.annotate("major-updates", json!("block")).await.unwrap_err();
    let wanted = "annotation \"extensions.olm.operatorframework.io/major-updates\" cannot be \"block\": set it to \"Block\", or remove it";
    assert!(format!("{told:#}").contains(wanted), "{told:#}");
    scenario.annotate("major-updates", Value::Null).await?;
    scenario.installed("2.0.0").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_the_catalogs_paths_brings_a_warning() -> Result<()> {
    let scenario = Scenario::shared("warned").await?;
    let apply = |policy: &str| -> Result<String> {
        let mut extension = scenario.extension_object("none");
        extension["spec"]["source"]["catalog"]["upgradeConstraintPolicy"] = policy.into();
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), extension.to_string())?;
        let output = scenario
            .world
            .cluster
            .kubectl_command()
            .arg(format!("--kubeconfig={}", scenario.world.cluster.kubeconfig_admin().display()))
            .args(["create", "--dry-run=server", "-f"])
            .arg(file.path())
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // The API server takes a moment to know a new policy.
    let told = wait::until("the warning", DEADLINE, || async {
        let told = apply("SelfCertified")?;
        ensure!(told.contains("Warning: "), "{told}");
        Ok(told)
    })
    .await?;
    ensure!(told.contains("may lose data"), "{told}");
    let told = apply("CatalogProvided")?;
    ensure!(told.is_empty(), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_under_the_same_name_is_rolled_out_when_asked_for() -> Result<()> {
    let scenario = Scenario::shared("reinstalled").await?;
    scenario.push_made(&[small("same", "1.0.0")], &[], "latest").await?;
    scenario.create_catalog(&scenario.catalog_image("latest"), Some(1)).await?;
    scenario.catalog_serves().await?;
    scenario.install("same", json!({}), "1.0.0").await?;
    let changed = scenario.push_made(&[small("same", "1.0.0").data("other")], &[], "changed").await?;
    scenario
        .patch_catalog(
            &scenario.name,
            json!({"spec": {"source": {"image": {"ref": changed, "pollIntervalMinutes": null}}}}),
        )
        .await?;
    let named = "True/Succeeded/Revision 1.0.0 has rolled out.\nThe catalog now has another image for this version, which is not rolled out automatically: ";
    scenario.shows(Ready, named).await?;
    println!("[other content]\n{}\n", scenario.shown().await?.condition(Ready));
    let data =
        async || anyhow::Ok(scenario.maps().get("same-data").await?.data.unwrap_or_default().remove("data"));
    assert_eq!(data().await?.as_deref(), Some("1.0.0"));
    scenario.annotate("reinstall", json!("once")).await?;
    eventually("the other content", async || data().await, |found| found.as_deref() == Some("other")).await?;
    scenario.installed("1.0.0").await?;
    scenario.event("ClusterExtension", &scenario.name, "RolledOut", "Revision 1.0.0 has rolled out.").await?;
    scenario.delete_extension().await
}
