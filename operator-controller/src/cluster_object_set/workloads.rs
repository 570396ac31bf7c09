//! Why a workload is not healthy: what its Pods report, or what keeps them from being created.
//!
//! Pods are not watched. They are listed while a workload is not healthy, by its own selector, a few of them and no more
//! bytes than [`LIST_BYTES_MAX`]. Only Pods that the workload controls count: a selector alone proves nothing.

mod pods;

use http_body_util::{BodyExt, Limited};
use kube::{Client, api::ListParams, client::Body, core::Request};
use olm_object::{ObjectKey, text};
use olm_runtime::bounded;
use olm_text::{cut, one_line};
use serde_json::Value;

use crate::{
    cluster_object_set::{Context, observe::Observed, report::Unhealthy},
    concurrently::concurrently,
};
pub(crate) use pods::{Finding, FindingKind};

/// Workloads that are examined in one reconcile, and named in a status.
pub(crate) const EXAMINED_MAX: usize = 3;
/// Pods of one workload that are listed.
const PODS_MAX: u32 = 20;
/// Bytes of such a list that are read.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Longest label selector that is asked with, in bytes: it becomes part of a URL.
const SELECTOR_BYTES_MAX: usize = 2_048;
/// Characters of a foreign message that are shown.
const MESSAGE_CHARACTERS: usize = 300;

/// What is needed to find a workload's Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workload {
    uid: String,
    /// Label selector in the form that a query takes.
    selector: String,
    /// What the workload itself reports.
    finding: Option<Finding>,
}

impl Workload {
    /// Reads a workload; nothing where the object is none.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let key = ObjectKey::of(object);
        let is_workload = match key.group.as_str() {
            "apps" => ["DaemonSet", "Deployment", "StatefulSet"].contains(&key.kind.as_str()),
            "batch" => key.kind == "Job",
            _ => false,
        };
        let selector = is_workload.then(|| selector(object.pointer("/spec/selector")?)).flatten()?;
        let uid = text(object, "/metadata/uid").to_owned();
        Some(Self { uid, selector, finding: own_finding(object) })
    }
}

/// What the conditions of a Deployment or a Job say about its Pods.
fn own_finding(object: &Value) -> Option<Finding> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    let holds =
        |type_: &str| conditions.iter().find(|c| text(c, "/type") == type_ && text(c, "/status") == "True");
    if let Some(condition) = holds("ReplicaFailure") {
        let message = text(condition, "/message");
        let webhook = unanswered_webhook(message).map(|webhook| format!("{webhook}: ")).unwrap_or_default();
        let text = webhook + &foreign(message);
        return Some(Finding { kind: FindingKind::FailedCreate, text });
    }
    let condition = holds("Failed")?;
    let text = format!("{}: {}", foreign(text(condition, "/reason")), foreign(text(condition, "/message")));
    Some(Finding { kind: FindingKind::Failed, text })
}

/// A foreign text on one line, cut.
fn foreign(text: &str) -> String {
    cut(&one_line(text), MESSAGE_CHARACTERS).into_owned()
}

/// A clause about the admission webhook that did not answer, if the API server reports one: `failed calling webhook
/// "<name>": failed to call webhook: Post "https://<service>.<namespace>.svc:<port>/<path>?timeout=10s": <cause>`.
fn unanswered_webhook(message: &str) -> Option<String> {
    let (name, rest) = message.split_once("failed calling webhook \"")?.1.split_once('"')?;
    let host = rest.split_once("Post \"https://").and_then(|(_, url)| url.split([':', '/', '"']).next());
    let service = host.and_then(|host| host.strip_suffix(".svc")).and_then(|host| host.split_once('.'));
    let owner = match service {
        Some((service, namespace)) => format!(" of Service {}/{}", foreign(namespace), foreign(service)),
        None => String::new(),
    };
    Some(format!("the admission webhook {}{owner} does not answer", foreign(name)))
}

/// A label selector as a query takes it; nothing where it selects everything, or is too long.
fn selector(selector: &Value) -> Option<String> {
    let mut parts = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str()?));
    }
    for one in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let (key, values) = (text(one, "/key"), one.get("values").and_then(Value::as_array));
        let values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match text(one, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    let selector = parts.join(",");
    (!selector.is_empty() && selector.len() <= SELECTOR_BYTES_MAX).then_some(selector)
}

/// Finds out about the first of the unhealthy objects why they are not healthy.
pub(crate) async fn examine(cx: &Context, observed: &Observed<'_>, unhealthy: &mut [Unhealthy]) {
    let first = &unhealthy[..unhealthy.len().min(EXAMINED_MAX)];
    let found = first.iter().map(|one| finding(cx, observed, one)).collect();
    let found: Vec<Option<Finding>> = concurrently(EXAMINED_MAX, found).await;
    for (one, finding) in unhealthy.iter_mut().zip(found) {
        one.finding = finding;
    }
}

async fn finding(cx: &Context, observed: &Observed<'_>, unhealthy: &Unhealthy) -> Option<Finding> {
    let workload = unhealthy.workload.as_ref()?;
    let (own, key) = (workload.finding.clone(), &unhealthy.object);
    // Where the controller may not list Pods, the ServiceAccount may.
    let listed = match list(&cx.controller(), &key.namespace, &workload.selector).await {
        Listed::Forbidden => list(&observed.client, &key.namespace, &workload.selector).await,
        listed => listed,
    };
    let of_pods = match listed {
        Listed::Pods(json) => pods::worst(&json, key, &workload.uid),
        Listed::Forbidden | Listed::Nothing => None,
    };
    own.into_iter().chain(of_pods).min()
}

/// The answer to a request for Pods.
enum Listed {
    Pods(Vec<u8>),
    Forbidden,
    /// It failed, or is too long: nothing is known of the Pods.
    Nothing,
}

async fn list(client: &Client, namespace: &str, selector: &str) -> Listed {
    let params = ListParams::default().labels(selector).limit(PODS_MAX);
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods")).list(&params);
    let Ok(request) = request else { return Listed::Nothing };
    let answer = async {
        let answer = client.send(request.map(Body::from)).await?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), LIST_BYTES_MAX).collect().await;
        Ok((status, body.ok().map(|body| body.to_bytes().to_vec())))
    };
    match bounded(answer).await {
        Ok((200, Some(json))) => Listed::Pods(json),
        Ok((403, _)) => Listed::Forbidden,
        Ok(_) | Err(_) => Listed::Nothing,
    }
}

#[cfg(test)]
mod tests;
