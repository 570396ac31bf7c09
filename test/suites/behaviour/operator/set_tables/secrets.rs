//! Secrets of revisions are watched with the permissions of the ServiceAccount, one by one.

use k8s_openapi::{
    ByteString,
    api::{
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        rbac::v1::PolicyRule,
    },
};
use olm_test::prelude::*;

use super::{begins, condition, create, inline, replace_rules, rolled_out, scenario, shows, spec};

const CONTROLLER: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";
const DONE: &str = "True/Active/Revision 7.0.0 has rolled out.";
/// For longer than a watch must fail to be reported, and for less than objects without a watch wait for a check.
const QUIET: Duration = Duration::from_secs(20);

fn secret(scenario: &Scenario<'_>, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": scenario.name},
        "stringData": {"password": "right"},
    })
}

fn rule(resources: &[&str], names: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(owned(resources)),
        resource_names: Some(owned(names)).filter(|names| !names.is_empty()),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// Whether the program's own ServiceAccount may do this with Secrets of a namespace.
async fn allowed(scenario: &Scenario<'_>, verb: &str, namespace: &str) -> Result<bool> {
    let asked = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(CONTROLLER.to_owned()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                resource: Some("secrets".to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(scenario.client.clone());
    let answer = api.make(&asked).await?;
    Ok(answer.status.context("no answer")?.allowed)
}

/// Changes the Secret as somebody else would, and waits until it is as the revision says.
async fn is_repaired(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    let wrong = Patch::Merge(json!({"stringData": {"password": "wrong"}}));
    scenario.secrets().patch(name, &PatchParams::default(), &wrong).await?;
    let right = BTreeMap::from([("password".to_owned(), ByteString(b"right".to_vec()))]);
    let found = async || Ok(scenario.secrets().get(name).await?.data);
    eventually(&format!("Secret {name} to be repaired"), found, |found| found.as_ref() == Some(&right)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_watched_as_the_service_account() -> Result<()> {
    let scenario = scenario(World::shared().await?, "secrets").await?;
    for verb in ["get", "list", "watch"] {
        ensure!(!allowed(&scenario, verb, &scenario.name).await?, "the program may {verb} Secrets of others");
        ensure!(allowed(&scenario, verb, "olmv1-system").await?, "its own namespace holds the content");
    }
    // Exactly what `olm bundle rbac` prints for a Secret.
    let write = rule(&["secrets"], &["watched", "checked", "ended"], &["delete", "get", "patch", "update"]);
    let create_any = rule(&["secrets"], &[], &["create"]);
    let watch = rule(&["secrets"], &["watched"], &["list", "watch"]);
    replace_rules(&scenario, &[write.clone(), create_any.clone(), watch.clone()]).await?;
    let watched =
        create(&scenario, "watched", spec(&[("one", inline(&[secret(&scenario, "watched")]))])).await?;
    rolled_out(&scenario, &watched).await?;
    tokio::time::sleep(QUIET).await;
    ensure!(condition(&scenario, &watched, Ready).await? == DONE, "its Secret is watched");
    is_repaired(&scenario, "watched").await?;
    shows(&scenario, &watched, Ready, DONE).await?;

    let checked =
        create(&scenario, "checked", spec(&[("one", inline(&[secret(&scenario, "checked")]))])).await?;
    let ended = create(&scenario, "ended", spec(&[("one", inline(&[secret(&scenario, "ended")]))])).await?;
    let text = format!(
        "{DONE}\nChanges of Secret.v1 objects are not noticed at once, because watching the kind fails (secrets \"checked\" is forbidden: User \"system:serviceaccount:{}:",
        scenario.name
    );
    begins(&scenario, &checked, Ready, &text).await?;
    is_repaired(&scenario, "checked").await?;
    ensure!(condition(&scenario, &watched, Ready).await? == DONE, "the other revision is not concerned");
    // Nothing looks at it after that.
    begins(&scenario, &ended, Ready, &text.replace("checked", "ended")).await?;
    super::patch(&scenario, &ended, json!({"spec": {"lifecycleState": "Archived"}})).await?;
    shows(&scenario, &ended, Ready, "True/Archived/revision is archived").await?;
    let watch = rule(&["secrets"], &["watched", "checked"], &["list", "watch"]);
    replace_rules(&scenario, &[write, create_any, watch]).await?;
    wait::until("the watch to work", COLLECTED, || async {
        let found = condition(&scenario, &checked, Ready).await?;
        wait::check(found == DONE, || found)
    })
    .await
}
