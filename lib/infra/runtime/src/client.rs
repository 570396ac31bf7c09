//! Clients: the process's own, and one for each ServiceAccount on whose behalf bundle content is written.
//!
//! All accounts share one anonymous HTTP service (connection pool, TLS); a thin layer adds the account's token.
//! Tokens come from TokenRequest, are kept to 80 % of their life and dropped when the server answers 401. Each names the
//! UID of its ServiceAccount, by which one that was deleted and created again is distinguished from the one before.

mod error;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, Response, StatusCode, header::AUTHORIZATION};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::{PatchParams, PostParams},
    client::Body,
    config::{AuthInfo, KubeConfigOptions},
    core::response::reason,
};
use olm_object::names;
use parking_lot::Mutex;
use tokio::time::Instant;

pub use error::ClientError;

use crate::{
    connection,
    fence::Fence,
    kubeconfig,
    metrics::RequestCount,
    object::{is_namespace_missing, is_namespace_terminating},
    proxy,
};

/// How long one request may take; watches are not bound by it.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Life asked for a token, as upstream does.
const TOKEN_LIFE_SECONDS: i64 = 3600;
/// Most tokens that are kept, of 1 to 2 KB each.
const TOKENS_MAX: usize = 2_000;

/// Loads the configuration of the cluster: the given kubeconfig, else the usual places, else the pod's; of a kubeconfig
/// the given context, else its current one. A proxy is that of the kubeconfig, else of `HTTPS_PROXY` (`HTTP_PROXY` for
/// an API server without TLS) where `NO_PROXY` does not name the API server.
///
/// # Errors
/// No configuration of a cluster is found, it cannot be read, or the address of its proxy is none.
pub async fn cluster_config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ClientError> {
    let file = kubeconfig.map_or_else(kubeconfig::find, |path| kubeconfig::read(path).map(Some));
    let mut file = file.map_err(ClientError::Config)?;
    let place = || kubeconfig::place(kubeconfig);
    let mut config = match (&mut file, context) {
        (Some(file), _) => {
            file.current_context = context.map(str::to_owned).or(file.current_context.take());
            let config = Config::from_custom_kubeconfig(file.clone(), &KubeConfigOptions::default()).await;
            config.map_err(|error| ClientError::Config(format!("{}: {error}", place())))?
        }
        (None, Some(_)) => return Err(ClientError::Config(format!("{}: no cluster there", place()))),
        (None, None) => Config::incluster()
            .map_err(|error| ClientError::NoCluster(format!("{}: no cluster there; {error}", place())))?,
    };
    config.proxy_url = proxy::to_cluster(&config.cluster_url, file.as_ref())?;
    // Our own callers decide about repetition; the library's would wait for up to a quarter of an hour.
    config.default_retry = false;
    Ok(config)
}

/// A client for the cluster.
///
/// # Errors
/// The certificates or keys of the configuration cannot be used.
pub fn connect(config: Config) -> Result<Client, ClientError> {
    connect_counted(config, RequestCount::default())
}

/// A client for the cluster whose requests are counted.
///
/// # Errors
/// As [`connect`].
pub fn connect_counted(config: Config, count: RequestCount) -> Result<Client, ClientError> {
    connection::client(config, count).map_err(ClientError::Build)
}

/// Names a ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl AccountRef {
    /// Accepts only names that a ServiceAccount can have. They become parts of a URL.
    ///
    /// # Errors
    /// The text names the part that no ServiceAccount can have.
    pub fn check(&self) -> Result<(), String> {
        if !names::is_label(&self.namespace) {
            return Err(format!("{:?} is not the name of a namespace (RFC 1123 label)", self.namespace));
        }
        if !names::is_subdomain(&self.name) {
            return Err(format!("{:?} is not the name of a service account (RFC 1123 subdomain)", self.name));
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Token {
    // Never printed: the type has neither Debug nor Display.
    value: String,
    /// UID of the ServiceAccount.
    uid: String,
    renew_at: Instant,
}

/// The tokens that are kept, each with its last use.
#[derive(Default)]
struct Tokens(BTreeMap<AccountRef, (Token, Instant)>);

impl Tokens {
    fn get(&mut self, account: &AccountRef) -> Option<Token> {
        let now = Instant::now();
        let (token, used) = self.0.get_mut(account).filter(|(token, _)| token.renew_at > now)?;
        *used = now;
        Some(token.clone())
    }

    /// Keeps a token. Those that have served their time go, and of too many the one that was not used for longest.
    fn insert(&mut self, account: &AccountRef, token: Token) {
        let now = Instant::now();
        self.0.retain(|_, (token, _)| token.renew_at > now);
        if self.0.len() >= TOKENS_MAX && !self.0.contains_key(account) {
            let oldest = self.0.iter().min_by_key(|(_, (_, used))| *used).map(|(account, _)| account.clone());
            oldest.map(|account| self.0.remove(&account));
        }
        self.0.insert(account.clone(), (token, now));
    }
}

/// The UID of its ServiceAccount in a token that the API server has just granted. It is the API server's word, so no
/// signature is checked.
fn account_uid(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let uid = claims.pointer("/kubernetes.io/serviceaccount/uid")?.as_str()?;
    (!uid.is_empty()).then(|| uid.to_owned())
}

/// Hands out clients that act as ServiceAccounts.
#[derive(Clone)]
pub struct Accounts {
    controller: Client,
    elector: Client,
    anonymous: Client,
    tokens: Arc<Mutex<Tokens>>,
}

impl Accounts {
    /// `config` is the cluster's; its credentials are used only to request tokens.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn new(config: &Config) -> Result<Self, ClientError> {
        Self::counted(config, &RequestCount::default(), &Fence::default())
    }

    /// As [`Accounts::new`]; the requests of all accounts are counted, and `fence` ends all writes.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn counted(config: &Config, count: &RequestCount, fence: &Fence) -> Result<Self, ClientError> {
        let elector = connect_counted(config.clone(), count.clone())?;
        let mut anonymous = config.clone();
        anonymous.auth_info = AuthInfo::default();
        let anonymous = fence.around(connect_counted(anonymous, count.clone())?);
        Ok(Self { controller: fence.around(elector.clone()), elector, anonymous, tokens: Arc::default() })
    }

    /// Over clients that are there already: the process's own, and one without credentials.
    pub fn of(controller: Client, anonymous: Client) -> Self {
        Self { elector: controller.clone(), controller, anonymous, tokens: Arc::default() }
    }

    /// The process's own client.
    pub fn controller(&self) -> Client {
        self.controller.clone()
    }

    /// The process's own client for leases, which no fence stops.
    pub fn elector(&self) -> Client {
        self.elector.clone()
    }

    /// A client that acts as `account`. Its token is fetched now, so that a missing account shows here.
    ///
    /// # Errors
    /// The ServiceAccount does not exist, or gives no token.
    pub async fn client(&self, account: &AccountRef) -> Result<Client, ClientError> {
        self.client_of(account, None).await
    }

    /// A client that acts as `account` only while the ServiceAccount has this UID: no request is sent with the token of
    /// another one.
    ///
    /// # Errors
    /// Those of [`Accounts::client`]; another ServiceAccount has the name.
    pub async fn bound_client(&self, account: &AccountRef, uid: &str) -> Result<Client, ClientError> {
        self.client_of(account, Some(uid.to_owned())).await
    }

    /// The UID of the ServiceAccount.
    ///
    /// # Errors
    /// As [`Accounts::client`].
    pub async fn uid(&self, account: &AccountRef) -> Result<String, ClientError> {
        Ok(self.token(account).await?.uid)
    }

    async fn client_of(&self, account: &AccountRef, uid: Option<String>) -> Result<Client, ClientError> {
        self.bound_token(account, uid.as_deref()).await?;
        let accounts = self.clone();
        let account = account.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (accounts, account, uid) = (accounts.clone(), account.clone(), uid.clone());
            async move { accounts.send(&account, uid.as_deref(), request).await }
        });
        Ok(Client::new(service, "default"))
    }

    async fn send(
        &self,
        account: &AccountRef,
        uid: Option<&str>,
        request: Request<Body>,
    ) -> Result<Response<Body>, tower::BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        for attempt in 0..2 {
            let token = self.bound_token(account, uid).await?;
            let mut request = Request::from_parts(parts.clone(), Body::from(body.to_vec()));
            let mut header = http::HeaderValue::try_from(format!("Bearer {}", token.value))?;
            header.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, header);
            let response =
                tokio::time::timeout(REQUEST_TIMEOUT, self.anonymous.send(request)).await.map_err(
                    |_| format!("no answer from the API server within {} s", REQUEST_TIMEOUT.as_secs()),
                )??;
            if response.status() != StatusCode::UNAUTHORIZED || attempt > 0 {
                return Ok(response);
            }
            self.forget(account);
        }
        Err("the API server refused a fresh token".into())
    }

    /// A token of the ServiceAccount with this UID, if one is given.
    async fn bound_token(&self, account: &AccountRef, uid: Option<&str>) -> Result<Token, ClientError> {
        let token = self.token(account).await?;
        let Some(expected) = uid.filter(|uid| *uid != token.uid) else { return Ok(token) };
        // The cached one may be of the ServiceAccount before.
        self.forget(account);
        let token = self.token(account).await?;
        if token.uid == expected {
            return Ok(token);
        }
        Err(ClientError::AccountReplaced {
            namespace: account.namespace.clone(),
            name: account.name.clone(),
            expected: expected.to_owned(),
            found: token.uid,
        })
    }

    async fn token(&self, account: &AccountRef) -> Result<Token, ClientError> {
        let cached = self.tokens.lock().get(account);
        if let Some(token) = cached {
            return Ok(token);
        }
        let token = self.request_token(account).await.inspect_err(|_| self.forget(account))?;
        self.tokens.lock().insert(account, token.clone());
        Ok(token)
    }

    async fn request_token(&self, account: &AccountRef) -> Result<Token, ClientError> {
        account.check().map_err(|what| ClientError::InvalidAccount { what })?;
        let api: Api<ServiceAccount> = Api::namespaced(self.controller.clone(), &account.namespace);
        let asked = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_LIFE_SECONDS),
                ..Default::default()
            }),
            ..Default::default()
        };
        let requested = Instant::now();
        let (namespace, name) = (account.namespace.clone(), account.name.clone());
        let granted =
            match bounded(api.create_token_request(&account.name, &PostParams::default(), &asked)).await {
                Ok(granted) => granted,
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    let namespace_missing = is_namespace_missing(&status);
                    return Err(ClientError::AccountNotFound { namespace, name, namespace_missing });
                }
                Err(kube::Error::Api(status)) if is_namespace_terminating(&status) => {
                    return Err(ClientError::NamespaceTerminating { namespace, name });
                }
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    let message = status.message.clone();
                    return Err(ClientError::TokenForbidden { namespace, name, message });
                }
                Err(source) => return Err(ClientError::Token { namespace, name, source }),
            };
        let value = granted.status.unwrap_or_default().token.unwrap_or_default();
        let Some(uid) = account_uid(&value) else {
            return Err(ClientError::Unidentified { namespace, name });
        };
        // The server may grant another life than was asked; its clock and ours may differ, so the life is
        // taken from the request and only cut by what was granted.
        let granted_seconds = granted.spec.and_then(|s| s.expiration_seconds).unwrap_or(TOKEN_LIFE_SECONDS);
        let life = Duration::from_secs(u64::try_from(granted_seconds).unwrap_or(0)).mul_f64(0.8);
        Ok(Token { value, uid, renew_at: requested + life })
    }

    /// Forgets the token of `account` unless it is that of the ServiceAccount with this UID.
    pub fn forget_others(&self, account: &AccountRef, uid: &str) {
        let mut tokens = self.tokens.lock();
        if tokens.0.get(account).is_some_and(|(token, _)| token.uid != uid) {
            tokens.0.remove(account);
        }
    }

    /// Forgets the token of `account`, for instance because it was deleted and created again.
    pub fn forget(&self, account: &AccountRef) {
        self.tokens.lock().0.remove(account);
    }
}

/// The parameters of a patch in the name of this field manager.
#[must_use]
pub fn patch_as(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

/// The parameters of a write of a whole object in the name of this field manager.
#[must_use]
pub fn post_as(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }
}

/// Bounds a request in time.
///
/// # Errors
/// The request's own error, or a time-out in the form of a service error.
pub async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    tokio::time::timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| {
        let text = format!("no answer from the API server within {} s", REQUEST_TIMEOUT.as_secs());
        Err(kube::Error::Service(text.into()))
    })
}

/// Bounds a request about an object that may be gone: nothing if it is.
///
/// # Errors
/// As [`bounded`].
pub async fn if_exists<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, kube::Error> {
    match bounded(request).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

/// The refusal of a JSON patch that tests the resource version: that the object has another one by now is a conflict, which
/// the API server answers with 422 as it does invalid objects.
pub fn as_conflict(error: kube::Error) -> kube::Error {
    match error {
        kube::Error::Api(mut status) if status.code == 422 => {
            (status.code, status.reason) = (409, reason::CONFLICT.to_owned());
            kube::Error::Api(status)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
