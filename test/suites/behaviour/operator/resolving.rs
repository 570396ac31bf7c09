//! Which bundle an extension gets, for every form of request; and what is said when it gets none.

use olm_test::prelude::*;

async fn scenario(name: &str, bundles: &[Bundle], more: &[Value]) -> Result<Scenario<'static>> {
    let scenario = Scenario::shared(name).await?;
    scenario.offer_with(bundles, more).await?;
    Ok(scenario)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_range_brings_its_highest_version() -> Result<()> {
    let versions = [
        "0.0.3",
        "0.0.9",
        "0.2.3",
        "0.2.9",
        "0.9.0",
        "1.2.9",
        "1.10.5",
        "1.11.0",
        "1.11.1",
        "1.11.9",
        "1.12.4",
        "1.13.0",
        "1.14.0",
        "1.14.3",
        "1.16.1",
        "2.3.0",
        "2.5.0",
        "3.0.0-rc.1",
    ];
    let bundles: Vec<Bundle> = versions.iter().map(|version| small("ranged", version)).collect();
    let scenario = scenario("ranges", &bundles, &[]).await?;
    // Each leads somewhere else than the one before, so that nothing is shown by standing still.
    let ranges = [
        (">=1.11, <1.13", "1.12.4"),
        ("1.11.1", "1.11.1"),
        ("=1.14.0", "1.14.0"),
        ("!=2.5.0", "2.3.0"),
        (">1.11.1 <1.12", "1.11.9"),
        ("<1.11.0", "1.10.5"),
        ("<=1.11.0", "1.11.0"),
        (">=1.16", "2.5.0"),
        ("1.11.x", "1.11.9"),
        (">=1.12.X <2", "1.16.1"),
        ("<=2.x", "2.5.0"),
        ("~1.11.0", "1.11.9"),
        ("*", "2.5.0"),
        ("~1", "1.16.1"),
        ("~1.12", "1.12.4"),
        ("~1.x", "1.16.1"),
        ("~1.12.x", "1.12.4"),
        ("^0", "0.9.0"),
        ("^0.0", "0.0.9"),
        ("^0.0.3", "0.0.3"),
        ("^0.2", "0.2.9"),
        ("^1.2.x", "1.16.1"),
        ("^0.2.3", "0.2.9"),
        ("^1.2.3", "1.16.1"),
        ("^2.x", "2.5.0"),
        ("1.14.x", "1.14.3"),
        ("^2.3", "2.5.0"),
        ("1.2.* || 1.10.*", "1.10.5"),
        (">=3.0.0-0", "3.0.0-rc.1"),
    ];
    let first = json!({"upgradeConstraintPolicy": "SelfCertified", "version": ranges[0].0});
    scenario.create_extension("ranged", first).await?;
    for (range, version) in ranges {
        scenario.set_version(range).await?;
        scenario.installed(version).await?;
    }
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_before_a_release() -> Result<()> {
    let bundles = [small("early", "1.0.0"), small("early", "1.1.0-rc.1").replaces("1.0.0")];
    let scenario = scenario("early", &bundles, &[]).await?;
    scenario.install("early", json!({"version": ">=1.0.0"}), "1.0.0").await?;
    scenario.set_version(">=1.0.0-0").await?;
    scenario.installed("1.1.0-rc.1").await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skip_range_jumps_over_skipped_versions() -> Result<()> {
    let bundles = [
        small("skipping", "1.0.0"),
        small("skipping", "1.0.1").replaces("1.0.0"),
        small("skipping", "1.1.0")
            .edges(json!({"skips": ["skipping.v1.0.1"], "skipRange": ">=1.0.0 <1.1.0"})),
        small("skipping", "2.0.0").edges(json!({"skipRange": ">=1.5.0 <2.0.0"})),
    ];
    let scenario = scenario("skipping", &bundles, &[]).await?;
    scenario.install("skipping", json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.patch_extension(json!({"spec": {"source": {"catalog": {"version": ""}}}})).await?;
    scenario.installed("1.1.0").await?;
    // 2.0.0 is higher, but its range does not cover what is installed.
    scenario.set_version("2.0.0").await?;
    scenario
        .shows(Progressing, "True/Retrying/error upgrading from currently installed version \"1.1.0\"")
        .await?;
    scenario.shows(Stalled, "True/Blocked/error upgrading from").await?;
    let told = scenario.shown().await?.condition(Stalled);
    for part in ["Upgrades only follow the paths", "SelfCertified", "cannot be reached from skipping.v1.1.0"]
    {
        ensure!(told.contains(part), "{told}");
    }
    println!("[no path]\n{told}\n");
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_channel_brings_its_versions() -> Result<()> {
    let bundles = [
        small("channels", "1.0.0").channels(&["stable", "fast"]),
        small("channels", "1.1.0").replaces("1.0.0").channels(&["fast"]),
    ];
    let scenario = scenario("channels", &bundles, &[]).await?;
    scenario.install("channels", json!({"channels": ["stable"]}), "1.0.0").await?;
    let channels = |all: &[&str]| json!({"spec": {"source": {"catalog": {"channels": all}}}});
    scenario.patch_extension(channels(&["none"])).await?;
    scenario.shows(Progressing, "True/Retrying/error upgrading from currently installed version \"1.0.0\": no bundles found for package \"channels\" in channels [none]").await?;
    scenario.patch_extension(channels(&["fast"])).await?;
    scenario.installed("1.1.0").await?;
    scenario.delete_extension().await
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
    scenario.shows(Stalled, &format!("True/Blocked/{tie}\nChoose one: select a catalog")).await?;
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
        small("major", "2.0.0").edges(json!({"skipRange": ">=1.0.0 <2.0.0"})),
    ];
    let scenario = scenario("major", &bundles, &[]).await?;
    scenario.create_extension("major", json!({"version": "1.0.0"})).await?;
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
async fn only_the_administrator_leaves_the_catalogs_path() -> Result<()> {
    const PACKAGE: &str = "lighthouse-operator";
    let scenario = Scenario::shared("forced").await?;
    let bundles = ["1.0.0", "1.1.0", "2.0.0"].map(|version| (version, lighthouse(version)));
    scenario.prepare(PACKAGE, &bundles).await?;
    scenario.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;

    scenario.set_version("2.0.0").await?;
    let refused = "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"lighthouse-operator\" matching version \"2.0.0\"";
    scenario.shows(Progressing, &format!("True/Retrying/{refused}")).await?;
    scenario.shows(Installed, "True/Succeeded/").await?;

    let forced = json!({"spec": {"source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified"}}}});
    scenario.patch_extension(forced).await?;
    scenario.installed("2.0.0").await?;

    let provided = json!({"spec": {"source": {"catalog": {
        "upgradeConstraintPolicy": "CatalogProvided", "version": "1.1.0",
    }}}});
    scenario.patch_extension(provided).await?;
    let refused = "error upgrading from currently installed version \"2.0.0\": no bundles found for package \"lighthouse-operator\" matching version \"1.1.0\"";
    scenario.shows(Progressing, &format!("True/Retrying/{refused}")).await?;

    // A downgrade removes fields of the CRD: the administrator answers for that too.
    let back = json!({"spec": {
        "source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified", "channels": ["stable"]}},
        "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}},
    }});
    scenario.patch_extension(back).await?;
    scenario.installed("1.1.0").await?;
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
        let output = Command::new(scenario.world.cluster.kubectl())
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
    scenario.delete_extension().await
}
