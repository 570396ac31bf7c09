//! A serving certificate that needs nobody else: made here, kept in a Secret, its authority published in a
//! ConfigMap of the same name under `ca.crt`, and renewed while the program runs.
//!
//! All replicas serve the one that is kept; whoever sees first that it is time makes the next one, and the
//! others' writes then conflict and are not repeated. The authority's key is thrown away: each certificate has
//! an authority of its own, and the published bundle holds those of the last few. While the cluster does not
//! let us keep it, a certificate of this process alone is served, with a warning.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
    runtime::watcher,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::json;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::{
    ServingCert, TlsError, certified,
    renewal::{LIFE_SECONDS, SKEW_SECONDS, Step, Validity, step},
    self_signed,
};
use crate::{bounded, chance::Chance};

/// Between two looks at the Secret; changes of it are seen at once.
const LOOK_INTERVAL: Duration = Duration::from_hours(1);
/// Between two looks after one that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Changes that come together are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How long the start waits for the API server before it serves a certificate of its own.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Other replicas may write at the same time.
const ATTEMPTS: usize = 4;
/// Authorities in the published bundle.
const AUTHORITIES_MAX: usize = 4;

const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
const NEXT_CERT: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// Why the certificate could not be kept. Key material is never part of the text.
#[derive(Debug, Error)]
pub enum ServingSecretError {
    /// The API server refused, or did not answer.
    #[error("{action} {kind} {namespace}/{name}: {source}")]
    Api {
        /// What was tried.
        action: &'static str,
        /// `Secret` or `ConfigMap`.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// A certificate could not be made or used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Others wrote the Secret again and again.
    #[error("Secret {namespace}/{name} changes too often")]
    Contended {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The API server is slow.
    #[error("no answer from the API server within {} s", OPEN_TIMEOUT.as_secs())]
    Slow,
}

/// Keeps a serving certificate in a Secret.
pub struct ServingSecret {
    secrets: Api<Secret>,
    metadata: Api<PartialObjectMeta<Secret>>,
    maps: Api<ConfigMap>,
    namespace: String,
    name: String,
    names: Vec<String>,
    serving: Arc<ServingCert>,
    /// The certificate that is served, as PEM; empty while it is one of this process.
    shown: Vec<u8>,
    chance: Chance,
}

/// What the Secret holds.
type Held = BTreeMap<String, ByteString>;

impl ServingSecret {
    /// Takes the certificate for `names` from the Secret, making it if need be.
    ///
    /// # Errors
    /// A name is none. That the cluster does not keep it is a warning, and tried again.
    pub async fn open(
        client: Client,
        namespace: &str,
        name: &str,
        names: &[String],
        chance: &Chance,
    ) -> Result<Self, TlsError> {
        let mut this = Self {
            secrets: Api::namespaced(client.clone(), namespace),
            metadata: Api::namespaced(client.clone(), namespace),
            maps: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            names: names.to_vec(),
            serving: self_signed(names)?.serving,
            shown: Vec::new(),
            chance: chance.clone(),
        };
        let looked = tokio::time::timeout(OPEN_TIMEOUT, this.look()).await;
        if let Err(error) = looked.unwrap_or(Err(ServingSecretError::Slow)) {
            tracing::warn!(%error, "serving with a certificate of this process only until it can be kept");
        }
        Ok(this)
    }

    /// What connections are answered with.
    pub fn serving(&self) -> Arc<ServingCert> {
        Arc::clone(&self.serving)
    }

    /// Follows the Secret and renews the certificate until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut changes = self.chance.watch(self.metadata.clone(), config).boxed();
        let mut wait = if self.shown.is_empty() { RETRY_INTERVAL } else { LOOK_INTERVAL };
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                Some(_) = changes.next() => {}
            }
            while let Ok(Some(_)) = tokio::time::timeout(DEBOUNCE, changes.next()).await {}
            wait = LOOK_INTERVAL;
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "serving certificate not renewed, the old one stays");
                wait = RETRY_INTERVAL;
            }
        }
    }

    /// Looks at the Secret once, does what is due, and serves what it holds then.
    async fn look(&mut self) -> Result<(), ServingSecretError> {
        for _ in 0..ATTEMPTS {
            let secret = bounded(self.secrets.get_opt(&self.name))
                .await
                .map_err(|source| self.api("reading", "Secret", source))?;
            let version = secret.as_ref().map(|secret| secret.metadata.resource_version.clone());
            let held = secret.and_then(|secret| secret.data).unwrap_or_default();
            let now = jiff::Timestamp::now().as_second();
            let (current, next) = (validity(&held, CERT, KEY), validity(&held, NEXT_CERT, NEXT_KEY));
            let held = match step(current.as_ref(), next.as_ref(), &self.names, now) {
                Step::Keep => held,
                due => {
                    tracing::info!(secret = self.name, ?due, "serving certificate");
                    let changed = self.after(due, &held, now)?;
                    match self.write(version.flatten(), &held, &changed).await {
                        Ok(()) => changed,
                        Err(kube::Error::Api(status))
                            if status.is_conflict() || status.is_already_exists() =>
                        {
                            continue;
                        }
                        Err(source) => return Err(self.api("writing", "Secret", source)),
                    }
                }
            };
            // Published first: whoever meets the new certificate shall be able to check it.
            let published = self.publish(&held).await;
            self.show(&held)?;
            return published;
        }
        Err(ServingSecretError::Contended { namespace: self.namespace.clone(), name: self.name.clone() })
    }

    /// What the Secret is to hold after a step.
    fn after(&self, due: Step, held: &Held, now: i64) -> Result<Held, TlsError> {
        let mut after = held.clone();
        if due == Step::Promote {
            for (from, to) in [(NEXT_CERT, CERT), (NEXT_KEY, KEY)] {
                if let Some(value) = after.remove(from) {
                    after.insert(to.to_owned(), value);
                }
            }
            return Ok(after);
        }
        let made = make(&self.names, now)?;
        let (cert, key) = if due == Step::Prepare { (NEXT_CERT, NEXT_KEY) } else { (CERT, KEY) };
        let known = held.get(BUNDLE).map(|bundle| bundle.0.as_slice()).unwrap_or_default();
        after.insert(BUNDLE.to_owned(), ByteString(bundle(&made.authority, known, now)));
        after.insert(cert.to_owned(), ByteString(made.chain));
        after.insert(key.to_owned(), ByteString(made.key));
        if due == Step::Make {
            after.remove(NEXT_CERT);
            after.remove(NEXT_KEY);
        }
        Ok(after)
    }

    /// Writes the Secret, if it still is as it was read.
    async fn write(&self, version: Option<String>, before: &Held, after: &Held) -> Result<(), kube::Error> {
        let Some(version) = version else {
            let secret: Secret = serde_json::from_value(json!({
                "metadata": { "name": self.name }, "type": "kubernetes.io/tls", "data": after,
            }))
            .map_err(kube::Error::SerdeError)?;
            return bounded(self.secrets.create(&PostParams::default(), &secret)).await.map(drop);
        };
        let mut data = json!(after);
        for gone in before.keys().filter(|key| !after.contains_key(*key)) {
            data[gone] = serde_json::Value::Null;
        }
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "data": data }));
        bounded(self.secrets.patch(&self.name, &PatchParams::default(), &patch)).await.map(drop)
    }

    /// Writes the bundle into the ConfigMap, if it is another there.
    async fn publish(&self, held: &Held) -> Result<(), ServingSecretError> {
        let Some(bundle) = held.get(BUNDLE) else { return Ok(()) };
        let data = json!({ BUNDLE: String::from_utf8_lossy(&bundle.0) });
        let failed = |action, source| self.api(action, "ConfigMap", source);
        let found = bounded(self.maps.get_opt(&self.name)).await.map_err(|e| failed("reading", e))?;
        let written = match found {
            Some(map) if json!(map.data) == data => return Ok(()),
            Some(_) => {
                let patch = Patch::Merge(json!({ "data": data }));
                bounded(self.maps.patch(&self.name, &PatchParams::default(), &patch)).await
            }
            None => {
                let map = ConfigMap {
                    data: serde_json::from_value(data).ok(),
                    metadata: kube::core::ObjectMeta { name: Some(self.name.clone()), ..Default::default() },
                    ..ConfigMap::default()
                };
                bounded(self.maps.create(&PostParams::default(), &map)).await
            }
        };
        match written {
            // Another replica was faster, with the same content.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(source) => Err(failed("writing", source)),
            Ok(_) => Ok(()),
        }
    }

    /// Serves what the Secret holds.
    fn show(&mut self, held: &Held) -> Result<(), TlsError> {
        if let (Some(cert), Some(key)) = (held.get(CERT), held.get(KEY))
            && cert.0 != self.shown
        {
            self.serving.replace(certified(&cert.0, &key.0)?);
            self.shown.clone_from(&cert.0);
            tracing::info!(secret = self.name, "serving the certificate that the Secret holds");
        }
        Ok(())
    }

    fn api(&self, action: &'static str, kind: &'static str, source: kube::Error) -> ServingSecretError {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        ServingSecretError::Api { action, kind, namespace, name, source: Box::new(source) }
    }
}

struct Made {
    /// The certificate and its authority, as PEM.
    chain: Vec<u8>,
    key: Vec<u8>,
    authority: String,
}

/// Makes an authority, and a certificate for `names` with it.
fn make(names: &[String], now: i64) -> Result<Made, TlsError> {
    let time = |seconds: i64| {
        // A time before the epoch is no time for a certificate.
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let (begin, end) = (time(now - SKEW_SECONDS), time(now + LIFE_SECONDS));
    let common_name = names.first().map_or("catalogd", String::as_str);
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    // Told apart by their time: two authorities of one name would shadow each other in some clients.
    authority.distinguished_name.push(DnType::CommonName, format!("{common_name} authority {now}"));
    (authority.not_before, authority.not_after) = (begin, end);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = (begin, end);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let authority = issuer.pem();
    let chain = format!("{}{authority}", certificate.pem()).into_bytes();
    Ok(Made { chain, key: key.serialize_pem().into_bytes(), authority })
}

/// The new authority before those that are known and not over.
fn bundle(authority: &str, known: &[u8], now: i64) -> Vec<u8> {
    let mut bundle = authority.as_bytes().to_vec();
    let is_valid = |der: &CertificateDer<'_>| {
        parse_x509_certificate(der).is_ok_and(|(_, found)| found.validity().not_after.timestamp() > now)
    };
    let known = CertificateDer::pem_slice_iter(known).filter_map(Result::ok).filter(is_valid);
    for der in known.take(AUTHORITIES_MAX - 1) {
        bundle.extend_from_slice(pem(&der).as_bytes());
    }
    bundle
}

fn pem(der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// What a kept pair is good for; `None` when it is not there or cannot be used.
fn validity(held: &Held, cert: &str, key: &str) -> Option<Validity> {
    let (cert, key) = (held.get(cert)?, held.get(key)?);
    let usable: CertifiedKey = certified(&cert.0, &key.0).ok()?;
    let (_, found) = parse_x509_certificate(usable.cert.first()?).ok()?;
    let alternatives = found.subject_alternative_name().ok()??;
    let names = alternatives.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
        },
        _ => None,
    });
    Some(Validity {
        names: names.collect(),
        not_before: found.validity().not_before.timestamp(),
        not_after: found.validity().not_after.timestamp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn held(made: Made) -> Held {
        let value = |bytes: Vec<u8>| ByteString(bytes);
        [(CERT.to_owned(), value(made.chain)), (KEY.to_owned(), value(made.key))].into()
    }

    #[test]
    fn what_is_made_is_good_for_its_names_and_its_time() {
        let names = ["catalogs.example.svc".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let found = validity(&held(make(&names, NOW).unwrap()), CERT, KEY).unwrap();
        let wanted =
            Validity { names: names.to_vec(), not_before: NOW - SKEW_SECONDS, not_after: NOW + LIFE_SECONDS };
        assert_eq!(found, wanted);
        let mut mixed = held(make(&names, NOW).unwrap());
        mixed.insert(KEY.to_owned(), ByteString(make(&names, NOW).unwrap().key));
        assert_eq!(validity(&mixed, CERT, KEY), None, "a key of another certificate");
        assert_eq!(validity(&Held::new(), CERT, KEY), None);
    }

    #[test]
    fn the_bundle_holds_the_last_authorities_that_are_not_over() {
        let names = ["a".to_owned()];
        let mut known = Vec::new();
        for round in 0..6 {
            let now = NOW + round * LIFE_SECONDS / 10;
            known = bundle(&make(&names, now).unwrap().authority, &known, now);
        }
        let count = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).count();
        assert_eq!(count(&known), AUTHORITIES_MAX);
        let later = NOW + 3 * LIFE_SECONDS;
        assert_eq!(count(&bundle(&make(&names, later).unwrap().authority, &known, later)), 1);
    }
}
