//! What `kubectl get` shows: names, columns, and the update that the catalogs have.

use olm_api::ConditionType::{BundleDeprecated, Deprecated, UpdateAvailable};
use olm_test::prelude::*;

/// The lines that kubectl prints, by columns: there are two blanks at least between them.
fn table(scenario: &Scenario<'_>, args: &[&str]) -> Result<Vec<Vec<String>>> {
    let shown = kubectl(&scenario.world.cluster, args)?;
    println!("$ kubectl {}\n{shown}", args.join(" "));
    let cells = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    Ok(shown.lines().map(cells).collect())
}

// The newest version is outside the range at first, then no catalog has a newer one.
#[tokio::test(flavor = "multi_thread")]
async fn columns_show_whether_it_is_ready_and_which_update_there_is() -> Result<()> {
    let scenario = Scenario::shared("columns").await?;
    let (package, name) = (format!("{}-op", scenario.name), scenario.name.as_str());
    let bundles = [small(&package, "1.0.0"), small(&package, "1.1.0").replaces("1.0.0")];
    scenario.offer(&bundles).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    scenario.shows(UpdateAvailable, "True/NewerVersion/1.1.0").await?;

    let extensions = table(&scenario, &["get", "cext", name])?;
    let columns = [
        "NAME",
        "INSTALLED BUNDLE",
        "VERSION",
        "INSTALLED",
        "PROGRESSING",
        "READY",
        "AVAILABLE UPDATE",
        "AGE",
    ];
    ensure!(extensions[0] == columns, "{extensions:?}");
    let bundle = format!("{package}.v1.0.0");
    ensure!(
        extensions[1][..7] == [name, &bundle, "1.0.0", "True", "True", "True", "1.1.0"],
        "{extensions:?}"
    );
    let wide = table(&scenario, &["get", "cext", name, "-o", "wide"])?;
    ensure!(wide[0].last().is_some_and(|column| column == "MESSAGE"), "{wide:?}");
    ensure!(wide[1].last().is_some_and(|text| text == "Revision 1.0.0 has rolled out."), "{wide:?}");

    scenario.upgrade("1.1.0").await?;
    scenario.shows(UpdateAvailable, "False/NewestVersion/").await?;
    let sets = wait::until("the first revision to be archived", DEADLINE, async || {
        let label = format!("olm.operatorframework.io/owner-name={name}");
        let sets = table(&scenario, &["get", "cos", "-l", &label])?;
        wait::check(sets[1..].iter().any(|line| line.contains(&"Archived".to_owned())), || {
            format!("{sets:?}")
        })?;
        Ok(sets)
    })
    .await?;
    let columns = ["NAME", "AVAILABLE", "PROGRESSING", "REVISION", "VERSION", "STATE", "AGE"];
    ensure!(sets[0] == columns, "{sets:?}");
    let [first, second] = [1, 2].map(|number| format!("{name}-{number}"));
    ensure!(sets[1][..6] == [&first, "Unknown", "False", "1", "1.0.0", "Archived"], "{sets:?}");
    ensure!(sets[2][..6] == [&second, "True", "True", "2", "1.1.0", "Active"], "{sets:?}");
    let all = kubectl(&scenario.world.cluster, &["get", "olm", "-o", "name"])?;
    for kind in ["clustercatalog", "clusterextension", "clusterobjectset"] {
        ensure!(all.contains(&format!("{kind}.olm.operatorframework.io/{name}")), "{kind}: {all}");
    }
    let catalogs = table(&scenario, &["get", "ccat", name])?;
    ensure!(catalogs[0] == ["NAME", "LASTUNPACKED", "SERVING", "READY", "AGE"], "{catalogs:?}");

    // A catalog that changes is noticed, although the version that is asked for stays the same.
    let bundles = [bundles[1].clone(), small(&package, "2.0.0").replaces("1.1.0")];
    let reference = scenario.push_made(&bundles, &[], "more").await?;
    let image = json!({"spec": {"source": {"image": {"ref": reference, "pollIntervalMinutes": null}}}});
    scenario.patch_catalog(name, image).await?;
    scenario.shows(UpdateAvailable, "True/NewerVersion/2.0.0").await?;
    scenario.installed("1.1.0").await?;

    // Back at 1.0.0 nothing is resolved, and the catalog still says what there is; also when it changes.
    scenario.annotate("rollback-to", json!("1")).await?;
    scenario.installed("1.0.0").await?;
    scenario.shows(Deprecated, "False/NotDeprecated/not deprecated").await?;
    scenario.shows(UpdateAvailable, "True/NewerVersion/1.1.0").await?;
    let deprecations = json!({"schema": "olm.deprecations", "package": package, "entries": [
        {"reference": {"schema": "olm.bundle", "name": format!("{package}.v1.0.0")}, "message": "old"},
    ]});
    let bundles = [small(&package, "1.0.0"), small(&package, "1.2.0").replaces("1.0.0")];
    let reference = scenario.push_made(&bundles, &[deprecations], "later").await?;
    let image = json!({"spec": {"source": {"image": {"ref": reference, "pollIntervalMinutes": null}}}});
    scenario.patch_catalog(name, image).await?;
    scenario.shows(BundleDeprecated, "True/Deprecated/old").await?;
    scenario.shows(UpdateAvailable, "True/NewerVersion/1.2.0").await?;
    scenario.delete_extension().await
}
