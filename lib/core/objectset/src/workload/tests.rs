use serde_json::json;

use super::*;

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
    let workload = Workload::of(workload).unwrap();
    let list = json!({"kind": "PodList", "metadata": {"continue": "x"}, "items": pods}).to_string();
    workload.finding(&workload.pods(list.as_bytes()), None).map(|finding| finding.to_string())
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
fn untrusted_texts_are_cleaned_and_cut_and_logs_are_not_repeated() {
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
        Workload::of(&deployment).unwrap().finding(&[], None).unwrap().to_string()
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
    let finding = Workload::of(&job).unwrap().finding(&[], None).unwrap();
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

/// An EventList with a failure to create a Pod of the object with that UID, last at this second.
fn events(uid: &str, reason: &str, times: &Value, message: &str) -> Vec<u8> {
    let mut event = json!({"involvedObject": {"uid": uid}, "reason": reason, "message": message});
    event.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
    json!({"kind": "EventList", "items": [event]}).to_string().into_bytes()
}

fn set(kind: &str, status: &Value) -> Workload {
    let mut object = deployment();
    let group = if kind == "Job" { "batch" } else { "apps" };
    object["apiVersion"] = format!("{group}/v1").into();
    (object["kind"], object["status"]) = (kind.into(), status.clone());
    (object["spec"]["replicas"], object["spec"]["parallelism"]) = (json!(2), json!(2));
    object["spec"]["completions"] = json!(3);
    (object["metadata"]["generation"], object["status"]["observedGeneration"]) = (json!(1), json!(1));
    Workload::of(&object).unwrap()
}

#[test]
fn events_are_asked_for_where_pods_are_missing_and_no_condition_says_so() {
    let rows = [
        ("StatefulSet", json!({}), true),
        ("StatefulSet", json!({"replicas": 1}), true),
        ("StatefulSet", json!({"replicas": 2}), false),
        ("DaemonSet", json!({}), false),
        ("DaemonSet", json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 1}), true),
        ("DaemonSet", json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2}), false),
        ("Job", json!({}), true),
        ("Job", json!({"active": 2}), false),
        ("Job", json!({"active": 1, "succeeded": 1}), true),
        ("Job", json!({"active": 1, "succeeded": 2}), false),
        ("Job", json!({"succeeded": 3}), false),
        ("Deployment", json!({}), false),
    ];
    for (kind, status, wanted) in rows {
        let asked = set(kind, &status).events();
        let fields = "involvedObject.uid=u,reason=FailedCreate";
        assert_eq!(asked.as_deref(), wanted.then_some(fields), "{kind} {status}");
    }
    let mut new = deployment();
    (new["kind"], new["metadata"]["generation"]) = ("DaemonSet".into(), json!(1));
    assert!(Workload::of(&new).unwrap().events().is_some(), "its controller has not seen it");
}

#[test]
fn a_failure_to_create_pods_counts_until_a_pod_was_created_after_it() {
    let quota =
        "create Pod op-0 in StatefulSet op failed error: pods \"op-0\" is forbidden: exceeded quota: q";
    let workload = set("StatefulSet", &json!({}));
    let found = |events: &[u8], created: Option<&str>| {
        let mut pod = pod("op-0", &json!({"phase": "Running"}));
        pod["metadata"]["ownerReferences"][0]["uid"] = "u".into();
        pod["metadata"]["creationTimestamp"] = created.unwrap_or_default().into();
        let list = json!({"items": created.map(|_| pod).into_iter().collect::<Vec<_>>()}).to_string();
        workload.finding(&workload.pods(list.as_bytes()), Some(events)).map(|found| found.to_string())
    };
    let wanted = Some(format!("FailedCreate: {quota}"));
    let last = json!({"lastTimestamp": "2026-01-31T12:00:05Z"});
    let failed = |times: &Value| events("u", "FailedCreate", times, quota);
    assert_eq!(found(&failed(&last), None), wanted);
    assert_eq!(
        found(&failed(&last), Some("2026-01-31T12:00:05Z")),
        wanted,
        "the next one could not be created"
    );
    assert_eq!(found(&failed(&last), Some("2026-01-31T12:00:06Z")), None, "it is over");
    let series = json!({"lastTimestamp": null, "eventTime": "2026-01-31T12:00:05.000001Z",
                        "series": {"count": 2, "lastObservedTime": "2026-01-31T12:00:07.999999Z"}});
    assert_eq!(found(&failed(&series), Some("2026-01-31T12:00:07Z")), wanted);
    assert_eq!(found(&failed(&series), Some("2026-01-31T12:00:08Z")), None);
    let joined = events("u", "FailedCreate", &last, &format!("(combined from similar events): {quota}"));
    assert_eq!(found(&joined, None), wanted);
    assert_eq!(found(&events("other", "FailedCreate", &last, quota), None), None);
    assert_eq!(found(&events("u", "SuccessfulCreate", &last, quota), None), None);
    assert_eq!(found(b"{\"items\": 1}", None), None);
    let hostile =
        events("u", "FailedCreate", &last, &format!("a\nReady: True\u{202e}{}", "x".repeat(10_000)));
    let shown = found(&hostile, None).unwrap();
    assert!(!shown.contains('\n') && !shown.contains('\u{202e}') && shown.len() < 400, "{shown}");
}

/// A list of webhook configurations, of which one has the webhook `pods.guard`.
fn configurations(metadata: &Value, service: &Value) -> Vec<u8> {
    let webhook =
        |name: &str| json!({"name": name, "clientConfig": {"service": service, "caBundle": "eA=="}});
    let items = [
        json!({"metadata": {"name": "other"}, "webhooks": [webhook("other")]}),
        json!({"metadata": {"name": "empty"}}),
        json!({"metadata": metadata, "webhooks": [webhook("other"), webhook("pods.guard")]}),
    ];
    json!({"kind": "ValidatingWebhookConfigurationList", "items": items}).to_string().into_bytes()
}

#[test]
fn the_owner_of_a_webhook_that_does_not_answer_is_named() {
    let message = "failed calling webhook \"pods.guard\": failed to call webhook: Post \"https://guard.policy.svc:443/x?timeout=1s\": EOF";
    let service = json!({"namespace": "policy", "name": "guard"});
    let shown = |metadata: &Value, service: &Value| {
        let mut webhook = Webhook::unanswered(message).unwrap();
        let is_found = webhook.find_owner(&configurations(metadata, service));
        (is_found, webhook.to_string())
    };
    let base = "the admission webhook pods.guard of Service policy/guard";
    let of = |metadata: Value| {
        let mut metadata = metadata;
        metadata["name"] = "guard".into();
        let (is_found, shown) = shown(&metadata, &service);
        assert!(is_found);
        shown.strip_prefix(base).unwrap().to_owned()
    };
    let label = |name: &str, namespace: &str| json!({"labels": {name: "g", namespace: "n"}});
    let belongs = |owner: &str| format!(" (ValidatingWebhookConfiguration guard, which belongs to {owner})");
    assert_eq!(of(json!({})), " (ValidatingWebhookConfiguration guard)");
    let extension = json!({
        "labels": {"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "lamp"},
        "ownerReferences": [{"kind": "ClusterObjectSet", "name": "lamp-1", "controller": true}],
    });
    assert_eq!(of(extension), belongs("ClusterExtension lamp"));
    let owners = json!([{"kind": "Namespace", "name": "n"}, {"kind": "ClusterObjectSet", "name": "by-hand", "controller": true}]);
    assert_eq!(of(json!({"ownerReferences": owners})), belongs("ClusterObjectSet by-hand"));
    let deployment = json!([{"kind": "Deployment", "name": "guard"}]);
    assert_eq!(of(json!({"ownerReferences": deployment})), belongs("Deployment guard"));
    let helm = json!({"annotations": {"meta.helm.sh/release-name": "g", "meta.helm.sh/release-namespace": "n"},
                      "labels": {"app.kubernetes.io/instance": "other"}});
    assert_eq!(of(helm), belongs("Helm release n/g"));
    assert_eq!(of(label("olm.owner", "olm.owner.namespace")), belongs("ClusterServiceVersion n/g"));
    assert_eq!(of(label("app.kubernetes.io/instance", "x")), belongs("application g"));
    let hostile =
        json!({"labels": {"app.kubernetes.io/instance": format!("a\nb\u{202e}{}", "x".repeat(1_000))}});
    let hostile = of(hostile);
    assert!(!hostile.contains('\n') && !hostile.contains('\u{202e}') && hostile.len() < 400, "{hostile}");
    let elsewhere = json!({"namespace": "policy", "name": "other"});
    assert_eq!(shown(&json!({"name": "guard"}), &elsewhere), (false, base.to_owned()));
    let mut unread = Webhook::unanswered(message).unwrap();
    assert!(!unread.find_owner(b"[]") && unread.to_string() == base);
}
