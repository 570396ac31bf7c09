//! The workloads of an extension and their Pods.

use std::fmt::Write as _;

use anyhow::Context as _;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        core::v1::{ContainerStatus, Pod},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams, core::Selector};
use olm_api::{names::OWNER_NAME_LABEL, v1::ClusterExtension};
use olm_runtime::bounded;
use olm_text::one_line;
use serde::{Serialize, de::DeserializeOwned};

/// Pods of one workload that are read.
const PODS_MAX: u32 = 50;

/// A workload with its Pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Workload {
    object: String,
    ready: i32,
    wanted: i32,
    pods: Vec<PodState>,
}

#[derive(Debug, Serialize)]
struct PodState {
    pod: String,
    phase: String,
    /// Why it does not run, one text each.
    reasons: Vec<String>,
}

/// The workloads that carry the extension's label.
pub(super) async fn workloads(
    client: &Client,
    extension: &ClusterExtension,
) -> anyhow::Result<Vec<Workload>> {
    let mut found = Vec::new();
    for one in list::<Deployment>(client, extension).await? {
        let (spec, status) = (one.spec.clone().unwrap_or_default(), one.status.clone().unwrap_or_default());
        let counts = (status.ready_replicas.unwrap_or(0), spec.replicas.unwrap_or(1));
        found.push(workload(client, &one, counts, &spec.selector).await?);
    }
    for one in list::<StatefulSet>(client, extension).await? {
        let (spec, status) = (one.spec.clone().unwrap_or_default(), one.status.clone().unwrap_or_default());
        let counts = (status.ready_replicas.unwrap_or(0), spec.replicas.unwrap_or(1));
        found.push(workload(client, &one, counts, &spec.selector).await?);
    }
    for one in list::<DaemonSet>(client, extension).await? {
        let (spec, status) = (one.spec.clone().unwrap_or_default(), one.status.clone().unwrap_or_default());
        let counts = (status.number_ready, status.desired_number_scheduled);
        found.push(workload(client, &one, counts, &spec.selector).await?);
    }
    Ok(found)
}

async fn list<K>(client: &Client, extension: &ClusterExtension) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let labelled = format!("{OWNER_NAME_LABEL}={}", extension.name_any());
    let api: Api<K> = Api::all(client.clone());
    let listed = bounded(api.list(&ListParams::default().labels(&labelled))).await;
    Ok(listed.with_context(|| format!("listing {}s", K::kind(&())))?.items)
}

async fn workload<K: Resource<DynamicType = ()>>(
    client: &Client,
    object: &K,
    (ready, wanted): (i32, i32),
    selector: &LabelSelector,
) -> anyhow::Result<Workload> {
    let namespace = object.namespace().unwrap_or_default();
    let name = format!("{} {namespace}/{}", K::kind(&()), object.name_any());
    let selector = Selector::try_from(selector.clone()).unwrap_or_default();
    let mut pods = Vec::new();
    // An empty selector would match every Pod.
    if !selector.selects_all() {
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let page = ListParams::default().labels_from(&selector).limit(PODS_MAX);
        let listed = bounded(api.list(&page)).await.context("listing Pods")?;
        pods.extend(listed.items.iter().map(PodState::of));
    }
    Ok(Workload { object: name, ready, wanted, pods })
}

impl PodState {
    fn of(pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let mut reasons = Vec::new();
        for condition in status.conditions.iter().flatten().filter(|c| c.status == "False") {
            if let (Some(reason), Some(message)) = (&condition.reason, &condition.message)
                && condition.type_ == "PodScheduled"
            {
                reasons.push(format!("{reason}: {message}"));
            }
        }
        let containers = status.init_container_statuses.iter().flatten();
        reasons.extend(containers.chain(status.container_statuses.iter().flatten()).filter_map(reason));
        Self { pod: pod.name_any(), phase: status.phase.unwrap_or_default(), reasons }
    }
}

/// Why a container does not run.
fn reason(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let (reason, message) = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => (waiting.reason.clone()?, waiting.message.clone()),
        (None, Some(ended)) if ended.exit_code != 0 => {
            (ended.reason.clone().unwrap_or_else(|| "Error".to_owned()), ended.message.clone())
        }
        _ => return None,
    };
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.map(|last| {
        format!(" (ended before with {}: {})", last.exit_code, last.reason.clone().unwrap_or_default())
    });
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("container {}: {reason}{message}{}", container.name, last.unwrap_or_default()))
}

/// The workloads, with Pods that do not run.
pub(super) fn text(workloads: &[Workload]) -> String {
    let mut text = String::from("Workloads\n");
    // Writing to a String cannot fail.
    for one in workloads {
        let _ = writeln!(text, "  {}: {} of {} ready", one_line(&one.object), one.ready, one.wanted);
        for pod in &one.pods {
            let _ = writeln!(text, "    Pod {}  {}", one_line(&pod.pod), one_line(&pod.phase));
            for reason in &pod.reasons {
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
    fn a_pod_says_why_it_does_not_run() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node\u{1b}[2J"}],
                "containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                }],
            },
        }))
        .expect("a Pod");
        let state = PodState::of(&pod);
        assert_eq!(
            state.reasons,
            [
                "Unschedulable: no node\u{1b}[2J",
                "container c: CrashLoopBackOff: back-off (ended before with 137: OOMKilled)"
            ]
        );
        let shown =
            text(&[Workload { object: "Deployment n/d".into(), ready: 0, wanted: 1, pods: vec![state] }]);
        assert!(shown.contains("  Deployment n/d: 0 of 1 ready\n    Pod p  Pending\n"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}
