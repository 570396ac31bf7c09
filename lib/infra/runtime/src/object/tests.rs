use std::sync::Mutex;

use http::{Request, Response};
use jiff::Timestamp;
use kube::{CustomResource, client::Body};
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::SystemClock;

const OURS: &str = "example.com/ours";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Lamp", status = "LampStatus", schema = "disabled")]
struct LampSpec {}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
struct LampStatus {
    lit: bool,
}

/// An API server with one object, which changes before the first write that it is asked for.
struct Server {
    object: Value,
    change: fn(&mut Value),
    requests: Vec<String>,
}

impl Server {
    fn answer(&mut self, method: &str, body: &[u8]) -> (u16, Value) {
        self.requests.push(method.to_owned());
        if method == "GET" {
            return (200, json!({"metadata": {}, "items": [self.object]}));
        }
        std::mem::replace(&mut self.change, |_| {})(&mut self.object);
        let body: Value = serde_json::from_slice(body).unwrap();
        if method == "PUT" {
            self.object["status"] = body["status"].clone();
        } else {
            let operations = body.as_array().unwrap();
            if operations[0]["value"] != self.object["metadata"]["resourceVersion"] {
                return (422, json!({"status": "Failure", "code": 422, "reason": "Invalid"}));
            }
            for operation in &operations[1..] {
                let field = operation["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
                self.object["metadata"][field] = operation["value"].clone();
            }
        }
        self.object["metadata"]["resourceVersion"] = "9".into();
        (200, self.object.clone())
    }
}

fn object() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Lamp", "spec": {},
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "finalizers": ["theirs"]},
    })
}

fn writer(change: fn(&mut Value)) -> (ObjectWriter<Lamp>, Arc<Mutex<Server>>) {
    let server = Arc::new(Mutex::new(Server { object: object(), change, requests: Vec::new() }));
    let of_client = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = of_client.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let (code, answer) = server.lock().unwrap().answer(head.method.as_str(), &body);
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let client = Client::new(service, "default");
    (ObjectWriter::new(client, "test", Arc::new(SystemClock)), server)
}

fn read() -> Lamp {
    serde_json::from_value(object()).unwrap()
}

#[tokio::test]
async fn only_a_difference_is_written_and_the_watch_is_waited_for() {
    let (writer, server) = writer(|_| {});
    assert!(writer.remove_finalizers(&read(), &[OURS]).await.unwrap().is_none());
    assert!(server.lock().unwrap().requests.is_empty());
    let labelled = |meta: &mut ObjectMeta| {
        meta.labels.get_or_insert_default().insert("l".to_owned(), "v".to_owned());
    };
    let written = writer.add_finalizers(&read(), &["theirs", OURS], labelled).await.unwrap().unwrap();
    assert_eq!(written.finalizers(), ["theirs", OURS]);
    assert_eq!(written.labels().get("l").map(String::as_str), Some("v"));
    assert!(writer.behind(&read()).is_some() && writer.behind(&written).is_none());
    assert!(writer.add_finalizers(&written, &[OURS], labelled).await.unwrap().is_none());
    let written = writer.remove_finalizers(&written, &[OURS]).await.unwrap().unwrap();
    assert_eq!(written.finalizers(), ["theirs"]);
    assert_eq!(server.lock().unwrap().requests, ["PATCH", "PATCH"]);
}

/// The API server keeps no empty map: whoever wants one would write it again and again.
#[tokio::test]
async fn an_empty_map_is_no_difference_and_the_last_entry_is_removed() {
    let (writer, server) = writer(|_| {});
    let emptied = |meta: &mut ObjectMeta| {
        meta.labels.get_or_insert_default().remove("l");
        meta.annotations.get_or_insert_default().clear();
    };
    assert!(writer.add_finalizers(&read(), &["theirs"], emptied).await.unwrap().is_none());
    assert!(server.lock().unwrap().requests.is_empty());
    let mut labelled = read();
    labelled.labels_mut().insert("l".to_owned(), "v".to_owned());
    let written = writer.add_finalizers(&labelled, &["theirs"], emptied).await.unwrap().unwrap();
    assert!(written.labels().is_empty());
    let server = server.lock().unwrap();
    assert_eq!((server.requests.len(), server.object["metadata"].get("annotations")), (1, None));
}

#[tokio::test]
async fn what_another_program_wrote_meanwhile_is_kept() {
    let (writer, _) = writer(|object| {
        object["metadata"]["resourceVersion"] = "2".into();
        object["metadata"]["finalizers"] = json!(["theirs", "new"]);
    });
    let written = writer.add_finalizers(&read(), &[OURS], |_| {}).await.unwrap().unwrap();
    assert_eq!(written.finalizers(), ["theirs", "new", OURS]);
}

#[tokio::test]
async fn an_object_that_is_deleted_or_created_again_meanwhile_gets_no_finalizer() {
    let changes: [fn(&mut Value); 2] = [
        |object| object["metadata"]["deletionTimestamp"] = Timestamp::UNIX_EPOCH.to_string().into(),
        |object| object["metadata"]["uid"] = "another".into(),
    ];
    for change in changes {
        let (writer, server) = writer(change);
        server.lock().unwrap().object["metadata"]["resourceVersion"] = "2".into();
        assert!(writer.add_finalizers(&read(), &[OURS], |_| {}).await.unwrap().is_none());
        assert_eq!(server.lock().unwrap().requests, ["PATCH", "GET"]);
    }
}

#[tokio::test]
async fn a_status_is_written_when_it_is_another_one() {
    let (writer, server) = writer(|_| {});
    assert!(
        writer.set_status(&read(), LampStatus::default()).await.unwrap().is_none(),
        "none is the default"
    );
    assert!(server.lock().unwrap().requests.is_empty());
    let written = writer.set_status(&read(), LampStatus { lit: true }).await.unwrap().unwrap();
    assert!(writer.behind(&read()).is_some() && writer.behind(&written).is_none());
    let server = server.lock().unwrap();
    assert_eq!(server.requests, ["PUT"]);
    assert_eq!(server.object["status"], json!({"lit": true}));
}
