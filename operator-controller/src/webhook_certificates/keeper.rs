//! The Secrets of webhook certificates, written as the extension's ServiceAccount.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GetParams},
};
use olm_api::{
    names::{
        MANAGED_BY, MANAGED_BY_LABEL, OWNER_KIND_LABEL, OWNER_NAME_LABEL, OWNER_UID_ANNOTATION,
        WEBHOOK_CERTIFICATES_FIELD_MANAGER,
    },
    v1::ClusterExtension,
};
use olm_certs::{Content, Step, Wanted, new_secret};
use olm_object::ObjectKey;
use olm_render::{WebhookCertificate, webhook_certificates};
use olm_runtime::{Discovery, Seen, WatchManager, api_text, bounded, get_json, post_as};
use parking_lot::Mutex;
use serde_json::Value;

use super::injection::CaBundles;

/// Common name of the certificates.
const COMMON_NAME: &str = "olm-webhook";
/// Longest time for API servers to hear of a new bundle. Their watches take far less.
const SETTLE_MAX: Duration = Duration::from_mins(1);
/// Steps of one pass; a Secret needs two at most.
const STEPS_MAX: usize = 4;

/// The Secrets that need nothing for now, by namespace and name. Losing it costs requests.
#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<(String, String), Settled>>);

/// What is remembered of a Secret: not its keys.
struct Settled {
    uid: String,
    resource_version: String,
    /// The extension that keeps it, and whether it stays when that is deleted.
    owner: (String, bool),
    names: Vec<String>,
    authorities: String,
    until: Timestamp,
}

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
    /// A Secret has another owner, or the API server refuses; the text names it.
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
        if let Some(settled) = self.recall(certificate, now) {
            return Ok(settled);
        }
        let wanted = Wanted {
            common_name: COMMON_NAME,
            names: &certificate.dns_names,
            lifetime: self.lifetime,
            settle_max: SETTLE_MAX,
        };
        let mut secret = self.read(certificate).await?;
        for _ in 0..STEPS_MAX {
            let content = secret.as_ref().map(Content::of).unwrap_or_default();
            let due = content.step(&wanted, now);
            match (due, &secret) {
                (Step::Rest(until), Some(secret)) if self.is_ours(secret) => {
                    self.remember(certificate, secret, &content.authorities, until);
                    return Ok((content.authorities, until));
                }
                (Step::Switch, _) if !self.trusted(certificate, objects, &content).await? => {
                    let wait = jiff::SignedDuration::try_from(content.settling(&wanted)).unwrap_or_default();
                    return Ok((content.authorities, now + wait));
                }
                // A Secret that another provider left is taken over as it is.
                _ => {}
            }
            let content = content.after(due, &wanted, now).map_err(|error| error.to_string())?;
            tracing::info!(namespace = certificate.namespace, secret = certificate.secret, step = ?due, "webhook certificate");
            secret = Some(self.write(certificate, secret, content).await?);
        }
        Err("it keeps changing".to_owned())
    }

    /// The authorities of a Secret to which nothing has happened, and until when it needs nothing.
    fn recall(&self, certificate: &WebhookCertificate, now: Timestamp) -> Option<(String, Timestamp)> {
        let place = (certificate.namespace.clone(), certificate.secret.clone());
        let secrets = ApiResource::erase::<Secret>(&());
        let mut memory = self.memory.0.lock();
        memory.retain(|(namespace, name), settled| {
            let (uid, resource_version) = (settled.uid.clone(), settled.resource_version.clone());
            self.watches.seen(&secrets, namespace, name) == Seen::Present { uid, resource_version }
        });
        let settled = memory.get(&place).filter(|settled| {
            now < settled.until
                && settled.owner == (self.extension.1.to_owned(), self.kept)
                && settled.names == certificate.dns_names
        })?;
        Some((settled.authorities.clone(), settled.until))
    }

    fn remember(
        &self,
        certificate: &WebhookCertificate,
        secret: &Secret,
        authorities: &str,
        until: Timestamp,
    ) {
        let place = (certificate.namespace.clone(), certificate.secret.clone());
        let settled = Settled {
            uid: secret.uid().unwrap_or_default(),
            resource_version: secret.resource_version().unwrap_or_default(),
            owner: (self.extension.1.to_owned(), self.kept),
            names: certificate.dns_names.clone(),
            authorities: authorities.to_owned(),
            until,
        };
        self.memory.0.lock().insert(place, settled);
    }

    async fn read(&self, certificate: &WebhookCertificate) -> Result<Option<Secret>, String> {
        let found =
            bounded(self.api(certificate).get_opt(&certificate.secret)).await.map_err(|e| api_text(&e))?;
        if let Some(found) = &found {
            self.refuse_foreign(found)?;
        }
        Ok(found)
    }

    fn refuse_foreign(&self, secret: &Secret) -> Result<(), String> {
        let owner = secret.owner_references().iter().find(|owner| owner.controller == Some(true));
        match owner {
            Some(owner) if owner.uid != self.extension.1 => Err(format!(
                "it is controlled by {} {:?}: remove the Secret or its owner reference, so that the certificate can be stored there",
                owner.kind, owner.name
            )),
            None if self.is_kept_for_another(secret) => Err(format!(
                "a deletion policy keeps it for another extension: remove the Secret or its annotation {OWNER_UID_ANNOTATION}, so that the certificate can be stored there",
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
        let mut secret = before.unwrap_or_else(|| new_secret(&certificate.namespace, &certificate.secret));
        self.claim(&mut secret.metadata);
        content.fill(&mut secret);
        // An update carries the resource version that was read: who comes second tries again.
        let written = if exists {
            bounded(api.replace(&certificate.secret, &params, &secret)).await
        } else {
            bounded(api.create(&params, &secret)).await
        };
        written.map_err(|e| api_text(&e))
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
            let live = get_json(&api, &key.name, &GetParams::default()).await.map_err(|e| api_text(&e))?;
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
