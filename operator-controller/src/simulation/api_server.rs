//! An API server that is a function of its requests: objects, versions, UIDs, watches with their history, patches.
//! What it does not do: authentication, admission, validation, selectors, field managers, garbage collection.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::{Body as Answer, Bytes};
use futures::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{
    SYSTEM_NAMESPACE,
    answers::{namespace, others_status, refusal, resources, rules, token, version},
};
use crate::admission_objects;

/// Answers take so long at most. What takes time one after another has an order; what takes none has the order in which
/// tasks happen to be run.
const LATENCY_MILLISECONDS_MAX: u64 = 20;

/// Resource, namespace, name.
type Key = (String, String, String);

struct State {
    version: u64,
    objects: BTreeMap<Key, Value>,
    /// Events by version and resource, for watches from any version on.
    history: Vec<(u64, String, String)>,
    log: Vec<String>,
    /// How often the same was asked for.
    counts: BTreeMap<String, u64>,
    /// One request in so many fails; with 0 none does.
    one_in: u64,
    /// Beginnings of requests that are refused once, with the code.
    refusals: Vec<(String, u16)>,
    /// How late events of a resource come.
    lag: BTreeMap<String, Duration>,
}

/// The server. Clones are the same one.
#[derive(Clone)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    started: Instant,
}

/// A request, taken apart.
struct Asked {
    method: Method,
    /// `group/version`, or `version` of the core group.
    group_version: String,
    resource: String,
    namespace: String,
    name: String,
    sub: String,
    query: String,
    kind: String,
    body: Value,
}

impl Asked {
    fn read(method: Method, path: &str, query: &str, headers: &HeaderMap, body: &[u8]) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = if parts.first() == Some(&"api") { parts.get(2..) } else { parts.get(3..) };
        let (namespace, rest) = match rest.unwrap_or_default() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let group_version = match parts.as_slice() {
            ["api", version, ..] => (*version).to_owned(),
            ["apis", group, version, ..] => format!("{group}/{version}"),
            other => other.join("/"),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Self {
            method,
            group_version,
            resource: part(0),
            namespace: namespace.to_owned(),
            name: part(1),
            sub: part(2),
            query: query.to_owned(),
            kind: kind.to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// What is asked for, without what differs from life to life.
    fn what(&self) -> String {
        let named = self.body["metadata"]["name"].as_str().unwrap_or_default();
        // Events are named by the time of the system.
        let name = if self.resource == "events" { "" } else { &self.name };
        let named = if self.resource == "events" { "" } else { named };
        let Self { method, group_version, resource, namespace, sub, .. } = self;
        let dry_run = self.is_dry_run();
        format!("{method} {group_version} {resource} {namespace} {name} {named} {sub} {dry_run}")
    }

    fn is_dry_run(&self) -> bool {
        self.parameter("dryRun").is_some()
    }

    fn key(&self) -> Key {
        (self.resource.clone(), self.namespace.clone(), self.name.clone())
    }
}

impl ApiServer {
    /// One request in `one_in` fails, the same ones in every life: what is asked for, and how often it was, decides.
    pub(crate) fn new(one_in: u64) -> Self {
        let state = State {
            version: 1,
            objects: BTreeMap::new(),
            history: Vec::new(),
            log: Vec::new(),
            counts: BTreeMap::new(),
            one_in,
            refusals: Vec::new(),
            lag: BTreeMap::new(),
        };
        let (state, changed) = (Arc::new(Mutex::new(state)), watch::Sender::new(1));
        let server = Self { state, changed, started: Instant::now() };
        let policies =
            admission_objects(SYSTEM_NAMESPACE).into_iter().filter(|one| one["kind"] != "ConfigMap");
        policies.for_each(|policy| server.create(policy));
        server
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
                let asked = Asked::read(parts.method.clone(), path, query, &parts.headers, &body);
                let lot = server.lot(&asked);
                let response = server.answer(&asked, lot, path, &body);
                tokio::time::sleep(Duration::from_millis(1 + lot % LATENCY_MILLISECONDS_MAX)).await;
                Ok::<_, tower::BoxError>(response)
            }
        });
        Client::new(service, "default")
    }

    /// Refuses one request that begins with this: method, group and version, resource, namespace, name.
    pub(crate) fn refuse_once(&self, what: &str, code: u16) {
        self.state().refusals.push((what.to_owned(), code));
    }

    /// From now on events of a resource come late.
    pub(crate) fn delay(&self, resource: &str, lag: Duration) {
        self.state().lag.insert(resource.to_owned(), lag);
    }

    /// From now on no request fails.
    pub(crate) fn calm(&self) {
        self.state().one_in = 0;
    }

    /// The requests, each with the time since the start in milliseconds, its body and the answer's status; those of
    /// the same millisecond in the order of their text.
    pub(crate) fn log(&self) -> Vec<String> {
        let mut log = self.state().log.clone();
        log.sort_unstable();
        log
    }

    /// The objects but Events and policies, as text.
    pub(crate) fn objects(&self) -> Vec<String> {
        let mut objects = self.state().objects.clone();
        let others = ["events", "validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        objects.retain(|(resource, ..), _| !others.contains(&resource.as_str()));
        objects.values_mut().for_each(strip);
        objects.values().map(ToString::to_string).collect()
    }

    /// What somebody else does.
    pub(crate) fn create(&self, object: Value) {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let plural = format!("{}s", text("/kind").to_lowercase()).replace("policys", "policies");
        self.put((plural, text("/metadata/namespace"), text("/metadata/name")), object);
    }

    pub(crate) fn edit(&self, resource: &str, namespace: &str, name: &str, patch: &Value) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self.state().objects.get(&key).cloned().expect("an object to edit");
        json_patch::merge(&mut object, patch);
        self.put(key, object);
    }

    pub(crate) fn remove(&self, resource: &str, namespace: &str, name: &str) {
        self.delete(&(resource.to_owned(), namespace.to_owned(), name.to_owned()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that decides about a request: the same for the same one in every life.
    fn lot(&self, asked: &Asked) -> u64 {
        let what = asked.what();
        let mut state = self.state();
        let nth = state.counts.entry(what.clone()).or_default();
        *nth += 1;
        let mut hasher = DefaultHasher::new();
        (what, *nth).hash(&mut hasher);
        hasher.finish()
    }

    fn answer(&self, asked: &Asked, lot: u64, path: &str, body: &[u8]) -> Response<Answer> {
        if asked.parameter("watch") == Some("true") {
            return Response::new(self.watch(asked));
        }
        let one_in = self.state().one_in;
        let fails = one_in > 0 && (lot >> 16).is_multiple_of(one_in);
        let refused = {
            let mut state = self.state();
            let found = state.refusals.iter().position(|(what, _)| asked.what().starts_with(what));
            found.map(|at| state.refusals.remove(at).1)
        };
        let (status, answer) = match refused {
            Some(409) => refusal(409, "Conflict"),
            Some(code) => refusal(code, "asked for"),
            None if fails => refusal(500, "chance"),
            None => self.decide(asked),
        };
        let told = if asked.resource == "events" {
            // Their times and the names made of them are the library's, which asks the system for the time.
            format!("{} {} {}", asked.body["reason"], asked.body["note"], asked.body["regarding"])
        } else {
            String::from_utf8_lossy(body).into_owned()
        };
        let path = if asked.resource == "events" { "events" } else { path };
        let mut line = format!("{:>9} {} {path}", self.started.elapsed().as_millis(), asked.method);
        let _ = write!(line, " {told} -> {status}");
        self.state().log.push(line);
        let mut response = Response::new(Answer::from(answer.to_string()));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        response
    }

    fn decide(&self, asked: &Asked) -> (u16, Value) {
        let found = self.state().objects.get(&asked.key()).cloned();
        match (&asked.method, asked.resource.as_str(), asked.name.as_str()) {
            (_, "", _) if asked.group_version == "version" => (200, version()),
            (_, "", _) => {
                let state = self.state();
                let crds = state.objects.iter().filter(|((of, ..), _)| of == "customresourcedefinitions");
                resources(&asked.group_version, crds.map(|(_, crd)| crd))
            }
            (&Method::GET, "namespaces", name) => (200, namespace(name)),
            (&Method::POST, "serviceaccounts", _) if asked.sub == "token" => (201, token()),
            (&Method::POST, "selfsubjectrulesreviews", _) => (201, rules()),
            (&Method::GET, _, "") => (200, self.list(asked)),
            (&Method::POST, _, _) => {
                let mut key = asked.key();
                key.2 = asked.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.state().objects.contains_key(&key) {
                    return refusal(409, "AlreadyExists");
                }
                (201, self.keep(asked, key, asked.body.clone()))
            }
            (&Method::GET, ..) => found.map_or_else(|| refusal(404, "NotFound"), |object| (200, object)),
            (&Method::DELETE, ..) => {
                self.delete(&asked.key());
                (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            _ => self.change(asked, found),
        }
    }

    /// PUT of the status, and the three kinds of PATCH. Applying is merging: nobody else has fields here.
    fn change(&self, asked: &Asked, found: Option<Value>) -> (u16, Value) {
        let is_apply = asked.kind.starts_with("application/apply-patch");
        let mut object = match found {
            Some(object) => object,
            None if is_apply => json!({}),
            None => return refusal(404, "NotFound"),
        };
        if asked.method == Method::PUT {
            let version = &asked.body["metadata"]["resourceVersion"];
            if *version != object["metadata"]["resourceVersion"] || asked.sub != "status" {
                return refusal(409, "Conflict");
            }
            object["status"] = asked.body["status"].clone();
        } else if asked.kind == "application/json-patch+json" {
            let patch: json_patch::Patch = serde_json::from_value(asked.body.clone()).unwrap_or_default();
            if json_patch::patch(&mut object, &patch).is_err() {
                return refusal(422, "Invalid");
            }
        } else {
            json_patch::merge(&mut object, &asked.body);
        }
        (200, self.keep(asked, asked.key(), object))
    }

    /// Stores an object, unless only the answer is asked for.
    fn keep(&self, asked: &Asked, key: Key, object: Value) -> Value {
        if asked.is_dry_run() { object } else { self.put(key, object) }
    }

    fn list(&self, asked: &Asked) -> Value {
        let state = self.state();
        let of_kind = state.objects.iter().filter(|((resource, ..), _)| *resource == asked.resource);
        let items: Vec<&Value> = of_kind.map(|(_, object)| object).collect();
        json!({
            "kind": "List", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": state.version.to_string()},
        })
    }

    /// Stores an object under a new version, unless it is as it was.
    fn put(&self, key: Key, mut object: Value) -> Value {
        let mut state = self.state();
        let before = state.objects.get(&key).cloned();
        if before.as_ref() == Some(&object) {
            return object;
        }
        state.version += 1;
        let version = state.version;
        let spec = |of: &Value| of["spec"].clone();
        let generation =
            before.as_ref().map_or(0, |b| b["metadata"]["generation"].as_i64().unwrap_or_default());
        let edited = before.as_ref().is_none_or(|before| spec(before) != spec(&object));
        object["metadata"]["generation"] = (generation + i64::from(edited)).into();
        if let Some(status) = others_status(&key.0, &object) {
            object["status"] = status;
        }
        object["metadata"]["resourceVersion"] = version.to_string().into();
        if before.is_none() {
            object["metadata"]["uid"] = format!("uid-{version}").into();
            object["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z".into();
        }
        let is_released = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if is_released && !object["metadata"]["deletionTimestamp"].is_null() {
            drop(state);
            self.end(&key);
            return object;
        }
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        state.history.push((version, key.0.clone(), json!({"type": kind, "object": object}).to_string()));
        state.objects.insert(key, object.clone());
        drop(state);
        self.changed.send_replace(version);
        object
    }

    /// An object with finalizers goes when the last of them does.
    fn delete(&self, key: &Key) {
        let Some(mut object) = self.state().objects.get(key).cloned() else { return };
        if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
            object["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
            self.put(key.clone(), object);
        } else {
            self.end(key);
        }
    }

    fn end(&self, key: &Key) {
        let mut state = self.state();
        let Some(mut object) = state.objects.remove(key) else { return };
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        state.history.push((
            version,
            key.0.clone(),
            json!({"type": "DELETED", "object": object}).to_string(),
        ));
        drop(state);
        self.changed.send_replace(version);
    }

    /// The events of a resource after a version.
    fn news(&self, resource: &str, from: u64) -> String {
        let state = self.state();
        let news = state.history.iter().filter(|(at, of, _)| *at > from && of == resource);
        news.flat_map(|(_, _, event)| [event.as_str(), "\n"]).collect()
    }

    fn watch(&self, asked: &Asked) -> Answer {
        let from: u64 = asked.parameter("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
        let follower = (self.clone(), asked.resource.clone(), from, self.changed.subscribe());
        let lines = stream::unfold(follower, |(server, resource, from, mut changed)| async move {
            loop {
                let version = *changed.borrow_and_update();
                let text = server.news(&resource, from);
                if !text.is_empty() {
                    let lag = server.state().lag.get(&resource).copied();
                    tokio::time::sleep(lag.unwrap_or_default()).await;
                    let item = Ok::<_, std::convert::Infallible>(Bytes::from(text));
                    return Some((item, (server, resource, version, changed)));
                }
                changed.changed().await.ok()?;
            }
        });
        Answer::from_stream(lines)
    }
}

/// Versions, UIDs and times depend on how often something failed.
fn strip(value: &mut Value) {
    const FLEETING: [&str; 4] = ["resourceVersion", "uid", "lastTransitionTime", "generation"];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !FLEETING.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}
