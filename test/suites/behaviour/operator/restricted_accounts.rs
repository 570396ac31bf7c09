//! The overlay `restricted-accounts`: the program acts only as accounts whose owners let it.

use olm_test::{operator, prelude::*};

const PACKAGE: &str = "lighthouse-operator";
const CONTROLLER: &str = "operator-controller-controller-manager";

// The program started with just the overlay's rights: for an account whose owner lets it, an extension is installed,
// upgraded and removed; for another one it says what is missing, and goes on when that is granted.
#[tokio::test(flavor = "multi_thread")]
async fn only_accounts_that_were_granted_are_used() -> Result<()> {
    let site = Site::start().await?;
    operator::install(&site.cluster)?;
    operator::overlay(&site.cluster, "restricted-accounts")?;
    let token = ["auth", "can-i", "create", "serviceaccounts/token", "-A"];
    let as_controller = format!("--as=system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER}");
    let answer = kubectl(&site.cluster, &[&token[..], &[as_controller.as_str()]].concat());
    ensure!(answer.is_err(), "the controller may still make tokens for every account: {answer:?}");
    let world = World { operator: Operator::start_installed(&site, &[]).await?, proxy: None, site };
    let bundles = [("1.0.0", lighthouse("1.0.0")), ("1.1.0", lighthouse("1.1.0"))];

    // The owner grants everything at once, as printed.
    let granted = Scenario::new(&world, "granted").await?;
    granted.publish(PACKAGE, &bundles).await?;
    grant_as_printed(&granted, &bundles, true)?;
    granted.install(PACKAGE, json!({"version": "1.0.0"}), "1.0.0").await?;

    // Another one does not let the controller act as the account.
    let other = Scenario::new(&world, "other").await?;
    other.publish(PACKAGE, &bundles).await?;
    grant_as_printed(&other, &bundles, false)?;
    other.create_extension(PACKAGE, json!({"version": "1.0.0"})).await?;
    let text = format!(
        "operation cannot proceed due to the following validation error(s): error getting service account: the controller may not create tokens for service account {ACCOUNT:?} in namespace {:?}: ",
        other.name
    );
    other.shows(Progressing, &format!("True/Retrying/{text}")).await?;
    other.shows(Installed, &format!("Unknown/Failed/{text}")).await?;
    let told = other.shown().await?.condition(Progressing);
    let controller = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER}");
    ensure!(told.contains(&controller), "who is meant is not told: {told}");
    println!("[not granted]\n{told}\n");
    let owned = other.owned().await?;
    ensure!(owned.is_empty(), "half applied: {owned:?}");

    granted.upgrade("1.1.0").await?;
    // The same operator twice would collide: its cluster roles have the same names.
    granted.delete_extension().await?;
    grant_as_printed(&other, &bundles, true)?;
    other.installed("1.0.0").await?;
    other.delete_extension().await
}

/// Applies what `olm bundle rbac` prints, with or without the part that lets the controller act as the account.
fn grant_as_printed(
    scenario: &Scenario<'_>,
    bundles: &[(&str, PathBuf)],
    for_controller: bool,
) -> Result<()> {
    let mut olm = Command::new(cargo_program("olm-cli", "olm")?);
    olm.args(["bundle", "rbac", "--install-namespace", &scenario.name, "--service-account", ACCOUNT]);
    if for_controller {
        olm.args(["--token-for", &format!("{SYSTEM_NAMESPACE}/{CONTROLLER}")]);
    }
    for (_, folder) in bundles {
        olm.arg(scenario.own(folder)?);
    }
    let printed = olm.output().context("running olm")?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let apply = ["apply", "--server-side", "-f", "-"];
    kubectl::kubectl_with(&scenario.world.cluster, &apply, &printed.stdout).map(drop)
}
