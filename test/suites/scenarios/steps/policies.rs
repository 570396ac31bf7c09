//! What users other than the administrator may do, under an admission policy of the administrator's.

use cucumber::{gherkin::Step, given, then, when};
use olm_test::prelude::*;

use super::Outcome;
use super::extensions::extension;
use crate::world::{ACCOUNT, DEADLINE, World};

const GROUP: &str = "rbac.authorization.k8s.io";

fn team(w: &World) -> String {
    format!("{}-team", w.id)
}

async fn member(w: &World) -> Result<Client> {
    w.place.cluster.client_for(&format!("{}-user", w.id), &[&team(w)]).await
}

/// Members of the team may write extensions, and act as the account.
#[given("a team whose members may write extensions and use the account")]
async fn team_exists(w: &mut World) -> Outcome {
    let team = team(w);
    let subjects = json!([{"apiGroup": GROUP, "kind": "Group", "name": team}]);
    // Of any namespace, so that it is the administrator's policy that refuses other namespaces.
    w.apply(&json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": team},
        "rules": [
            {"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions"],
             "verbs": ["create", "get", "list", "patch", "update"]},
            {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT], "verbs": ["impersonate"]},
        ],
    }))
    .await?;
    Ok(w.apply(&json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": team},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": team}, "subjects": subjects,
    }))
    .await?)
}

/// The rules bind the team alone, so that scenarios do not disturb each other.
#[given("an admission policy that lets the team install only this package, only here")]
async fn policy(w: &mut World) -> Outcome {
    let (id, team) = (w.id.clone(), team(w));
    let catalog = "object.spec.source.catalog";
    let rule = |expression: String, message: &str| json!({"expression": expression, "message": message});
    w.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": team},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["olm.operatorframework.io"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["clusterextensions"],
            }]},
            "matchConditions": [{"name": "team", "expression": format!("'{team}' in request.userInfo.groups")}],
            "validations": [
                rule(format!("{catalog}.packageName == '{id}'"), "the team may not install this package"),
                rule(format!("object.spec.namespace == '{id}'"), "the team may not install there"),
                rule(
                    format!("has({catalog}.selector) && has({catalog}.selector.matchLabels) && 'olm.operatorframework.io/metadata.name' in {catalog}.selector.matchLabels"),
                    "the team has to name a catalog",
                ),
                rule(
                    format!("!has({catalog}.upgradeConstraintPolicy) || {catalog}.upgradeConstraintPolicy == 'CatalogProvided'"),
                    "the team has to follow the catalog's upgrades",
                ),
                rule(
                    "!has(object.spec.install) || !has(object.spec.install.preflight) || !has(object.spec.install.preflight.crdUpgradeSafety) || object.spec.install.preflight.crdUpgradeSafety.enforcement == 'Strict'".to_owned(),
                    "the team has to keep the checks of CRDs",
                ),
            ],
        },
    }))
    .await?;
    w.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": team}, "spec": {"policyName": team, "validationActions": ["Deny"]},
    }))
    .await?;
    // It takes a moment until API servers know a policy.
    let probe = extension(w, &w.id, &json!({"source": {"catalog": {"packageName": "forbidden"}}}));
    Ok(refused(w, &probe, "the team may not install this package").await?)
}

/// Waits until a member is refused an extension with this text. Nothing is stored.
async fn refused(w: &World, object: &Value, text: &str) -> Result<()> {
    let api = w.api_in(&member(w).await?, "ClusterExtension", &w.id)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the extension to be refused", DEADLINE, async || {
        match api.create(&dry_run, &serde_json::from_value(object.clone())?).await {
            Ok(_) => fail!("it is let through"),
            Err(kube::Error::Api(status)) => {
                wait::check(status.message.contains(text), || status.message.clone())
            }
            Err(error) => Err(error.into()),
        }
    })
    .await
}

#[when("a member of the team creates the extension")]
async fn creates(w: &mut World) -> Outcome {
    let object = extension(w, &w.id, &json!({}));
    let api = w.api_in(&member(w).await?, "ClusterExtension", &w.id)?;
    wait::until("the member to be let through", DEADLINE, async || {
        api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
        Ok(())
    })
    .await?;
    w.made("ClusterExtension");
    Ok(())
}

/// The text below is a part of the extension's spec.
#[then(expr = "a member of the team is refused, because {string}, an extension with")]
async fn is_refused(w: &mut World, text: String, step: &Step) -> Outcome {
    let object = extension(w, &w.id, &w.yaml(step)?);
    refused(w, &object, &text).await?;
    // An administrator is not bound by it: it is the policy that refuses.
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let created = w.api("ClusterExtension")?.create(&dry_run, &serde_json::from_value(object)?).await;
    created.context("the administrator is refused too")?;
    let found = w.get("ClusterExtension", "${ID}").await?;
    must!(found.is_none(), "it was created all the same");
    Ok(())
}
