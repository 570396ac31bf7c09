//! Operators that are installed in the name of their OperatorGroup's ServiceAccount.

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{Secret, Service},
};
use olm_test::prelude::*;

use crate::operators::Operators;

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_behind_webhooks_is_written_as_the_service_account_too() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("scoped").await?;
    let name = json!({"name": "installer", "namespace": place.namespace});
    let bound = |role: &str, kind: &str, metadata: &Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": place.namespace}],
        })
    };
    let create = |items: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        olm_test::kubectl::kubectl_with(&world.cluster, &["create", "-f", "-"], list.as_bytes())
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name});
    // All of its namespace but roles: those could give more than it has.
    create(&[account, bound("edit", "RoleBinding", &name)])?;
    place.group(json!({"targetNamespaces": [place.namespace], "serviceAccountName": "installer"})).await?;
    let webhook = json!([{
        "type": "ValidatingAdmissionWebhook", "generateName": "w.example.com", "deploymentName": "a-v1",
        "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "resources": ["ys"], "operations": ["CREATE"]}],
    }]);
    place.operator("a.v1", json!({"webhookdefinitions": webhook})).await?;
    let csv = place.shows("a.v1", "Failed/InstallComponentFailed").await?;
    let message = csv.status.and_then(|status| status.message).unwrap_or_default();
    let user = format!("system:serviceaccount:{}:installer", place.namespace);
    ensure!(message.contains(&user) && message.contains("roles"), "{message}");
    let (secrets, services): (Api<Secret>, Api<Service>) = (
        Api::namespaced(place.client.clone(), &place.namespace),
        Api::namespaced(place.client.clone(), &place.namespace),
    );
    ensure!(secrets.get_opt("a-v1-service-cert").await?.is_some(), "what it may write is written");
    ensure!(services.get_opt("a-v1-service").await?.is_some());
    ensure!(place.deployments.get_opt("a-v1").await?.is_none(), "what is behind the webhook is missing");
    // The next attempt has all it needs but the permission to register webhooks.
    create(&[bound("admin", "RoleBinding", &json!({"name": "more", "namespace": place.namespace}))])?;
    wait::until("the webhook to be denied", DEADLINE, || async {
        let status = place.csvs.get("a.v1").await?.status.unwrap_or_default();
        let message = status.message.unwrap_or_default();
        let is_denied = message.contains(&user) && message.contains("validatingwebhookconfigurations");
        wait::check(is_denied, || message.clone())
    })
    .await?;
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.client.clone());
    let owner = ListParams::default().labels(&format!("olm.owner.namespace={}", place.namespace));
    ensure!(all.list(&owner).await?.items.is_empty(), "it is registered");
    create(&[bound("cluster-admin", "ClusterRoleBinding", &json!({"name": place.namespace}))])?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    ensure!(all.list(&owner).await?.items.len() == 1, "it is not registered");
    Ok(())
}
