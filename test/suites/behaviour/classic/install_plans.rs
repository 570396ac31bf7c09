//! InstallPlans: what is made, in whose name, and what no plan may have made.

use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use olm_api_classic::{ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription};
use olm_test::prelude::*;

use crate::tenant::Tenant;

/// The condition of a plan, as `status/reason message`.
pub(crate) fn condition(plan: &InstallPlan, kind: &str) -> String {
    let conditions = plan.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|one| one.type_.as_deref() == Some(kind));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    found.map_or_else(String::new, |one| {
        format!("{}/{} {}", text(&one.status), text(&one.reason), text(&one.message))
    })
}

fn phase(plan: &InstallPlan) -> &str {
    plan.status.as_ref().map_or("", |status| status.phase.as_str())
}

impl Tenant {
    /// Waits until `Ready` of a plan begins so; answers the plan.
    async fn ready(&self, name: &str, wanted: &str) -> Result<InstallPlan> {
        wait::until(&format!("{}/{name} to be {wanted}", self.namespace), DEADLINE, async || {
            let plan = self.api::<InstallPlan>().get(name).await?;
            let found = condition(&plan, "Ready");
            wait::check(found.starts_with(wanted), || format!("it is {found:?} in {:?}", phase(&plan)))?;
            Ok(plan)
        })
        .await
    }

    /// The plan for a version, once its Subscription names it.
    async fn plan_for(&self, name: &str, csv: &str) -> Result<InstallPlan> {
        wait::until(&format!("a plan for {csv}"), DEADLINE, async || {
            let status = self.status(name).await?;
            wait::check(status.current_csv.as_deref() == Some(csv), || format!("{:?}", status.conditions))?;
            self.plan(name).await
        })
        .await
    }

    /// Has the OperatorGroup name a ServiceAccount, and that be found.
    async fn scope(&self, account: &str) -> Result<()> {
        let groups = self.api::<OperatorGroup>();
        let params = PatchParams::default();
        let spec = json!({"spec": {"serviceAccountName": account}});
        groups.patch("group", &params, &Patch::Merge(spec)).await?;
        let found = json!({"kind": "ServiceAccount", "name": account, "namespace": self.namespace});
        let status = json!({"status": {"lastUpdated": "2026-01-01T00:00:00Z", "serviceAccountRef": found}});
        groups.patch_status("group", &params, &Patch::Merge(status)).await?;
        Ok(())
    }
}

/// A bundle with permissions of both kinds, a CRD and a ConfigMap.
fn operator(package: &str, version: &str, group: &str) -> Bundle {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    small(package, version).brings(group, "Lamp").rules("permissions", &json!(package), &rules).rules(
        "clusterPermissions",
        &json!(package),
        &rules,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_carried_out_and_lost_permissions_come_back() -> Result<()> {
    let tenant = Tenant::new("carried").await?;
    let group = format!("{}.example.com", tenant.namespace);
    tenant.offer(&[operator("lamp", "1.0.0", &group)]).await?;
    let began = std::time::Instant::now();
    tenant.subscribe("lamp", json!({})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let plan = tenant.ready(&plan.name_any(), "True/Complete").await?;
    println!("from Subscription to Complete: {} ms", began.elapsed().as_millis());
    ensure!(phase(&plan) == "Complete" && condition(&plan, "Installed") == "True/ ", "{:?}", plan.status);
    let status = plan.status.clone().context("no status")?;
    let steps: Vec<_> = status.plan.iter().map(|step| step.status.as_str()).collect();
    ensure!(steps.iter().all(|step| *step == "Created"), "{steps:?}");

    let csv = tenant.api::<ClusterServiceVersion>().get("lamp.v1.0.0").await?;
    ensure!(csv.labels().get("olm.managed").is_some_and(|value| value == "true"), "{:?}", csv.labels());
    ensure!(csv.annotations().contains_key("operatorframework.io/properties"), "{:?}", csv.annotations());
    let account = tenant.api::<ServiceAccount>().get("lamp").await?;
    let owners = account.owner_references();
    ensure!(owners.iter().map(|one| one.uid.clone()).eq(csv.uid()), "{owners:?}");
    tenant.api::<ConfigMap>().get("lamp-data").await?;
    let crds: Api<CustomResourceDefinition> = Api::all(tenant.client.clone());
    let crd = crds.get(&format!("lamps.{group}")).await?;
    let alongside = format!("{}/lamp.v1.0.0", tenant.namespace);
    ensure!(crd.annotations().values().any(|value| *value == alongside), "{:?}", crd.annotations());

    let name_of = |kind: &str| {
        let step = status.plan.iter().find(|step| step.resource.kind == kind);
        step.map(|step| step.resource.name.clone()).context(kind.to_owned())
    };
    let (role, cluster_role) = (name_of("Role")?, name_of("ClusterRole")?);
    let roles: Api<ClusterRole> = Api::all(tenant.client.clone());
    tenant.api::<Role>().delete(&role, &DeleteParams::default()).await?;
    tenant.api::<RoleBinding>().delete(&role, &DeleteParams::default()).await?;
    roles.delete(&cluster_role, &DeleteParams::default()).await?;
    wait::until("the permissions to be there again", DEADLINE, async || {
        tenant.api::<Role>().get(&role).await?;
        tenant.api::<RoleBinding>().get(&role).await?;
        roles.get(&cluster_role).await?;
        Ok(())
    })
    .await?;
    // Permissions of a ClusterServiceVersion that is gone stay gone.
    tenant.api::<Subscription>().delete("lamp", &DeleteParams::default()).await?;
    tenant.api::<InstallPlan>().gone(&plan.name_any()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_made_or_edited_by_hand_are_not_carried_out() -> Result<()> {
    let tenant = Tenant::new("by-hand").await?;
    let group = format!("{}.example.com", tenant.namespace);
    tenant.offer(&[operator("lamp", "1.0.0", &group)]).await?;
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    let genuine = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let genuine = tenant.ready(&genuine.name_any(), "False/RequiresApproval").await?;
    let plans = tenant.api::<InstallPlan>();
    let role = format!("stolen-{}", tenant.namespace);
    let manifest = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let step = json!({
        "resolving": "lamp.v1.0.0", "status": "Unknown",
        "resource": {
            "sourceName": "cat", "sourceNamespace": tenant.namespace, "group": "rbac.authorization.k8s.io",
            "version": "v1", "kind": "ClusterRole", "name": role, "manifest": manifest.to_string(),
        },
    });
    let spec =
        json!({"approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["lamp.v1.0.0"]});
    let made = |name: &str| -> Result<InstallPlan> {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": name}, "spec": spec,
        });
        Ok(serde_json::from_value(object)?)
    };
    let with_steps = |steps: Value, conditions: Value| {
        Patch::Merge(json!({"status": {
            "phase": "Installing", "catalogSources": [], "plan": steps, "conditions": conditions,
        }}))
    };
    let params = PatchParams::default();
    plans.create(&PostParams::default(), &made("by-hand")?).await?;
    plans.patch_status("by-hand", &params, &with_steps(json!([step]), json!([]))).await?;
    // A copy of a plan, its seal included, is another plan.
    let status = serde_json::to_value(&genuine.status)?;
    plans.create(&PostParams::default(), &made("copy")?).await?;
    plans
        .patch_status("copy", &params, &with_steps(status["plan"].clone(), status["conditions"].clone()))
        .await?;
    for name in ["by-hand", "copy"] {
        let plan = tenant.ready(name, "False/UnknownSteps").await?;
        ensure!(condition(&plan, "Stalled").starts_with("True/UnknownSteps"), "{:?}", plan.status);
        ensure!(condition(&plan, "Ready").contains("Delete the InstallPlan"), "{:?}", plan.status);
    }
    // So is a plan with one step more, although a person approves it.
    let mut steps = status["plan"].clone();
    steps.as_array_mut().context("no steps")?.push(step);
    let edited = Patch::Merge(json!({"status": {"plan": steps}}));
    plans.patch_status(&genuine.name_any(), &params, &edited).await?;
    let approved = Patch::Merge(json!({"spec": {"approved": true}}));
    plans.patch(&genuine.name_any(), &params, &approved).await?;
    tenant.ready(&genuine.name_any(), "False/UnknownSteps").await?;
    let roles: Api<ClusterRole> = Api::all(tenant.client.clone());
    ensure!(roles.get_opt(&role).await?.is_none(), "{role} was made");
    ensure!(
        tenant.api::<ClusterServiceVersion>().get_opt("lamp.v1.0.0").await?.is_none(),
        "it was installed"
    );
    Ok(())
}

/// Objects of the kinds that are replaced where they exist, of these names.
fn replaceable(namespace: &str, port: u16, text: &str) -> [Value; 5] {
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "lamp"}, "spec": {"ports": [{"port": port}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lamp"}, "stringData": {"text": text}}),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "lamp"},
            "spec": {"podSelector": {"matchLabels": {"text": text}}},
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "lamp"},
            "spec": {"minAvailable": port},
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": namespace},
            "value": 7, "description": text,
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_becomes_what_the_bundle_holds() -> Result<()> {
    let tenant = Tenant::new("exists").await?;
    let group = format!("{}.example.com", tenant.namespace);
    let ships = replaceable(&tenant.namespace, 80, "new").into_iter();
    tenant.offer(&[ships.fold(operator("lamp", "1.0.0", &group), Bundle::ships)]).await?;
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let plan = tenant.ready(&plan.name_any(), "False/RequiresApproval").await?;
    let mut others = Vec::from(replaceable(&tenant.namespace, 81, "old"));
    for step in plan.status.iter().flat_map(|status| &status.plan) {
        let resource = &step.resource;
        let mut object = json!({
            "apiVersion": format!("{}/{}", resource.group, resource.version).trim_start_matches('/'),
            "kind": resource.kind, "metadata": {"name": resource.name},
        });
        match resource.kind.as_str() {
            "ServiceAccount" | "Role" | "ClusterRole" => {}
            "RoleBinding" | "ClusterRoleBinding" => {
                let kind = resource.kind.trim_end_matches("Binding");
                object["roleRef"] =
                    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": resource.name});
            }
            _ => continue,
        }
        others.push(object);
    }
    ensure!(others.len() == 10, "{others:?}");
    let create = ["create", "--validate=false", "-n", &tenant.namespace, "-f", "-"];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": others});
    kubectl::kubectl_with(&tenant.world.cluster, &create, list.to_string().as_bytes())?;
    let approve = Patch::Merge(json!({"spec": {"approved": true}}));
    tenant.api::<InstallPlan>().patch(&plan.name_any(), &PatchParams::default(), &approve).await?;
    let plan = tenant.ready(&plan.name_any(), "True/Complete").await?;
    let steps: Vec<_> = plan.status.iter().flat_map(|status| &status.plan).collect();
    let is_there = |step: &&&olm_api_classic::Step| step.status == "Present";
    ensure!(steps.iter().filter(is_there).count() == 10, "{steps:?}");
    let secret = tenant.api::<Secret>().get("lamp").await?;
    let text = secret.data.as_ref().and_then(|data| data.get("text"));
    ensure!(text.is_some_and(|text| text.0 == b"new"), "{:?}", secret.data);
    let roles = tenant.api::<Role>().list(&ListParams::default()).await?.items;
    let of_lamp = roles.iter().filter(|role| role.name_any().starts_with("lamp.v1.0.0-lamp-"));
    ensure!(of_lamp.map(|role| role.rules.iter().flatten().count()).eq([1]), "{roles:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_approved_by_its_digest() -> Result<()> {
    let tenant = Tenant::new("digest").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let plan = tenant.ready(&plan.name_any(), "False/RequiresApproval").await?;
    ensure!(
        phase(&plan) == "RequiresApproval" && condition(&plan, "Stalled").is_empty(),
        "{:?}",
        plan.status
    );
    let text = condition(&plan, "Ready");
    let digest = text.split("sha256:").nth(1).context("no digest")?.trim_end_matches('.').to_owned();
    let plans = tenant.api::<InstallPlan>();
    let approve = async |digest: String| {
        let patch = json!({"metadata": {"annotations": {"olm.classic/approved-digest": digest}}});
        plans.patch(&plan.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
    };
    let wrong = approve("sha256:0".to_owned()).await?;
    // A change that comes later is seen after it: the plan was looked at with the wrong digest.
    tenant.api::<OperatorGroup>().delete("group", &DeleteParams::default()).await?;
    let seen = tenant.ready(&plan.name_any(), "False/InstallCheckFailed").await?;
    ensure!(wrong.resource_version() != plan.resource_version() && !seen.spec.approved, "{:?}", seen.spec);
    ensure!(phase(&seen) == "RequiresApproval", "{:?}", seen.status);
    ensure!(
        tenant.api::<ClusterServiceVersion>().get_opt("lamp.v1.0.0").await?.is_none(),
        "it was installed"
    );
    tenant.group("group", json!({})).await?;
    let seen = tenant.ready(&plan.name_any(), "False/RequiresApproval").await?;
    ensure!(!seen.spec.approved, "a wrong digest approved it");
    approve(format!("sha256:{digest}")).await?;
    let plan = tenant.ready(&plan.name_any(), "True/Complete").await?;
    ensure!(plan.spec.approved, "spec.approved is false");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_missing_permissions_are_named_before_anything_is_made() -> Result<()> {
    let tenant = Tenant::new("scoped").await?;
    let account = json!({"metadata": {"name": "installer"}});
    tenant.api::<ServiceAccount>().create(&PostParams::default(), &serde_json::from_value(account)?).await?;
    tenant.scope("installer").await?;
    let group = format!("{}.example.com", tenant.namespace);
    tenant.offer(&[operator("lamp", "1.0.0", &group)]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let plan = tenant.ready(&plan.name_any(), "False/MissingPermissions").await?;
    let text = condition(&plan, "Stalled");
    for wanted in [
        "clusterserviceversions",
        "configmaps",
        "serviceaccounts",
        "Resources:[roles]",
        "clusterroles",
        "Grant them to ServiceAccount",
    ] {
        ensure!(text.contains(wanted), "{wanted}: {text}");
    }
    let message = plan.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
    ensure!(message.starts_with("retrying execution due to error: ServiceAccount"), "{message}");
    ensure!(phase(&plan) == "Installing", "{:?}", phase(&plan));
    let ready = tenant.shows("lamp", "Ready", "False/MissingPermissions").await?;
    ensure!(ready.contains("Grant them to ServiceAccount"), "{ready}");
    tenant.shows("lamp", "Stalled", "True/MissingPermissions").await?;
    let recorded = plan.status.as_ref().and_then(|status| status.attenuated_service_account_ref.clone());
    ensure!(recorded.and_then(|one| one.name).as_deref() == Some("installer"), "no reference");
    ensure!(tenant.api::<ClusterServiceVersion>().get_opt("lamp.v1.0.0").await?.is_none(), "half applied");

    let binding = json!({
        "metadata": {"name": format!("installer-{}", tenant.namespace)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": tenant.namespace}],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(tenant.client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let plan = tenant.ready(&plan.name_any(), "True/Complete").await?;
    ensure!(phase(&plan) == "Complete" && condition(&plan, "Stalled").is_empty(), "{:?}", plan.status);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_waits_for_the_service_account_of_its_namespace() -> Result<()> {
    let tenant = Tenant::new("groups").await?;
    tenant.offer(&[small("lamp", "1.0.0")]).await?;
    tenant.subscribe("lamp", json!({"installPlanApproval": "Manual"})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let name = tenant.ready(&plan.name_any(), "False/RequiresApproval").await?.name_any();
    let groups = tenant.api::<OperatorGroup>();
    let failed = async |wanted: &str| {
        let plan = tenant.ready(&name, "False/InstallCheckFailed").await?;
        let found = condition(&plan, "Installed");
        ensure!(found == format!("False/InstallCheckFailed {wanted}"), "{found}");
        Ok(())
    };
    groups.delete("group", &DeleteParams::default()).await?;
    failed("no operator group found that is managing this namespace").await?;
    tenant.group("group", json!({"serviceAccountName": "missing"})).await?;
    let text = format!(
        "please make sure the service account exists. sa=missing operatorgroup={}/group",
        tenant.namespace
    );
    wait::until("the ServiceAccount to be asked for", DEADLINE, async || failed(&text).await).await?;
    let none = Patch::Merge(json!({"spec": {"serviceAccountName": null}}));
    groups.patch("group", &PatchParams::default(), &none).await?;
    let plan = tenant.ready(&name, "False/RequiresApproval").await?;
    ensure!(condition(&plan, "Installed").is_empty(), "{:?}", plan.status);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_would_break_a_stored_object_is_not_replaced() -> Result<()> {
    let tenant = Tenant::new("crd").await?;
    let group = format!("{}.example.com", tenant.namespace);
    let size = |most: u32| json!({"size": {"type": "integer", "maximum": most}});
    let first = small("lamp", "1.0.0").brings_with(&group, "Lamp", &size(9));
    let second = small("lamp", "1.1.0").brings_with(&group, "Lamp", &size(3)).replaces("1.0.0");
    let source = tenant.offer(std::slice::from_ref(&first)).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    tenant.ready(&plan.name_any(), "True/Complete").await?;
    tenant.shows("lamp", "Ready", "True/Installed").await?;
    let kind = kube::api::ApiResource::from_gvk_with_plural(
        &kube::api::GroupVersionKind::gvk(&group, "v1", "Lamp"),
        "lamps",
    );
    let lamps: Api<DynamicObject> = Api::namespaced_with(tenant.client.clone(), &tenant.namespace, &kind);
    let lamp = DynamicObject::new("bright", &kind).data(json!({"spec": {"size": 5}}));
    lamps.create(&PostParams::default(), &lamp).await?;
    let image = tenant.catalog(&[first, second], "v2").await?;
    source.patch(json!({"spec": {"image": image}})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.1.0").await?;
    let plan = tenant.ready(&plan.name_any(), "False/InstallComponentFailed").await?;
    let text = condition(&plan, "Ready");
    let object = format!("\"{}/bright\"", tenant.namespace);
    for wanted in [
        "error validating existing CRs against new CRD's schema for \"lamps.",
        &object,
        "updated validation is too restrictive",
        "Change Lamp",
    ] {
        ensure!(text.contains(wanted), "{wanted}: {text}");
    }
    // When the time for attempts is over the plan has failed; it is tried again all the same.
    let failed = wait::until("the plan to fail", DEADLINE, async || {
        let plan = tenant.api::<InstallPlan>().get(&plan.name_any()).await?;
        wait::check(phase(&plan) == "Failed", || format!("{:?}", plan.status))?;
        Ok(plan)
    })
    .await?;
    let installed = condition(&failed, "Installed");
    ensure!(installed.starts_with("False/InstallComponentFailed error validating"), "{installed}");
    let ready = tenant.shows("lamp", "Ready", "False/InstallPlanFailed").await?;
    ensure!(ready.contains("Change Lamp"), "{ready}");
    let fixed = Patch::Merge(json!({"spec": {"size": 2}}));
    lamps.patch("bright", &PatchParams::default(), &fixed).await?;
    tenant.ready(&plan.name_any(), "True/Complete").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_plan_is_not_written_again() -> Result<()> {
    let tenant = Tenant::new("quiet").await?;
    tenant.offer(&[operator("lamp", "1.0.0", &format!("{}.example.com", tenant.namespace))]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    let plan = tenant.plan_for("lamp", "lamp.v1.0.0").await?;
    let plan = tenant.ready(&plan.name_any(), "True/Complete").await?;
    // Its Operator's label comes after the plan.
    let account = wait::until("the ServiceAccount to have its label", DEADLINE, async || {
        let account = tenant.api::<ServiceAccount>().get("lamp").await?;
        ensure!(account.labels().keys().any(|key| key.starts_with("operators.coreos.com/")), "no label");
        Ok(account)
    })
    .await?;
    for number in 0..3 {
        // Something that is watched and changes nothing.
        let noise = Patch::Merge(json!({"metadata": {"annotations": {"noise": number.to_string()}}}));
        tenant.api::<OperatorGroup>().patch("group", &PatchParams::default(), &noise).await?;
    }
    // A plan that comes later is seen after all of that.
    tenant.api::<Role>().delete(&role_of(&plan)?, &DeleteParams::default()).await?;
    wait::until("the role to be there again", DEADLINE, async || {
        tenant.api::<Role>().get(&role_of(&plan)?).await.map(drop).map_err(Into::into)
    })
    .await?;
    let after = tenant.api::<InstallPlan>().get(&plan.name_any()).await?;
    ensure!(after.resource_version() == plan.resource_version(), "the plan was written");
    let after = tenant.api::<ServiceAccount>().get("lamp").await?;
    ensure!(after.resource_version() == account.resource_version(), "the ServiceAccount was written");
    Ok(())
}

fn role_of(plan: &InstallPlan) -> Result<String> {
    let steps = plan.status.iter().flat_map(|status| &status.plan);
    let role = steps.into_iter().find(|step| step.resource.kind == "Role");
    role.map(|step| step.resource.name.clone()).context("no Role")
}

#[tokio::test(flavor = "multi_thread")]
async fn old_plans_are_deleted() -> Result<()> {
    let tenant = Tenant::new("many").await?;
    let plans = tenant.api::<InstallPlan>();
    for generation in 1..=7 {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": format!("old-{generation}")},
            "spec": {
                "approval": "Automatic", "approved": true, "generation": generation,
                "clusterServiceVersionNames": [format!("lamp.v1.{generation}.0")],
            },
        });
        plans.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        let step = json!({"resolving": "x", "status": "Created", "resource": {
            "sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "ConfigMap", "name": "x",
        }});
        let status = json!({"status": {"phase": "Complete", "catalogSources": [], "plan": [step]}});
        plans
            .patch_status(&format!("old-{generation}"), &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    wait::until("the oldest plans to be deleted", DEADLINE, async || {
        let mut left: Vec<_> = tenant.plans().await?.iter().map(ResourceExt::name_any).collect();
        left.sort();
        wait::check(left == ["old-3", "old-4", "old-5", "old-6", "old-7"], || format!("{left:?}"))
    })
    .await
}
