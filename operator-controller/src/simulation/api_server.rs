//! An API server that is a function of its requests: objects, versions, UIDs, watches with their history, patches,
//! garbage collection. What it does not do: authentication, admission, validation, field managers.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::{Body as Answer, Bytes};
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{
    SYSTEM_NAMESPACE, Since,
    answers::{forbidden, refusal, resources, rules, token, version},
    consent::Consent,
    faults::{Delivery, Faults, Rates, RequestFault},
    process::Process,
    properties::Properties,
    request::ApiRequest,
    store::{Key, Store, without_fleeting},
};
use crate::admission_objects;

/// Requests of one run, at most.
const REQUESTS_MAX: usize = 20_000;

struct State {
    store: Store,
    faults: Faults,
    log: Vec<String>,
    /// Beginnings of requests that are refused once, with the code.
    refusals: Vec<(String, u16)>,
    /// Beginnings of requests, each with a change that somebody makes to an object right after one of them.
    interventions: Vec<(String, Key, Value)>,
    /// Whether the ServiceAccount of the extension has its permissions.
    granted: bool,
    properties: Properties,
}

/// The server. Clones are the same one.
#[derive(Clone)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    started: Instant,
}

impl ApiServer {
    /// One request in `one_in` fails, the same ones in every run.
    pub(crate) fn new(one_in: u64) -> Self {
        Self::with_faults(0, Rates { errors: one_in, ..Rates::default() })
    }

    pub(crate) fn with_faults(seed: u64, rates: Rates) -> Self {
        let started = Instant::now();
        let state = State {
            store: Store::new(Since(started)),
            faults: Faults::new(seed, rates),
            log: Vec::new(),
            refusals: Vec::new(),
            interventions: Vec::new(),
            granted: true,
            properties: Properties::default(),
        };
        let (state, changed) = (Arc::new(Mutex::new(state)), watch::Sender::new(1));
        let server = Self { state, changed, started };
        let policies =
            admission_objects(SYSTEM_NAMESPACE).unwrap().into_iter().filter(|one| one["kind"] != "ConfigMap");
        policies.for_each(|policy| server.create(policy));
        // The install namespace of all extensions.
        server.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
        server
    }

    /// The clock by which the server counts.
    pub(crate) fn clock(&self) -> Arc<Since> {
        Arc::new(Since(self.started))
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of(Process::default())
    }

    pub(crate) fn client_of(&self, process: Process) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, process) = (server.clone(), process.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
                let request = ApiRequest::read(parts.method.clone(), path, query, &parts.headers, &body);
                server.respond(&process, &request, path, &body).await
            }
        });
        Client::new(service, "default")
    }

    async fn respond(
        &self,
        process: &Process,
        request: &ApiRequest,
        path: &str,
        body: &[u8],
    ) -> Result<Response<Answer>, tower::BoxError> {
        let draw = self.state().faults.draw(request.subject());
        let crashes = process.crashes_now();
        if process.has_crashed() && !(crashes && draw.is_multiple_of(2)) {
            return std::future::pending().await;
        }
        if !self.has_room() {
            return std::future::pending().await;
        }
        let (fault, latency) = {
            let faults = &mut self.state().faults;
            (faults.of_request(request, draw), faults.latency(draw))
        };
        let response = self.answer(request, fault, path, body);
        self.intervene(request);
        tokio::time::sleep(latency).await;
        if process.has_crashed() {
            return std::future::pending().await;
        }
        if fault == RequestFault::LostAnswer {
            return Err("the connection was closed before the answer".into());
        }
        Ok(response)
    }

    /// Whether fewer requests came than a run may have; what never ends is ended here.
    fn has_room(&self) -> bool {
        let mut state = self.state();
        if state.log.len() == REQUESTS_MAX {
            state.properties.violations.push(format!("more than {REQUESTS_MAX} requests"));
            state.log.push(String::new());
        }
        state.log.len() < REQUESTS_MAX
    }

    /// Refuses one request that begins with this: method, group and version, resource, namespace, name.
    pub(crate) fn refuse_once(&self, what: &str, code: u16) {
        self.state().refusals.push((what.to_owned(), code));
    }

    /// Changes an object right after one request that begins with this was answered.
    pub(crate) fn change_after(
        &self,
        what: &str,
        (resource, namespace, name): (&str, &str, &str),
        patch: Value,
    ) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.state().interventions.push((what.to_owned(), key, patch));
    }

    /// Carries out a change that was asked for after such a request.
    fn intervene(&self, request: &ApiRequest) {
        let subject = request.subject();
        let mut state = self.state();
        let Some(at) = state.interventions.iter().position(|(what, ..)| subject.starts_with(what)) else {
            return;
        };
        let (_, (resource, namespace, name), patch) = state.interventions.remove(at);
        drop(state);
        self.edit(&resource, &namespace, &name, &patch);
    }

    /// From now on events of a resource come late.
    pub(crate) fn delay(&self, resource: &str, lag: Duration) {
        self.state().faults.lags.insert(resource.to_owned(), lag);
    }

    /// From now on no request fails.
    pub(crate) fn calm(&self) {
        self.state().faults.rates = Rates::default();
    }

    /// Faults that were injected until now.
    pub(crate) fn faults(&self) -> u64 {
        self.state().faults.injected
    }

    /// Gives the ServiceAccount its permissions, or takes them away.
    pub(crate) fn grant(&self, granted: bool) {
        self.state().granted = granted;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "installer", "annotations": {"granted": granted.to_string()}},
        });
        self.put(&("clusterrolebindings".to_owned(), String::new(), "installer".to_owned()), binding);
    }

    /// Lets other controllers take their time from now on: they work whenever [`ApiServer::reconcile_cluster`] is called.
    pub(crate) fn slow_cluster(&self) {
        self.state().store.others_are_slow = true;
    }

    /// From now on the Deployments of this bundle version do not become available; without one, all of them do.
    pub(crate) fn break_version(&self, version: Option<&str>) {
        self.changing(|store| {
            store.broken = version.map(str::to_owned);
            store.reconcile_cluster();
        });
    }

    pub(crate) fn reconcile_cluster(&self) {
        self.changing(Store::reconcile_cluster);
    }

    /// The requests, each with the time since the start in milliseconds, its body and the answer's status; those of
    /// the same millisecond in the order of their text.
    pub(crate) fn log(&self) -> Vec<String> {
        let mut log = self.state().log.clone();
        log.sort_unstable();
        log
    }

    /// Writes of the program that were carried out, and what it did that it must not do.
    pub(crate) fn properties(&self) -> Properties {
        self.state().properties.clone()
    }

    /// Changes what the update policy asks for.
    pub(crate) fn consent(&self, change: impl FnOnce(&mut Consent)) {
        change(&mut self.state().properties.consent);
    }

    /// The digests of the plans that are kept.
    pub(crate) fn plans(&self) -> Vec<String> {
        let state = self.state();
        let plans = state.store.objects().iter().filter(|((resource, ..), _)| resource == "extensionplans");
        plans.filter_map(|(_, plan)| plan["spec"]["digest"].as_str().map(str::to_owned)).collect()
    }

    /// The objects but Events and policies, as text.
    pub(crate) fn objects(&self) -> Vec<String> {
        let state = self.state();
        let others = ["events", "validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        let objects =
            state.store.objects().iter().filter(|((resource, ..), _)| !others.contains(&resource.as_str()));
        objects
            .map(|(_, object)| {
                let mut object = Value::clone(object);
                without_fleeting(&mut object);
                object.to_string()
            })
            .collect()
    }

    pub(crate) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.state().store.get(&key).map(|object| Value::clone(object))
    }

    /// The keys of the objects that revisions control.
    pub(crate) fn controlled(&self) -> Vec<Key> {
        let state = self.state();
        let objects = state.store.objects().iter();
        let is_controlled = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice);
            owners.unwrap_or_default().iter().any(|owner| owner["kind"] == "ClusterObjectSet")
        };
        objects
            .filter(|((resource, ..), object)| resource != "secrets" && is_controlled(object))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// What a user or another program does.
    pub(crate) fn create(&self, object: Value) {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let plural = format!("{}s", text("/kind").to_lowercase()).replace("policys", "policies");
        self.put(&(plural, text("/metadata/namespace"), text("/metadata/name")), object);
    }

    pub(crate) fn edit(&self, resource: &str, namespace: &str, name: &str, patch: &Value) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.consent(|consent| consent.change(self.started.elapsed()));
        let mut object = self.get(resource, namespace, name).expect("an object to edit");
        json_patch::merge(&mut object, patch);
        self.put(&key, object);
    }

    pub(crate) fn remove(&self, resource: &str, namespace: &str, name: &str) {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.changing(|store| store.delete(&key));
    }

    /// Ends at the next change of anything.
    pub(crate) async fn changed(&self) {
        // The sender lives as long as the server.
        let _ = self.changed.subscribe().changed().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: &Key, object: Value) -> Value {
        self.changing(|store| store.put(key, object))
    }

    /// Changes what is stored, and wakes the watches if anything changed.
    fn changing<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let (result, version) = {
            let store = &mut self.state().store;
            (change(store), store.version)
        };
        self.changed.send_if_modified(|known| std::mem::replace(known, version) != version);
        result
    }

    fn answer(&self, request: &ApiRequest, fault: RequestFault, path: &str, body: &[u8]) -> Response<Answer> {
        let refused = {
            let mut state = self.state();
            let subject = request.subject();
            let found = state.refusals.iter().position(|(what, _)| subject.starts_with(what));
            found.map(|at| state.refusals.remove(at).1)
        };
        let from: u64 = request.parameter("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
        let (status, answer) = match (refused, fault) {
            (Some(409), _) | (None, RequestFault::Error(409)) => refusal(409, "Conflict"),
            (Some(code), _) => refusal(code, "asked for"),
            (None, RequestFault::Error(code)) => refusal(code, "chance"),
            // As the API server has it, a version that is too old is an event.
            (None, _) if request.is_watch() && self.state().store.is_compacted(from) => {
                (200, json!({"type": "ERROR", "object": refusal(410, "Expired").1}))
            }
            (None, _) if request.is_watch() => return Response::new(self.watch(request, from)),
            (None, _) => self.decide(request),
        };
        let content = if request.resource == "events" {
            // Their times and the names made of them are the library's, which asks the system for the time.
            format!("{} {} {}", request.body["reason"], request.body["note"], request.body["regarding"])
        } else {
            String::from_utf8_lossy(body).into_owned()
        };
        let path = if request.resource == "events" { "events" } else { path };
        let mut line = format!("{:>9} {} {path}", self.started.elapsed().as_millis(), request.method);
        let _ = write!(line, " {content} -> {status}");
        self.state().log.push(line);
        let mut response = Response::new(Answer::from(answer.to_string()));
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        response
    }

    fn decide(&self, request: &ApiRequest) -> (u16, Value) {
        let granted = self.state().granted;
        match (&request.method, request.resource.as_str(), request.name.as_str()) {
            (_, "", _) if request.group_version == "version" => (200, version()),
            (_, "", _) => {
                let state = self.state();
                let objects = state.store.objects().iter();
                let crds = objects.filter(|((resource, ..), _)| resource == "customresourcedefinitions");
                resources(&request.group_version, crds.map(|(_, crd)| &**crd))
            }
            (&Method::POST, "serviceaccounts", _) if request.sub == "token" => (201, token()),
            (&Method::POST, "selfsubjectrulesreviews", _) => (201, rules(granted)),
            (_, resource, name) if request.as_account && !granted => forbidden(resource, name),
            (&Method::GET, _, "") => (200, self.state().store.list(&request.selection())),
            (&Method::GET, ..) => {
                let found = self.state().store.get(&request.key()).cloned();
                found.map_or_else(|| refusal(404, "NotFound"), |object| (200, Value::clone(&object)))
            }
            _ => self.write(request),
        }
    }

    /// Carries out a change, which the properties are checked with.
    fn write(&self, request: &ApiRequest) -> (u16, Value) {
        let key = request.key();
        let found = self.state().store.get(&key).cloned();
        let found = found.as_deref();
        let changed = match changed(request, found) {
            Ok(changed) => changed,
            Err(refused) => return refused,
        };
        if !request.is_write() && request.resource != "events" {
            return (200, changed.unwrap_or_default());
        }
        let time = self.started.elapsed();
        if request.is_write() {
            let State { store, properties, .. } = &mut *self.state();
            properties.check((&key, time), found, changed.as_ref(), store);
        }
        let Some(object) = changed else {
            self.changing(|store| store.delete(&key));
            // As the API server has it, the answer is what finalizers leave of the object.
            let left = self.state().store.get(&key).map(|object| Value::clone(object));
            let gone = || json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
            return (200, left.unwrap_or_else(gone));
        };
        let code = if request.method == Method::POST { 201 } else { 200 };
        (code, self.put(&key, object))
    }

    fn watch(&self, request: &ApiRequest, from: u64) -> Answer {
        let name = format!("events of {}", request.subject());
        let follower = (self.clone(), request.selection(), from, name, self.changed.subscribe());
        let lines = stream::unfold(follower, |(server, selection, mut from, name, mut changed)| async move {
            loop {
                let mut version = *changed.borrow_and_update();
                let mut text = server.state().store.events(&selection, from);
                if text.is_empty() {
                    from = version;
                    changed.changed().await.ok()?;
                    continue;
                }
                let draw = server.state().faults.draw(name.clone());
                let delivery = server.state().faults.of_events(&selection.resource, draw);
                match delivery {
                    Delivery::Never => {
                        server.state().store.compact();
                        return None;
                    }
                    Delivery::After(late) => {
                        tokio::time::sleep(late).await;
                        version = *changed.borrow_and_update();
                        text = server.state().store.events(&selection, from);
                    }
                    Delivery::Now => {}
                }
                let item = Ok::<_, std::convert::Infallible>(Bytes::from(text));
                return Some((item, (server, selection, version, name, changed)));
            }
        });
        Answer::from_stream(lines)
    }
}

/// What an object becomes by a request; none when it is deleted.
fn changed(request: &ApiRequest, found: Option<&Value>) -> Result<Option<Value>, (u16, Value)> {
    let body = &request.body;
    let asked = if request.method == Method::DELETE { &body["preconditions"] } else { &body["metadata"] };
    let is_met = |field: &str| {
        asked[field].as_str().is_none_or(|value| found.is_none_or(|one| one["metadata"][field] == value))
    };
    let conflict = || refusal(409, "Conflict");
    let object = match (&request.method, found) {
        (&Method::POST, Some(_)) => return Err(refusal(409, "AlreadyExists")),
        (&Method::POST, None) => body.clone(),
        (_, None) if !request.is_apply() => return Err(refusal(404, "NotFound")),
        _ if !(is_met("uid") && is_met("resourceVersion")) => return Err(conflict()),
        (&Method::DELETE, _) => return Ok(None),
        (&Method::PUT, Some(_)) if asked["resourceVersion"].is_null() => return Err(conflict()),
        (&Method::PUT, _) => body.clone(),
        (_, found) => {
            let mut object = found.cloned().unwrap_or_else(|| json!({}));
            if request.is_json_patch() {
                let patch: json_patch::Patch = serde_json::from_value(body.clone()).unwrap_or_default();
                json_patch::patch(&mut object, &patch).map_err(|_| refusal(422, "Invalid"))?;
            } else {
                // Applying is merging: no other manager has fields here.
                json_patch::merge(&mut object, body);
            }
            object
        }
    };
    let controllers = object["metadata"]["ownerReferences"]
        .as_array()
        .map_or(0, |owners| owners.iter().filter(|owner| owner["controller"] == true).count());
    if controllers > 1 {
        return Err(refusal(422, "Invalid"));
    }
    Ok(Some(match found {
        // A status is written by itself.
        Some(found) if request.sub == "status" => {
            let mut whole = found.clone();
            whole["status"] = object["status"].clone();
            whole
        }
        Some(found) if request.method == Method::PUT => {
            let mut whole = object;
            whole["status"] = found["status"].clone();
            whole
        }
        _ => object,
    }))
}
