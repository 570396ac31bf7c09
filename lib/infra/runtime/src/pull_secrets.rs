//! Credentials for registries, from Secrets: the global one, then those of the process's own ServiceAccount.
//!
//! Later ones replace earlier ones key by key, as upstream merges them. A Secret that is not there is passed
//! over; one that cannot be read leaves the credentials as they were. Changes are watched as metadata, and
//! only then are the Secrets read.

use std::{path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use olm_image::{Keyring, KeyringError, SharedKeyring};
use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::{
    chance::Chance,
    client::{AccountRef, bounded},
    object::api_text,
    watch::metadata_of,
};

/// Changes that come together are read once.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// Why credentials could not be read: a sentence that names the Secret, never what is in it.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct PullSecretError(String);

/// Keeps a keyring as the Secrets say.
pub struct PullSecrets {
    client: Client,
    keyring: SharedKeyring,
    /// Namespace and name.
    global: Option<(String, String)>,
    account: Option<AccountRef>,
    chance: Chance,
}

impl PullSecrets {
    /// Keeps `keyring` as the Secret `global` (namespace and name) and the pull secrets of `account` say.
    pub fn new(
        client: Client,
        keyring: SharedKeyring,
        global: Option<(String, String)>,
        account: Option<AccountRef>,
        chance: &Chance,
    ) -> Self {
        Self { client, keyring, global, account, chance: chance.clone() }
    }

    /// Reads the Secrets and replaces the credentials; answers whether they are others than before.
    ///
    /// # Errors
    /// One of them cannot be read; the credentials are as before.
    pub async fn load(&self) -> Result<bool, PullSecretError> {
        let keyring = keyring_of(&self.client, &self.names().await?).await?;
        let changed = *self.keyring.get() != keyring;
        self.keyring.set(keyring);
        Ok(changed)
    }

    async fn names(&self) -> Result<Vec<(String, String)>, PullSecretError> {
        let mut names: Vec<_> = self.global.iter().cloned().collect();
        if let Some(AccountRef { namespace, name }) = &self.account {
            let account = get::<ServiceAccount>(&self.client, "service account", namespace, name).await?;
            let listed = account.and_then(|account| account.image_pull_secrets).unwrap_or_default();
            names.extend(listed.into_iter().map(|secret| (namespace.clone(), secret.name)));
        }
        Ok(names)
    }

    /// Reads the Secrets again whenever one of them changes, until `shutdown`; `on_change` is called when the
    /// credentials became others.
    pub async fn run(self, shutdown: CancellationToken, on_change: impl Fn() + Send + Sync) {
        let mut changes = stream::SelectAll::new();
        if let Some((namespace, name)) = &self.global {
            changes.push(self.changed::<Secret>(namespace, Some(name)));
        }
        if let Some(AccountRef { namespace, name }) = &self.account {
            changes.push(self.changed::<Secret>(namespace, None));
            changes.push(self.changed::<ServiceAccount>(namespace, Some(name)));
        }
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                change = changes.next() => if change.is_none() { return },
            }
            while let Ok(Some(())) = tokio::time::timeout(DEBOUNCE, changes.next()).await {}
            match self.load().await {
                Ok(true) => on_change(),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "credentials for registries stay as they were"),
            }
        }
    }

    /// Something for each change of an object (or of any in the namespace), and for each watch that begins.
    fn changed<K>(&self, namespace: &str, name: Option<&str>) -> stream::BoxStream<'static, ()>
    where
        K: Resource<DynamicType = ()>,
    {
        let config = name.map_or_else(watcher::Config::default, |name| {
            watcher::Config::default().fields(&format!("metadata.name={name}"))
        });
        let events = self.chance.watch(metadata_of::<K>(self.client.clone(), Some(namespace)), config);
        events.filter_map(|event| async { event.ok().map(|_| ()) }).boxed()
    }
}

/// The credentials in Secrets, of which each replaces those before it, key by key. Those that do not exist have none.
///
/// # Errors
/// One of them cannot be read.
pub async fn keyring_of(client: &Client, secrets: &[(String, String)]) -> Result<Keyring, PullSecretError> {
    let mut keyring = Keyring::default();
    for (namespace, name) in secrets {
        let Some(secret) = get::<Secret>(client, "secret", namespace, name).await? else {
            tracing::debug!(namespace, name, "pull secret does not exist and is ignored");
            let absent = format!("pull secret {namespace}/{name} (which does not exist)");
            keyring.merge(Keyring::default().named(absent));
            continue;
        };
        let source = format!("pull secret {namespace}/{name}");
        let found = credentials(secret).map_err(|error| PullSecretError(format!("{source}: {error}")))?;
        keyring.merge(found.named(source));
    }
    Ok(keyring)
}

async fn get<K>(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, PullSecretError>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    bounded(api.get_opt(name))
        .await
        .map_err(|error| PullSecretError(format!("reading {kind} {namespace}/{name}: {}", api_text(&error))))
}

fn credentials(secret: Secret) -> Result<Keyring, KeyringError> {
    let name = secret.name_any();
    let data = secret.data.unwrap_or_default();
    match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
        (Some(json), _) => Keyring::from_docker_config(&json.0),
        (None, Some(json)) => Keyring::from_dockercfg(&json.0),
        (None, None) => {
            tracing::warn!(name, "pull secret has neither .dockerconfigjson nor .dockercfg and is ignored");
            Ok(Keyring::default())
        }
    }
}

/// The Secret that `--global-pull-secret` names as `<namespace>/<name>`; `None` for another form.
pub(crate) fn pull_secret_name(text: &str) -> Option<(String, String)> {
    let (namespace, name) = text.split_once('/')?;
    let well_formed = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    well_formed.then(|| (namespace.to_owned(), name.to_owned()))
}

/// The ServiceAccount that a mounted token is of; `None` where there is none, as outside of pods.
///
/// The token is not verified: who could replace it could do worse.
pub(crate) fn own_account(token_file: &Path) -> Option<AccountRef> {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
    }
    let token = std::fs::read_to_string(token_file).ok()?;
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    let (namespace, name) = claims.sub.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(AccountRef { namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, sync::Arc};

    use kube::client::Body;
    use olm_image::Credential;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that knows these objects, by path.
    fn client(objects: &[(&str, Value)]) -> Client {
        let objects: Arc<BTreeMap<String, Value>> = Arc::new(
            objects
                .iter()
                .map(|(path, object)| (format!("/api/v1/namespaces/{path}"), object.clone()))
                .collect(),
        );
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let missing = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "message": "", "code": 404});
            let found = objects.get(request.uri().path());
            let status = if found.is_some() { 200 } else { 404 };
            let answer = serde_json::to_vec(found.unwrap_or(&missing)).unwrap();
            let response = http::Response::builder().status(status).body(Body::from(answer)).unwrap();
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        });
        Client::new(service, "default")
    }

    fn secret(key: &str, text: &Value) -> Value {
        let data = base64::engine::general_purpose::STANDARD.encode(text.to_string());
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { key: data } })
    }

    fn auth(user: &str) -> Value {
        json!({ "auth": base64::engine::general_purpose::STANDARD.encode(format!("{user}:secret")) })
    }

    fn user(keyring: &SharedKeyring, host: &str) -> Option<String> {
        match keyring.get().lookup(host, "a/b") {
            Some(Credential::Basic { user, .. }) => Some(user.clone()),
            _ => None,
        }
    }

    fn account() -> AccountRef {
        AccountRef { namespace: "own".into(), name: "catalogd".into() }
    }

    fn pull_secrets(client: Client) -> PullSecrets {
        let global = Some(("config".to_owned(), "global".to_owned()));
        PullSecrets::new(client, SharedKeyring::default(), global, Some(account()), &Chance::default())
    }

    fn service_account() -> (&'static str, Value) {
        let listed =
            json!([{ "name": "first" }, { "name": "missing" }, { "name": "other" }, { "name": "last" }]);
        let metadata = json!({ "name": "catalogd", "namespace": "own" });
        let object = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "imagePullSecrets": listed });
        ("own/serviceaccounts/catalogd", object)
    }

    #[tokio::test]
    async fn later_secrets_replace_earlier_ones_key_by_key() {
        let docker = |auths: Value| secret(".dockerconfigjson", &json!({ "auths": auths }));
        let secrets = pull_secrets(client(&[
            service_account(),
            (
                "config/secrets/global",
                docker(json!({ "a.example": auth("global"), "b.example": auth("global") })),
            ),
            ("own/secrets/first", docker(json!({ "b.example": auth("first"), "c.example": auth("first") }))),
            ("own/secrets/other", secret("password", &json!("x"))),
            ("own/secrets/last", secret(".dockercfg", &json!({ "c.example": auth("last") }))),
        ]));
        assert!(secrets.load().await.unwrap());
        assert!(!secrets.load().await.unwrap(), "nothing changed");
        for (host, expected) in [
            ("a.example", Some("global")),
            ("b.example", Some("first")),
            ("c.example", Some("last")),
            ("d.example", None),
        ] {
            assert_eq!(user(&secrets.keyring, host).as_deref(), expected, "{host}");
        }
    }

    #[tokio::test]
    async fn a_malformed_secret_leaves_the_credentials_and_is_not_quoted() {
        let broken = secret(".dockerconfigjson", &json!("hidden"));
        let secrets = pull_secrets(client(&[service_account(), ("own/secrets/first", broken)]));
        let mut before = Keyring::default();
        before.merge(
            Keyring::from_docker_config(
                json!({ "auths": { "a.example": auth("old") } }).to_string().as_bytes(),
            )
            .unwrap(),
        );
        secrets.keyring.set(before);
        let error = secrets.load().await.unwrap_err().to_string();
        assert!(error.starts_with("pull secret own/first: ") && !error.contains("hidden"), "{error}");
        assert_eq!(user(&secrets.keyring, "a.example").as_deref(), Some("old"));
    }

    #[test]
    fn the_own_account_is_read_from_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        assert_eq!(own_account(&file), None);
        let token = |claims: &Value| format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims.to_string()));
        fs::write(&file, token(&json!({ "sub": "system:serviceaccount:own:catalogd" }))).unwrap();
        assert_eq!(own_account(&file), Some(account()));
        for text in ["", "x", &token(&json!({ "sub": "admin" }))] {
            fs::write(&file, text).unwrap();
            assert_eq!(own_account(&file), None);
        }
    }
}
