//! The largest CRD of a first revision is created before everything else, instead of a dry run.

use olm_test::prelude::*;

/// An operator with a CRD of 90 KB, which has this rule.
async fn offered(base: &str, rule: &str) -> Result<(Scenario<'static>, String)> {
    let scenario = Scenario::shared(base).await?;
    let package = format!("{}-op", scenario.name);
    let properties = json!({
        "colour": {
            "type": "string", "description": "A colour. ".repeat(9_000),
            "x-kubernetes-validations": [{"rule": rule}],
        },
    });
    scenario.offer(&[small(&package, "1.0.0").brings_with(&scenario.group(), "Beacon", &properties)]).await?;
    Ok((scenario, package))
}

/// The resources that the ServiceAccount asked to create: in dry runs, and in earnest.
fn created(scenario: &Scenario<'_>) -> Result<[Vec<String>; 2]> {
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name);
    let events = scenario.world.cluster.audit_events()?.into_iter();
    let creates = events.filter(|event| event.user == account && event.verb == "create");
    let creates = creates.filter(|event| event.group != "authorization.k8s.io");
    let (dry, real): (Vec<_>, Vec<_>) = creates.partition(|event| event.uri.contains("dryRun"));
    Ok([dry, real].map(|events| events.into_iter().map(|event| event.resource).collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_crd_is_created_before_everything_else_without_a_dry_run() -> Result<()> {
    let (scenario, package) = offered("largecrd", "self != 'none'").await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    let [dry, real] = created(&scenario)?;
    ensure!(dry == ["configmaps"], "{dry:?}");
    ensure!(real == ["customresourcedefinitions", "configmaps"], "{real:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_when_the_api_server_refuses_the_crd_that_comes_first() -> Result<()> {
    let (scenario, package) = offered("largebad", "self +").await?;
    scenario.create_extension(&package, json!({})).await?;
    let name = format!("beacons.{}", scenario.group());
    let refused = format!("True/Retrying/Object CustomResourceDefinition.apiextensions.k8s.io/v1 {name}: ");
    scenario.shows(Progressing, &refused).await?;
    // Also at the next attempts.
    wait::until("another attempt", DEADLINE, || async {
        let [_, real] = created(&scenario)?;
        ensure!(real.iter().all(|resource| resource == "customresourcedefinitions"), "{real:?}");
        wait::check(real.len() > 1, || format!("{real:?}"))
    })
    .await
}
