//! What the API server refuses to the controller itself, and what an extension shows then.

use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use olm_api::names::REVISION_NAME_LABEL;
use olm_test::{extension::allow_deadline, operator::USER, prelude::*};

use super::{rows, shows};

/// The program's roles, as they are to be again.
pub(crate) struct Rights {
    cluster: ClusterRole,
    system: Role,
}

const ROLE: &str = "operator-controller-manager-role";

fn cluster_roles(scenario: &Scenario<'_>) -> Api<ClusterRole> {
    Api::all(scenario.client.clone())
}

fn system_roles(scenario: &Scenario<'_>) -> Api<Role> {
    Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE)
}

/// Takes a right from the program, and waits until the API server knows.
pub(crate) async fn take(
    scenario: &Scenario<'_>,
    (group, resource, verb): (&str, &str, &str),
) -> Result<Rights> {
    let (cluster, system) =
        (cluster_roles(scenario).get(ROLE).await?, system_roles(scenario).get(ROLE).await?);
    let without = |rules: Option<Vec<PolicyRule>>| {
        let keeps = |mut rule: PolicyRule| {
            let names = rule.resources.clone().unwrap_or_default();
            if names.iter().any(|name| name == resource || name == "*") {
                rule.verbs.retain(|v| v != verb);
            }
            rule
        };
        let rules = rules.unwrap_or_default().into_iter().map(keeps);
        rules.filter(|rule| !rule.verbs.is_empty()).collect::<Vec<_>>()
    };
    let patch = |rules: Vec<PolicyRule>| Patch::Merge(json!({"rules": rules}));
    let params = PatchParams::default();
    cluster_roles(scenario).patch(ROLE, &params, &patch(without(cluster.rules.clone()))).await?;
    system_roles(scenario).patch(ROLE, &params, &patch(without(system.rules.clone()))).await?;
    allowed(scenario, (group, resource, verb), false).await?;
    Ok(Rights { cluster, system })
}

pub(crate) async fn give_back(
    scenario: &Scenario<'_>,
    rights: Rights,
    right: (&str, &str, &str),
) -> Result<()> {
    let params = PatchParams::default();
    let patch = |rules: Option<Vec<PolicyRule>>| Patch::Merge(json!({"rules": rules}));
    cluster_roles(scenario).patch(ROLE, &params, &patch(rights.cluster.rules)).await?;
    system_roles(scenario).patch(ROLE, &params, &patch(rights.system.rules)).await?;
    allowed(scenario, right, true).await
}

async fn allowed(
    scenario: &Scenario<'_>,
    (group, resource, verb): (&str, &str, &str),
    wanted: bool,
) -> Result<()> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {"user": USER, "groups": ["system:authenticated"], "resourceAttributes": {
            "group": group, "resource": resource, "subresource": subresource, "verb": verb,
            "namespace": if group.is_empty() { SYSTEM_NAMESPACE } else { "" },
        }},
    }))?;
    let reviews: Api<SubjectAccessReview> = Api::all(scenario.client.clone());
    let found = async || Ok(reviews.make(&review).await?.status.is_some_and(|status| status.allowed));
    eventually(&format!("{verb} {resource} to be allowed: {wanted}"), found, |found| *found == wanted).await
}

const OLM: &str = "olm.operatorframework.io";

/// What the API server refuses to the controller itself is told with the step, and heals.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_controller_may_not_do_is_told_with_the_step() -> Result<()> {
    // A world of its own: the rights are the program's.
    let world = World::start().await?;
    let scenario = Scenario::new(&world, "steps").await?;
    let package = format!("{}-op", scenario.name);
    let late = format!("{}-late", scenario.name);
    scenario.offer(&[small(&package, "1.0.0"), small(&late, "1.0.0").deployment(false)]).await?;
    create_late(&scenario, &late).await?;
    scenario.install(&package, json!({}), "1.0.0").await?;
    // Archived revisions are kept, five beside the one that came before the latest.
    for number in 2..=8 {
        scenario.annotate("reinstall", json!(format!("{number}"))).await?;
        scenario.active(&[number]).await?;
    }
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", scenario.name));
    wait::until("the oldest revision to be gone", DEADLINE, || async {
        let found: BTreeSet<i64> =
            scenario.sets().list(&mine).await?.iter().map(|set| set.spec.revision).collect();
        wait::check(found == (2..=8).collect(), || format!("{found:?}"))
    })
    .await?;

    let wrapped =
        format!("True/Retrying/error for resolved bundle \"{package}.v1.0.0\" with version \"1.0.0\": ");
    for (right, text) in [
        ((OLM, "clusterobjectsets", "delete"), "garbage collecting old revisions: "),
        (("", "secrets", "create"), "creating ref Secret \""),
        (
            (OLM, "clusterobjectsets", "create"),
            "creating new Revision: clusterobjectsets.olm.operatorframework.io ",
        ),
    ] {
        let before = scenario.revisions().await?.remove(0).spec.revision;
        let taken = take(&scenario, right).await?;
        scenario.annotate("reinstall", json!(text)).await?;
        scenario.shows(Progressing, &format!("{wrapped}{text}")).await?;
        scenario.shows(Installed, "True/Succeeded/").await?;
        give_back(&scenario, taken, right).await?;
        scenario.active(&[before + 1]).await?;
    }
    a_record_that_cannot_be_written(&scenario, &wrapped).await?;
    secrets_without_an_owner(&scenario).await?;
    an_account_that_cannot_be_asked_for(&scenario).await?;
    revisions_that_may_not_be_listed(&scenario).await?;
    let text = "ProgressDeadlineExceeded/Revision has not rolled out for 1 minute(s). Last status: Revision 1.0.0 is rolling out.";
    let progressing = format!("False/{text}");
    let wanted = rows([(Progressing, progressing.as_str()), (Installed, "False/Absent/No bundle installed")]);
    shows(&scenario, &late, &wanted).await?;
    let status = scenario.extensions().get(&late).await?.status.unwrap_or_default();
    let stalled = condition_text(&status.conditions, Stalled);
    let waits = format!("True/{text} Waiting for Deployment {}/{late}: FailedScheduling: ", scenario.name);
    ensure!(stalled.starts_with(&waits), "{stalled}");
    Ok(())
}

/// An extension with a deadline of one minute, which the API allows only after its schema has been changed.
async fn create_late(scenario: &Scenario<'_>, package: &str) -> Result<()> {
    let mut extension = scenario.extension_object(package);
    extension["metadata"]["name"] = package.into();
    extension["spec"]["progressDeadlineMinutes"] = 1.into();
    allow_deadline(&scenario.client, 1).await?;
    wait::until("the short deadline to be accepted", DEADLINE, async || {
        scenario.extensions().make(&extension).await.map(drop)
    })
    .await
}

/// The mutable part of the revision that is there.
async fn a_record_that_cannot_be_written(scenario: &Scenario<'_>, wrapped: &str) -> Result<()> {
    let right = (OLM, "clusterobjectsets", "patch");
    let revision = scenario.revisions().await?.remove(0).name_any();
    let taken = take(scenario, right).await?;
    scenario.patch_extension(json!({"spec": {"progressDeadlineMinutes": 11}})).await?;
    let text = format!("patching {revision} Revision: clusterobjectsets.olm.operatorframework.io ");
    scenario.shows(Progressing, &format!("{wrapped}{text}")).await?;
    give_back(scenario, taken, right).await?;
    let found = async || Ok(scenario.revisions().await?.remove(0).spec.progress_deadline_minutes);
    eventually("the revision to have the deadline", found, |found| *found == Some(11)).await
}

/// Secrets that got no owner get it later, although their revision has rolled out meanwhile.
async fn secrets_without_an_owner(scenario: &Scenario<'_>) -> Result<()> {
    let right = ("", "secrets", "patch");
    let number = scenario.revisions().await?.remove(0).spec.revision + 1;
    let taken = take(scenario, right).await?;
    scenario.annotate("reinstall", json!("without an owner")).await?;
    scenario.shows(Progressing, "True/Retrying/ensuring ownerReferences on ref Secrets: ").await?;
    // What the first pass said, which the next ones did not come to any more.
    let text = "patching ownerReferences on ref Secrets: secrets ";
    scenario.event("ClusterExtension", &scenario.name, "Retrying", text).await?;
    let secrets: Api<Secret> = Api::namespaced(scenario.client.clone(), SYSTEM_NAMESPACE);
    let mine = ListParams::default().labels(&format!("{REVISION_NAME_LABEL}={}-{number}", scenario.name));
    let owned = async || -> Result<Vec<bool>> {
        let found = secrets.list(&mine).await?;
        Ok(found.iter().map(|secret| !secret.owner_references().is_empty()).collect())
    };
    ensure!(owned().await? == [false]);
    give_back(scenario, taken, right).await?;
    eventually("the Secret to have an owner", async || owned().await, |found| *found == [true]).await?;
    scenario.active(&[number]).await?;
    scenario.installed("1.0.0").await
}

async fn an_account_that_cannot_be_asked_for(scenario: &Scenario<'_>) -> Result<()> {
    let right = ("", "serviceaccounts/token", "create");
    create_account(&scenario.client, &scenario.name, "second").await?;
    let taken = take(scenario, right).await?;
    let name = format!("{}-second", scenario.name);
    let mut extension = scenario.extension_object("no-such-package");
    extension["metadata"]["name"] = name.as_str().into();
    extension["spec"]["serviceAccount"]["name"] = "second".into();
    scenario.extensions().make(extension).await?;
    let text =
        "operation cannot proceed due to the following validation error(s): error getting service account: ";
    wait::until("both conditions to tell of the account", DEADLINE, || async {
        let status = scenario.extensions().get(&name).await?.status.unwrap_or_default();
        for (type_, wanted) in [(Progressing, "True/Retrying/"), (Installed, "Unknown/Failed/")] {
            let condition = status.conditions.find(type_).with_context(|| format!("no {type_}"))?;
            let shown = format!("{}/{}/{}", condition.status, condition.reason, condition.message);
            ensure!(shown.starts_with(&format!("{wanted}{text}")), "{type_} is {shown}");
        }
        Ok(())
    })
    .await?;
    give_back(scenario, taken, right).await?;
    let text = "True/Retrying/no bundles found for package \"no-such-package\"";
    shows(scenario, &name, &rows([(Progressing, text)])).await.map(drop)
}

/// Revisions are known from their watch, whether or not they may be listed.
async fn revisions_that_may_not_be_listed(scenario: &Scenario<'_>) -> Result<()> {
    let right = (OLM, "clusterobjectsets", "list");
    let before = scenario.revisions().await?.remove(0).spec.revision;
    let taken = take(scenario, right).await?;
    scenario.annotate("reinstall", json!("unlisted")).await?;
    scenario.active(&[before + 1]).await?;
    give_back(scenario, taken, right).await?;
    scenario.installed("1.0.0").await
}
