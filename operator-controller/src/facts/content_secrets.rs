//! The Secrets with the content of revisions, which lie in the system namespace. Each is read once, as long as it exists
//! and there is room.
//!
//! A user who may write Secrets there can delete one and create another of the same name, which must be read and refused. An
//! immutable Secret has the same bytes as long as it has its UID; so a watch of the metadata shows whether what was read
//! still counts, and which revision the Secret says it belongs to. What the watch does not show is read each time.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::StreamExt as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, Resource as _, ResourceExt,
    api::ObjectMeta,
    runtime::watcher::{self, Event},
};
use olm_api::{
    names::{OBJECT_DATA_SECRET_TYPE, OWNER_NAME_LABEL, REVISION_NAME_LABEL},
    v1::ClusterObjectSet,
};
use olm_object::ObjectKey;
use olm_runtime::{Chance, Metadata, OwnerChanged, bounded, metadata_of};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use crate::{
    interest::{Interest, Interests},
    webhook_certificates::needs_ca_bundle,
};

/// Most bytes of content in memory, as they are stored.
const BYTES_MAX: usize = 16 << 20;
/// What an entry takes beside its key and its bytes.
const ENTRY_BYTES: usize = 512;
/// Secrets that are followed, at most.
const SECRETS_MAX: usize = 20_000;

pub(crate) type Data = BTreeMap<String, Packed>;

/// The bytes of an object.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    /// What is known of the object since it was unpacked for the first time.
    pub(crate) known: OnceLock<Known>,
}

/// What most reconciles need to know of an object, which is not unpacked for it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) key: ObjectKey,
    /// Objects with the same digest are the same: the digest of it, or of the bytes it was read from.
    pub(crate) digest: String,
    /// Whether it names a Service whose CA bundle is to be filled in.
    pub(crate) needs_ca_bundle: bool,
}

impl Known {
    pub(crate) fn of(object: &Value, digest: String) -> Self {
        Self { key: ObjectKey::of(object), digest, needs_ca_bundle: needs_ca_bundle(object) }
    }
}

impl From<ByteString> for Packed {
    fn from(bytes: ByteString) -> Self {
        Self { bytes: bytes.0, known: OnceLock::new() }
    }
}

/// Whose content a Secret holds, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Belonging {
    /// Name of the revision.
    pub(crate) revision: String,
    /// Name of its extension, if it is one's.
    pub(crate) extension: Option<String>,
}

impl Belonging {
    /// An owner is known by its name: a Secret that an earlier revision of this name left has another UID until it is
    /// adopted.
    fn of(secret: &ObjectMeta) -> Option<Self> {
        let label = |name: &str| secret.labels.as_ref()?.get(name).cloned();
        let revision = label(REVISION_NAME_LABEL)?;
        let mut sets =
            secret.owner_references.iter().flatten().filter(|r| r.kind == ClusterObjectSet::kind(&()));
        sets.all(|owner| owner.name == revision)
            .then(|| Self { revision, extension: label(OWNER_NAME_LABEL) })
    }
}

/// What counts of a Secret.
#[derive(Debug, Clone)]
pub(crate) struct SecretContent {
    pub(crate) immutable: bool,
    /// None if it is not of the type of content, or contradicts itself.
    pub(crate) belonging: Option<Belonging>,
    pub(crate) data: Arc<Data>,
}

impl From<Secret> for SecretContent {
    fn from(secret: Secret) -> Self {
        let is_content = secret.type_.as_deref() == Some(OBJECT_DATA_SECRET_TYPE);
        Self {
            immutable: secret.immutable == Some(true),
            belonging: Belonging::of(&secret.metadata).filter(|_| is_content),
            data: Arc::new(
                secret.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.into())).collect(),
            ),
        }
    }
}

/// See the module. Clones are the same.
#[derive(Clone)]
pub(crate) struct ContentSecrets {
    client: Client,
    namespace: String,
    shown: Arc<Mutex<BTreeMap<String, Shown>>>,
    /// What all bytes that are kept take in memory.
    kept: Arc<AtomicUsize>,
    listed: Arc<SetOnce<()>>,
}

/// The bytes of a Secret, which count in a sum until this is dropped.
struct Kept {
    data: Arc<Data>,
    weight: usize,
    sum: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// A Secret as the watch shows it.
struct Shown {
    uid: String,
    belonging: Option<Belonging>,
    /// Its bytes, if they were read and there is room.
    data: Option<Kept>,
}

impl ContentSecrets {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        let (shown, kept, listed) = (Arc::default(), Arc::default(), Arc::default());
        Self { client, namespace: namespace.to_owned(), shown, kept, listed }
    }

    /// The system namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Waits until all Secrets of content have been listed.
    pub(crate) async fn ready(&self) {
        self.listed.wait().await;
    }

    /// A Secret of the system namespace.
    ///
    /// # Errors
    /// The API server's answer.
    pub(crate) async fn get(&self, name: &str) -> Result<SecretContent, kube::Error> {
        if let Some(known) = self.recall(name) {
            return Ok(known);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = bounded(api.get(name)).await?;
        let uid = secret.uid();
        let content = SecretContent::from(secret);
        self.keep(name, uid.as_deref(), &content);
        Ok(content)
    }

    /// Takes note of a Secret that was just written: it need not be read.
    pub(crate) fn wrote(&self, secret: Secret) {
        self.show(&secret.metadata);
        let (name, uid) = (secret.name_any(), secret.uid());
        self.keep(&name, uid.as_deref(), &secret.into());
    }

    /// Forgets the content of a revision that is gone, or that needs it no more.
    pub(crate) fn forget(&self, revision: &str) {
        for secret in self.shown.lock().values_mut() {
            secret.data.take_if(|_| secret.belonging.as_ref().is_some_and(|one| one.revision == revision));
        }
    }

    /// Watches the Secrets until `stop`. One that comes in the place of another wakes its revision.
    pub(crate) async fn follow(&self, chance: &Chance, interests: Interests, stop: CancellationToken) {
        let api = metadata_of::<Secret>(self.client.clone(), Some(&self.namespace));
        let config = watcher::Config::default().fields(&format!("type={OBJECT_DATA_SECRET_TYPE}"));
        let mut events = pin!(chance.watch(api, config));
        let mut listed = BTreeSet::new();
        while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
            match event.map(|event| self.take(event, &mut listed)) {
                Ok(Some(Belonging { revision: name, .. })) => {
                    let kind = ClusterObjectSet::kind(&()).into_owned();
                    interests.fire(&Interest::Owned(OwnerChanged::Named { kind, name }));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "watch of the content of revisions interrupted"),
            }
        }
    }

    /// Takes note of an event, and of what is listed until a list is complete; whose Secret is another one than before.
    fn take(&self, event: Event<Metadata>, listed: &mut BTreeSet<String>) -> Option<Belonging> {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(secret) => {
                listed.insert(secret.name_any());
                return self.show(&secret.metadata);
            }
            Event::InitDone => {
                self.shown.lock().retain(|name, _| listed.contains(name));
                // They may have been listed before.
                let _ = self.listed.set(());
            }
            Event::Apply(secret) => return self.show(&secret.metadata),
            Event::Delete(secret) => drop(self.shown.lock().remove(&secret.name_any())),
        }
        None
    }

    /// Takes note of a Secret; whose it is if it is another one than before, or says another thing.
    fn show(&self, secret: &ObjectMeta) -> Option<Belonging> {
        let (name, uid, belonging) = (secret.name.clone()?, secret.uid.clone()?, Belonging::of(secret));
        let mut shown = self.shown.lock();
        let before = shown.remove(&name).filter(|one| one.uid == uid);
        let is_same = before.as_ref().is_some_and(|one| one.belonging == belonging);
        if shown.len() < SECRETS_MAX {
            let data = before.and_then(|one| one.data);
            shown.insert(name, Shown { uid, belonging: belonging.clone(), data });
        }
        belonging.filter(|_| !is_same)
    }

    fn recall(&self, name: &str) -> Option<SecretContent> {
        let shown = self.shown.lock();
        let Shown { belonging, data: Some(kept), .. } = shown.get(name)? else { return None };
        Some(SecretContent { immutable: true, belonging: belonging.clone(), data: kept.data.clone() })
    }

    /// Keeps what was read of an immutable Secret that the watch shows, if there is room.
    fn keep(&self, name: &str, uid: Option<&str>, content: &SecretContent) {
        let (mut shown, weight) = (self.shown.lock(), weight(&content.data));
        let is_it = |one: &&mut Shown| content.immutable && Some(one.uid.as_str()) == uid;
        if self.kept.load(Ordering::Relaxed) + weight <= BYTES_MAX
            && let Some(one) = shown.get_mut(name).filter(is_it)
        {
            self.kept.fetch_add(weight, Ordering::Relaxed);
            one.data = Some(Kept { data: content.data.clone(), weight, sum: self.kept.clone() });
        }
    }
}

/// What the bytes of a Secret take in memory.
fn weight(data: &Data) -> usize {
    data.iter().map(|(key, packed)| key.len() + packed.bytes.len() + ENTRY_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::core::PartialObjectMetaExt as _;

    use super::*;
    use crate::simulation::ApiServer;

    fn meta(name: &str, uid: &str) -> ObjectMeta {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            labels: Some([label(REVISION_NAME_LABEL, "ext-1"), label(OWNER_NAME_LABEL, "ext")].into()),
            ..ObjectMeta::default()
        }
    }

    fn content(bytes: usize, immutable: bool) -> SecretContent {
        let data = Some([("k".to_owned(), ByteString(vec![0; bytes]))].into());
        let type_ = Some(OBJECT_DATA_SECRET_TYPE.to_owned());
        let metadata = meta("", "");
        Secret { metadata, data, type_, immutable: Some(immutable), ..Secret::default() }.into()
    }

    fn shown(names: &[&str]) -> ContentSecrets {
        let contents = ContentSecrets::new(ApiServer::new(0).client(), "system");
        for name in names {
            contents.show(&meta(name, "1"));
        }
        contents
    }

    #[tokio::test]
    async fn what_was_read_counts_as_long_as_the_secret_is_shown_with_its_uid() {
        let contents = shown(&["a"]);
        assert!(contents.recall("a").is_none());
        contents.keep("a", Some("1"), &content(9, true));
        assert_eq!(contents.recall("a").unwrap().data.len(), 1);
        // Adopted, and given to another revision: the same bytes, and it says whose they are now.
        let owned_by = |set: &str| ObjectMeta {
            owner_references: Some(vec![OwnerReference {
                kind: "ClusterObjectSet".into(),
                name: set.into(),
                ..OwnerReference::default()
            }]),
            ..meta("a", "1")
        };
        assert_eq!(contents.show(&owned_by("ext-1")), None, "nobody is woken");
        assert_eq!(contents.recall("a").unwrap().belonging.unwrap().revision, "ext-1");
        contents.show(&owned_by("ext-2"));
        assert_eq!(contents.recall("a").unwrap().belonging, None, "it contradicts itself");
        // Deleted and created again.
        assert_eq!(contents.show(&meta("a", "2")).unwrap().revision, "ext-1", "its revision is woken");
        assert!(contents.recall("a").is_none());
        // What was read of the one before, of a mutable one, and of one that is not shown.
        contents.keep("a", Some("1"), &content(9, true));
        contents.keep("a", Some("2"), &content(9, false));
        contents.keep("b", Some("1"), &content(9, true));
        assert!(contents.recall("a").is_none() && contents.recall("b").is_none());
    }

    #[tokio::test]
    async fn so_many_bytes_are_kept_and_those_of_revisions_that_are_gone_make_room() {
        let contents = shown(&["a", "b", "c"]);
        let most = BYTES_MAX - 2 * (ENTRY_BYTES + 1) - 9;
        contents.keep("a", Some("1"), &content(most, true));
        contents.keep("b", Some("1"), &content(10, true));
        contents.keep("c", Some("1"), &content(9, true));
        let kept = || ["a", "b", "c"].map(|name| contents.recall(name).is_some());
        assert_eq!(kept(), [true, false, true]);
        contents.forget("ext");
        assert_eq!(kept(), [true, false, true], "another revision");
        contents.forget("ext-1");
        assert_eq!(kept(), [false; 3]);
        contents.keep("a", Some("1"), &content(most, true));
        contents.keep("a", Some("1"), &content(9, true));
        contents.show(&meta("b", "2"));
        contents.take(Event::Delete(meta("a", "1").into_response_partial()), &mut BTreeSet::new());
        assert_eq!(contents.kept.load(Ordering::Relaxed), 0, "nothing is kept");
        contents.show(&meta("a", "1"));
        // Many small entries take more than their bytes.
        let data =
            (0..BYTES_MAX / ENTRY_BYTES).map(|i| (i.to_string(), ByteString::default().into())).collect();
        contents.keep("a", Some("1"), &SecretContent { data: Arc::new(data), ..content(0, true) });
        assert_eq!(kept(), [false; 3]);
    }

    #[tokio::test]
    async fn so_many_secrets_are_followed() {
        let contents = shown(&[]);
        (0..=SECRETS_MAX).for_each(|i| drop(contents.show(&meta(&i.to_string(), "1"))));
        assert_eq!(contents.shown.lock().len(), SECRETS_MAX);
        contents.show(&meta("7", "2"));
        assert_eq!(contents.shown.lock()["7"].uid, "2", "those that are followed still are");
    }
}
