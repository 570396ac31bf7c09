//! The server: who asks, whether they may, and the answer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::UserInfo,
    authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec},
    core::v1::ConfigMap,
};
use kube::{Api, Client, runtime::watcher};
use olm_runtime::{Chance, Kept, Reviews};
use rustls::server::danger::ClientCertVerifier;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, Listing, Names, Object, Resource,
    accept::{self, Discovery},
    authentication::{KeyOwner, Settings, anonymous},
    discovery, openapi,
    request::{Asked, Parameters},
    selector::Filter,
    watching::{self, Terms},
    written::{Document, Include, Writer},
};

/// Where kube-apiserver publishes whom to trust.
const SETTINGS_NAMESPACE: &str = "kube-system";
const SETTINGS_NAME: &str = "extension-apiserver-authentication";
/// How long answers about users are kept: as long as other aggregated API servers do.
const KEPT: Kept = Kept { allowed: Duration::from_secs(10), denied: Duration::from_secs(10) };
/// Watches at the same time. All come from a few addresses, those of the API servers, which have more places than that.
const WATCHES_MAX: usize = 64;
/// Paths that everybody may read.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/livez"];
/// A group that the API server lets do everything.
const MASTERS: &str = "system:masters";

/// Serves the objects of a resource.
pub struct ApiServer<R> {
    resource: Arc<R>,
    client: Client,
    reviews: Reviews,
    settings: ArcSwapOption<Settings>,
    openapi: [Document; 2],
    watches: Arc<Semaphore>,
}

impl<R: Resource> ApiServer<R> {
    /// Reviews are made with `client`.
    pub fn new(resource: Arc<R>, client: Client) -> Arc<Self> {
        let reviews = Reviews::new(client.clone(), KEPT);
        let openapi =
            [openapi::second(&R::NAMES), openapi::third(&R::NAMES)].map(|text| Document::new(&text));
        let (settings, watches) = (ArcSwapOption::empty(), Arc::new(Semaphore::new(WATCHES_MAX)));
        Arc::new(Self { resource, client, reviews, settings, openapi, watches })
    }

    /// How the TLS connections of this server are to be made.
    pub fn client_verifier() -> Arc<dyn ClientCertVerifier> {
        Arc::new(KeyOwner::new())
    }

    /// The router of all paths.
    pub fn router(self: &Arc<Self>) -> Router {
        let server = Arc::clone(self);
        Router::new().fallback(async move |request: Request| {
            let answer = server.answer(&request.into_parts().0).await;
            answer.unwrap_or_else(IntoResponse::into_response)
        })
    }

    /// Why requests cannot be answered yet.
    pub fn ready(&self) -> Result<(), String> {
        if self.settings.load().is_none() {
            return Err(format!("ConfigMap {SETTINGS_NAMESPACE}/{SETTINGS_NAME} not read yet"));
        }
        self.resource.ready()
    }

    /// Follows whom to trust until `shutdown`.
    pub async fn follow(self: Arc<Self>, chance: Chance, shutdown: CancellationToken) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), SETTINGS_NAMESPACE);
        let config = watcher::Config::default().fields(&format!("metadata.name={SETTINGS_NAME}"));
        let mut events = chance.watch(api, config).boxed();
        loop {
            let event = tokio::select! {
                () = shutdown.cancelled() => return,
                Some(event) = events.next() => event,
            };
            match event {
                Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) => self.trust(map),
                // No certificate is trusted from now on.
                Ok(watcher::Event::Delete(_)) => self.settings.store(Some(Arc::default())),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "watching ConfigMap {SETTINGS_NAMESPACE}/{SETTINGS_NAME}");
                }
            }
        }
    }

    fn trust(&self, map: ConfigMap) {
        match Settings::read(&map.data.unwrap_or_default()) {
            Ok(settings) => self.settings.store(Some(Arc::new(settings))),
            Err(error) => {
                let map = format!("{SETTINGS_NAMESPACE}/{SETTINGS_NAME}");
                tracing::warn!(%error, map, "settings of authentication not understood, those before stay");
            }
        }
    }

    async fn answer(&self, request: &Parts) -> Result<Response, Failure> {
        let path = request.uri.path();
        if HEALTH.contains(&path) {
            return Ok(self.health(path));
        }
        let query = Parameters::of(&request.uri)?;
        let user = self.user(request).await?;
        let objects = format!("/apis/{}/", R::NAMES.api_version());
        let asked = path.strip_prefix(&objects).filter(|rest| !rest.is_empty());
        let asked = asked.and_then(|rest| Asked::parse(&R::NAMES, &request.method, rest, &query));
        self.authorise(&user, asked.as_ref(), request).await?;
        match asked {
            None if request.method != Method::GET => Err(Failure::no_such_path()),
            None => self.document(path, &request.headers),
            Some(_) if request.method != Method::GET => Err(Failure::method_not_allowed()),
            Some(asked) => self.objects(asked, &query, request).await,
        }
    }

    fn health(&self, path: &str) -> Response {
        match self.ready() {
            Err(missing) if path == "/readyz" => {
                let text = format!("[-]{missing}\nreadyz check failed\n");
                (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
            }
            _ => "ok".into_response(),
        }
    }

    async fn user(&self, request: &Parts) -> Result<UserInfo, Failure> {
        let unread = || Failure::internal("whom to trust is not known yet");
        let settings = self.settings.load_full().ok_or_else(unread)?;
        if request.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(Failure::forbidden("impersonation is for kube-apiserver: send the request there"));
        }
        Ok(settings.user(request, &self.reviews).await?.unwrap_or_else(anonymous))
    }

    async fn authorise(
        &self,
        user: &UserInfo,
        asked: Option<&Asked>,
        request: &Parts,
    ) -> Result<(), Failure> {
        if user.groups.iter().flatten().any(|group| group == MASTERS) {
            return Ok(());
        }
        let names = R::NAMES;
        let owned = |text: &str| Some(text.to_owned());
        let spec = match asked {
            Some(asked) => SubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: owned(names.group),
                    version: owned(names.version),
                    resource: owned(names.plural),
                    subresource: asked.subresource.clone(),
                    namespace: asked.namespace.clone(),
                    name: asked.name.clone(),
                    verb: owned(asked.verb),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            None => SubjectAccessReviewSpec {
                non_resource_attributes: Some(NonResourceAttributes {
                    path: owned(request.uri.path()),
                    verb: Some(request.method.as_str().to_ascii_lowercase()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
        };
        let decision = self.reviews.decision(user, spec).await.map_err(|error| {
            tracing::warn!(%error, "reviewing a request");
            Failure::internal("the request could not be reviewed")
        })?;
        if decision.allowed {
            return Ok(());
        }
        let who = user.username.as_deref().unwrap_or_default();
        let reason = Some(decision.reason).filter(|reason| !reason.is_empty());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        Err(Failure::forbidden(format!("{}{reason}", refusal(&names, who, asked, request))))
    }

    /// Discovery and OpenAPI.
    fn document(&self, path: &str, headers: &http::HeaderMap) -> Result<Response, Failure> {
        let names = R::NAMES;
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let preferred = accept::discovery(accept).ok_or_else(Failure::not_acceptable)?;
        let third = openapi::third_path(&names);
        let [v2, v3] = &self.openapi;
        let made = |value| Document::new(&value);
        let (document, media) = match path.trim_end_matches('/') {
            "" => {
                let group = format!("/apis/{}", names.group);
                let version = format!("/apis/{}", names.api_version());
                (made(json!({ "paths": ["/apis", group, version, "/openapi/v2", "/openapi/v3"] })), None)
            }
            "/apis" => match preferred {
                Discovery::Plain => (made(discovery::groups(&names)), None),
                Discovery::Aggregated(version) => {
                    let media = format!(
                        "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                    );
                    (made(discovery::aggregated(&names, version)), Some(media))
                }
            },
            "/openapi/v2" => (v2.clone(), None),
            "/openapi/v3" => {
                let address = format!("/openapi/v3/{third}?hash={}", v3.etag);
                let paths = json!({ third: { "serverRelativeURL": address } });
                (made(json!({ "paths": paths })), None)
            }
            other if other.strip_prefix("/openapi/v3/") == Some(&third) => (v3.clone(), None),
            other => match other.strip_prefix("/apis/") {
                Some(group) if group == names.group => (made(discovery::group(&names)), None),
                Some(version) if version == names.api_version() => (made(discovery::resources(&names)), None),
                _ => return Err(Failure::no_such_path()),
            },
        };
        Ok(sent(document, media.as_deref().unwrap_or("application/json"), headers))
    }

    async fn objects(&self, asked: Asked, query: &Parameters, request: &Parts) -> Result<Response, Failure> {
        let namespace = asked.namespace.as_deref();
        let by_name = |name: &str| {
            let Listing { version, objects } = self.resource.list(namespace);
            let found = objects.into_iter().find(|object| object.metadata().name.as_deref() == Some(name));
            found.map(|object| (version, object)).ok_or_else(|| Failure::not_found(&R::NAMES, name))
        };
        if let (Some(name), Some(subresource)) = (&asked.name, &asked.subresource) {
            let (_, object) = by_name(name)?;
            return Ok(self.resource.subresource(object, subresource, request).await);
        }
        let accept = request.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let form = accept::form(accept).ok_or_else(Failure::not_acceptable)?;
        let include = match query.get("includeObject") {
            "None" => Include::Nothing,
            "Object" => Include::Object,
            _ => Include::Metadata,
        };
        let writer = Writer { names: const { &R::NAMES }, form, include, now: Timestamp::now() };
        let failed = |error: std::io::Error| Failure::internal(&error.to_string());
        let body = match asked.verb {
            "get" => {
                let (version, object) = by_name(asked.name.as_deref().unwrap_or_default())?;
                let write = move || {
                    let mut out = Vec::new();
                    writer.single(&object, version, &mut out).map(|()| Body::from(out))
                };
                let written = tokio::task::spawn_blocking(write).await;
                written.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(failed)?
            }
            "list" => {
                // All objects are one answer, whatever the limit is: no token comes from here.
                if !query.get("continue").is_empty() {
                    return Err(Failure::not_continued());
                }
                let filter = Filter::of(query)?;
                let Listing { version, mut objects } = self.resource.list(namespace);
                objects.retain(|object| filter.matches(object.metadata()));
                writer.list(version, objects).map_err(failed)?
            }
            _ => self.watch(asked, query, writer)?,
        };
        let kept = HeaderValue::from_static("no-cache, private");
        let media = HeaderValue::from_static("application/json");
        Ok(([(header::CACHE_CONTROL, kept), (header::CONTENT_TYPE, media)], body).into_response())
    }

    fn watch(&self, asked: Asked, query: &Parameters, writer: Writer) -> Result<Body, Failure> {
        let filter = Filter::of(query)?;
        let versions = self.resource.versions();
        let namespace = asked.namespace.as_deref();
        let (from, marked) = (query.get("resourceVersion"), query.is_set("sendInitialEvents"));
        let initial = marked || matches!(from, "" | "0");
        let mut listing = self.resource.list(namespace);
        if !initial && from.parse() != Ok(listing.version) {
            let known = from.parse().ok().and_then(|from| self.resource.list_at(from, namespace));
            listing = known.ok_or_else(|| Failure::expired(listing.version))?;
        }
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| Failure::too_many_watches())?;
        let bookmarks = query.is_set("allowWatchBookmarks");
        let terms = Terms {
            namespace: asked.namespace,
            filter,
            writer,
            initial,
            bookmarks,
            initial_end: marked && bookmarks,
            lasts: query.get("timeoutSeconds").parse().ok().map(Duration::from_secs),
        };
        Ok(watching::body(Arc::clone(&self.resource), terms, versions, listing, place))
    }
}

/// Why a user may not do something, in the words of kube-apiserver.
fn refusal(names: &Names, user: &str, asked: Option<&Asked>, request: &Parts) -> String {
    let Some(asked) = asked else {
        let verb = request.method.as_str().to_ascii_lowercase();
        return format!("forbidden: User {user:?} cannot {verb} path {:?}", request.uri.path());
    };
    let name = asked.name.as_ref().map_or_else(String::new, |name| format!(" {name:?}"));
    let subresource = asked.subresource.as_ref().map_or_else(String::new, |one| format!("/{one}"));
    let scope = match &asked.namespace {
        Some(namespace) => format!("in the namespace {namespace:?}"),
        None => "at the cluster scope".to_owned(),
    };
    format!(
        "{}{name} is forbidden: User {user:?} cannot {} resource \"{}{subresource}\" in API group {:?} {scope}",
        names.qualified(),
        asked.verb,
        names.plural,
        names.group
    )
}

fn sent(document: Document, media: &str, headers: &http::HeaderMap) -> Response {
    let etag = format!("\"{}\"", document.etag);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let fields = [
        (header::CONTENT_TYPE, media.to_owned()),
        (header::ETAG, etag.clone()),
        (header::VARY, "Accept".to_owned()),
    ];
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == etag)) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, document.text).into_response()
}

#[cfg(test)]
mod tests;
