//! ClusterServiceVersions: installed, upgraded, broken and deleted.

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{Secret, Service, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use olm_api_classic::OperatorCondition;
use olm_test::prelude::*;

use crate::operators::{Operators, define, deployment, provides, state};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_goes_through_upstreams_phases_and_leaves_nothing_behind() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("phases").await?;
    place.operator("a.v1", json!({"minKubeVersion": "1.20.0"})).await?;
    place.shows("a.v1", "Failed/NoOperatorGroup").await?;
    place.group(json!({})).await?;
    let csv = place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let history: Vec<String> = csv
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .map(|one| format!("{}/{}", one.phase.as_deref().unwrap_or(""), one.reason.as_deref().unwrap_or("")))
        .filter(|one| one != "Installing/InstallWaiting")
        .collect();
    let wanted = [
        "Failed/NoOperatorGroup",
        "Pending/RequirementsUnknown",
        "InstallReady/AllRequirementsMet",
        "Installing/InstallSucceeded",
        "Succeeded/InstallSucceeded",
    ];
    ensure!(history == wanted, "{history:?}");
    let all = place.groups.get("g").await?.status.unwrap_or_default().namespaces;
    ensure!(all == [""], "the empty name stands for all namespaces: {all:?}");
    let member = ["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces"]
        .map(|key| csv.annotations().get(key).map(String::as_str));
    ensure!(member == [Some("g"), Some(place.namespace.as_str()), Some("")], "{member:?}");
    let requirement = &csv.status.context("no status")?.requirement_status[0];
    ensure!(
        requirement.message.starts_with("CSV minKubeVersion (1.20.0) less than server version"),
        "{requirement:?}"
    );
    let deployment = place.deployments.get("a-v1").await?;
    ensure!(deployment.labels()["olm.owner"] == "a.v1" && deployment.labels()["olm.managed"] == "true");
    let template = json!(deployment.spec)["template"].clone();
    ensure!(template["metadata"]["annotations"]["olm.targetNamespaces"] == "", "{template}");
    ensure!(template["spec"]["containers"][0]["env"][0]["value"] == "a.v1", "{template}");
    let conditions: Api<OperatorCondition> = Api::namespaced(place.client.clone(), &place.namespace);
    let condition = conditions.get("a.v1").await?;
    ensure!(condition.spec.deployments == ["a-v1"] && condition.spec.service_accounts == ["default"]);
    ensure!(
        json!(condition.spec)["conditions"].is_null(),
        "conditions that nobody set: {:?}",
        condition.spec
    );
    Api::<Role>::namespaced(place.client.clone(), &place.namespace).get("a.v1").await?;
    Api::<RoleBinding>::namespaced(place.client.clone(), &place.namespace).get("a.v1").await?;
    place.csvs.remove("a.v1").await?;
    place.gone("a.v1").await?;
    wait::until("the Deployment and the OperatorCondition to be gone", DEADLINE, || async {
        let left =
            place.deployments.get_opt("a-v1").await?.is_some() || conditions.get_opt("a.v1").await?.is_some();
        wait::check(!left, || "there is one".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_takes_the_place_of_the_one_before_when_that_allows_it() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("upgrade").await?;
    place.group(json!({})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let conditions: Api<OperatorCondition> = Api::namespaced(place.client.clone(), &place.namespace);
    let set = async |status: &str| {
        let condition = json!([{"type": "Upgradeable", "status": status, "reason": "R", "message": "migrating",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let patch = Patch::Merge(json!({"spec": {"conditions": condition}}));
        conditions.patch("a.v1", &PatchParams::default(), &patch).await
    };
    set("False").await?;
    place.operator("a.v2", json!({"replaces": "a.v1"})).await?;
    let csv = place.shows("a.v2", "Pending/OperatorConditionNotUpgradeable").await?;
    let message = csv.status.and_then(|status| status.message).unwrap_or_default();
    ensure!(message.starts_with("operator is not upgradeable: "), "{message}");
    // What its administrator says counts more than what it says itself.
    let overridden = async |status: &str| {
        let one =
            json!({"type": "Upgradeable", "status": status, "reason": "R", "message": "not on a Friday"});
        let patch = Patch::Merge(json!({"spec": {"overrides": [one]}}));
        conditions.patch("a.v1", &PatchParams::default(), &patch).await
    };
    overridden("False").await?;
    set("True").await?;
    wait::until("the message of the administrator", DEADLINE, || async {
        let message =
            place.csvs.get("a.v2").await?.status.and_then(|status| status.message).unwrap_or_default();
        let wanted = "operator is not upgradeable: the operator is not upgradeable: not on a Friday";
        wait::check(message == wanted, || message.clone())
    })
    .await?;
    set("False").await?;
    overridden("True").await?;
    place.shows("a.v2", "Succeeded/InstallSucceeded").await?;
    place.gone("a.v1").await?;
    place.deployments.gone("a-v1").await
}

#[tokio::test(flavor = "multi_thread")]
async fn requirements_are_found_when_they_come_and_missed_when_they_go() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("requirements").await?;
    place.group(json!({})).await?;
    let mut spec = provides("lamps", "Lamp");
    let reading = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    spec["install"] = json!({"strategy": "deployment", "spec": {
        "deployments": [deployment("a-v1")],
        "permissions": [{"serviceAccountName": "runner", "rules": [reading]}],
    }});
    place.operator("a.v1", spec).await?;
    let csv = place.shows("a.v1", "Pending/RequirementsNotMet").await?;
    let list: Vec<String> =
        csv.status.iter().flat_map(|s| &s.requirement_status).map(|r| r.message.clone()).collect();
    ensure!(list == ["CRD is not present", "Service account does not exist"], "{list:?}");
    define(&world.cluster, "lamps", "Lamp")?;
    let accounts: Api<ServiceAccount> = Api::namespaced(place.client.clone(), &place.namespace);
    accounts.make(json!({"metadata": {"name": "runner"}})).await?;
    wait::until("the permission to be missed", DEADLINE, || async {
        let csv = place.csvs.get("a.v1").await?;
        let list: Vec<String> =
            csv.status.iter().flat_map(|s| &s.requirement_status).map(|r| r.message.clone()).collect();
        let missed = list.contains(&"Policy rule not satisfied for service account".to_owned());
        wait::check(missed, || format!("{list:?}"))
    })
    .await?;
    let roles: Api<Role> = Api::namespaced(place.client.clone(), &place.namespace);
    let role = json!({"metadata": {"name": "runner"}, "rules": [reading]});
    roles.make(role).await?;
    let bindings: Api<RoleBinding> = Api::namespaced(place.client.clone(), &place.namespace);
    let binding = json!({
        "metadata": {"name": "runner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
        "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": place.namespace}],
    });
    bindings.make(binding).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let cluster_roles: Api<ClusterRole> = Api::all(place.client.clone());
    cluster_roles.appears("lamps.operators.example.com-v1-edit").await?;
    // Its permissions hold in all namespaces, since its group is for all; for its ServiceAccount alone.
    let all_bindings: Api<ClusterRoleBinding> = Api::all(place.client.clone());
    let owner = format!("olm.owner=a.v1,olm.owner.namespace={}", place.namespace);
    let lifted = all_bindings.labelled(&owner).await?;
    ensure!(lifted.len() == 1, "{lifted:?}");
    ensure!(
        lifted[0]
            .subjects
            .as_ref()
            .is_some_and(|subjects| subjects.len() == 1 && subjects[0].name == "runner")
    );
    // What it was given everywhere because it had it here does not show that it still has it here.
    bindings.remove("runner").await?;
    place.shows("a.v1", "Pending/RequirementsNotMet").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_was_changed_or_deleted_comes_back() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("drift").await?;
    place.group(json!({})).await?;
    place.operator("a.v1", json!({})).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let hash = async || -> Result<Option<String>> {
        Ok(place
            .deployments
            .get_opt("a-v1")
            .await?
            .and_then(|one| one.labels().get("olm.deployment-spec-hash").cloned()))
    };
    let wanted = hash().await?;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"olm.deployment-spec-hash": "x"}}}));
    place.deployments.patch("a-v1", &PatchParams::default(), &patch).await?;
    eventually("the hash to come back", async || hash().await, |found| *found == wanted).await?;
    // Upstream installs again what is lost of an operator that ran, and waits five minutes for what is lost meanwhile.
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let uid = place.deployments.get("a-v1").await?.uid();
    place.deployments.remove("a-v1").await?;
    let found = async || Ok(place.deployments.get_opt("a-v1").await?.and_then(|one| one.uid()));
    eventually("another Deployment", found, |found| found.is_some() && *found != uid).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_lasts_is_written_once() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("lasting").await?;
    place.group(json!({})).await?;
    let webhook = json!([{
        "type": "ValidatingAdmissionWebhook", "generateName": "w.example.com", "deploymentName": "a-v1",
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}],
    }]);
    place.operator("a.v1", json!({"webhookdefinitions": webhook})).await?;
    let failed = place.shows("a.v1", "Failed/InvalidWebhookDescription").await?;
    // Another operator of the namespace wakes it, again and again.
    place.operator("b.v1", json!({})).await?;
    place.shows("b.v1", "Succeeded/InstallSucceeded").await?;
    let later = place.csvs.get("a.v1").await?;
    ensure!(later.resource_version() == failed.resource_version(), "{}", state(&later));
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.client.clone());
    let owner = format!("olm.owner.namespace={}", place.namespace);
    ensure!(all.labelled(&owner).await?.is_empty(), "it was registered");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_have_a_certificate_a_service_and_the_namespaces_of_the_group() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("webhooks").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    let webhook = |kind: &str| {
        json!({
            "type": kind, "generateName": format!("{}.example.com", kind.to_lowercase()), "deploymentName": "a-v1",
            "containerPort": 443, "targetPort": 9443, "webhookPath": "/v", "failurePolicy": "Ignore",
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "resources": ["ys"], "operations": ["CREATE"]}],
        })
    };
    let both = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"].map(webhook);
    place.operator("a.v1", json!({"webhookdefinitions": both})).await?;
    let csv = place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let status = csv.status.context("no status")?;
    ensure!(status.certs_rotate_at > status.certs_last_updated, "no times of certificates");
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let secret = secrets.get("a-v1-service-cert").await?;
    ensure!(secret.data.as_ref().is_some_and(|data| data.contains_key("olmCAKey")), "no authority");
    let services: Api<Service> = Api::namespaced(place.client.clone(), &place.namespace);
    let port = json!(services.get("a-v1-service").await?.spec)["ports"][0].clone();
    ensure!(port["port"] == 443 && port["targetPort"] == 9443, "{port}");
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.client.clone());
    let owner = format!("olm.owner.namespace={}", place.namespace);
    let found = all.labelled(&owner).await?;
    let [configuration] = found.as_slice() else { bail!("{} configurations", found.len()) };
    let webhook = json!(configuration)["webhooks"][0].clone();
    let group = place.groups.get("g").await?.uid().unwrap_or_default();
    let label = format!("olm.operatorgroup.uid/{group}");
    ensure!(webhook["namespaceSelector"]["matchLabels"] == json!({label: ""}), "{webhook}");
    ensure!(webhook["clientConfig"]["caBundle"].is_string(), "{webhook}");
    // Without its certificate the operator is installed again, with another one.
    secrets.remove("a-v1-service-cert").await?;
    wait::until("another certificate", DEADLINE, || async {
        let found = secrets.get_opt("a-v1-service-cert").await?;
        wait::check(found.is_some_and(|found| found.uid() != secret.uid()), || "there is none".to_owned())
    })
    .await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    place.csvs.remove("a.v1").await?;
    place.gone("a.v1").await?;
    ensure!(all.labelled(&owner).await?.is_empty(), "the webhook stays");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_is_registered_while_its_operator_exists() -> Result<()> {
    let world = Operators::shared().await?;
    let place = world.place("served").await?;
    place.group(json!({"targetNamespaces": [place.namespace]})).await?;
    let group = format!("{}.example.com", place.namespace);
    let owned = json!([{
        "name": "lamps", "group": group, "version": "v1", "kind": "Lamp", "deploymentName": "a-v1", "containerPort": 5443,
    }]);
    place.operator("a.v1", json!({"apiservicedefinitions": {"owned": owned}})).await?;
    place.shows("a.v1", "Installing/InstallWaiting").await?;
    let services: Api<APIService> = Api::all(place.client.clone());
    let name = format!("v1.{group}");
    let spec = services.get(&name).await?.spec.context("no spec")?;
    let service = spec.service.context("no Service")?;
    ensure!(spec.ca_bundle.is_some() && service.port == Some(5443), "{service:?}");
    place.csvs.remove("a.v1").await?;
    place.gone("a.v1").await?;
    ensure!(services.get_opt(&name).await?.is_none(), "the APIService stays");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_in_other_namespaces_go_with_the_operator() -> Result<()> {
    let world = Operators::shared().await?;
    for is_global in [false, true] {
        let place = world.place("elsewhere").await?;
        let other = unique_name("other");
        world.cluster.create_namespace(&other).await?;
        let targets = json!({"targetNamespaces": [place.namespace, other]});
        place.group(if is_global { json!({}) } else { targets }).await?;
        let reading = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
        let name = json!({"name": "runner", "namespace": place.namespace});
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": name, "rules": [reading]},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": name,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
                "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": place.namespace}],
            },
        ]});
        olm_test::kubectl::kubectl_with(
            &world.cluster,
            &["create", "-f", "-"],
            objects.to_string().as_bytes(),
        )?;
        let install = |permissions: Value| {
            json!({"install": {"strategy": "deployment", "spec": {
                "deployments": [deployment("a-v1")], "permissions": permissions,
            }}})
        };
        place
            .operator("a.v1", install(json!([{"serviceAccountName": "runner", "rules": [reading]}])))
            .await?;
        place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
        let bound = async || -> Result<usize> {
            let of_operator = format!("olm.owner=a.v1,olm.owner.namespace={}", place.namespace);
            let params = of_operator;
            let client = place.client.clone();
            Ok(if is_global {
                Api::<ClusterRoleBinding>::all(client).labelled(&params).await?.len()
            } else {
                Api::<RoleBinding>::namespaced(client, &other).labelled(&params).await?.len()
            })
        };
        eventually("the permissions elsewhere", async || bound().await, |found| *found == 1).await?;
        let conditions: Api<OperatorCondition> = Api::namespaced(place.client.clone(), &place.namespace);
        let without = json!({"spec": install(Value::Null)});
        place.csvs.merge("a.v1", without).await?;
        let named = async || Ok(conditions.get("a.v1").await?.spec.service_accounts);
        eventually("the OperatorCondition to follow", named, |named| *named == ["default"]).await?;
        place.csvs.remove("a.v1").await?;
        place.gone("a.v1").await?;
        ensure!(bound().await? == 0, "the permissions stay");
    }
    Ok(())
}
