//! Finds out why a workload is not healthy: lists its Pods, and what keeps them from being created.
//!
//! Neither is watched. They are listed while a workload is not healthy, by its own selectors, a few of them and no more
//! bytes than [`LIST_BYTES_MAX`].

use http_body_util::{BodyExt, Limited};
use kube::{Client, api::ListParams, client::Body, core::Request};
use olm_objectset::Finding;
use olm_preflight::concurrently;
use olm_runtime::bounded;

use crate::cluster_object_set::{Context, observe::Observed, report::Unhealthy};

/// Workloads that are examined in one reconcile, and named in a status.
pub(crate) const EXAMINED_MAX: usize = 3;
/// Pods or Events of one workload that are listed.
const ITEMS_MAX: u32 = 20;
/// Webhook configurations of a cluster that are listed.
const CONFIGURATIONS_MAX: u32 = 500;
/// Bytes of such a list that are read.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Bytes of webhook configurations that are read: each has certificates.
const CONFIGURATION_BYTES_MAX: usize = 4 << 20;
/// The lists of webhook configurations, in the order that they are searched.
const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
];

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
    let controller = cx.controller();
    let clients = [&controller, &observed.client];
    let namespace = format!("/api/v1/namespaces/{}", unhealthy.object.namespace);
    let of_pods = ListParams::default().labels(workload.selector()).limit(ITEMS_MAX);
    let pods = first_allowed(clients, &format!("{namespace}/pods"), &of_pods).await;
    let pods = pods.map(|list| workload.pods(&list)).unwrap_or_default();
    let mut events = None;
    if let Some(fields) = workload.events() {
        let of_events = ListParams::default().fields(&fields).limit(ITEMS_MAX);
        events = first_allowed(clients, &format!("{namespace}/events"), &of_events).await;
    }
    let mut finding = workload.finding(&pods, events.as_deref())?;
    if let Some(webhook) = &mut finding.webhook {
        for path in CONFIGURATIONS {
            let all = ListParams::default().limit(CONFIGURATIONS_MAX);
            if let Listed::Json(list) = list(&controller, path, &all, CONFIGURATION_BYTES_MAX).await
                && webhook.find_owner(&list)
            {
                break;
            }
        }
    }
    Some(finding)
}

/// The answer to a request for a list.
enum Listed {
    Json(Vec<u8>),
    Forbidden,
    /// It failed, or is too long: nothing is known.
    Nothing,
}

/// The list that the first client gets which is allowed to: where the controller is not, the ServiceAccount may be.
async fn first_allowed(clients: [&Client; 2], path: &str, params: &ListParams) -> Option<Vec<u8>> {
    for client in clients {
        match list(client, path, params, LIST_BYTES_MAX).await {
            Listed::Json(json) => return Some(json),
            Listed::Forbidden => {}
            Listed::Nothing => return None,
        }
    }
    None
}

async fn list(client: &Client, path: &str, params: &ListParams, bytes_max: usize) -> Listed {
    let Ok(request) = Request::new(path).list(params) else { return Listed::Nothing };
    let answer = async {
        let answer = client.send(request.map(Body::from)).await?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), bytes_max).collect().await;
        Ok((status, body.ok().map(|body| body.to_bytes().to_vec())))
    };
    match bounded(answer).await {
        Ok((200, Some(json))) => Listed::Json(json),
        Ok((403, _)) => Listed::Forbidden,
        Ok(_) | Err(_) => Listed::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const PATH: &str = "/api/v1/namespaces/n/pods";

    /// A client whose API server answers every request so.
    fn client(code: u16, body: Vec<u8>) -> Client {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            assert_eq!(request.uri().path(), PATH);
            assert_eq!(request.uri().query(), Some("&labelSelector=a%3Db&limit=20"));
            let answer = http::Response::builder().status(code).body(Body::from(body.clone())).unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    fn params() -> ListParams {
        ListParams::default().labels("a=b").limit(ITEMS_MAX)
    }

    #[tokio::test]
    async fn no_more_of_a_list_is_read_than_its_limit() {
        let asked = async |code, body: Vec<u8>| match list(
            &client(code, body),
            PATH,
            &params(),
            LIST_BYTES_MAX,
        )
        .await
        {
            Listed::Json(json) => json.len().to_string(),
            Listed::Forbidden => "forbidden".to_owned(),
            Listed::Nothing => "nothing".to_owned(),
        };
        assert_eq!(asked(200, vec![b' '; LIST_BYTES_MAX]).await, LIST_BYTES_MAX.to_string());
        assert_eq!(asked(200, vec![b' '; LIST_BYTES_MAX + 1]).await, "nothing");
        assert_eq!(asked(403, b"{}".to_vec()).await, "forbidden");
        assert_eq!(asked(500, b"{}".to_vec()).await, "nothing");
    }

    #[tokio::test]
    async fn the_service_account_is_asked_where_the_controller_may_not() {
        let ask = async |first: Client, second: Client| {
            let found = first_allowed([&first, &second], PATH, &params()).await;
            found.map(|json| String::from_utf8(json).unwrap())
        };
        let [forbidden, broken] = [403, 500].map(|code| client(code, b"{}".to_vec()));
        let [one, two] = ["one", "two"].map(|text| client(200, text.into()));
        assert_eq!(ask(one, two.clone()).await.as_deref(), Some("one"));
        assert_eq!(ask(forbidden.clone(), two.clone()).await.as_deref(), Some("two"));
        assert_eq!(ask(forbidden.clone(), forbidden).await, None);
        assert_eq!(ask(broken, two).await, None);
    }
}
