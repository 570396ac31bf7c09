//! Bundles that need others.

use olm_api::ConditionType::Reconciling;
use olm_test::prelude::*;

mod installing;

fn package(name: &str, range: &str) -> Value {
    json!({"packageName": name, "versionRange": range})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_and_waited_for() -> Result<()> {
    let scenario = Scenario::shared("needy").await?;
    let (name, group) = (scenario.name.clone(), format!("{}.example.com", scenario.name));
    let bundles = [
        small("base", "0.9.0"),
        small("base", "1.2.0").replaces("0.9.0").property("flavor", json!("sweet")),
        small("kinds", "1.0.0").brings(&group, "Widget"),
        small("needy", "1.0.0")
            .property("olm.package.required", package("base", ">=1.0.0 <2.0.0"))
            .property("olm.gvk.required", json!({"group": group, "version": "v1", "kind": "Widget"}))
            .property(
                "olm.constraint",
                json!({
                    "failureMessage": "needs something sweet",
                    "cel": {"rule": "properties.exists(p, p.type == 'flavor' && p.value == 'sweet')"},
                }),
            ),
    ];
    scenario.offer(&bundles).await?;
    let base = format!("{name}-base");
    scenario.another(&base, "base", json!({"version": "0.9.0"})).await?;
    wait_installed(&scenario, &base, "0.9.0").await?;
    scenario.create_extension("needy", json!({})).await?;
    let cel = "a bundle for whose properties \"properties.exists(p, p.type == 'flavor' && p.value == 'sweet')\" holds (the author says: needs something sweet)";
    let text = format!(
        "bundle \"needy.v1.0.0\" requires what is not installed: package \"base\" in version range \">=1.0.0 <2.0.0\"; kind Widget of {group}/v1; {cel}"
    );
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    scenario.shows(Stalled, &format!("True/Blocked/{text}. Needed: package \"base\"")).await?;
    scenario.shows(Installed, "False/Failed/No bundle installed").await?;
    let told = scenario.shown().await?.condition(Stalled);
    for part in [
        format!("Version 0.9.0 is installed (ClusterExtension {base:?}), which does not meet it."),
        format!(
            "It would be met by package base 1.2.0 (catalog {name}). Allow that version in ClusterExtension {base:?}"
        ),
        format!("It would be met by package kinds 1.0.0 (catalog {name})."),
        "kind: ClusterExtension".to_owned(),
        "packageName: kinds".to_owned(),
        "The extension continues by itself once everything is installed.".to_owned(),
    ] {
        ensure!(told.contains(&part), "no {part:?} in {told}");
    }
    println!("[dependencies]\n{told}\n");
    scenario
        .event(
            "ClusterExtension",
            &scenario.name,
            "Retrying",
            "bundle \"needy.v1.0.0\" requires what is not installed: package \"base\"",
        )
        .await?;

    let patch = json!({"spec": {"source": {"catalog": {"version": "1.2.0"}}}});
    scenario
        .extensions()
        .patch(&base, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&patch))
        .await?;
    let text = format!("bundle \"needy.v1.0.0\" requires what is not installed: kind Widget of {group}/v1");
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    let kinds = format!("{name}-kinds");
    scenario.another(&kinds, "kinds", json!({})).await?;
    scenario.installed("1.0.0").await?;

    // What goes later is told, and nothing is torn down.
    scenario.remove_extension(&base).await?;
    scenario.shows(Ready, "True/Succeeded/Revision 1.0.0 has rolled out.\nThe installed bundle needy.v1.0.0 requires what is no longer installed: package \"base\"").await?;
    println!("[gone later]\n{}\n", scenario.shown().await?.condition(Ready));
    scenario.remove_extension(&kinds).await?;
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_extension_is_rolling_out_is_waited_for() -> Result<()> {
    let scenario = Scenario::shared("soon").await?;
    let bundles = [
        small("base", "1.0.0").deployment(false),
        small("base", "1.1.0").deployment(true).replaces("1.0.0"),
        small("needy", "1.0.0").property("olm.package.required", package("base", ">=1.0.0")),
    ];
    scenario.offer(&bundles).await?;
    let base = format!("{}-base", scenario.name);
    scenario.another(&base, "base", json!({"version": "1.0.0"})).await?;
    scenario.set_reports(&format!("{base}-1"), Reconciling, |shown| shown.starts_with("True/")).await?;
    scenario.create_extension("needy", json!({})).await?;
    let text = "bundle \"needy.v1.0.0\" requires what is not installed: package \"base\" in version range \">=1.0.0\"";
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    scenario.shows(Reconciling, &format!("True/Retrying/{text}")).await?;
    scenario
        .shows(Ready, &format!("False/Retrying/{text}. ClusterExtension {base:?} is installing bundle base.v1.0.0, which meets it"))
        .await?;
    let shown = scenario.shown().await?;
    ensure!(shown.condition(Stalled).is_empty(), "it ends by itself: {shown:?}");
    let ready = shown.condition(Ready);
    ensure!(!ready.contains("apply:"), "it exists already: {ready}");
    println!("[rolling out]\n{ready}\n");

    scenario
        .extensions()
        .merge(&base, &json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}}))
        .await?;
    scenario.installed("1.0.0").await?;
    scenario.delete_extension().await?;
    scenario.remove_extension(&base).await
}

#[tokio::test(flavor = "multi_thread")]
async fn bundles_that_need_each_other_go_on_together() -> Result<()> {
    let scenario = Scenario::shared("cycle").await?;
    let bundles = [
        small("left", "1.0.0").property("olm.package.required", package("right", ">=1.0.0")),
        small("right", "1.0.0").property("olm.package.required", package("left", ">=1.0.0")),
    ];
    scenario.offer(&bundles).await?;
    scenario.create_extension("left", json!({})).await?;
    scenario
        .shows(
            Progressing,
            "True/Retrying/bundle \"left.v1.0.0\" requires what is not installed: package \"right\"",
        )
        .await?;
    let right = format!("{}-right", scenario.name);
    scenario.another(&right, "right", json!({})).await?;
    scenario.installed("1.0.0").await?;
    wait_installed(&scenario, &right, "1.0.0").await?;
    scenario.remove_extension(&right).await?;
    scenario.delete_extension().await
}

// Also read from the bundle itself, where the catalog says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_bundle_declares_counts_too() -> Result<()> {
    let scenario = Scenario::shared("silent").await?;
    let dependencies =
        "dependencies:\n- type: olm.package\n  value: {packageName: absent, version: '>=3.0.0'}\n";
    let bundles = [small("silent", "1.0.0").dependencies(dependencies)];
    scenario.offer(&bundles).await?;
    scenario.create_extension("silent", json!({})).await?;
    scenario.shows(Progressing, "True/Retrying/bundle \"silent.v1.0.0\" requires what is not installed: package \"absent\" in version range \">=3.0.0\"").await?;
    let told = scenario.shown().await?.condition(Stalled);
    ensure!(told.contains("No catalog of this cluster has a bundle that meets it"), "{told}");
    println!("[nobody has it]\n{told}\n");
    scenario.delete_extension().await
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_can_be_refused_as_upstream_does() -> Result<()> {
    let scenario = Scenario::shared("refusing").await?;
    let broken = json!({"cel": {"rule": "1 + "}});
    let bundles = [
        small("refusing", "1.0.0").property("olm.package.required", package("base", ">=1.0.0")),
        small("broken", "1.0.0").property("olm.constraint", broken),
        small("modern", "1.0.0").property("olm.kubeversion", json!({"version": "99.0.0"})),
    ];
    scenario.offer(&bundles).await?;
    scenario.create_extension("refusing", json!({})).await?;
    scenario.annotate("dependencies", json!("Refuse")).await?;
    let text = "validating bundle \"refusing.v1.0.0\": bundle \"refusing.v1.0.0\" has a dependency declared via property \"olm.package.required\" which is currently not supported";
    scenario.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    scenario.shows(Stalled, &format!("True/Blocked/{text}. Bundles with dependencies are rejected because the extension asks for it")).await?;
    println!("[refused]\n{}\n", scenario.shown().await?.condition(Stalled));
    scenario.delete_extension().await?;

    scenario.create_extension("broken", json!({})).await?;
    let text = "error for resolved bundle \"broken.v1.0.0\" with version \"1.0.0\": property olm.constraint: cel.rule does not compile, only the bundle's author can fix it: ";
    scenario.shows(Progressing, &format!("False/Blocked/{text}")).await?;
    println!("[not understood]\n{}\n", scenario.shown().await?.condition(Stalled));
    scenario.delete_extension().await?;

    scenario.create_extension("modern", json!({})).await?;
    let text = "error for resolved bundle \"modern.v1.0.0\" with version \"1.0.0\": the bundle needs Kubernetes 99.0.0 or later, the cluster runs v1.";
    scenario.shows(Progressing, &format!("False/Blocked/{text}")).await?;
    println!("[too old]\n{}\n", scenario.shown().await?.condition(Stalled));
    scenario.delete_extension().await
}

async fn wait_installed(scenario: &Scenario<'_>, extension: &str, version: &str) -> Result<()> {
    wait::until(&format!("{extension} to be installed"), DEADLINE, || async {
        let status = scenario.extensions().get(extension).await?.status.unwrap_or_default();
        let found = status.install.as_ref().map(|install| install.bundle.version.clone());
        wait::check(found.as_deref() == Some(version), || format!("{status:?}"))
    })
    .await
}
