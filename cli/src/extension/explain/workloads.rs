//! The workloads of an extension and their Pods, with the reasons that the controller would give.

use std::fmt::Write as _;

use anyhow::Context as _;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams, core::Request};
use olm_api::{names::OWNER_NAME_LABEL, v1::ClusterExtension};
use olm_objectset::{PodReport, Workload};
use olm_runtime::{api_text, bounded};
use olm_text::one_line;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Workloads of one kind that are read.
const WORKLOADS_MAX: u32 = 100;
/// Pods or Events of one workload that are read.
const ITEMS_MAX: u32 = 50;

/// A workload with its Pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadState {
    object: String,
    /// Whether its Pods are to end.
    #[serde(skip)]
    is_job: bool,
    ready: i64,
    wanted: i64,
    /// Why it does not have all its Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    pods: Vec<PodState>,
}

#[derive(Debug, Serialize)]
struct PodState {
    pod: String,
    phase: String,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The workloads that carry the extension's label.
pub(super) async fn workloads(
    client: &Client,
    extension: &ClusterExtension,
) -> anyhow::Result<Vec<WorkloadState>> {
    let mut all = list::<Deployment>(client, extension).await?;
    all.extend(list::<StatefulSet>(client, extension).await?);
    all.extend(list::<DaemonSet>(client, extension).await?);
    all.extend(list::<Job>(client, extension).await?);
    let mut found = Vec::new();
    for object in &all {
        found.push(state(client, object).await?);
    }
    Ok(found)
}

async fn list<K>(client: &Client, extension: &ClusterExtension) -> anyhow::Result<Vec<Value>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let labelled = format!("{OWNER_NAME_LABEL}={}", extension.name_any());
    let api: Api<K> = Api::all(client.clone());
    let listed = bounded(api.list(&ListParams::default().labels(&labelled).limit(WORKLOADS_MAX))).await;
    let listed = listed.with_context(|| format!("listing {}s", K::kind(&())))?;
    Ok(listed.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

async fn state(client: &Client, object: &Value) -> anyhow::Result<WorkloadState> {
    let [kind, namespace, name] =
        ["/kind", "/metadata/namespace", "/metadata/name"].map(|field| olm_object::text(object, field));
    let (mut pods, mut reason) = (Vec::new(), None);
    // One whose selector cannot be asked with has no Pods that could be distinguished from others.
    if let Some(workload) = Workload::of(object) {
        let of_pods = ListParams::default().labels(workload.selector()).limit(ITEMS_MAX);
        let listed = json(client, &format!("/api/v1/namespaces/{namespace}/pods"), &of_pods).await;
        pods = workload.pods(listed.context("listing Pods")?.as_bytes());
        let mut events = None;
        if let Some(fields) = workload.events() {
            let of_events = ListParams::default().fields(&fields).limit(ITEMS_MAX);
            let listed = json(client, &format!("/api/v1/namespaces/{namespace}/events"), &of_events).await;
            events = Some(listed.context("listing Events")?);
        }
        reason = workload.finding(&[], events.as_ref().map(String::as_bytes));
    }
    let ((ready, wanted), is_job) = (counts(object), kind == "Job");
    let object = format!("{kind} {namespace}/{name}");
    let (reason, pods) = (reason.map(|finding| finding.to_string()), pods.iter().map(PodState::of).collect());
    Ok(WorkloadState { object, is_job, ready, wanted, reason, pods })
}

/// The answer to a request for a list, as it came.
async fn json(client: &Client, path: &str, params: &ListParams) -> anyhow::Result<String> {
    let request = Request::new(path).list(params)?;
    bounded(client.request_text(request)).await.map_err(|error| anyhow::anyhow!(api_text(&error)))
}

/// How many Pods of a workload are ready, of a Job: have completed, and how many there should be.
fn counts(object: &Value) -> (i64, i64) {
    let number = |field: &str| object.pointer(field).and_then(Value::as_i64);
    if object["kind"] == "DaemonSet" {
        return (
            number("/status/numberReady").unwrap_or(0),
            number("/status/desiredNumberScheduled").unwrap_or(0),
        );
    }
    if object["kind"] == "Job" {
        return (number("/status/succeeded").unwrap_or(0), number("/spec/completions").unwrap_or(1));
    }
    (number("/status/readyReplicas").unwrap_or(0), number("/spec/replicas").unwrap_or(1))
}

impl PodState {
    fn of(report: &PodReport) -> Self {
        let reason = report.finding.as_ref().map(ToString::to_string);
        Self { pod: report.name.clone(), phase: report.phase.clone(), reason }
    }
}

/// The workloads, with Pods that do not run.
pub(super) fn text(workloads: &[WorkloadState]) -> String {
    let mut text = String::from("Workloads\n");
    // Writing to a String cannot fail.
    for one in workloads {
        let state = if one.is_job { "completed" } else { "ready" };
        let _ = writeln!(text, "  {}: {} of {} {state}", one_line(&one.object), one.ready, one.wanted);
        if let Some(reason) = &one.reason {
            let _ = writeln!(text, "    {}", one_line(reason));
        }
        for pod in &one.pods {
            let _ = writeln!(text, "    Pod {}  {}", one_line(&pod.pod), one_line(&pod.phase));
            if let Some(reason) = &pod.reason {
                let _ = writeln!(text, "      {}", one_line(reason));
            }
        }
    }
    if workloads.is_empty() {
        text.push_str("  none\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_job_completions_are_counted() {
        let job =
            |spec: Value, status: Value| counts(&json!({"kind": "Job", "spec": spec, "status": status}));
        assert_eq!(job(json!({"completions": 3}), json!({"succeeded": 2, "readyReplicas": 9})), (2, 3));
        assert_eq!(job(json!({}), json!({"active": 1})), (0, 1));
        let state = WorkloadState {
            object: "Job n/j".into(),
            is_job: true,
            ready: 0,
            wanted: 1,
            reason: None,
            pods: Vec::new(),
        };
        assert!(text(&[state]).contains("  Job n/j: 0 of 1 completed\n"));
    }

    #[test]
    fn a_workload_shows_its_own_pods_with_what_the_controller_says_of_them() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "n", "name": "d", "uid": "u"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"readyReplicas": 1},
        });
        let pod = |name: &str, owner: &str| {
            json!({
                "metadata": {"name": name, "ownerReferences": [
                    {"kind": "ReplicaSet", "name": owner, "uid": "r", "controller": true}]},
                "status": {"phase": "Pending\u{1b}[2J", "containerStatuses": [{
                    "name": "c", "image": "i", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "password: x"}},
                }]},
            })
        };
        let pods = json!({"items": [pod("mine", "d-1"), pod("other", "e-1")]}).to_string();
        let workload = Workload::of(&deployment).unwrap();
        let pods = workload.pods(pods.as_bytes()).iter().map(PodState::of).collect();
        let (ready, wanted) = counts(&deployment);
        let object = "Deployment n/d".to_owned();
        let state = WorkloadState { object, is_job: false, ready, wanted, reason: None, pods };
        let shown = text(&[state]);
        let lines = [
            "  Deployment n/d: 1 of 2 ready",
            "    Pod mine  Pending",
            "      Failed: container c ended with exit code 1 (Error)",
        ];
        for line in lines {
            assert!(shown.contains(line), "{shown}");
        }
        assert!(
            !shown.contains("other") && !shown.contains("password") && !shown.contains('\u{1b}'),
            "{shown}"
        );
    }
}
