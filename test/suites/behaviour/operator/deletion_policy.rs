//! What a deletion policy keeps: however the extension goes, the users' objects are there afterwards.

mod certificates;
mod compared;
mod converting;
mod guarded;
mod guarding;

use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::api::PropagationPolicy;
use olm_api::{
    ConditionType::DeletionPolicy,
    names::{OWNER_UID_ANNOTATION, REVISION_ANNOTATION},
};
use tempfile::TempDir;

use self::compared::Kept;
use olm_test::{
    bundle::{LIGHTHOUSE_GROUP, copy},
    prelude::*,
};

const PACKAGE: &str = "lighthouse-operator";

fn beacons(scenario: &Scenario<'_>) -> Api<DynamicObject> {
    let resource = resource(&format!("{}/v1", scenario.group()), "Beacon", "beacons");
    Api::namespaced_with(scenario.client.clone(), &scenario.name, &resource)
}

async fn crd(scenario: &Scenario<'_>) -> Result<CustomResourceDefinition> {
    Ok(scenario.crds().get(&format!("beacons.{}", scenario.group())).await?)
}

async fn sets(scenario: &Scenario<'_>) -> Result<Vec<ClusterObjectSet>> {
    let label = format!("olm.operatorframework.io/owner-name={}", scenario.name);
    Ok(scenario.sets().list(&ListParams::default().labels(&label)).await?.items)
}

/// The sample bundle with names of its own throughout, cluster roles included, which are named by their rules: what
/// one test keeps must not stand in another's way.
fn own_bundle(scenario: &Scenario<'_>) -> Result<TempDir> {
    let own = tempfile::tempdir()?;
    let leases = format!("[leases, leases/{}]", scenario.name);
    copy(&lighthouse("1.0.0"), own.path(), &[(LIGHTHOUSE_GROUP, &scenario.group()), ("[leases]", &leases)])?;
    Ok(own)
}

/// Installed, with an object of a user.
async fn in_use(world: &'static World, base: &str) -> Result<Scenario<'static>> {
    let scenario = Scenario::new(world, base).await?;
    let bundle = own_bundle(&scenario)?;
    scenario.prepare(PACKAGE, &[("1.0.0", bundle.path().to_owned())]).await?;
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;
    let beacon: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{}/v1", scenario.group()), "kind": "Beacon",
        "metadata": {"name": "mine"}, "spec": {"colour": "red"},
    }))?;
    beacons(&scenario).make(&beacon).await?;
    Ok(scenario)
}

/// The user's object, as it was made.
async fn still_readable(scenario: &Scenario<'_>) -> Result<()> {
    let beacon = beacons(scenario).get("mine").await.context("the user's object")?;
    ensure!(beacon.metadata.deletion_timestamp.is_none(), "the user's object is being deleted");
    ensure!(beacon.data["spec"]["colour"] == "red", "it is another: {}", beacon.data);
    Ok(())
}

async fn in_force(scenario: &Scenario<'_>, policy: &str) -> Result<()> {
    scenario.annotate("deletion-policy", policy.into()).await?;
    scenario.shows(DeletionPolicy, &format!("True/{policy}/")).await?;
    let told = scenario.shown().await?.condition(Ready);
    ensure!(told.contains(&format!("In force by annotation: deletion-policy: {policy}.")), "{told}");
    Ok(())
}

fn by(propagation: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() }
}

async fn gone(scenario: &Scenario<'_>) -> Result<()> {
    scenario.extensions().gone(&scenario.name).await
}

/// What the extension owns beside revisions and their content, with UIDs where they can tell a copy.
async fn objects(scenario: &Scenario<'_>) -> Result<Vec<String>> {
    let mut owned = scenario.owned().await?;
    owned.retain(|object| !object.starts_with("ClusterObjectSet ") && !object.starts_with("Secret "));
    Ok(owned)
}

/// Waits until the revisions, their content, and everything that is not kept are gone.
async fn only(scenario: &Scenario<'_>, kept: &[String]) -> Result<()> {
    wait::until("only what is kept to be left", COLLECTED, || async {
        let owned = scenario.owned().await?;
        wait::check(owned == kept, || format!("left: {owned:?}, wanted: {kept:?}"))
    })
    .await
}

async fn outlives(policy: &str, propagation: PropagationPolicy) -> Result<()> {
    let scenario = in_use(World::shared().await?, "kept").await?;
    let before = objects(&scenario).await?;
    let compared = Kept::under(&scenario, policy, if policy == "Orphan" { 8 } else { 1 }).await?;
    in_force(&scenario, policy).await?;
    compared.is_as_it_was(&scenario).await.context("the policy alone changed it")?;
    let definition = crd(&scenario).await?;
    ensure!(definition.owner_references().is_empty(), "the CRD has owners: {:?}", definition.metadata);
    let set = sets(&scenario).await?.pop().context("no revision")?;
    ensure!(definition.annotations().get(OWNER_UID_ANNOTATION) == set.uid().as_ref(), "no owner's UID");

    scenario.extensions().delete(&scenario.name, &by(propagation.clone())).await?;
    gone(&scenario).await?;
    let kept: Vec<String> = match policy {
        "Orphan" => before,
        _ => before.into_iter().filter(|o| o.starts_with("CustomResourceDefinition ")).collect(),
    };
    if propagation == PropagationPolicy::Orphan {
        // The revision goes on by itself; unless the collector had not heard of its kind, and takes it away late.
        wait::until("the revision to be nobody's", COLLECTED, || async {
            let sets = sets(&scenario).await?;
            let owned = sets.iter().any(|set| !set.owner_references().is_empty());
            wait::check(!owned, || "it has an owner".into())
        })
        .await?;
    } else {
        only(&scenario, &kept).await?;
    }
    still_readable(&scenario).await?;
    compared.is_as_it_was(&scenario).await?;
    a_later_extension_adopts_and_deletes(&scenario, &definition, &compared).await
}

/// The same package again, without a policy: it takes over what it finds, and takes it along when it goes.
async fn a_later_extension_adopts_and_deletes(
    scenario: &Scenario<'_>,
    definition: &CustomResourceDefinition,
    compared: &Kept,
) -> Result<()> {
    scenario.install(PACKAGE, json!({}), "1.0.0").await?;
    wait::until("the CRD to have an owner again", DEADLINE, || async {
        let adopted = crd(scenario).await?;
        ensure!(adopted.uid() == definition.uid(), "it is another CRD");
        let owner = adopted.owner_references().first().map(|owner| owner.kind.clone());
        ensure!(!adopted.annotations().contains_key(OWNER_UID_ANNOTATION), "it is still marked as kept");
        wait::check(owner.as_deref() == Some("ClusterObjectSet"), || format!("owner {owner:?}"))
    })
    .await?;
    compared.is_as_it_was(scenario).await.context("the adoption changed it")?;
    scenario.reports(DeletionPolicy, str::is_empty).await?;
    scenario.uninstall().await
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_crds_outlive_foreground_deletion() -> Result<()> {
    outlives("RetainCRDs", PropagationPolicy::Foreground).await
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_crds_outlive_background_deletion() -> Result<()> {
    outlives("RetainCRDs", PropagationPolicy::Background).await
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_crds_outlive_deletion_without_dependents() -> Result<()> {
    outlives("RetainCRDs", PropagationPolicy::Orphan).await
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_objects_outlive_foreground_deletion() -> Result<()> {
    outlives("Orphan", PropagationPolicy::Foreground).await
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_objects_outlive_background_deletion() -> Result<()> {
    outlives("Orphan", PropagationPolicy::Background).await
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_objects_outlive_deletion_without_dependents() -> Result<()> {
    outlives("Orphan", PropagationPolicy::Orphan).await
}

async fn outlives_its_revision(policy: &str) -> Result<()> {
    let scenario = in_use(World::shared().await?, "byhand").await?;
    in_force(&scenario, policy).await?;
    let compared = Kept::under(&scenario, policy, 1).await?;
    for propagation in [PropagationPolicy::Foreground, PropagationPolicy::Background] {
        let set = sets(&scenario).await?.pop().context("no revision")?;
        scenario.sets().delete(&set.name_any(), &by(propagation)).await?;
        wait::until("another revision to have everything", COLLECTED, || async {
            let sets = sets(&scenario).await?;
            ensure!(sets.iter().all(|other| other.uid() != set.uid()), "the deleted one is still there");
            let owner = crd(&scenario).await?.annotations().get(OWNER_UID_ANNOTATION).cloned();
            wait::check(sets.iter().any(|set| set.uid() == owner), || format!("owner {owner:?}"))
        })
        .await?;
        wait::until("it to be installed again", COLLECTED, || async {
            let shown = scenario.shown().await?;
            let ready = shown.condition(Ready);
            wait::check(shown.version.is_some() && ready.starts_with("True/"), || ready)
        })
        .await?;
        scenario.shows(DeletionPolicy, &format!("True/{policy}/")).await?;
        compared.is_as_it_was(&scenario).await?;
    }
    back_to_delete(&scenario).await
}

/// Everything goes, the CRD and so the user's object too.
async fn back_to_delete(scenario: &Scenario<'_>) -> Result<()> {
    scenario.annotate("deletion-policy", json!(null)).await?;
    wait::until("the policy to be gone", DEADLINE, || async {
        let shown = scenario.shown().await?.condition(DeletionPolicy);
        let generation = crd(scenario).await?.owner_references().len();
        wait::check(shown.is_empty() && generation == 1, || format!("{shown}, {generation} owners"))
    })
    .await?;
    scenario.delete_extension().await?;
    // A CRD is gone only when all its objects are.
    scenario.nothing_left().await
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_crds_outlive_a_revision_deleted_by_hand_and_back_to_delete_deletes_them() -> Result<()> {
    outlives_its_revision("RetainCRDs").await
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_objects_outlive_a_revision_deleted_by_hand_and_back_to_delete_deletes_them() -> Result<()> {
    outlives_its_revision("Orphan").await
}

async fn outlives_the_account(policy: &str) -> Result<()> {
    let scenario = in_use(World::shared().await?, "noaccount").await?;
    in_force(&scenario, policy).await?;
    let before = objects(&scenario).await?;
    let compared = Kept::under(&scenario, policy, 1).await?;
    remove_rights(&scenario, &format!("beacons.{}", scenario.group())).await?;
    scenario.accounts().remove(ACCOUNT).await?;
    scenario.extensions().delete(&scenario.name, &by(PropagationPolicy::Foreground)).await?;
    gone(&scenario).await?;
    let kept: Vec<String> =
        before.into_iter().filter(|o| policy == "Orphan" || o.starts_with("CustomRes")).collect();
    only(&scenario, &kept).await?;
    compared.is_as_it_was(&scenario).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_kept_with_the_account_gone() -> Result<()> {
    tokio::try_join!(outlives_the_account("RetainCRDs"), outlives_the_account("Orphan")).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_an_update_drops_stays_with_the_users_objects() -> Result<()> {
    let scenario = Scenario::shared("dropped").await?;
    let (package, group) = (format!("{}-pkg", scenario.name), scenario.group());
    let first = small(&package, "1.0.0").brings(&group, "Beacon");
    let second = small(&package, "2.0.0").replaces("1.0.0");
    scenario.offer(&[first, second]).await?;
    scenario.install(&package, json!({"version": "1.0.0"}), "1.0.0").await?;
    in_force(&scenario, "RetainCRDs").await?;
    let beacon: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1"), "kind": "Beacon", "metadata": {"name": "mine"},
    }))?;
    beacons(&scenario).make(&beacon).await?;
    let first = sets(&scenario).await?.pop().context("no revision")?;

    scenario.upgrade("2.0.0").await?;
    wait::until("the first revision to be archived", DEADLINE, || async {
        let status = scenario.sets().get(&first.name_any()).await?.status.unwrap_or_default();
        let told = status.conditions.find(ConditionType::Progressing).map(|c| c.reason.clone());
        wait::check(told.as_deref() == Some("Archived"), || format!("{told:?}"))
    })
    .await?;
    let definition = crd(&scenario).await?;
    ensure!(definition.metadata.deletion_timestamp.is_none(), "it is being deleted");
    let marks: BTreeMap<_, _> = definition.annotations().clone();
    ensure!(marks.get(OWNER_UID_ANNOTATION) == first.uid().as_ref(), "{marks:?}");
    ensure!(marks.contains_key(REVISION_ANNOTATION), "{marks:?}");
    beacons(&scenario).get("mine").await.context("the user's object")?;
    scenario.shows(DeletionPolicy, "True/RetainCRDs/").await?;
    scenario.delete_extension().await?;
    only(&scenario, &[format!("CustomResourceDefinition /beacons.{group}")]).await?;
    beacons(&scenario).get("mine").await.context("the user's object")?;
    Ok(())
}

/// Takes all rights away from the account, and waits until the API server knows.
async fn remove_rights(scenario: &Scenario<'_>, crd: &str) -> Result<()> {
    let name = format!("{}-{ACCOUNT}", scenario.name);
    let bindings: Api<ClusterRoleBinding> = Api::all(scenario.client.clone());
    bindings.remove(&name).await?;
    let bindings: Api<RoleBinding> = Api::namespaced(scenario.client.clone(), &scenario.name);
    bindings.remove(&name).await?;
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": format!("system:serviceaccount:{}:{ACCOUNT}", scenario.name),
        "resourceAttributes": {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions",
                               "name": crd, "verb": "patch"},
    }}))?;
    let reviews: Api<SubjectAccessReview> = Api::all(scenario.client.clone());
    let status = async || Ok(reviews.make(&review).await?.status.unwrap_or_default());
    eventually("the rights to be gone", status, |status| !status.allowed).await
}

/// Deletes, and returns what the API server says against it.
async fn objection(scenario: &Scenario<'_>) -> Result<Option<String>> {
    let extensions: Api<ClusterExtension> = scenario.extensions();
    match extensions.delete(&scenario.name, &by(PropagationPolicy::Foreground)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error).context("asking the API server"),
    }
}
