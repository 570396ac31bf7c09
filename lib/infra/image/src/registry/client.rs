//! The OCI distribution protocol over HTTPS: manifests, blobs, uploads.
//!
//! Redirects are followed by hand so that credentials stay with their host; they are sent only when asked for
//! by the registry itself, and to its token endpoint only over TLS (unless the registry is configured
//! insecure). Requests that failed for a reason that passes are made again.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ::http::{
    HeaderMap, Method, StatusCode,
    header::{ACCEPT, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use reqwest::{Client, RequestBuilder, Response, Url};

use super::{
    BlobContent, Registry, RegistryError,
    auth::{Authorization, Challenge, TokenAnswer, TokenKey, Tokens, challenge},
    dial::Dialling,
    digest_mismatch,
    http::{Target, body, check_target, connection, message, same_origin},
    scheme::{dialled, spoken},
    tls::Clients,
};
use crate::{
    digest::Digest,
    keyring::Credential,
    layers::BlobStream,
    limits::{MANIFEST_BYTES_MAX, REDIRECTS_MAX, TOKEN_BYTES_MAX, Timeouts},
    manifest::{DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST},
    puller::{PullerConfig, SharedKeyring},
    registries::Endpoint,
};

mod upload;

const PULL: &str = "pull";
const PUSH: &str = "pull,push";
const DIGEST_HEADER: &str = "docker-content-digest";

/// A registry over HTTP(S).
pub struct OciRegistry {
    keyring: SharedKeyring,
    timeouts: Timeouts,
    clients: Arc<Clients>,
    tokens: Mutex<Tokens>,
    /// Which scheme hosts that are configured insecure answered to.
    schemes: Mutex<HashMap<String, &'static str>>,
}

/// One request, to be made again as often as needed.
struct Exchange<'a> {
    at: &'a Endpoint,
    action: String,
    method: Method,
    url: Url,
    /// A URL of the registry itself: only its origin gets credentials. An upload's `url` is what the registry
    /// names, which may be elsewhere.
    home: Url,
    accept: Option<String>,
    content_type: Option<&'a str>,
    content_range: Option<String>,
    body: Option<Bytes>,
    actions: &'static str,
}

impl<'a> Exchange<'a> {
    fn new(at: &'a Endpoint, action: String, method: Method, url: Url, actions: &'static str) -> Self {
        let home = url.clone();
        let (accept, content_type, content_range, body) = (None, None, None, None);
        Self { at, action, method, url, home, accept, content_type, content_range, body, actions }
    }
}

impl OciRegistry {
    /// A registry client with the settings of a puller.
    pub fn new(config: &PullerConfig) -> Self {
        Self {
            keyring: config.keyring.clone(),
            timeouts: config.timeouts,
            clients: Arc::new(Clients::new(config.cas_dir.clone(), config.timeouts)),
            tokens: Mutex::default(),
            schemes: Mutex::default(),
        }
    }

    /// What may be dialled for a registry.
    fn dialling(&self, at: &Endpoint) -> Dialling {
        self.clients.dialling(dialled(&at.host), at.insecure)
    }

    /// Reads certificate files, so it is kept off the runtime's threads.
    async fn client(&self, dialling: Dialling) -> Result<Client, RegistryError> {
        let clients = Arc::clone(&self.clients);
        let got = tokio::task::spawn_blocking(move || clients.get(&dialling)).await;
        got.map_err(|_| RegistryError::Certificates("interrupted".to_owned()))?
    }

    /// The URL of something in the endpoint's repository.
    async fn url(&self, at: &Endpoint, rest: &str) -> Result<Url, RegistryError> {
        let scheme = self.scheme(at).await?;
        let text = format!("{scheme}://{}/v2/{}/{rest}", dialled(&at.host), at.repository);
        Url::parse(&text).map_err(|error| RegistryError::Unusable {
            action: format!("pinging container registry {}", at.host),
            cause: error.to_string(),
        })
    }

    /// HTTPS; for hosts configured insecure plain HTTP when that is what they speak.
    async fn scheme(&self, at: &Endpoint) -> Result<&'static str, RegistryError> {
        if !at.insecure {
            return Ok("https");
        }
        if let Some(scheme) = self.schemes.lock().get(&at.host) {
            return Ok(scheme);
        }
        let scheme = spoken(&self.client(self.dialling(at)).await?, &at.host).await;
        self.schemes.lock().insert(at.host.clone(), scheme);
        Ok(scheme)
    }

    /// Makes a request until it is answered by something that more patience would not change.
    async fn send(&self, exchange: &Exchange<'_>) -> Result<Response, RegistryError> {
        let mut attempt = 0;
        loop {
            let result = self.authorized(exchange).await;
            let wait = match &result {
                Ok(response) if is_passing(response.status()) => retry_after(response.headers()),
                Err(error) if error.is_retryable() => {
                    self.schemes.lock().remove(&exchange.at.host);
                    None
                }
                _ => return result,
            };
            if attempt >= self.timeouts.retries {
                return result;
            }
            let wait =
                wait.unwrap_or_else(|| backoff(&self.timeouts, attempt)).min(self.timeouts.backoff_max);
            tracing::debug!(
                action = exchange.action,
                attempt,
                ?wait,
                "registry request failed, trying again"
            );
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// One request, with a log-in when the registry asks for one.
    async fn authorized(&self, exchange: &Exchange<'_>) -> Result<Response, RegistryError> {
        let at = exchange.at;
        let credential = self.keyring.get().lookup(&at.host, &at.repository).cloned();
        let scope = format!("repository:{}:{}", at.repository, exchange.actions);
        let key = TokenKey { host: at.host.clone(), scope, credential };
        let held = self.tokens.lock().get(&key, Instant::now());
        let response = self.follow(exchange, held.as_ref()).await?;
        let is_own = same_origin(response.url(), &exchange.home);
        if response.status() != StatusCode::UNAUTHORIZED || !is_own {
            return Ok(response);
        }
        self.tokens.lock().forget(&key);
        let headers = response.headers().get_all(WWW_AUTHENTICATE);
        let Some(challenge) = challenge(headers.iter().filter_map(|value| value.to_str().ok())) else {
            return Ok(response);
        };
        let Some((authorization, life)) = self.log_in(exchange, challenge, &key).await? else {
            return Ok(response);
        };
        let response = self.follow(exchange, Some(&authorization)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            self.tokens.lock().put(key, authorization, Instant::now(), life);
        }
        Ok(response)
    }

    /// One request with the redirects after it.
    async fn follow(
        &self,
        exchange: &Exchange<'_>,
        authorization: Option<&Authorization>,
    ) -> Result<Response, RegistryError> {
        let dialling = self.dialling(exchange.at);
        let client = self.client(dialling.clone()).await?;
        let follows = matches!(exchange.method, Method::GET | Method::HEAD);
        let mut url = exchange.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            check_target(&url, &dialling, Target::Request, &exchange.action).await?;
            let mut request = client.request(exchange.method.clone(), url.clone());
            if let Some(accept) = &exchange.accept {
                request = request.header(ACCEPT, accept);
            }
            if let Some(content_type) = exchange.content_type {
                request = request.header(CONTENT_TYPE, content_type);
            }
            if let Some(range) = &exchange.content_range {
                request = request.header(CONTENT_RANGE, range);
            }
            if let Some(body) = &exchange.body {
                request = request.body(body.clone());
            }
            if let Some(authorization) = authorization.filter(|_| same_origin(&url, &exchange.home)) {
                request = authorize(request, authorization);
            }
            let response = request
                .send()
                .await
                .map_err(|error| connection(&exchange.at.host, &exchange.action, error))?;
            if !follows || !response.status().is_redirection() {
                return Ok(response);
            }
            url = location(&response, &exchange.action)?;
        }
        Err(RegistryError::Unusable {
            action: exchange.action.clone(),
            cause: format!("more than {REDIRECTS_MAX} redirects"),
        })
    }

    /// What a challenge asks for; nothing when there is nothing to show.
    async fn log_in(
        &self,
        exchange: &Exchange<'_>,
        challenge: Challenge,
        key: &TokenKey,
    ) -> Result<Option<(Authorization, Duration)>, RegistryError> {
        match (challenge, key.credential.clone()) {
            (_, Some(Credential::Bearer(token))) => Ok(Some((Authorization::Bearer(token), Duration::ZERO))),
            (Challenge::Basic, Some(Credential::Basic { user, password })) => {
                Ok(Some(Authorization::basic(user, password)))
            }
            (Challenge::Basic, _) => Ok(None),
            (Challenge::Bearer { realm, service, scope }, credential) => {
                let scope = scope.unwrap_or_else(|| key.scope.clone());
                self.token(exchange, &realm, service.as_deref(), &scope, credential).await.map(Some)
            }
        }
    }

    async fn token(
        &self,
        exchange: &Exchange<'_>,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        credential: Option<Credential>,
    ) -> Result<(Authorization, Duration), RegistryError> {
        let at = exchange.at;
        let action = format!("requesting a token for {}/{}", at.host, at.repository);
        let protocol =
            |cause: &str| RegistryError::Unusable { action: action.clone(), cause: cause.to_owned() };
        let mut url = Url::parse(realm).map_err(|_| protocol("the token endpoint is not a URL"))?;
        let dialling = self.dialling(at);
        check_target(&url, &dialling, Target::TokenEndpoint, &action).await?;
        let client = self.client(dialling.to(&url)).await?;
        let mut fields: Vec<(&str, &str)> = service.map(|service| ("service", service)).into_iter().collect();
        fields.push(("scope", scope));
        let request = match &credential {
            Some(Credential::Identity(token)) => {
                fields.extend([
                    ("grant_type", "refresh_token"),
                    ("client_id", "olm"),
                    ("refresh_token", token.expose()),
                ]);
                // A URL's query and a form are written the same way.
                let mut form = url.clone();
                form.query_pairs_mut().clear().extend_pairs(&fields);
                let form = form.query().unwrap_or_default().to_owned();
                client.post(url.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form)
            }
            other => {
                url.query_pairs_mut().extend_pairs(&fields);
                let request = client.get(url.clone());
                match other {
                    Some(Credential::Basic { user, password }) => {
                        request.basic_auth(user, Some(password.expose()))
                    }
                    _ => request,
                }
            }
        };
        let host = url.host_str().unwrap_or_default().to_owned();
        let response = request.send().await.map_err(|error| connection(&host, &action, error))?;
        let status = response.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let message = message(response, credential.as_ref(), self.timeouts.answer).await;
            let message = format!("{message}; {}", self.keyring.get().tried(&at.host, &at.repository));
            return Err(RegistryError::Unauthorized { action, message });
        }
        if !status.is_success() {
            let message = message(response, credential.as_ref(), self.timeouts.answer).await;
            return Err(RegistryError::Status { action, status: status.as_u16(), message });
        }
        let bytes = body(response, &host, &action, TOKEN_BYTES_MAX, self.timeouts.answer).await?;
        serde_json::from_slice::<TokenAnswer>(&bytes)
            .ok()
            .and_then(TokenAnswer::into_authorization)
            .ok_or_else(|| protocol("the token endpoint's answer has no token"))
    }

    /// The response when it is a success, otherwise the registry's error.
    async fn accepted(&self, exchange: &Exchange<'_>) -> Result<Response, RegistryError> {
        let response = self.send(exchange).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let (keyring, at) = (self.keyring.get(), exchange.at);
        let is_own = same_origin(response.url(), &exchange.home);
        let mut message =
            message(response, keyring.lookup(&at.host, &at.repository), self.timeouts.answer).await;
        if is_own && matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            message = format!("{message}; {}", keyring.tried(&at.host, &at.repository));
        }
        let action = exchange.action.clone();
        Err(match status {
            StatusCode::UNAUTHORIZED => RegistryError::Unauthorized { action, message },
            _ => RegistryError::Status { action, status: status.as_u16(), message },
        })
    }

    async fn manifest_exchange<'a>(
        &self,
        at: &'a Endpoint,
        method: Method,
        what: &str,
    ) -> Result<Exchange<'a>, RegistryError> {
        let action = format!("reading manifest {what} in {}/{}", at.host, at.repository);
        let url = self.url(at, &format!("manifests/{what}")).await?;
        let accept = Some([OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST].join(", "));
        Ok(Exchange { accept, ..Exchange::new(at, action, method, url, PULL) })
    }
}

#[async_trait]
impl Registry for OciRegistry {
    async fn resolve(&self, at: &Endpoint, tag: &str) -> Result<Digest, RegistryError> {
        let head = self.send(&self.manifest_exchange(at, Method::HEAD, tag).await?).await?;
        let digest = head.headers().get(DIGEST_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(digest) = digest.filter(|_| head.status().is_success()) {
            return Ok(digest);
        }
        // No digest, or an error without the words that only a body has.
        let exchange = self.manifest_exchange(at, Method::GET, tag).await?;
        let response = self.accepted(&exchange).await?;
        let bytes =
            body(response, &at.host, &exchange.action, MANIFEST_BYTES_MAX, self.timeouts.answer).await?;
        Ok(Digest::of(&bytes))
    }

    async fn manifest(&self, at: &Endpoint, digest: &Digest) -> Result<Bytes, RegistryError> {
        let exchange = self.manifest_exchange(at, Method::GET, &digest.to_string()).await?;
        let response = self.accepted(&exchange).await?;
        let bytes =
            body(response, &at.host, &exchange.action, MANIFEST_BYTES_MAX, self.timeouts.answer).await?;
        let actual = digest.recompute(&bytes);
        if actual != *digest {
            return Err(digest_mismatch(exchange.action, digest, &actual));
        }
        Ok(bytes)
    }

    async fn blob(&self, at: &Endpoint, digest: &Digest) -> Result<BlobStream, RegistryError> {
        let action = format!("reading blob {digest} in {}/{}", at.host, at.repository);
        let url = self.url(at, &format!("blobs/{digest}")).await?;
        let exchange = Exchange::new(at, action, Method::GET, url, PULL);
        let response = self.accepted(&exchange).await?;
        let (host, action) = (at.host.clone(), exchange.action);
        Ok(response
            .bytes_stream()
            .map(move |chunk| chunk.map_err(|error| connection(&host, &action, error)))
            .boxed())
    }

    async fn has_blob(&self, at: &Endpoint, digest: &Digest) -> Result<bool, RegistryError> {
        let url = self.url(at, &format!("blobs/{digest}")).await?;
        let look = Exchange::new(at, writing(at, digest), Method::HEAD, url, PUSH);
        Ok(self.send(&look).await?.status().is_success())
    }

    /// The last request of an upload may have been carried out
    /// although its answer was lost; sent again it finds no upload, and then the blob is looked for once more.
    async fn push_blob(
        &self,
        at: &Endpoint,
        digest: &Digest,
        content: &BlobContent,
    ) -> Result<(), RegistryError> {
        let mut attempt = 0;
        loop {
            match self.upload(at, writing(at, digest), digest, content).await {
                // A part that was sent twice is out of range.
                Err(RegistryError::Status { status: 404 | 416, .. }) if attempt < self.timeouts.retries => {
                    if self.has_blob(at, digest).await? {
                        return Ok(());
                    }
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn push_manifest(
        &self,
        at: &Endpoint,
        name: &str,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<(), RegistryError> {
        let action = format!("writing manifest {name} to {}/{}", at.host, at.repository);
        let url = self.url(at, &format!("manifests/{name}")).await?;
        let (content_type, body) = (Some(media_type), Some(bytes));
        let exchange = Exchange { content_type, body, ..Exchange::new(at, action, Method::PUT, url, PUSH) };
        self.accepted(&exchange).await.map(drop)
    }
}

fn writing(at: &Endpoint, digest: &Digest) -> String {
    format!("writing blob {digest} to {}/{}", at.host, at.repository)
}

fn authorize(request: RequestBuilder, authorization: &Authorization) -> RequestBuilder {
    match authorization {
        Authorization::Basic { user, password } => request.basic_auth(user, Some(password.expose())),
        Authorization::Bearer(token) => request.bearer_auth(token.expose()),
    }
}

/// The target of a redirect or upload, relative to the URL that named it.
fn location(response: &Response, action: &str) -> Result<Url, RegistryError> {
    let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    target.and_then(|target| response.url().join(target).ok()).ok_or_else(|| RegistryError::Unusable {
        action: action.to_owned(),
        cause: format!("status {} without a usable Location", response.status().as_u16()),
    })
}

fn is_passing(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// Seconds of a `Retry-After`; a date is not heeded.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn backoff(timeouts: &Timeouts, attempt: u32) -> Duration {
    timeouts.backoff.saturating_mul(1 << attempt.min(16))
}
