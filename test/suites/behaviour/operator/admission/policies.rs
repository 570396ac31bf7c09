//! A policy or a binding that is deleted or changed by hand is told until it is back.

use k8s_openapi::{
    ClusterResourceScope,
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        events::v1::Event,
    },
};
use kube::Resource;
use olm_api::ConditionType::DeletionPolicy;
use olm_test::{
    prelude::*,
    scrape::{self, Scraper},
};
use serde::{Serialize, de::DeserializeOwned};

const OPEN: &str = "everyone who may write ClusterExtensions or ClusterObjectSets can use any ServiceAccount";
const PASSED_OFF: &str =
    "everyone who may write ClusterObjectSets can pass them off as revisions of any ClusterExtension";
/// The policies, and what is at stake without each.
const POLICIES: [(&str, &str); 9] = [
    ("clusterextension-account.olm.operatorframework.io", OPEN),
    (
        "clusterextension-annotations.olm.operatorframework.io",
        "annotations of ClusterExtensions are not checked",
    ),
    ("clusterextension-default-account.olm.operatorframework.io", OPEN),
    ("clusterextension-records.olm.operatorframework.io", PASSED_OFF),
    ("clusterobjectset-account.olm.operatorframework.io", OPEN),
    ("clusterobjectset-default-account.olm.operatorframework.io", OPEN),
    ("clusterobjectset-owner.olm.operatorframework.io", PASSED_OFF),
    (
        "clusterextension-deletion-policy.olm.operatorframework.io",
        "an extension can be deleted before its deletion policy is in force",
    ),
    (
        "clusterextension-deletion-guard.olm.operatorframework.io",
        "the deletion guard does not keep the extension from being deleted",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_policy_that_is_gone_or_changed_is_told_until_it_is_back() -> Result<()> {
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "gone").await?;
    scenario.offer(&[small("lamp", "1.0.0")]).await?;
    scenario.install("lamp", json!({}), "1.0.0").await?;
    // Two of the policies matter only to those who have a deletion policy, or a guard.
    scenario.annotate("deletion-guard", "Block".into()).await?;
    scenario.annotate("deletion-policy", "RetainCRDs".into()).await?;
    scenario.shows(DeletionPolicy, "True/RetainCRDs/").await?;
    scenario.shows(Ready, "True/Succeeded/").await?;

    let scraper = Scraper::new(&scenario.client, &scenario.name).await?;
    for (name, harm) in POLICIES {
        is_told::<ValidatingAdmissionPolicy>(&scenario, &scraper, (name, harm), false).await?;
        is_told::<ValidatingAdmissionPolicyBinding>(&scenario, &scraper, (name, harm), false).await?;
        is_told::<ValidatingAdmissionPolicyBinding>(&scenario, &scraper, (name, harm), true).await?;
    }
    Ok(())
}

/// Deletes or weakens what has this name, sees that it is told, and puts it back.
async fn is_told<K>(
    scenario: &Scenario<'_>,
    scraper: &Scraper,
    (name, harm): (&str, &str),
    weaken: bool,
) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::all(scenario.client.clone());
    let kept = serde_json::to_value(api.get(name).await?)?;
    let what = if weaken {
        let audit = json!({"spec": {"validationActions": ["Audit"]}});
        api.merge(name, &audit).await?;
        "differs from the manifests"
    } else {
        api.remove(name).await?;
        "is absent"
    };
    let told = format!("{} {name:?} {what}", K::kind(&()));
    let wanted = format!("False/Unguarded/{told}: until the manifests are applied again, {harm}");
    scenario.shows(Ready, &wanted).await?;
    in_force(scenario, scraper, Some(name)).await?;
    event(scenario, name, &told).await?;
    if weaken {
        let patch = Patch::Merge(json!({"spec": kept["spec"]}));
        api.patch(name, &PatchParams::default(), &patch).await?;
    } else {
        let again = json!({
            "apiVersion": kept["apiVersion"], "kind": kept["kind"], "metadata": {"name": name}, "spec": kept["spec"],
        });
        api.make(again).await?;
    }
    scenario.shows(Ready, "True/Succeeded/").await?;
    in_force(scenario, scraper, None).await
}

/// The metric says of all policies that they are in force, but of this one.
async fn in_force(scenario: &Scenario<'_>, scraper: &Scraper, missing: Option<&str>) -> Result<()> {
    wait::until("the metric to follow", DEADLINE, || async {
        let text = scraper.read(&scenario.world.operator.metrics_url()).await?;
        for (name, _) in POLICIES {
            let label = format!("policy=\"{name}\"");
            let sample =
                text.lines().any(|l| l.starts_with("olm_admission_policy_in_force{") && l.contains(&label));
            let found = scrape::count(&text, "olm_admission_policy_in_force", &[&label]);
            let wanted = u64::from(Some(name) != missing);
            ensure!(sample && found == wanted, "{name} is {found}, to be {wanted}; there: {sample}");
        }
        Ok(())
    })
    .await
}

async fn event(scenario: &Scenario<'_>, name: &str, text: &str) -> Result<()> {
    let events: Api<Event> = Api::all(scenario.client.clone());
    wait::until(&format!("an Event {text}"), DEADLINE, async || {
        let all = serde_json::to_value(events.all().await?)?;
        let about = |event: &&Value| {
            event["regarding"]["name"] == name
                && (event["type"] == "Warning" && event["reason"] == "PolicyNotInForce")
                && event["note"].as_str().is_some_and(|note| note.contains(text))
        };
        all.as_array().into_iter().flatten().find(about).map(drop).context("there is none")
    })
    .await
}
