use serde_json::json;

use super::{pods::worst, *};

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op", "namespace": "n", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"app": "op"}}},
    })
}

/// A Pod of the Deployment `n/op` with this status.
fn pod(name: &str, status: &Value) -> Value {
    let owner = json!({"kind": "ReplicaSet", "name": "op-5d9", "uid": "r", "controller": true});
    json!({"metadata": {"name": name, "ownerReferences": [owner]}, "status": status})
}

fn found(pods: &[Value]) -> Option<String> {
    found_for(&deployment(), pods)
}

fn found_for(workload: &Value, pods: &[Value]) -> Option<String> {
    let uid = text(workload, "/metadata/uid");
    let list = json!({"kind": "PodList", "metadata": {"continue": "x"}, "items": pods}).to_string();
    worst(list.as_bytes(), &ObjectKey::of(workload), uid).map(|finding| finding.to_string())
}

fn container(more: &Value) -> Value {
    let mut container = json!({"name": "manager", "image": "r/i:v1", "ready": false, "restartCount": 0});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"phase": "Pending", "containerStatuses": [container]})
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn ended(reason: &str, code: i32) -> Value {
    json!({"terminated": {"reason": reason, "exitCode": code, "message": "password=hunter2"}})
}

#[test]
fn each_state_of_a_pod_is_named_as_kubernetes_names_it() {
    let scheduled = |reason: &str| {
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes are available"},
        ]})
    };
    let looping = |last: Value| json!({"state": waiting("CrashLoopBackOff", "back-off 5m0s"), "lastState": last, "restartCount": 4});
    let between = json!({"state": {"running": {}}, "lastState": ended("Error", 3), "restartCount": 1});
    let image = "image r/i:v1 of container manager cannot be pulled";
    let init = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "init", "ready": false, "state": ended("Error", 1), "restartCount": 0},
    ]});
    let rows = [
        (scheduled("Unschedulable"), "FailedScheduling: Pod n/p: 0/3 nodes are available".to_owned()),
        (
            container(&json!({"state": waiting("ImagePullBackOff", "Back-off: not found")})),
            format!("ImagePullBackOff: Pod n/p: {image}: Back-off: not found"),
        ),
        (
            container(&json!({"state": waiting("ErrImagePull", "not found")})),
            format!("ImagePullBackOff: Pod n/p: {image}: not found"),
        ),
        (
            container(&looping(ended("Error", 1))),
            "CrashLoopBackOff: Pod n/p: container manager ends again and again, last with exit code 1 (Error)".into(),
        ),
        (
            container(&between),
            "CrashLoopBackOff: Pod n/p: container manager ends again and again, last with exit code 3 (Error)".into(),
        ),
        (
            container(&looping(ended("OOMKilled", 137))),
            "OOMKilled: Pod n/p: container manager used more memory than its limit".into(),
        ),
        (
            container(&json!({"state": waiting("CreateContainerConfigError", "secret \"s\" not found")})),
            "ContainerNotStarted: Pod n/p: container manager cannot be started: CreateContainerConfigError: secret \"s\" not found".into(),
        ),
        (init, "Failed: Pod n/p: container init ended with exit code 1 (Error)".into()),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            "Failed: Pod n/p: Evicted: low on memory".into(),
        ),
        (
            container(&json!({"state": waiting("ContainerCreating", "")})),
            "Starting: Pod n/p: container manager is being created".into(),
        ),
        (
            container(&json!({"state": {"running": {"startedAt": "x"}}})),
            "Starting: Pod n/p: container manager is running and not ready".into(),
        ),
    ];
    for (status, wanted) in rows {
        assert_eq!(found(&[pod("p", &status)]), Some(wanted));
    }
    assert_eq!(found(&[pod("p", &container(&json!({"state": {"running": {}}, "ready": true})))]), None);
    assert_eq!(found(&[]), None);
}

#[test]
fn the_most_telling_pod_is_named_and_the_same_one_each_time() {
    let starting = container(&json!({"state": waiting("ContainerCreating", "")}));
    let unpulled = container(&json!({"state": waiting("ErrImagePull", "m")}));
    let pods = [pod("c", &starting), pod("b", &unpulled), pod("a", &unpulled)];
    assert!(found(&pods).unwrap().starts_with("ImagePullBackOff: Pod n/a: "));
}

#[test]
fn only_pods_that_the_workload_controls_count() {
    let status = container(&json!({"state": waiting("ErrImagePull", "m")}));
    let owned = |kind: &str, name: &str, uid: &str, controller: bool| {
        let mut pod = pod("p", &status);
        pod["metadata"]["ownerReferences"] =
            json!([{"kind": kind, "name": name, "uid": uid, "controller": controller}]);
        pod
    };
    let foreign = [
        owned("ReplicaSet", "other-5d9", "r", true),
        owned("ReplicaSet", "op-x-5d9", "r", true),
        owned("ReplicaSet", "op", "r", true),
        owned("ReplicaSet", "op-5d9", "r", false),
        owned("Job", "op-5d9", "u", true),
        json!({"metadata": {"name": "p"}, "status": status}),
    ];
    for pod in foreign {
        assert_eq!(found(std::slice::from_ref(&pod)), None, "{pod}");
    }
    let mut set = deployment();
    set["kind"] = "StatefulSet".into();
    assert!(found_for(&set, &[owned("StatefulSet", "op", "u", true)]).is_some());
    assert!(found_for(&set, &[owned("StatefulSet", "op", "of-an-earlier-one", true)]).is_none());
}

#[test]
fn foreign_texts_are_cleaned_and_cut_and_logs_are_not_repeated() {
    let hostile = format!("a\nReady: True\u{202e}{}", "x".repeat(10_000));
    let mut status =
        container(&json!({"state": waiting("ErrImagePull", &hostile), "lastState": ended("Error", 1)}));
    status["containerStatuses"][0]["name"] = hostile.clone().into();
    let shown = found(&[pod(&hostile, &status)]).unwrap();
    assert!(!shown.contains('\n') && !shown.contains('\u{202e}') && !shown.contains("hunter2"), "{shown}");
    assert!(shown.chars().count() < 4 * MESSAGE_CHARACTERS, "{}", shown.len());
    assert_eq!(found(&[json!({"metadata": {"name": 1}})]), None, "of another form");
}

#[test]
fn what_keeps_pods_from_being_created_is_on_the_workload() {
    let own = |message: &str| {
        let mut deployment = deployment();
        deployment["status"] = json!({"conditions": [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "m"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message},
        ]});
        Workload::of(&deployment).unwrap().finding.unwrap().to_string()
    };
    let quota =
        "pods \"op-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
    assert_eq!(own(quota), format!("FailedCreate: {quota}"));
    let post =
        "failed to call webhook: Post \"https://guard.policy.svc:443/pods?timeout=10s\": connection refused";
    let webhook =
        format!("Internal error occurred: failed calling webhook \"pods.guard.example.com\": {post}");
    assert_eq!(
        own(&webhook),
        format!(
            "FailedCreate: the admission webhook pods.guard.example.com of Service policy/guard does not answer: {webhook}"
        )
    );
    let by_url = webhook.replace("guard.policy.svc:443", "hooks.example.com");
    assert!(own(&by_url).contains("webhook pods.guard.example.com does not answer: "), "{}", own(&by_url));

    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}},
        "status": {"conditions": [
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"},
        ]},
    });
    let finding = Workload::of(&job).unwrap().finding.unwrap();
    assert_eq!(finding.to_string(), "Failed: BackoffLimitExceeded: too often");
}

#[test]
fn pods_are_asked_for_by_the_selector_of_the_workload() {
    let of = |selector: Value| {
        let mut deployment = deployment();
        deployment["spec"]["selector"] = selector;
        Workload::of(&deployment).map(|workload| workload.selector)
    };
    let one = |operator: &str, values: &[&str]| json!({"key": "k", "operator": operator, "values": values});
    let all = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
        one("In", &["x", "y"]), one("NotIn", &["z"]), one("Exists", &[]), one("DoesNotExist", &[]),
    ]});
    assert_eq!(of(all).as_deref(), Some("a=b,k in (x,y),k notin (z),k,!k"));
    assert_eq!(of(json!({})), None, "everything");
    assert_eq!(of(json!({"matchExpressions": [one("Other", &[])]})), None);
    assert_eq!(of(json!({"matchLabels": {"a": "b".repeat(SELECTOR_BYTES_MAX)}})), None, "too long");
    for (api, kind) in [("v1", "Pod"), ("apps/v1", "ReplicaSet"), ("apps/v1", "Job"), ("x/v1", "Deployment")]
    {
        let mut other = deployment();
        (other["apiVersion"], other["kind"]) = (api.into(), kind.into());
        assert_eq!(Workload::of(&other), None, "{api} {kind}");
    }
}

/// A client whose API server answers every request so.
fn client(code: u16, body: Vec<u8>) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        assert_eq!(request.uri().path(), "/api/v1/namespaces/n/pods");
        assert_eq!(request.uri().query(), Some("&labelSelector=a%3Db&limit=20"));
        let answer = http::Response::builder().status(code).body(Body::from(body.clone())).unwrap();
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn no_more_of_a_list_is_read_than_its_limit() {
    let asked = async |code, body: Vec<u8>| match list(&client(code, body), "n", "a=b").await {
        Listed::Pods(json) => json.len().to_string(),
        Listed::Forbidden => "forbidden".to_owned(),
        Listed::Nothing => "nothing".to_owned(),
    };
    assert_eq!(asked(200, vec![b' '; LIST_BYTES_MAX]).await, LIST_BYTES_MAX.to_string());
    assert_eq!(asked(200, vec![b' '; LIST_BYTES_MAX + 1]).await, "nothing");
    assert_eq!(asked(403, b"{}".to_vec()).await, "forbidden");
    assert_eq!(asked(500, b"{}".to_vec()).await, "nothing");
}
