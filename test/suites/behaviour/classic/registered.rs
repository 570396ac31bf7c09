//! What operators register with the API server: webhooks that follow their descriptions and groups, certificates that are
//! renewed, APIs that are served.

use axum::{Json, Router, http::Uri};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        rbac::v1::{ClusterRoleBinding, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::Resource;
use olm_runtime::{ServerLimits, listen, serve};
use olm_test::{prelude::*, secret_certificate::SecretCertificate};
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use crate::operators::{Operators, Place, state};

/// A validating webhook with a name, for an operation on a kind that does not exist.
pub(crate) fn webhook(name: &str, operation: &str) -> Value {
    json!({
        "type": "ValidatingAdmissionWebhook", "generateName": format!("{name}.example.com"), "deploymentName": "a-v1",
        "containerPort": 443, "targetPort": 9443, "webhookPath": "/v", "failurePolicy": "Ignore",
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "resources": ["ys"], "operations": [operation]}],
    })
}

/// The webhooks of a place, each by the name of its description.
async fn webhooks<K>(place: &Place) -> Result<BTreeMap<String, Value>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let all: Api<K> = Api::all(place.client.clone());
    let owner = format!("olm.owner.namespace={}", place.namespace);
    let found = all.list(&ListParams::default().labels(&owner)).await?.items;
    let count = found.len();
    let named: BTreeMap<String, Value> = found
        .iter()
        .map(|one| {
            let name = one.labels().get("olm.webhook-description-generate-name").cloned();
            (name.unwrap_or_default(), json!(one)["webhooks"][0].clone())
        })
        .collect();
    ensure!(named.len() == count, "{count} configurations of {:?}", named.keys());
    Ok(named)
}

async fn describe(place: &Place, webhooks: &[Value]) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"webhookdefinitions": webhooks}}));
    place.csvs.patch("a.v1", &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_follow_their_descriptions_while_the_operator_lives() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("described").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    let mut mutating = webhook("three", "CREATE");
    mutating["type"] = "MutatingAdmissionWebhook".into();
    let all = [webhook("one", "CREATE"), webhook("two", "CREATE"), mutating];
    place.operator("a.v1", json!({"webhookdefinitions": all})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    ensure!(webhooks::<ValidatingWebhookConfiguration>(&place).await?.len() == 2);
    describe(&place, &[webhook("one", "UPDATE")]).await?;
    wait::until("the one webhook that is left, as it is described", DEADLINE, || async {
        let validating = webhooks::<ValidatingWebhookConfiguration>(&place).await?;
        let mutating = webhooks::<MutatingWebhookConfiguration>(&place).await?;
        let operations: Vec<_> =
            validating.iter().map(|(name, one)| (name.as_str(), &one["rules"][0]["operations"][0])).collect();
        let wanted = [("one.example.com", &json!("UPDATE"))];
        wait::check(operations == wanted && mutating.is_empty(), || format!("{validating:?} {mutating:?}"))
    })
    .await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    // Without any description, which nothing else asks about.
    describe(&place, &[]).await?;
    let left = async || webhooks::<ValidatingWebhookConfiguration>(&place).await;
    eventually("the last one to be gone", left, std::collections::BTreeMap::is_empty).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_a_group_with_a_selector_have_that_selector() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("selecting").await?;
    let label = |value: &str| json!({"matchLabels": {"team": format!("{}-{value}", place.namespace)}});
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(place.client.clone());
    let labelled = json!({"metadata": {"labels": label("a")["matchLabels"]}});
    namespaces.patch(&place.namespace, &PatchParams::default(), &Patch::Merge(labelled)).await?;
    place.group(json!({"selector": label("a")})).await?;
    place.operator("a.v1", json!({"webhookdefinitions": [webhook("one", "CREATE")]})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let selector = async || -> Result<Value> {
        let found = webhooks::<ValidatingWebhookConfiguration>(&place).await?;
        Ok(found.get("one.example.com").context("no webhook")?["namespaceSelector"].clone())
    };
    ensure!(selector().await? == label("a"), "{}", selector().await?);
    // The namespaces stay, the way to find them is another one: the webhook follows.
    let both = json!({"team": format!("{}-a", place.namespace), "and": "b"});
    let patch = Patch::Merge(json!({"metadata": {"labels": both}}));
    namespaces.patch(&place.namespace, &PatchParams::default(), &patch).await?;
    let patch = Patch::Merge(json!({"spec": {"selector": {"matchLabels": both}}}));
    place.groups.patch("g", &PatchParams::default(), &patch).await?;
    eventually("the new selector", async || selector().await, |found| found["matchLabels"] == both).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_made_anew_when_the_status_says_that_it_is_time() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("rotated").await?;
    place.group(json!({})).await?;
    place.operator("a.v1", json!({"webhookdefinitions": [webhook("one", "CREATE")]})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let certificate = async || -> Result<Option<Vec<u8>>> {
        let data = secrets.get("a-v1-service-cert").await?.data.unwrap_or_default();
        Ok(data.get("tls.crt").map(|text| text.0.clone()))
    };
    let before = certificate().await?;
    let past = json!({"status": {"certsRotateAt": "2020-01-01T00:00:00Z"}});
    place.csvs.patch_status("a.v1", &PatchParams::default(), &Patch::Merge(past)).await?;
    let found = async || certificate().await;
    eventually("another certificate", found, |found| found.is_some() && *found != before).await?;
    let csv = wait::until("the next time, and the operator to run", DEADLINE, || async {
        let csv = place.csvs.get("a.v1").await?;
        let status = csv.status.clone().unwrap_or_default();
        let is_later = status.certs_rotate_at > status.certs_last_updated;
        wait::check(is_later && state(&csv) == "Succeeded/InstallSucceeded", || state(&csv))?;
        Ok(csv)
    })
    .await?;
    let reasons: Vec<String> = csv
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .filter_map(|one| one.reason.clone())
        .collect();
    let rotations = reasons.iter().filter(|reason| *reason == "NeedsCertRotation").count();
    ensure!(rotations == 1, "{reasons:?}");
    Ok(())
}

/// Answers as a server of the API group does whose only kind is a Lamp.
async fn discovery(uri: Uri) -> Json<Value> {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    Json(match parts.as_slice() {
        ["apis", group, version] => json!({
            "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": format!("{group}/{version}"),
            "resources": [{"name": "lamps", "singularName": "lamp", "namespaced": true, "kind": "Lamp", "verbs": ["get"]}],
        }),
        _ => json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404}),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_serves_an_api_runs_when_that_answers_and_what_it_needs_comes_back() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("serves").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    let group = format!("{}.example.com", place.namespace);
    let owned = json!([{
        "name": "lamps", "group": group, "version": "v1", "kind": "Lamp", "deploymentName": "a-v1", "containerPort": 5443,
    }]);
    place.operator("a.v1", json!({"apiservicedefinitions": {"owned": owned}})).await?;
    let csv = place.shows("a.v1", "Installing/InstallWaiting").await?;
    let message = csv.status.and_then(|status| status.message);
    ensure!(message.as_deref() == Some("apiServices not installed"), "{message:?}");
    // The operator's Pod begins to serve.
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let secrets = Api::namespaced(place.client.clone(), &place.namespace);
    let certificate =
        SecretCertificate::follow(secrets.clone(), "a-v1-service-cert".to_owned(), stop.clone());
    let listener = listen("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let router = Router::new().fallback(discovery);
    tokio::spawn(serve(listener, router, Some(certificate.config()), ServerLimits::default(), stop));
    world.cluster.add_endpoint(&place.namespace, "a-v1-service", "5443", port).await?;
    let csv = place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let found =
        csv.status.iter().flat_map(|status| &status.requirement_status).any(|one| one.kind == "APIService");
    ensure!(found, "no requirement names it");
    let client = || place.client.clone();
    lost(&place, &Api::<ClusterRoleBinding>::all(client()), "a-v1-service-system:auth-delegator").await?;
    lost(&place, &Api::<RoleBinding>::namespaced(client(), "kube-system"), "a-v1-service-auth-reader")
        .await?;
    lost(&place, &Api::<APIService>::all(client()), &format!("v1.{group}")).await?;
    // An APIService that leads elsewhere, or trusts another authority, is put right.
    let services: Api<APIService> = Api::all(client());
    let patch = Patch::Merge(json!({"spec": {"service": {"name": "other"}}}));
    services.patch(&format!("v1.{group}"), &PatchParams::default(), &patch).await?;
    wait::until("the reference to be right", DEADLINE, || async {
        let service = services.get(&format!("v1.{group}")).await?.spec.and_then(|spec| spec.service);
        let name = service.and_then(|service| service.name);
        wait::check(name.as_deref() == Some("a-v1-service"), || format!("{name:?}"))
    })
    .await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    place.gone("a.v1").await?;
    ensure!(services.get_opt(&format!("v1.{group}")).await?.is_none(), "the APIService stays");
    Ok(())
}

/// Deletes what an API needs: the operator says so, and makes it again.
async fn lost<K>(place: &Place, api: &Api<K>, name: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let uid = api.get(name).await?.uid();
    api.delete(name, &DeleteParams::default()).await?;
    wait::until(&format!("{name} to come back, and the operator to run"), DEADLINE, || async {
        let found = api.get_opt(name).await?.and_then(|object| object.uid());
        wait::check(found.is_some() && found != uid, || format!("{found:?}"))?;
        let csv = place.csvs.get("a.v1").await?;
        wait::check(state(&csv) == "Succeeded/InstallSucceeded", || state(&csv))?;
        let status = csv.status.unwrap_or_default();
        let said = status.conditions.iter().any(|one| {
            // An API that stops to answer before its registration is gone fails for that first.
            let is_issue = ["APIServiceResourceIssue", "APIServiceResourcesNeedReinstall"]
                .contains(&one.reason.as_deref().unwrap_or_default());
            is_issue
                && one.message.as_deref().is_some_and(|text| text.contains(&format!("\"{name}\" not found")))
        });
        wait::check(said, || format!("{:?}", status.conditions))
    })
    .await
}
