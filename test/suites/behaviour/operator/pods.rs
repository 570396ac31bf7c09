//! Why a workload does not run, as the extension says it: what its Pods report, or what keeps them from being created.

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{Pod, ResourceQuota},
};
use olm_api::ConditionType::Reconciling;
use olm_test::prelude::*;

/// An extension whose Deployment, of its package's name, finds no node.
async fn waiting(name: &str) -> Result<(Scenario<'static>, String)> {
    let scenario = Scenario::shared(name).await?;
    let package = format!("{}-op", scenario.name);
    scenario.offer(&[small(&package, "1.0.0").deployment(false)]).await?;
    Ok((scenario, package))
}

/// Waits until `Ready` of the extension begins so; prints how long that took.
async fn ready_says(scenario: &Scenario<'_>, text: &str) -> Result<()> {
    let begun = Instant::now();
    scenario.shows(Ready, &format!("False/RollingOut/{text}")).await?;
    println!("[{:.1} s] {}", begun.elapsed().as_secs_f32(), scenario.shown().await?.condition(Ready));
    Ok(())
}

/// What a kubelet would report of the one container.
fn container(more: Value) -> Value {
    let mut container = json!({
        "name": "manager", "image": "registry.example.com/op:v1", "imageID": "", "ready": false, "restartCount": 0,
    });
    if let (Value::Object(container), Value::Object(more)) = (&mut container, more) {
        container.extend(more);
    }
    json!({"status": {"containerStatuses": [container]}})
}

// There is no kubelet: the states that one would report are written by the test.
#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_pod_is_on_the_extension() -> Result<()> {
    let (scenario, package) = waiting("pods").await?;
    scenario.create_extension(&package, json!({})).await?;
    let namespace = &scenario.name;
    let waits = format!("Waiting for Deployment {namespace}/{package}: ");
    let of_pod = |reason: &str| format!("{waits}{reason}: Pod {namespace}/{package}-");
    ready_says(&scenario, &of_pod("FailedScheduling")).await?;
    let pods: Api<Pod> = scenario.here();
    let pod = pods.list(&ListParams::default()).await?.items.first().context("no Pod")?.name_any();
    let ended = |reason: &str, code: i32| {
        json!({"terminated": {"reason": reason, "exitCode": code, "message": "password=hunter2\n",
                              "startedAt": null, "finishedAt": null}})
    };
    let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
    let states = [
        ("ImagePullBackOff", json!({"state": waiting("ErrImagePull", "manifest\nunknown\u{202e}")})),
        (
            "CrashLoopBackOff",
            json!({"state": waiting("CrashLoopBackOff", "back-off 40s"), "lastState": ended("Error", 2), "restartCount": 3}),
        ),
        (
            "OOMKilled",
            json!({"state": waiting("CrashLoopBackOff", "back-off 40s"), "lastState": ended("OOMKilled", 137), "restartCount": 4}),
        ),
    ];
    for (reason, state) in states {
        let patch = Patch::Merge(container(state));
        pods.patch_status(&pod, &PatchParams::default(), &patch).await?;
        ready_says(&scenario, &of_pod(reason)).await?;
    }
    let shown = scenario.shown().await?;
    let ready = shown.condition(Ready);
    ensure!(!ready.contains("hunter2") && !ready.contains('\u{202e}') && !ready.contains('\n'), "{ready}");
    // Upstream's texts stay, and it is not said twice.
    let rolling = "Revision 1.0.0 is rolling out.";
    ensure!(shown.condition(Progressing) == format!("True/RollingOut/{rolling}"), "{shown:?}");
    ensure!(shown.condition(Reconciling) == format!("True/RollingOut/{rolling}"), "{shown:?}");
    ensure!(shown.condition(Stalled).is_empty(), "it may pass by itself: {shown:?}");
    let sets = scenario.revisions().await?;
    let available = sets[0].status.as_ref().and_then(|status| status.conditions.find(Available));
    let available = available.map(|condition| condition.message.clone()).unwrap_or_default();
    let upstreams = format!("Object Deployment.apps/v1 {namespace}/{package}: ");
    ensure!(available.starts_with(&upstreams) && !available.contains("Pod"), "{available}");
    for reason in ["FailedScheduling", "ImagePullBackOff", "CrashLoopBackOff", "OOMKilled"] {
        wait::until("one Event of each kind", DEADLINE, async || {
            let all = scenario.events("ClusterExtension", namespace).await?;
            let count = all.iter().filter(|(of, _)| of == reason).count();
            wait::check(count == 1, || format!("{count} of {reason}: {all:?}"))
        })
        .await?;
    }
    for args in [&["get", "cext", namespace, "-o", "wide"][..], &["describe", "cext", namespace]] {
        println!("$ kubectl {}\n{}", args.join(" "), kubectl(&scenario.world.cluster, args)?);
    }
    scenario.delete_extension().await
}

/// The beginning of `Ready` when Pods of the extension's Deployment cannot be created.
fn failed_create(scenario: &Scenario<'_>, package: &str) -> String {
    format!("Waiting for Deployment {}/{package}: FailedCreate: ", scenario.name)
}

/// A quota named `none` that admits no Pods, in force.
async fn admit_no_pods(scenario: &Scenario<'_>) -> Result<()> {
    let quotas: Api<ResourceQuota> = scenario.here();
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    let status = async || Ok(quotas.get("none").await?.status.unwrap_or_default());
    eventually("the quota to be in force", status, |status| status.hard.is_some() && status.used.is_some())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_admits_no_pods_is_on_the_extension() -> Result<()> {
    let (scenario, package) = waiting("quota").await?;
    admit_no_pods(&scenario).await?;
    scenario.create_extension(&package, json!({})).await?;
    ready_says(&scenario, &format!("{}pods \"{package}-", failed_create(&scenario, &package))).await?;
    ensure!(scenario.shown().await?.condition(Ready).contains("exceeded quota: none"));
    scenario.delete_extension().await
}

/// A workload of that kind, and the probe that holds once its Pods are ready.
fn workload(scenario: &Scenario<'_>, kind: &str) -> (Value, Value) {
    let name = kind.to_lowercase();
    let labels = json!({"app": name});
    let containers = json!([{"name": "c", "image": "registry.example.com/op:v1"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let group = if kind == "Job" { "batch" } else { "apps" };
    let mut object = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": {"name": name, "namespace": scenario.name}, "spec": {"template": template},
    });
    if kind == "Job" {
        object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    } else {
        object["spec"]["selector"] = json!({"matchLabels": labels});
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = name.into();
    }
    let equal = |a: &str, b: &str| json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": a, "fieldB": b}});
    let assertion = match kind {
        "StatefulSet" => equal("status.readyReplicas", "spec.replicas"),
        "DaemonSet" => equal("status.numberReady", "status.desiredNumberScheduled"),
        _ => json!({"type": "ConditionEqual", "conditionEqual": {"type": "Complete", "status": "True"}}),
    };
    let selector = json!({"type": "GroupKind", "groupKind": {"group": group, "kind": kind}});
    (object, json!({"selector": selector, "assertions": [assertion]}))
}

// These kinds have no condition for it, only Events.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_named_for_each_kind_of_workload() -> Result<()> {
    let scenario = Scenario::shared("quotas").await?;
    create_account(&scenario.client, &scenario.name, ACCOUNT).await?;
    let mut rules = rules_for(&[], &scenario.name)?;
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    rules.allow_in_namespace(&["apps", "batch"], &["daemonsets", "jobs", "statefulsets"], &verbs);
    grant(&scenario.client, &scenario.name, ACCOUNT, &rules).await?;
    admit_no_pods(&scenario).await?;
    for kind in ["StatefulSet", "DaemonSet", "Job"] {
        let (object, probe) = workload(&scenario, kind);
        let set = format!("{}-{}", scenario.name, kind.to_lowercase());
        let made: ClusterObjectSet = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": set, "annotations": scenario.by_hand()},
            "spec": {
                "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
                "phases": [{"name": "deploy", "objects": [{"object": object}]}], "progressionProbes": [probe],
            },
        }))?;
        let begun = Instant::now();
        scenario.sets().make(&made).await?;
        let waits = format!(
            "False/RollingOut/Waiting for {kind} {}/{}: FailedCreate: ",
            scenario.name,
            kind.to_lowercase()
        );
        let is_named = |text: &str| text.starts_with(&waits) && text.contains("exceeded quota: none");
        scenario.set_reports(&set, Ready, is_named).await?;
        println!("[{:.1} s] {}", begun.elapsed().as_secs_f32(), scenario.set_condition(&set, Ready).await?);
        scenario.event("ClusterObjectSet", &set, "FailedCreate", "exceeded quota: none").await?;
    }
    // With the quota goes the reason.
    scenario.here::<ResourceQuota>().remove("none").await?;
    let set = format!("{}-statefulset", scenario.name);
    scenario.set_reports(&set, Ready, |text| text.starts_with("True/Active/")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_on_pods_that_does_not_answer_is_named_on_the_extension() -> Result<()> {
    let (scenario, package) = waiting("nohook").await?;
    let namespace = &scenario.name;
    let webhooks: Api<ValidatingWebhookConfiguration> = scenario.all();
    let webhook = format!("pods.{namespace}.example.com");
    let helm = json!({"meta.helm.sh/release-name": "guard", "meta.helm.sh/release-namespace": "policy"});
    let metadata = json!({"name": namespace, "annotations": helm});
    let configuration = json!({"metadata": metadata, "webhooks": [{
        "name": webhook, "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1,
        "clientConfig": {"service": {"namespace": namespace, "name": "nobody"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    }]});
    webhooks.create(&PostParams::default(), &serde_json::from_value(configuration)?).await?;
    scenario.create_extension(&package, json!({})).await?;
    let owner =
        format!("ValidatingWebhookConfiguration {namespace}, which belongs to Helm release policy/guard");
    let silent =
        format!("the admission webhook {webhook} of Service {namespace}/nobody ({owner}) does not answer: ");
    ready_says(&scenario, &(failed_create(&scenario, &package) + &silent)).await?;
    webhooks.remove(namespace).await?;
    scenario.delete_extension().await
}
