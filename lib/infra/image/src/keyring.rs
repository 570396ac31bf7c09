//! Credentials for registries, from the docker configurations that pull secrets hold.
//!
//! Pure: a text comes in, lookups answer. The most specific key wins (`host/namespace/repository`, then
//! `host/namespace`, then `host`); ports are significant; Docker Hub's old names mean `docker.io`. Passwords
//! have a type that cannot be printed, and errors never quote the configuration.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::GeneralPurpose};
use serde::Deserialize;
use thiserror::Error;

use crate::limits::DOCKER_CONFIG_BYTES_MAX;

#[cfg(test)]
mod tests;

/// Why a docker configuration cannot be used: a sentence that repeats nothing of its content.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct KeyringError(String);

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// What to show a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// An OAuth2 refresh token (`identitytoken`), to be exchanged at the registry's token endpoint.
    Identity(Secret),
    /// A ready bearer token (`registrytoken`).
    Bearer(Secret),
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

/// Credentials by registry, or by a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Keyring {
    entries: BTreeMap<String, Held>,
    /// Names of everything the entries came from, or should have, in the order they were merged.
    sources: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    credential: Credential,
    /// Index into the keyring's sources.
    source: Option<usize>,
}

impl Keyring {
    /// From a `config.json` (`{"auths": {...}}`): the data of a `kubernetes.io/dockerconfigjson` Secret or an
    /// `auth.json`. Credential helpers are programs and are not run.
    ///
    /// # Errors
    /// The text has another form; no value of it is repeated.
    pub fn from_docker_config(json: &[u8]) -> Result<Self, KeyringError> {
        Self::from_entries(decode::<DockerConfig>(json)?.auths)
    }

    /// From the older form without `auths` around it: the data of a `kubernetes.io/dockercfg` Secret.
    ///
    /// # Errors
    /// The text has another form; no value of it is repeated.
    pub fn from_dockercfg(json: &[u8]) -> Result<Self, KeyringError> {
        Self::from_entries(decode(json)?)
    }

    fn from_entries(entries: BTreeMap<String, Entry>) -> Result<Self, KeyringError> {
        let mut keyring = Self::default();
        for (key, entry) in entries {
            if let Some(credential) = credential(&key, entry)? {
                keyring.insert(&key, credential);
            }
        }
        Ok(keyring)
    }

    /// The same, named for the errors of registries: `pull secret <namespace>/<name>`. A keyring without
    /// entries can be named too, for a source that holds none or is not there.
    #[must_use]
    pub fn named(mut self, source: impl Into<String>) -> Self {
        self.sources = vec![source.into()];
        self.entries.values_mut().for_each(|held| held.source = Some(0));
        self
    }

    /// Adds the entries of another keyring; they replace those with the same key.
    pub fn merge(&mut self, later: Self) {
        let offset = self.sources.len();
        self.sources.extend(later.sources);
        self.entries.extend(
            later
                .entries
                .into_iter()
                .map(|(key, held)| (key, Held { source: held.source.map(|index| index + offset), ..held })),
        );
    }

    /// Adds one credential for `host`, `host/namespace` or `host/namespace/repository`.
    pub fn insert(&mut self, key: &str, credential: Credential) {
        self.entries.insert(normalised(key), Held { credential, source: None });
    }

    /// Whether there are no credentials at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The most specific credential for a repository on a host (with port).
    pub fn lookup(&self, host: &str, repository: &str) -> Option<&Credential> {
        self.find(host, repository).map(|(_, held)| &held.credential)
    }

    /// Which credentials were shown for a repository, for the error of a registry that refused them.
    pub(crate) fn tried(&self, host: &str, repository: &str) -> String {
        match self.find(host, repository) {
            Some((key, held)) => match held.source.and_then(|index| self.sources.get(index)) {
                Some(source) => format!("tried the credentials for {key} of {source}"),
                None => format!("tried the configured credentials for {key}"),
            },
            None if self.sources.is_empty() => "tried without credentials, as none are configured".to_owned(),
            None => format!(
                "tried without credentials, as there are none for {host}/{repository} in {}",
                self.sources.join(", ")
            ),
        }
    }

    fn find(&self, host: &str, repository: &str) -> Option<(&str, &Held)> {
        let mut key = format!("{}/{repository}", canonical_host(host));
        loop {
            if let Some((key, held)) = self.entries.get_key_value(&key) {
                return Some((key, held));
            }
            key.truncate(key.rfind('/')?);
        }
    }
}

fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, KeyringError> {
    if json.len() > DOCKER_CONFIG_BYTES_MAX {
        let most = DOCKER_CONFIG_BYTES_MAX;
        return Err(KeyringError(format!("the docker configuration is larger than {most} bytes")));
    }
    // serde_json's own text can quote a value of the document.
    serde_json::from_slice(json).map_err(|e| {
        let (kind, line, column) = (e.classify(), e.line(), e.column());
        KeyringError(format!(
            "the docker configuration is not valid: {kind:?} error at line {line}, column {column}"
        ))
    })
}

fn credential(key: &str, entry: Entry) -> Result<Option<Credential>, KeyringError> {
    if !entry.identitytoken.is_empty() {
        return Ok(Some(Credential::Identity(Secret(entry.identitytoken))));
    }
    if !entry.registrytoken.is_empty() {
        return Ok(Some(Credential::Bearer(Secret(entry.registrytoken))));
    }
    let (user, password) = if entry.auth.is_empty() {
        (entry.username, entry.password)
    } else {
        let invalid = || KeyringError(format!("auth of registry {key:?} is not base64 of user:password"));
        let engine = GeneralPurpose::new(
            &base64::alphabet::STANDARD,
            base64::engine::GeneralPurposeConfig::new()
                .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
        );
        let bytes = engine.decode(entry.auth.trim()).map_err(|_| invalid())?;
        let text = String::from_utf8(bytes).map_err(|_| invalid())?;
        let (user, password) = text.split_once(':').ok_or_else(invalid)?;
        (user.to_owned(), password.trim_end_matches('\0').to_owned())
    };
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    Ok(Some(Credential::Basic { user, password: Secret(password) }))
}

/// A key without scheme, API version and slash at the end.
fn normalised(key: &str) -> String {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
    match key.split_once('/') {
        Some((host, path)) => format!("{}/{path}", canonical_host(host)),
        None => canonical_host(key).to_owned(),
    }
}

fn canonical_host(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    }
}
