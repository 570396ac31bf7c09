//! What an extension shows while only a person can remove what is in the way: the state as it is, and what to do.

use k8s_openapi::api::core::v1::Namespace;
use olm_api::{
    ConditionType::{Deprecated, PackageDeprecated},
    names::IDENTITY_ANNOTATION,
};
use olm_test::{permissions, prelude::*};

/// Waits until a condition of any extension is `Status/Reason/Message` with all of these parts.
async fn shows(scenario: &Scenario<'_>, name: &str, type_: ConditionType, parts: &[&str]) -> Result<()> {
    wait::until(&format!("{type_} of {name} to have {parts:?}"), DEADLINE, || async {
        scenario.world.operator.process().check_running()?;
        let status = scenario.extensions().get(name).await?.status.unwrap_or_default();
        let shown = condition_text(&status.conditions, type_);
        wait::check(parts.iter().all(|part| shown.contains(part)), || format!("{status:?}"))
    })
    .await
}

/// Waits until no condition says that the objects of the extension are there.
async fn not_available(scenario: &Scenario<'_>) -> Result<()> {
    wait::until("nothing to be called available", DEADLINE, || async {
        let shown = scenario.shown().await?;
        let of_sets: Vec<bool> = scenario
            .revisions()
            .await?
            .iter()
            .map(|set| set.status.as_ref().is_some_and(|status| status.conditions.is_true(Available)))
            .collect();
        wait::check(
            !shown.condition(Available).starts_with("True") && !shown.condition(Ready).starts_with("True"),
            || format!("{shown:?}"),
        )?;
        wait::check(!of_sets.is_empty() && of_sets.iter().all(|is_true| !is_true), || format!("{of_sets:?}"))
    })
    .await
}

// A ServiceAccount is deleted while nothing else changes, made again, and goes at last with its namespace.
#[tokio::test(flavor = "multi_thread")]
async fn an_installed_extension_says_that_its_account_or_its_namespace_is_gone() -> Result<()> {
    let scenario = Scenario::shared("gone").await?;
    let package = format!("{}-op", scenario.name);
    let bundle = small(&package, "1.0.0");
    scenario.offer(std::slice::from_ref(&bundle)).await?;
    scenario.install(&package, json!({}), "1.0.0").await?;

    scenario.accounts().remove(ACCOUNT).await?;
    let missing = format!("service account {ACCOUNT:?} not found in namespace {:?}", scenario.name);
    let advice =
        format!("ServiceAccount {ACCOUNT:?} does not exist in namespace {:?}: create it", scenario.name);
    shows(&scenario, &scenario.name, Ready, &["False/Blocked/", &missing]).await?;
    shows(&scenario, &scenario.name, Stalled, &["True/Blocked/", &missing, &advice]).await?;
    not_available(&scenario).await?;
    let shown = scenario.shown().await?;
    ensure!(shown.condition(Installed).starts_with("True/Succeeded/"), "{shown:?}");
    ensure!(shown.version.as_deref() == Some("1.0.0"), "{shown:?}");

    // The new one is another one, which somebody has to allow.
    permissions::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    shows(&scenario, &scenario.name, Progressing, &["False/Blocked/", "was deleted and created again"])
        .await?;
    scenario.patch_extension(json!({"metadata": {"annotations": {IDENTITY_ANNOTATION: null}}})).await?;
    scenario.installed("1.0.0").await?;
    shows(&scenario, &scenario.name, Available, &["True/ProbesSucceeded/"]).await?;

    let namespaces: Api<Namespace> = Api::all(scenario.client.clone());
    namespaces.remove(&scenario.name).await?;
    namespaces.gone(&scenario.name).await?;
    let advice = format!("Namespace {:?} does not exist: create it", scenario.name);
    shows(&scenario, &scenario.name, Stalled, &["True/Blocked/", &advice]).await?;
    not_available(&scenario).await?;
    wait::until("the revision to say so too", DEADLINE, || async {
        let sets = scenario.revisions().await?;
        let stalled = sets.iter().filter_map(|set| set.status.as_ref()?.conditions.find(Stalled));
        let stalled: Vec<&str> = stalled.map(|condition| condition.message.as_str()).collect();
        wait::check(stalled.len() == 1 && stalled[0].contains(&advice), || format!("{stalled:?}"))
    })
    .await?;
    println!("[gone]\n{:?}\n", scenario.shown().await?);
    scenario.delete_extension().await
}

/// An extension of `package` in another namespace.
async fn elsewhere(scenario: &Scenario<'_>, name: &str, package: &str, namespace: &str) -> Result<()> {
    let mut extension = scenario.extension_object(package);
    extension["metadata"]["name"] = name.into();
    extension["spec"]["namespace"] = namespace.into();
    let extension: ClusterExtension = serde_json::from_value(extension)?;
    scenario.extensions().make(&extension).await?;
    Ok(())
}

// Upstream's conditions keep upstream's texts; what to do is in Stalled.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_person_can_remove_is_stalled_with_the_remedy() -> Result<()> {
    let scenario = Scenario::shared("remedy").await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[small(&package, "1.0.0")]).await?;
    let named = |suffix: &str| format!("{}-{suffix}", scenario.name);

    // No namespace.
    let nowhere = named("nowhere");
    elsewhere(&scenario, &nowhere, &package, &nowhere).await?;
    let missing = format!("service account {ACCOUNT:?} not found in namespace {nowhere:?}");
    shows(&scenario, &nowhere, Progressing, &["True/Retrying/", &missing]).await?;
    let advice =
        format!("Namespace {nowhere:?} does not exist: create it, and in it ServiceAccount {ACCOUNT:?}");
    shows(&scenario, &nowhere, Stalled, &["True/Blocked/", &advice]).await?;

    // No permissions.
    let poor = named("poor");
    scenario.world.cluster.create_namespace(&poor).await?;
    permissions::create_account(&scenario.client, &poor, ACCOUNT).await?;
    elsewhere(&scenario, &poor, &package, &poor).await?;
    shows(
        &scenario,
        &poor,
        Progressing,
        &["True/Retrying/", "service account requires the following permissions"],
    )
    .await?;
    let advice = format!("Grant ServiceAccount {poor}/{ACCOUNT} these permissions: \"olm bundle rbac ");
    let command = format!(" -n {poor} --service-account {ACCOUNT}\"");
    shows(&scenario, &poor, Stalled, &["True/Blocked/", &advice, &command]).await?;

    // Objects of somebody else.
    scenario.install(&package, json!({}), "1.0.0").await?;
    let second = named("second");
    scenario.another(&second, &package, json!({})).await?;
    shows(&scenario, &second, Progressing, &["True/Retrying/revision object collisions in phase"]).await?;
    let advice = format!(" to ClusterExtension {}: remove one of the two extensions.", scenario.name);
    shows(&scenario, &second, Stalled, &["True/Blocked/revision object collisions", &advice]).await?;
    shows(&scenario, &second, Ready, &["False/Blocked/revision object collisions", &advice]).await?;
    let get = ["get", "cext", &scenario.name, &nowhere, &poor, &second, "-o", "wide"];
    let table = kubectl(&scenario.world.cluster, &get)?;
    println!("$ kubectl {}\n{table}", get.join(" "));
    let create = format!("Namespace {nowhere:?} does not exist: create it, and in it ServiceAccount");
    let grant = format!("Grant ServiceAccount {poor}/{ACCOUNT} these permissions: \"olm bundle rbac ");
    for (name, state, remedy) in [
        (&scenario.name, "True", "Revision 1.0.0 has rolled out."),
        (&nowhere, "False", &create),
        (&poor, "False", &grant),
        (&second, "False", "remove one of the two extensions."),
    ] {
        ensure!(
            table.lines().any(|line| line.starts_with(&format!("{name} ")) && line.contains(remedy)),
            "{name}: no {remedy:?} in\n{table}"
        );
        let line = table.lines().find(|line| line.starts_with(&format!("{name} ")));
        let columns: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        // Without a bundle the first two columns are empty.
        ensure!(columns.get(if state == "True" { 5 } else { 3 }) == Some(&state), "{name}: {columns:?}");
    }
    for name in [&nowhere, &poor, &second] {
        println!("{}", kubectl(&scenario.world.cluster, &["describe", "cext", name])?);
        scenario.remove_extension(name).await?;
    }
    scenario.delete_extension().await
}

// A catalog whose image is not there says what to do, and a misspelt package is not blamed on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_catalog_and_a_misspelt_package_are_told_apart() -> Result<()> {
    let scenario = Scenario::shared("typo").await?;
    let package = format!("{}-op", scenario.name);
    let reference = scenario.push_made(&[small(&package, "1.0.0")], &[], "here").await?;
    let here = scenario.further_catalog("here", 0, &reference).await?;
    scenario.serves(&here).await?;
    let missing = format!("{}/no-such-catalog:latest", scenario.world.images.host());
    let away = scenario.further_catalog("away", 0, &missing).await?;
    wait::until("the catalog to be stalled", DEADLINE, || async {
        let status = scenario.catalogs().get(&away).await?.status.unwrap_or_default();
        let message = |type_| status.conditions.find(type_).map(|c| format!("{}/{}", c.reason, c.message));
        let stalled = message(Stalled).unwrap_or_default();
        wait::check(
            stalled.starts_with("Blocked/source catalog content: ")
                && stalled.contains(". The registry does not have this image: ")
                && message(Progressing)
                    .is_some_and(|text| text.starts_with("Retrying/") && !text.contains('\n')),
            || format!("{status:?}"),
        )
    })
    .await?;
    let misspelt = format!("{}-misspelt", scenario.name);
    scenario.another(&misspelt, &format!("{package}x"), scenario.own_catalogs()).await?;
    shows(&scenario, &misspelt, Progressing, &["True/Retrying/error walking catalogs", &away]).await?;
    let advice = "No readable catalog has the package: check its name.";
    shows(&scenario, &misspelt, Stalled, &["True/Blocked/", advice, &away]).await?;
    scenario.remove_extension(&misspelt).await
}

// The catalog is fine, only the image that it names is not there. Upstream's text says the status and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_image_that_does_not_exist_is_stalled_with_the_remedy() -> Result<()> {
    let scenario = Scenario::shared("noimage").await?;
    let missing = format!("{}/no-such-bundle:v1.0.0", scenario.world.images.host());
    let content = olm_test::catalog::chain("noimage", &[("1.0.0", &missing)]);
    let reference = scenario.push_catalog(&content, "latest").await?;
    scenario.create_catalog(&reference, None).await?;
    permissions::create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    scenario.catalog_serves().await?;
    scenario.create_extension("noimage", json!({})).await?;
    let error = "error for resolved bundle \"noimage.v1.0.0\" with version \"1.0.0\": ";
    let advice = ". The registry does not have this image: correct the reference, or push the image.";
    shows(&scenario, &scenario.name, Stalled, &["True/Blocked/", error, advice]).await?;
    let progressing = scenario.shown().await?.condition(Progressing);
    ensure!(progressing.starts_with(&format!("True/Retrying/{error}")), "{progressing}");
    ensure!(!progressing.contains('\n'), "upstream's text is changed: {progressing}");
    scenario.delete_extension().await
}

// The catalog is fine, only the range is not: what the catalog says of deprecation is known, and nothing of what it says
// can look like a line or an instruction of the program.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_cannot_be_met_hides_no_deprecation_and_foreign_text_is_clean() -> Result<()> {
    let scenario = Scenario::shared("range").await?;
    let package = format!("{}-op", scenario.name);
    let hostile = "goes\nReady: True\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}txet\u{2066}\u{200b}";
    let deprecations: Value = json!({"schema": "olm.deprecations", "package": package, "entries": [
        {"reference": {"schema": "olm.package"}, "message": hostile},
    ]});
    scenario.offer_with(&[small(&package, "1.0.0")], &[deprecations]).await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let clean =
        "True/Deprecated/goes Ready: True\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\u{202e}txet\\u{2066}\\u{200b}";
    shows(&scenario, &scenario.name, PackageDeprecated, &[clean]).await?;

    scenario.set_version(">=9").await?;
    shows(
        &scenario,
        &scenario.name,
        Stalled,
        &["True/Blocked/", "Choose another version range, for instance 1.0.0."],
    )
    .await?;
    let shown = scenario.shown().await?;
    for type_ in [Deprecated, PackageDeprecated] {
        ensure!(shown.condition(type_) == clean, "{type_}: {shown:?}");
    }
    ensure!(!shown.condition(Stalled).contains("SelfCertified"), "{shown:?}");
    scenario.delete_extension().await
}
