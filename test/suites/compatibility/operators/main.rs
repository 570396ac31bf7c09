//! The real operators of the shared data on a control plane without any add-on: installed, upgraded, removed,
//! each by an account with the rights that `olm bundle rbac` prints and no others.
//!
//! What is expected stands in `expected`; what was seen is printed beside it as a table. All of them are run when that
//! is asked for; otherwise a few of different shapes.

mod classic;
mod expected;
mod leftovers;
mod life;
mod place;

use expected::{OPERATORS, Wave};
use futures::{StreamExt, stream};
use life::{Life, Row};
use olm_test::prelude::*;
use place::Place;

/// What `make test` has the time for: webhooks, kinds that are left out, one namespace, CRDs that change unsafely, an
/// object that is refused.
const SAMPLE: [&str; 5] = [
    "node-healthcheck-operator",
    "kepler-operator",
    "redis-operator",
    "cat-facts-operator",
    "ecr-secret-operator",
];
/// Operators that are worked on at a time: two cores run the whole control plane.
const AT_A_TIME: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn real_operators_are_installed_upgraded_and_removed() -> Result<()> {
    let all = olm_test::long::wanted();
    let Some(folder) = place::bundles() else { return Ok(()) };
    let only = std::env::var("OLM_TEST_OPERATORS").ok();
    let wanted = |package: &str| match &only {
        Some(only) => only.split(',').any(|one| one == package),
        None => all || SAMPLE.contains(&package),
    };
    let chosen: Vec<_> = OPERATORS.iter().filter(|operator| wanted(operator.package)).collect();
    ensure!(!chosen.is_empty(), "no operator of the table is chosen");
    let place = Place::start(folder, &chosen).await?;
    let begun = Instant::now();
    let mark = place.site.cluster.audit_mark()?;

    let together = chosen.iter().filter(|operator| operator.wave != Wave::Alone);
    let mut rows: Vec<Row> = stream::iter(together.map(|operator| Life::new(&place, operator).live()))
        .buffer_unordered(AT_A_TIME)
        .collect()
        .await;
    for operator in chosen.iter().filter(|operator| operator.wave == Wave::Alone) {
        leftovers::nothing_that_matters_to_others(&place).await?;
        rows.push(Life::new(&place, operator).live().await);
    }
    println!("\n| operator | version | expected | seen | s |\n|---|---|---|---|---|");
    for row in &rows {
        print!("{row}");
    }
    println!("\n{} operators in {:.0} s", rows.len(), begun.elapsed().as_secs_f64());
    leftovers::none(&place).await?;
    println!("nothing left after {:.0} s", begun.elapsed().as_secs_f64());
    place.no_more_than_the_rights(mark)?;
    let wrong: Vec<&str> = rows.iter().filter(|row| !row.is_as_expected()).map(|row| row.package).collect();
    ensure!(wrong.is_empty(), "not as expected: {wrong:?}");
    Ok(())
}
