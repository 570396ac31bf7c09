use std::io;

use http::Request as HttpRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use tokio::sync::watch;
use tower::ServiceExt;

use super::*;
use crate::Column;

/// A fruit.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
struct Fruit {
    metadata: ObjectMeta,
    /// Its skin.
    skin: Skin,
}

/// The skin of a fruit.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
struct Skin {
    colour: String,
}

#[derive(Clone)]
struct Pear(ObjectMeta, u64);

impl Object for Pear {
    fn metadata(&self) -> &ObjectMeta {
        &self.0
    }

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let created = self.0.creation_timestamp.as_ref().map(|time| time.0);
        vec![json!(self.0.name), json!(crate::age(created, now))]
    }

    fn write_members(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(format!("\"skin\":{{\"colour\":\"{}\"}}", self.1).as_bytes());
        Ok(())
    }

    fn fingerprint(&self) -> u64 {
        self.1
    }
}

/// Pears by namespace and name, each with a colour.
struct Orchard {
    pears: Mutex<Vec<(&'static str, &'static str, u64)>>,
    version: watch::Sender<u64>,
}

impl Orchard {
    fn set(&self, pears: &[(&'static str, &'static str, u64)]) {
        *self.pears.lock() = pears.to_vec();
        self.version.send_modify(|version| *version += 1);
    }
}

impl Resource for Orchard {
    type Object = Pear;

    const NAMES: Names = Names {
        group: "fruit.example.com",
        version: "v1",
        kind: "Pear",
        plural: "pears",
        singular: "pear",
        subresources: &["picture"],
        columns: &[
            Column { name: "Name", format: "name", description: "Name." },
            Column { name: "Age", format: "", description: "Age." },
        ],
        schema: |generator: &mut SchemaGenerator| -> Schema { generator.subschema_for::<Fruit>() },
    };

    fn list(&self, namespace: Option<&str>) -> Listing<Pear> {
        let pears = self.pears.lock().clone();
        let objects = pears.into_iter().filter(|pear| namespace.is_none_or(|wanted| wanted == pear.0));
        let object = |(namespace, name, colour): (&str, &str, u64)| {
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some([("colour".to_owned(), colour.to_string())].into()),
                creation_timestamp: Some(Time(Timestamp::now())),
                ..ObjectMeta::default()
            };
            Pear(metadata, colour)
        };
        Listing { version: *self.version.borrow(), objects: objects.map(object).collect() }
    }

    fn list_at(&self, version: u64, _: Option<&str>) -> Option<Listing<Pear>> {
        // Nothing was in the orchard at the version before the first.
        (version == 6).then(|| Listing { version, objects: Vec::new() })
    }

    fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    async fn subresource(&self, object: Pear, subresource: &str, _: &Parts) -> Response {
        format!("{subresource} of {}", object.0.name.unwrap()).into_response()
    }
}

/// An API server that lets everybody do everything in the namespace `a`, and read what belongs to no namespace.
fn client() -> Client {
    let service = tower::service_fn(|request: HttpRequest<kube::client::Body>| async move {
        let bytes = request.into_body().collect_bytes().await.unwrap();
        let mut review: Value = serde_json::from_slice(&bytes).unwrap();
        review["status"] = if review["spec"]["token"].is_string() {
            json!({ "authenticated": true, "user": { "username": review["spec"]["token"] } })
        } else {
            let asked = &review["spec"]["resourceAttributes"];
            json!({ "allowed": asked.is_null() || asked["namespace"] == "a" })
        };
        let body = kube::client::Body::from(serde_json::to_vec(&review).unwrap());
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    });
    Client::new(service, "default")
}

fn orchard() -> (Arc<Orchard>, Router) {
    let pears = vec![("a", "conference", 1), ("a", "williams", 2), ("b", "conference", 3)];
    let resource = Arc::new(Orchard { pears: Mutex::new(pears), version: watch::Sender::new(7) });
    let server = ApiServer::new(Arc::clone(&resource), client());
    assert!(server.ready().is_err());
    server.settings.store(Some(Arc::default()));
    (resource, server.router())
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = HttpRequest::get(path).header("Authorization", "Bearer tenant");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

async fn asked(router: &Router, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let response = router.clone().oneshot(request(path, headers)).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn json(router: &Router, path: &str, accept: &str) -> Value {
    let (status, text) = asked(router, path, &[("Accept", accept)]).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

const PEARS: &str = "/apis/fruit.example.com/v1/namespaces/a/pears";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn objects_are_listed_in_each_form() {
    let (_, router) = orchard();
    let list = json(&router, PEARS, "*/*").await;
    assert_eq!(list["kind"], "PearList");
    assert_eq!(list["metadata"]["resourceVersion"], "7");
    assert_eq!(names(&list), ["conference", "williams"]);
    assert_eq!(list["items"][1]["skin"]["colour"], "2");
    assert_eq!(list["items"][0]["kind"], Value::Null, "as in other lists");
    assert_eq!(
        names(&json(&router, &format!("{PEARS}?labelSelector=colour%3D2"), "*/*").await),
        ["williams"]
    );
    let selected = format!("{PEARS}?fieldSelector=metadata.name%3Dconference&limit=1");
    assert_eq!(names(&json(&router, &selected, "*/*").await), ["conference"]);
    let table = json(&router, PEARS, TABLE).await;
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert_eq!(table["rows"][1]["cells"], json!(["williams", "0s"]));
    assert_eq!(table["rows"][1]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["rows"][1]["object"]["skin"], Value::Null);
    let table = json(&router, &format!("{PEARS}/williams?includeObject=Object"), TABLE).await;
    assert_eq!(table["rows"][0]["object"]["skin"]["colour"], "2");
    let one = json(&router, &format!("{PEARS}/williams"), "application/json").await;
    assert_eq!((&one["kind"], &one["skin"]["colour"]), (&json!("Pear"), &json!("2")));
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let metadata = json(&router, PEARS, metadata).await;
    assert_eq!(metadata["kind"], "PartialObjectMetadataList");
    assert_eq!(metadata["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(asked(&router, &format!("{PEARS}/williams/picture"), &[]).await.1, "picture of williams");
}

#[tokio::test]
async fn what_cannot_be_answered_is_a_status() {
    let (_, router) = orchard();
    let protobuf = [("Accept", "application/vnd.kubernetes.protobuf")];
    let all = "/apis/fruit.example.com/v1/pears";
    let forbidden = "pears.fruit.example.com is forbidden: User \"tenant\" cannot list resource \"pears\" in API group \
                     \"fruit.example.com\" at the cluster scope";
    let missing = format!("{PEARS}/quince");
    for (path, headers, code, message) in [
        (all, &[][..], 403, forbidden),
        (PEARS, &protobuf, 406, "only the following media types are accepted: application/json"),
        (&missing, &[], 404, "pears.fruit.example.com \"quince\" not found"),
        ("/apis/fruit.example.com/v1/apples", &[], 404, "the server could not find the requested resource"),
        (&format!("{PEARS}?fieldSelector=a%3Db"), &[], 400, "field label not supported: a"),
        (
            &format!("{PEARS}?watch=1&resourceVersion=5"),
            &[],
            410,
            "the resource version is not the current one, 7: list again",
        ),
        (
            PEARS,
            &[("Impersonate-User", "x")],
            403,
            "impersonation is for kube-apiserver: send the request there",
        ),
    ] {
        let (status, text) = asked(&router, path, headers).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, answer["message"].as_str().unwrap()), (code, message), "{path}");
        assert_eq!((&answer["kind"], &answer["code"]), (&json!("Status"), &json!(code)));
    }
    let mut post = request(PEARS, &[]);
    *post.method_mut() = Method::POST;
    assert_eq!(router.clone().oneshot(post).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
    let nobody = HttpRequest::get("/apis/fruit.example.com/v1/pears").body(Body::empty()).unwrap();
    assert_eq!(router.oneshot(nobody).await.unwrap().status(), StatusCode::FORBIDDEN);
}

async fn events(body: &mut axum::body::BodyDataStream) -> Vec<Value> {
    let piece = body.next().await.unwrap().unwrap();
    let lines = std::str::from_utf8(&piece).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Type, name and version of each event.
fn seen(events: &[Value]) -> Vec<(&str, &str, &str)> {
    events.iter().map(parts).collect()
}

fn parts(event: &Value) -> (&str, &str, &str) {
    let metadata = &event["object"]["metadata"];
    let [kind, name, version] = [&event["type"], &metadata["name"], &metadata["resourceVersion"]]
        .map(|text| text.as_str().unwrap_or_default());
    (kind, name, version)
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_what_changes() {
    let (resource, router) = orchard();
    let path =
        format!("{PEARS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&timeoutSeconds=100");
    let response = router.clone().oneshot(request(&path, &[])).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    let first = events(&mut body).await;
    assert_eq!(
        seen(&first),
        [("ADDED", "conference", "7"), ("ADDED", "williams", "7"), ("BOOKMARK", "", "7")]
    );
    assert_eq!(first[2]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    resource.set(&[("a", "conference", 9), ("a", "decana", 1), ("b", "conference", 4)]);
    let changes = [("MODIFIED", "conference", "8"), ("ADDED", "decana", "8"), ("DELETED", "williams", "8")];
    assert_eq!(seen(&events(&mut body).await), changes);
    // In a minute without changes.
    assert_eq!(seen(&events(&mut body).await), [("BOOKMARK", "", "8")]);
    assert!(body.next().await.is_none(), "ends in time");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_current_version_waits_and_shows_what_is_selected() {
    let (resource, router) = orchard();
    let path = format!("{PEARS}?watch=true&resourceVersion=7&labelSelector=colour+in+(2,5)");
    let response = router.clone().oneshot(request(&path, &[("Accept", TABLE)])).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    resource.set(&[("a", "conference", 5), ("a", "williams", 1)]);
    let events = events(&mut body).await;
    let rows: Vec<_> =
        events.iter().map(|event| (&event["type"], &event["object"]["rows"][0]["cells"][0])).collect();
    assert_eq!(rows, [(&json!("ADDED"), &json!("conference")), (&json!("DELETED"), &json!("williams"))]);
    assert_eq!(events[0]["object"]["rows"][0]["object"]["metadata"]["resourceVersion"], "8");
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_from_an_earlier_version_if_that_is_known() {
    let (_, router) = orchard();
    let path = format!("{PEARS}?watch=true&resourceVersion=6");
    let response = router.oneshot(request(&path, &[])).await.unwrap();
    let events = events(&mut response.into_body().into_data_stream()).await;
    assert_eq!(seen(&events), [("ADDED", "conference", "7"), ("ADDED", "williams", "7")]);
}

#[tokio::test]
async fn so_many_watches_are_open_at_most() {
    let (_, router) = orchard();
    let path = format!("{PEARS}?watch=true&resourceVersion=7");
    let mut open = Vec::new();
    for _ in 0..WATCHES_MAX {
        let response = router.clone().oneshot(request(&path, &[])).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        open.push(response);
    }
    let more = router.clone().oneshot(request(&path, &[])).await.unwrap();
    assert_eq!((more.status().as_u16(), more.headers()["Retry-After"].to_str().unwrap()), (429, "10"));
    open.pop();
    assert_eq!(router.oneshot(request(&path, &[])).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn discovery_and_openapi_describe_the_kind() {
    let (_, router) = orchard();
    let groups = json(&router, "/apis", "application/json").await;
    assert_eq!(groups["groups"][0]["preferredVersion"]["groupVersion"], "fruit.example.com/v1");
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let groups = json(&router, "/apis", aggregated).await;
    let resource = &groups["items"][0]["versions"][0]["resources"][0];
    assert_eq!(
        (&resource["scope"], &resource["verbs"]),
        (&json!("Namespaced"), &json!(["get", "list", "watch"]))
    );
    let resources = json(&router, "/apis/fruit.example.com/v1", "application/json").await;
    assert_eq!(resources["resources"][1]["name"], "pears/picture");
    let paths = json(&router, "/openapi/v3", "application/json").await;
    let address = paths["paths"]["apis/fruit.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    for (document, definitions) in [(address, "/components/schemas"), ("/openapi/v2", "/definitions")] {
        let document = json(&router, document, "application/json").await;
        let definitions = document.pointer(definitions).unwrap();
        let fruit = &definitions["com.example.fruit.v1.Fruit"];
        assert_eq!(fruit["x-kubernetes-group-version-kind"][0]["kind"], "Pear");
        let text = document.to_string();
        for part in text.split("\"$ref\":\"").skip(1) {
            let reference = part.split('"').next().unwrap().strip_prefix('#').unwrap();
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
    let response = router.clone().oneshot(request("/openapi/v2", &[])).await.unwrap();
    let etag = response.headers()["ETag"].to_str().unwrap().to_owned();
    assert_eq!(asked(&router, "/openapi/v2", &[("If-None-Match", &etag)]).await.0, 304);
    assert_eq!(
        asked(&router, "/openapi/v2", &[("Accept", "application/vnd.kubernetes.protobuf")]).await.0,
        406
    );
}
