//! The Secrets of webhook certificates, written as the extension's ServiceAccount.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
};
use olm_api::{
    names::{
        MANAGED_BY, MANAGED_BY_LABEL, OWNER_KIND_LABEL, OWNER_NAME_LABEL, OWNER_UID_ANNOTATION,
        WEBHOOK_CERTIFICATES_FIELD_MANAGER,
    },
    v1::ClusterExtension,
};
use olm_object::ObjectKey;
use olm_render::{WebhookCertificate, webhook_certificates};
use olm_runtime::{Discovery, Seen, WatchManager, api_text, bounded, post_as};
use serde_json::Value;

use super::{
    injection::CaBundles,
    issue::issue,
    rotation::{Content, Step, settling, step},
};

const CERTIFICATE_KEY: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
const AUTHORITIES_KEY: &str = "ca.crt";
const STAGED_CERTIFICATE_KEY: &str = "next.crt";
const STAGED_PRIVATE_KEY: &str = "next.key";
const SECRET_TYPE: &str = "kubernetes.io/tls";
/// Steps of one pass; a Secret needs two at most.
const STEPS_MAX: usize = 4;

/// What was read of a Secret, by namespace and name. Losing it costs requests.
#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<(String, String), Secret>>);

/// Keeps the certificates of one revision.
pub(crate) struct Keeper<'a> {
    /// Acts as the extension's account.
    pub(crate) client: Client,
    pub(crate) discovery: &'a Discovery,
    pub(crate) watches: &'a WatchManager,
    pub(crate) memory: &'a Memory,
    /// The extension: name and UID.
    pub(crate) extension: (&'a str, &'a str),
    /// Whether the Secrets stay when the extension is deleted.
    pub(crate) kept: bool,
    pub(crate) lifetime: Duration,
}

/// What the webhooks of a revision are to trust, and when to look again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    pub(crate) bundles: CaBundles,
    pub(crate) next: Option<Timestamp>,
}

impl Keeper<'_> {
    /// Brings the Secrets that `objects` need to where they should be at `now`.
    ///
    /// # Errors
    /// A Secret belongs to somebody else, or the API server refuses; the text names it.
    pub(crate) async fn keep(&self, objects: &[&Value], now: Timestamp) -> Result<Kept, String> {
        let mut kept = Kept::default();
        for certificate in webhook_certificates(objects.iter().copied()) {
            let named = |error: String| {
                format!(
                    "webhook certificate in Secret {}/{}: {error}",
                    certificate.namespace, certificate.secret
                )
            };
            let (authorities, next) = self.keep_one(&certificate, objects, now).await.map_err(named)?;
            kept.bundles.insert(&certificate.namespace, &certificate.service, STANDARD.encode(authorities));
            kept.next = Some(kept.next.map_or(next, |earlier| earlier.min(next)));
        }
        Ok(kept)
    }

    async fn keep_one(
        &self,
        certificate: &WebhookCertificate,
        objects: &[&Value],
        now: Timestamp,
    ) -> Result<(String, Timestamp), String> {
        let names = &certificate.dns_names;
        let new =
            || issue(names, now, self.lifetime).map_err(|error| format!("making a certificate: {error}"));
        let mut secret = self.read(certificate).await?;
        for _ in 0..STEPS_MAX {
            let content = secret.as_ref().map(content_of).unwrap_or_default();
            let due = step(&content, names, now);
            let wanted = match due {
                Step::Rest(at) if secret.as_ref().is_some_and(|secret| self.is_ours(secret)) => {
                    return Ok((content.authorities, at));
                }
                // A Secret that another provider left is taken over as it is.
                Step::Rest(_) => content,
                Step::Switch if !self.trusted(certificate, objects, &content).await? => {
                    let again = now + jiff::SignedDuration::try_from(settling(&content)).unwrap_or_default();
                    return Ok((content.authorities, again));
                }
                Step::Switch => content.switched(),
                Step::Replace => content.replaced(new()?, now),
                Step::Stage => content.staged(new()?, now),
                Step::Prune => content.pruned(now),
            };
            tracing::info!(namespace = certificate.namespace, secret = certificate.secret, step = ?due, "webhook certificate");
            secret = Some(self.write(certificate, secret, wanted).await?);
        }
        Err("it does not come to rest".to_owned())
    }

    /// The Secret, from memory if nothing has happened to it since.
    async fn read(&self, certificate: &WebhookCertificate) -> Result<Option<Secret>, String> {
        let place = (certificate.namespace.clone(), certificate.secret.clone());
        let known = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        let seen = self.watches.seen(&ApiResource::erase::<Secret>(&()), &place.0, &place.1);
        if let (Some(known), Seen::Present { uid, resource_version }) = (known, seen)
            && known.uid().as_deref() == Some(uid.as_str())
            && known.resource_version().as_deref() == Some(resource_version.as_str())
        {
            return Ok(Some(known));
        }
        let found =
            bounded(self.api(certificate).get_opt(&certificate.secret)).await.map_err(|e| api_text(&e))?;
        if let Some(found) = &found {
            self.refuse_foreign(found)?;
            self.remember(place, found.clone());
        }
        Ok(found)
    }

    fn remember(&self, place: (String, String), secret: Secret) {
        let secrets = ApiResource::erase::<Secret>(&());
        let mut memory = self.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        // They hold private keys: those of Secrets that are gone have no place here.
        memory.retain(|(namespace, name), _| {
            matches!(self.watches.seen(&secrets, namespace, name), Seen::Present { .. })
        });
        memory.insert(place, secret);
    }

    fn refuse_foreign(&self, secret: &Secret) -> Result<(), String> {
        let owner = secret.owner_references().iter().find(|owner| owner.controller == Some(true));
        match owner {
            Some(owner) if owner.uid != self.extension.1 => Err(format!(
                "it is controlled by {} {:?}: remove the Secret or its owner reference, so that the certificate can be kept there",
                owner.kind, owner.name
            )),
            None if self.is_kept_for_another(secret) => Err(format!(
                "a deletion policy keeps it for another extension: remove the Secret or its annotation {OWNER_UID_ANNOTATION}, so that the certificate can be kept there",
            )),
            _ => Ok(()),
        }
    }

    fn is_kept_for_another(&self, secret: &Secret) -> bool {
        secret.annotations().get(OWNER_UID_ANNOTATION).is_some_and(|uid| uid != self.extension.1)
            && secret.labels().get(OWNER_NAME_LABEL).map(String::as_str) != Some(self.extension.0)
    }

    /// Whether the Secret is the extension's, in the form that the deletion policy asks for.
    fn is_ours(&self, secret: &Secret) -> bool {
        let uid = self.extension.1;
        let referenced = secret.owner_references().iter().any(|owner| owner.uid == uid);
        let annotated = secret.annotations().get(OWNER_UID_ANNOTATION).map(String::as_str) == Some(uid);
        (referenced, annotated) == (!self.kept, self.kept)
            && secret.labels().get(MANAGED_BY_LABEL).map(String::as_str) == Some(MANAGED_BY)
    }

    async fn write(
        &self,
        certificate: &WebhookCertificate,
        before: Option<Secret>,
        content: Content,
    ) -> Result<Secret, String> {
        let api = self.api(certificate);
        let params = post_as(WEBHOOK_CERTIFICATES_FIELD_MANAGER);
        let exists = before.is_some();
        let mut secret = before.unwrap_or_else(|| Secret {
            metadata: ObjectMeta {
                name: Some(certificate.secret.clone()),
                namespace: Some(certificate.namespace.clone()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            ..Secret::default()
        });
        self.claim(&mut secret.metadata);
        fill(&mut secret, content);
        // An update carries the resource version that was read: who comes second tries again.
        let written = if exists {
            bounded(api.replace(&certificate.secret, &params, &secret)).await
        } else {
            bounded(api.create(&params, &secret)).await
        };
        let written = written.map_err(|e| api_text(&e))?;
        self.remember((certificate.namespace.clone(), certificate.secret.clone()), written.clone());
        Ok(written)
    }

    fn claim(&self, metadata: &mut ObjectMeta) {
        let (name, uid) = self.extension;
        let labels = metadata.labels.get_or_insert_default();
        for (key, value) in
            [(MANAGED_BY_LABEL, MANAGED_BY), (OWNER_KIND_LABEL, "ClusterExtension"), (OWNER_NAME_LABEL, name)]
        {
            labels.insert(key.to_owned(), value.to_owned());
        }
        let owners = metadata.owner_references.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        if self.kept {
            owners.retain(|owner| owner.uid != uid);
            annotations.insert(OWNER_UID_ANNOTATION.to_owned(), uid.to_owned());
            return;
        }
        annotations.remove(OWNER_UID_ANNOTATION);
        if !owners.iter().any(|owner| owner.uid == uid) {
            owners.push(OwnerReference {
                api_version: ClusterExtension::api_version(&()).into_owned(),
                kind: ClusterExtension::kind(&()).into_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: None,
            });
        }
    }

    /// Whether every webhook behind the certificate that exists has the bundle.
    async fn trusted(
        &self,
        certificate: &WebhookCertificate,
        objects: &[&Value],
        content: &Content,
    ) -> Result<bool, String> {
        let mut bundle = CaBundles::default();
        bundle.insert(&certificate.namespace, &certificate.service, STANDARD.encode(&content.authorities));
        for object in objects {
            let Some(injection) = bundle.injection(object) else { continue };
            let key = ObjectKey::of(object);
            let kind = self.discovery.kind(&key.api_version(), &key.kind).await.map_err(|e| e.to_string())?;
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource);
            let live = bounded(api.get_opt(&key.name)).await.map_err(|e| api_text(&e))?;
            let live = live.map(serde_json::to_value).transpose().map_err(|e| e.to_string())?;
            if live.is_some_and(|live| !injection.is_trusted(&live)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn api(&self, certificate: &WebhookCertificate) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &certificate.namespace)
    }
}

fn content_of(secret: &Secret) -> Content {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
    };
    Content {
        certificate: text(CERTIFICATE_KEY).unwrap_or_default(),
        key: text(PRIVATE_KEY).unwrap_or_default(),
        authorities: text(AUTHORITIES_KEY).unwrap_or_default(),
        staged: text(STAGED_CERTIFICATE_KEY).zip(text(STAGED_PRIVATE_KEY)),
    }
}

fn fill(secret: &mut Secret, content: Content) {
    let data = secret.data.get_or_insert_default();
    let (staged_certificate, staged_key) = content.staged.unzip();
    for (key, value) in [
        (CERTIFICATE_KEY, Some(content.certificate)),
        (PRIVATE_KEY, Some(content.key)),
        (AUTHORITIES_KEY, Some(content.authorities)),
        (STAGED_CERTIFICATE_KEY, staged_certificate),
        (STAGED_PRIVATE_KEY, staged_key),
    ] {
        match value {
            Some(value) => drop(data.insert(key.to_owned(), ByteString(value.into_bytes()))),
            None => drop(data.remove(key)),
        }
    }
}
