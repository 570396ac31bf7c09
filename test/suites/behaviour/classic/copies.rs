//! Copies of operators in the namespaces that they serve.

use k8s_openapi::api::{core::v1::Namespace, events::v1::Event};
use olm_api_classic::{ClusterServiceVersion, OLMConfig};
use olm_test::prelude::*;

use crate::operators::{Operators, Place, define, provides, state};

impl Place {
    /// The copies of an operator, by namespace.
    async fn copies(&self, name: &str) -> Result<Vec<String>> {
        let all: Api<ClusterServiceVersion> = Api::all(self.client.clone());
        let of = format!("olm.copiedFrom={}", self.namespace);
        let found = all.labelled(&of).await?.into_iter().filter(|copy| copy.name_any() == name);
        Ok(found.filter_map(|copy| copy.namespace()).collect())
    }

    /// Waits until there are copies of an operator in these namespaces and no others.
    async fn copied(&self, name: &str, wanted: &[String]) -> Result<()> {
        wait::until(&format!("copies of {name} in {wanted:?}"), DEADLINE, || async {
            let mut found = self.copies(name).await?;
            found.sort_unstable();
            wait::check(found == wanted, || format!("they are in {found:?}"))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_copied_to_the_namespaces_that_its_group_names() -> Result<()> {
    let world = Operators::shared().await?;
    let (place, other) = (world.place("copied").await?, world.place("target").await?);
    place.group(json!({"targetNamespaces": [place.namespace, other.namespace]})).await?;
    place.operator("a.v1", json!({})).await?;
    let original = place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let copy = other.shows("a.v1", "Succeeded/Copied").await?;
    ensure!(copy.spec == original.spec && copy.labels()["olm.copiedFrom"] == place.namespace);
    let annotations = copy.annotations();
    ensure!(annotations["olm.operatorNamespace"] == place.namespace, "{annotations:?}");
    ensure!(!annotations.contains_key("olm.targetNamespaces"), "it shows the other namespaces");
    let message = copy.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
    let wanted = format!("The operator is running in {} but is managing this namespace", place.namespace);
    ensure!(message == wanted, "{message}");
    ensure!(place.copies("a.v1").await? == std::slice::from_ref(&other.namespace));
    // It follows the original, and what others write into it is undone.
    let newer = json!({"spec": {"displayName": "B"}});
    place.csvs.merge("a.v1", newer).await?;
    let wrong = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"version": "9.9.9"}});
    other.csvs.merge("a.v1", wrong).await?;
    wait::until("the copy to be as its original", DEADLINE, || async {
        let copy = other.csvs.get("a.v1").await?;
        let is_same = copy.spec.display_name == "B" && copy.spec.version.is_none();
        wait::check(is_same && !copy.labels().contains_key("x"), || format!("{:?}", copy.metadata.labels))
    })
    .await?;
    let uid = copy.uid();
    other.csvs.remove("a.v1").await?;
    wait::until("another copy", DEADLINE, || async {
        let found = other.csvs.get_opt("a.v1").await?.filter(|found| found.uid() != uid);
        wait::check(found.as_ref().map(state).as_deref() == Some("Succeeded/Copied"), || format!("{found:?}"))
    })
    .await?;
    // Nothing is written when nothing changes.
    let before = other.csvs.get("a.v1").await?;
    place.operator("b.v1", json!({})).await?;
    other.shows("b.v1", "Succeeded/Copied").await?;
    ensure!(other.csvs.get("a.v1").await?.resource_version() == before.resource_version());
    let fewer = json!({"spec": {"targetNamespaces": [place.namespace]}});
    place.groups.merge("g", fewer).await?;
    other.gone("a.v1").await?;
    other.gone("b.v1").await?;
    place
        .groups
        .merge("g", json!({"spec": {"targetNamespaces": [place.namespace, other.namespace]}}))
        .await?;
    other.shows("a.v1", "Succeeded/Copied").await?;
    place.csvs.remove("a.v1").await?;
    other.gone("a.v1").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_keeps_no_api_in_the_list_of_the_group_around_it() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "goblets", "Goblet")?;
    let (place, other) = (world.place("provider").await?, world.place("around").await?);
    place.group(json!({"targetNamespaces": [place.namespace, other.namespace]})).await?;
    other.group(json!({"targetNamespaces": [other.namespace]})).await?;
    place.operator("a.v1", provides("goblets", "Goblet")).await?;
    other.shows("a.v1", "Succeeded/Copied").await?;
    let list = json!({"metadata": {"annotations": {"olm.providedAPIs": "Goblet.v1.operators.example.com"}}});
    other.groups.merge("g", list).await?;
    eventually("the group to list no API", async || other.provided().await, String::is_empty).await?;
    other.shows("a.v1", "Succeeded/Copied").await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_a_namespace_is_not_overwritten_by_a_copy() -> Result<()> {
    let world = Operators::shared().await?;
    let (place, other) = (world.place("copied").await?, world.place("taken").await?);
    other.operator("a.v1", json!({"displayName": "own"})).await?;
    place.group(json!({"targetNamespaces": [place.namespace, other.namespace]})).await?;
    place.operator("a.v1", json!({})).await?;
    place.operator("b.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    other.shows("b.v1", "Succeeded/Copied").await?;
    let own = other.shows("a.v1", "Failed/NoOperatorGroup").await?;
    ensure!(own.spec.display_name == "own" && place.copies("a.v1").await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_for_all_namespaces_are_copied_when_the_olmconfig_says_so() -> Result<()> {
    // There is one OLMConfig.
    let world = Operators::alone().await?;
    let (place, other) = (world.place("all").await?, world.place("one").await?);
    place.group(json!({})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let configs: Api<OLMConfig> = Api::all(place.client.clone());
    let config = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}, "spec": {},
    });
    configs.make(config).await?;
    let reports = async |wanted: &str| {
        wait::until(wanted, DEADLINE, || async {
            let status = configs.get("cluster").await?.status.unwrap_or_default();
            let found = status.conditions.iter().find(|one| one.type_ == "DisabledCopiedCSVs");
            let text = found.map(|one| format!("{}/{}: {}", one.status, one.reason, one.message));
            wait::check(text.as_deref().is_some_and(|text| text.starts_with(wanted)), || format!("{text:?}"))
        })
        .await
    };
    let disabled = "True/CopiedCSVsDisabled: Copied CSVs are disabled and no unexpected copied CSVs";
    reports(disabled).await?;
    ensure!(place.copies("a.v1").await?.is_empty(), "off is the default");
    let set = async |disabled: bool| {
        let patch = Patch::Merge(json!({"spec": {"features": {"disableCopiedCSVs": disabled}}}));
        configs.patch("cluster", &PatchParams::default(), &patch).await
    };
    set(false).await?;
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let mut all: Vec<String> =
        namespaces.list(&ListParams::default()).await?.into_iter().map(|one| one.name_any()).collect();
    all.retain(|name| *name != place.namespace);
    all.sort_unstable();
    place.copied("a.v1", &all).await?;
    other.shows("a.v1", "Succeeded/Copied").await?;
    reports("False/CopiedCSVsEnabled: Copied CSVs are enabled and present across the cluster").await?;
    let later = world.place("later").await?;
    later.shows("a.v1", "Succeeded/Copied").await?;
    set(true).await?;
    place.copied("a.v1", &[]).await?;
    reports(disabled).await?;
    let events: Api<Event> = Api::namespaced(place.client.clone(), &place.namespace);
    wait::until("a warning on the operator", DEADLINE, || async {
        let found = events.all().await?;
        let note = format!("CSV copying disabled for {}/a.v1", place.namespace);
        let is_there = found.iter().any(|event| {
            event.reason.as_deref() == Some("DisabledCopiedCSVs")
                && event.note.as_deref() == Some(note.as_str())
        });
        wait::check(is_there, || "there is none".to_owned())
    })
    .await
}
