//! Namespaces, ServiceAccounts and permissions.

use k8s_openapi::api::core::v1::Namespace;
use olm_test::{extension::extension, prelude::*};

use super::{State, Transcript};

/// An extension of `package` in another namespace.
async fn elsewhere(scenario: &Scenario<'_>, name: &str, package: &str, filter: &Value) -> Result<()> {
    let made = extension(name, name, package, &scenario.name, filter);
    scenario.extensions().make(serde_json::from_value::<ClusterExtension>(made)?).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_accounts_and_permissions_that_are_missing() -> Result<()> {
    let scenario = Scenario::shared("account").await?;
    let package = format!("{}-operator", scenario.name);
    let reference = scenario.push_made(&[small(&package, "1.0.0")], &[], "having").await?;
    let having = scenario.further_catalog("having", 0, &reference).await?;
    let reference = scenario.push_made(&[small("unrelated", "1.0.0")], &[], "unrelated").await?;
    let unrelated = scenario.further_catalog("unrelated", 0, &reference).await?;
    for catalog in [&having, &unrelated] {
        scenario.serves(catalog).await?;
    }
    scenario.offer(&[small(&package, "1.0.0")]).await?;
    let mut shown = Transcript::new(&scenario);
    let named = |suffix: &str| format!("{}-{suffix}", scenario.name);

    let nowhere = named("nowhere");
    elsewhere(&scenario, &nowhere, &package, &scenario.own_catalogs()).await?;
    let missing = format!("service account {ACCOUNT:?} not found in namespace {nowhere:?}");
    let advice =
        format!("Namespace {nowhere:?} does not exist: create it, and in it ServiceAccount {ACCOUNT:?}");
    let state = (State::Stalled, &[&*missing, &*advice, "olm bundle rbac"][..]);
    let explained = [
        "does not exist: there is no such namespace",
        "Next revision\n  cannot be made\n",
        &format!("blocked: namespace {nowhere:?} does not exist"),
        &format!("Catalogs\n  {having}  serving"),
    ];
    shown.extension("A namespace that does not exist", &nowhere, state, &explained).await?;
    let explained = shown.explain(&[&nowhere]).await?.text;
    ensure!(!explained.contains("rbac <bundle>"), "the command lacks the bundle:\n{explained}");
    for other in [unrelated, format!("  {}  serving", scenario.name)] {
        ensure!(!explained.contains(&other), "{other} does not matter:\n{explained}");
    }

    let nobody = named("nobody");
    scenario.world.cluster.create_namespace(&nobody).await?;
    elsewhere(&scenario, &nobody, &package, &json!({})).await?;
    let advice = format!("ServiceAccount {ACCOUNT:?} does not exist in namespace {nobody:?}: create it");
    let state = (State::Stalled, &[&*advice, "olm bundle rbac"][..]);
    shown.extension("A ServiceAccount that does not exist", &nobody, state, &["does not exist"]).await?;

    create_account(&scenario.client, &nobody, ACCOUNT).await?;
    let advice = format!("Grant ServiceAccount {nobody}/{ACCOUNT} these permissions: \"olm bundle rbac ");
    let state = (State::Stalled, &["service account requires the following permissions", &*advice][..]);
    shown
        .extension("A ServiceAccount without permissions", &nobody, state, &["  is missing the permission "])
        .await?;
    for name in [&nowhere, &nobody] {
        scenario.remove_extension(name).await?;
    }

    scenario.install(&package, json!({}), "1.0.0").await?;
    scenario.accounts().remove(ACCOUNT).await?;
    let advice =
        format!("ServiceAccount {ACCOUNT:?} does not exist in namespace {:?}: create it", scenario.name);
    let state = (State::Stalled, &[&*advice][..]);
    shown
        .extension(
            "The ServiceAccount of an installed extension is deleted",
            &scenario.name,
            state,
            &["does not exist"],
        )
        .await?;
    scenario.delete_extension().await?;
    shown.write()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_deleted_under_a_healthy_extension() -> Result<()> {
    let scenario = Scenario::shared("deleted").await?;
    let package = format!("{}-operator", scenario.name);
    scenario.offer(&[small(&package, "1.0.0").deployment(true)]).await?;
    let mut shown = Transcript::new(&scenario);
    scenario.install(&package, json!({}), "1.0.0").await?;
    let namespaces: Api<Namespace> = scenario.all();
    namespaces.remove(&scenario.name).await?;
    let begun = Instant::now();
    scenario.reports(Ready, |text| text.starts_with("False/")).await?;
    println!("noticed after {:.1} s", begun.elapsed().as_secs_f32());
    namespaces.gone(&scenario.name).await?;
    let advice = format!("Namespace {:?} does not exist: create it", scenario.name);
    let state = (State::Stalled, &[&*advice][..]);
    let title = "The namespace of a healthy extension is deleted";
    shown.extension(title, &scenario.name, state, &["does not exist"]).await?;
    let available = scenario.shown().await?.condition(Available);
    ensure!(!available.starts_with("True/"), "{available}");
    scenario.delete_extension().await?;
    shown.write()
}
