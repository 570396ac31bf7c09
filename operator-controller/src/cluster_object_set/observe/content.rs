//! The content of a revision: inline objects, and objects in Secrets.
//!
//! Secrets in the system namespace are read by the controller, each once ([`ContentSecrets`]), and must belong to the revision;
//! all others are read as the ServiceAccount, so that a revision shows no more than the ServiceAccount may read.
//!
//! A user who may create Secrets in the system namespace could put something else there, before or after the revision is
//! made. So content counts there only under its own digest: the key, which the immutable spec refers to, is the
//! digest of the bytes.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, OnceLock},
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use olm_api::{
    names::{
        CONTENT_DIGEST_ANNOTATION, OBJECT_DATA_SECRET_TYPE, OWNER_NAME_LABEL, REINSTALL_ANNOTATION,
        RENDERED_DIGEST_ANNOTATION, REVISION_NAME_LABEL,
    },
    v1::{ClusterObjectSet, CollisionProtection, ObjectSourceRef, ObservedPhase},
};
use olm_objectset::{PackError, content_digest, content_key, phase_digest, sha256, unpack};
use olm_runtime::{api_text, bounded};
use serde_json::{Value, json};
use thiserror::Error;

use crate::facts::content_secrets::{Belonging, ContentSecrets, Data, Known, Packed, SecretContent};

/// An object of a revision with the protection that applies to it.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) known: Known,
    pub(crate) protection: CollisionProtection,
    object: OnceLock<Value>,
    /// Where it is unpacked from when it is asked for.
    packed: Option<(Arc<Data>, String)>,
}

impl Item {
    /// An object that lies in the revision itself.
    pub(crate) fn of(object: Value) -> Self {
        let known = Known::of(&object, sha256(&object));
        Self { known, protection: CollisionProtection::default(), object: object.into(), packed: None }
    }

    /// The object as it is stored.
    pub(crate) fn object(&self) -> &Value {
        self.object.get_or_init(|| self.unpacked())
    }

    /// The same, for who changes it.
    pub(crate) fn to_object(&self) -> Value {
        self.object.get().cloned().unwrap_or_else(|| self.unpacked())
    }

    /// How large it is in its Secret, in bytes.
    pub(crate) fn packed_bytes(&self) -> usize {
        self.packed().map_or(0, |packed| packed.bytes.len())
    }

    fn packed(&self) -> Option<&Packed> {
        self.packed.as_ref().and_then(|(data, key)| data.get(key))
    }

    fn unpacked(&self) -> Value {
        // What is known was found out by unpacking these very bytes.
        self.packed().and_then(|packed| unpack(&packed.bytes).ok()).unwrap_or_default()
    }
}

/// A phase of a revision, its objects read.
#[derive(Debug, Clone)]
pub(crate) struct LoadedPhase {
    pub(crate) name: String,
    pub(crate) items: Vec<Item>,
}

/// Why a revision's content cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ContentError {
    #[error(
        "the following secrets are not immutable (referenced secrets must have immutable set to true): {0}"
    )]
    Mutable(String),
    #[error("resolving ref in phase {phase:?}: getting Secret {secret}: {cause}")]
    Missing { phase: String, secret: String, cause: String },
    #[error("getting Secret {secret}: {cause}")]
    Refused { secret: String, cause: String },
    #[error("revision validation error: Object {object}: Duplicate object also found in phases {phases}")]
    Duplicate { object: String, phases: String },
    #[error("resolving ref in phase {phase:?}: key {key:?} not found in Secret {secret}")]
    MissingKey { phase: String, key: String, secret: String },
    #[error("resolving ref in phase {phase:?}: {cause}")]
    Unreadable { phase: String, cause: String },
    #[error(
        "Secret {secret} in the system namespace does not belong to this revision: it must be of type {OBJECT_DATA_SECRET_TYPE}, carry the label {REVISION_NAME_LABEL}={revision}, the same label {OWNER_NAME_LABEL} as the revision, and have no other owner"
    )]
    Foreign { secret: String, revision: String },
    #[error(
        "key {key:?} in Secret {secret} is not the digest of its content: in the system namespace content is used only under its own digest (base64url of SHA-256), so this is not the original content of the revision. Restore the Secret, or set the annotation {REINSTALL_ANNOTATION} of the ClusterExtension to a new value to create a new revision"
    )]
    Altered { secret: String, key: String },
    #[error(
        "the content of the revision has digest {found}, its annotation {CONTENT_DIGEST_ANNOTATION} says {recorded}: set the annotation {REINSTALL_ANNOTATION} of the ClusterExtension to a new value to create a new revision"
    )]
    Digest { recorded: String, found: String },
    #[error("{0}")]
    Changed(String),
}

impl ContentError {
    /// Whether only a person can put it right.
    pub(crate) fn is_blocking(&self) -> bool {
        !matches!(
            self,
            Self::Missing { .. } | Self::Duplicate { .. } | Self::MissingKey { .. } | Self::Unreadable { .. }
        )
    }
}

/// Reads the content of `set`; as `account` what does not lie in the system namespace.
///
/// # Errors
/// A Secret is missing, mutable, another revision's, was replaced, or holds something else than objects.
pub(crate) async fn load(
    set: &ClusterObjectSet,
    contents: &ContentSecrets,
    account: Option<&Client>,
) -> Result<Vec<LoadedPhase>, ContentError> {
    let secrets = secrets(set, contents, account).await?;
    let mut phases = Vec::with_capacity(set.spec.phases.len());
    for phase in &set.spec.phases {
        let mut items = Vec::with_capacity(phase.objects.len());
        for object in &phase.objects {
            let item = match (&object.object, &object.ref_) {
                (Some(inline), _) => Item::of(inline.clone()),
                (None, Some(place)) => read(&phase.name, place, &secrets, contents.namespace())?,
                (None, None) => continue,
            };
            let protection = object
                .collision_protection
                .or(phase.collision_protection)
                .unwrap_or(set.spec.collision_protection);
            items.push(Item { protection, ..item });
        }
        phases.push(LoadedPhase { name: phase.name.clone(), items });
    }
    check_unique(&phases)?;
    Ok(phases)
}

/// Refuses an object that is listed twice: each copy would undo what the other does.
fn check_unique(phases: &[LoadedPhase]) -> Result<(), ContentError> {
    let mut first: BTreeMap<[&String; 4], &str> = BTreeMap::new();
    for (phase, item) in phases.iter().flat_map(|phase| phase.items.iter().map(move |item| (phase, item))) {
        let key = &item.known.key;
        let place = [&key.group, &key.kind, &key.namespace, &key.name];
        if let Some(earlier) = first.insert(place, &phase.name) {
            let phases =
                if earlier == phase.name { earlier.to_owned() } else { format!("{earlier}, {}", phase.name) };
            return Err(ContentError::Duplicate { object: key.to_string(), phases });
        }
    }
    Ok(())
}

/// The digests to be recorded in `status.observedPhases`.
pub(crate) fn digests(phases: &[LoadedPhase]) -> Vec<ObservedPhase> {
    let digest = |phase: &LoadedPhase| ObservedPhase {
        name: phase.name.clone(),
        digest: phase_digest(&phase.name, phase.items.iter().map(Item::object)),
    };
    phases.iter().map(digest).collect()
}

/// What tells this content from another, without a look at the objects.
pub(crate) fn identity(phases: &[LoadedPhase]) -> String {
    let phase = |phase: &LoadedPhase| {
        json!([phase.name, phase.items.iter().map(|item| item.known.digest.as_str()).collect::<Vec<_>>()])
    };
    sha256(&phases.iter().map(phase).collect())
}

/// Compares the content with the digest that the revision carries, and with what was recorded when it was first seen.
///
/// # Errors
/// It is another content; the text names the digests or the phases.
pub(crate) fn verify(set: &ClusterObjectSet, found: &[ObservedPhase]) -> Result<(), ContentError> {
    let annotation = |name: &str| set.annotations().get(name);
    if let Some(recorded) =
        annotation(CONTENT_DIGEST_ANNOTATION).filter(|_| annotation(RENDERED_DIGEST_ANNOTATION).is_some())
    {
        let found = content_digest(found.iter().map(|phase| (phase.name.as_str(), phase.digest.as_str())));
        if found != *recorded {
            return Err(ContentError::Digest { recorded: recorded.clone(), found });
        }
    }
    check_unchanged(set.status.as_ref().map(|s| s.observed_phases.as_slice()).unwrap_or_default(), found)
}

fn check_unchanged(recorded: &[ObservedPhase], found: &[ObservedPhase]) -> Result<(), ContentError> {
    if recorded.is_empty() {
        return Ok(());
    }
    if recorded.len() != found.len() {
        return Err(ContentError::Changed(format!(
            "number of phases has changed (expected {} phases, got {})",
            recorded.len(),
            found.len()
        )));
    }
    let changed: Vec<String> = recorded
        .iter()
        .zip(found)
        .filter(|(a, b)| a != b)
        .map(|(a, b)| format!("phase {:?} (expected digest {}, got {})", a.name, a.digest, b.digest))
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(ContentError::Changed(format!(
        "resolved content of {} phase(s) has changed: {}; a referenced object source may have been deleted and recreated with different content",
        changed.len(),
        changed.join(", ")
    )))
}

/// The Secrets of a revision by `<namespace>/<name>`.
type Secrets = BTreeMap<String, Result<SecretContent, ContentError>>;

fn name_of(place: &ObjectSourceRef) -> String {
    format!("{}/{}", place.namespace, place.name)
}

async fn secrets(
    set: &ClusterObjectSet,
    contents: &ContentSecrets,
    account: Option<&Client>,
) -> Result<Secrets, ContentError> {
    let mut secrets = Secrets::new();
    for phase in &set.spec.phases {
        for object in &phase.objects {
            let Some(place) = object.ref_.as_ref() else { continue };
            if let Entry::Vacant(entry) = secrets.entry(name_of(place)) {
                entry.insert(secret(&phase.name, place, contents, account).await);
            }
        }
    }
    let read = || secrets.iter().filter_map(|(name, found)| Some((name, found.as_ref().ok()?)));
    let mutable: Vec<&str> =
        read().filter(|(_, secret)| !secret.immutable).map(|(name, _)| name.as_str()).collect();
    if !mutable.is_empty() {
        return Err(ContentError::Mutable(mutable.join(", ")));
    }
    let system = format!("{}/", contents.namespace());
    if let Some((name, _)) = read().find(|(name, one)| name.starts_with(&system) && !is_content_of(set, one))
    {
        return Err(ContentError::Foreign { secret: name.clone(), revision: set.name_any() });
    }
    Ok(secrets)
}

async fn secret(
    phase: &str,
    place: &ObjectSourceRef,
    contents: &ContentSecrets,
    account: Option<&Client>,
) -> Result<SecretContent, ContentError> {
    let (secret, ObjectSourceRef { namespace, name, .. }) = (name_of(place), place);
    let missing = |cause: &str| {
        let (phase, secret) = (phase.to_owned(), secret.clone());
        ContentError::Missing { phase, secret, cause: cause.to_owned() }
    };
    let found = match account {
        _ if namespace.is_empty() => return Err(missing("the reference has no namespace")),
        _ if namespace == contents.namespace() => contents.get(name).await,
        None => return Err(missing("the revision has no service account to read it with")),
        Some(account) => {
            let api: Api<Secret> = Api::namespaced(account.clone(), namespace);
            bounded(api.get(name)).await.map(SecretContent::from)
        }
    };
    found.map_err(|error| match &error {
        kube::Error::Api(status) if status.is_forbidden() => {
            ContentError::Refused { secret: secret.clone(), cause: api_text(&error) }
        }
        _ => missing(&api_text(&error)),
    })
}

/// Whether a Secret of the system namespace holds content of this very revision.
fn is_content_of(set: &ClusterObjectSet, secret: &SecretContent) -> bool {
    let extension = set.labels().get(OWNER_NAME_LABEL).cloned();
    secret.belonging == Some(Belonging { revision: set.name_any(), extension })
}

/// An object in a Secret.
fn read(
    phase: &str,
    place: &ObjectSourceRef,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<Item, ContentError> {
    let (secret, key) = (name_of(place), place.key.clone());
    let missing_key =
        || ContentError::MissingKey { phase: phase.to_owned(), key: key.clone(), secret: secret.clone() };
    let found = secrets.get(&secret).ok_or_else(missing_key)?;
    let data = &found.as_ref().map_err(Clone::clone)?.data;
    let packed = data.get(&key).ok_or_else(missing_key)?;
    let known = packed.known.get();
    let digest = known.map_or_else(|| content_key(&packed.bytes), |known| known.digest.clone());
    if place.namespace == system_namespace && key != digest {
        return Err(ContentError::Altered { secret, key });
    }
    let item = |known: &Known, object: OnceLock<Value>| {
        let stored = Some((Arc::clone(data), key.clone()));
        Item { known: known.clone(), protection: CollisionProtection::default(), object, packed: stored }
    };
    if let Some(known) = known {
        return Ok(item(known, OnceLock::new()));
    }
    let object = unpack(&packed.bytes).map_err(|error| {
        let place = format!("key {key:?} in Secret {secret}");
        let cause = match error {
            PackError::Expands { max_bytes } => {
                format!("decompressed data for {place} exceeds maximum size ({max_bytes} bytes)")
            }
            PackError::Decompress(cause) => format!("decompressing {place}: {cause}"),
            PackError::Decode(cause) => format!("unmarshaling object from {place}: {cause}"),
            other @ PackError::TooLarge { .. } => format!("{place}: {other}"),
        };
        ContentError::Unreadable { phase: phase.to_owned(), cause }
    })?;
    let known = packed.known.get_or_init(|| Known::of(&object, digest));
    Ok(item(known, object.into()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use olm_api::v1::ClusterObjectSetSpec;
    use olm_object::ObjectKey;

    use super::*;

    fn observed(name: &str, digest: &str) -> ObservedPhase {
        ObservedPhase { name: name.into(), digest: digest.into() }
    }

    #[test]
    fn an_object_may_be_listed_once() {
        let item = |version: &str, name: &str| {
            Item::of(
                json!({"apiVersion": version, "kind": "Role", "metadata": {"name": name, "namespace": "n"}}),
            )
        };
        let phase = |name: &str, items: Vec<Item>| LoadedPhase { name: name.into(), items };
        let fine =
            [phase("one", vec![item("v1", "a"), item("v1", "b")]), phase("two", vec![item("g/v1", "a")])];
        assert!(check_unique(&fine).is_ok());
        let twice = [phase("one", vec![item("g/v1", "a")]), phase("two", vec![item("g/v2", "a")])];
        assert_eq!(
            check_unique(&twice).unwrap_err().to_string(),
            "revision validation error: Object Role.g/v2 n/a: Duplicate object also found in phases one, two"
        );
        let same = [phase("one", vec![item("v1", "a"), item("v1", "a")])];
        assert!(check_unique(&same).unwrap_err().to_string().ends_with("in phases one"));
    }

    #[test]
    fn a_secret_of_the_system_namespace_is_that_of_one_revision() {
        let set = |owner: Option<&str>| {
            let mut set = ClusterObjectSet::new("ext-1", ClusterObjectSetSpec::default());
            let label = |owner: &str| [(OWNER_NAME_LABEL.to_owned(), owner.to_owned())].into();
            set.metadata.labels = owner.map(label);
            set
        };
        let secret = |type_: &str, labels: &[(&str, &str)], owner: Option<&str>| Secret {
            type_: Some(type_.to_owned()),
            metadata: kube::api::ObjectMeta {
                labels: Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
                owner_references: owner.map(|name| {
                    vec![OwnerReference {
                        kind: "ClusterObjectSet".into(),
                        name: name.into(),
                        ..Default::default()
                    }]
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        let data = OBJECT_DATA_SECRET_TYPE;
        let of = |owner| [(REVISION_NAME_LABEL, "ext-1"), (OWNER_NAME_LABEL, owner)];
        let alone = [(REVISION_NAME_LABEL, "ext-1")];
        let rows = [
            (Some("ext"), secret(data, &of("ext"), None), true),
            (Some("ext"), secret(data, &of("ext"), Some("ext-1")), true),
            (None, secret(data, &alone, None), true),
            (Some("ext"), secret("Opaque", &of("ext"), None), false),
            (Some("ext"), secret(data, &of("other"), None), false),
            (Some("ext"), secret(data, &alone, None), false),
            (None, secret(data, &of("ext"), None), false),
            (Some("ext"), secret(data, &of("ext"), Some("ext-2")), false),
            (
                Some("ext"),
                secret(data, &[(REVISION_NAME_LABEL, "ext-2"), (OWNER_NAME_LABEL, "ext")], None),
                false,
            ),
        ];
        for (owner, secret, wanted) in rows {
            let found = SecretContent::from(secret.clone());
            assert_eq!(is_content_of(&set(owner), &found), wanted, "{owner:?} {secret:?}");
        }
    }

    #[test]
    fn content_in_the_system_namespace_is_used_only_under_its_digest() {
        let bytes = br#"{"kind":"ConfigMap"}"#;
        let digest = content_key(bytes);
        let secret = |key: &str| Secret {
            data: Some([(key.to_owned(), k8s_openapi::ByteString(bytes.to_vec()))].into()),
            ..Secret::default()
        };
        let read = |namespace: &str, key: &str| {
            let secrets: Secrets = [(format!("{namespace}/s"), Ok(secret(key).into()))].into();
            let place = ObjectSourceRef { name: "s".into(), namespace: namespace.into(), key: key.into() };
            super::read("deploy", &place, &secrets, "sys")
        };
        assert_eq!(read("sys", &digest).unwrap().object()["kind"], "ConfigMap");
        // Elsewhere the ServiceAccount reads, and keys are as people name them.
        assert_eq!(read("other", "k").unwrap().object()["kind"], "ConfigMap");
        for key in ["k", &content_key(b"{}")] {
            let error = read("sys", key).unwrap_err();
            assert!(error.is_blocking());
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("key {key:?} in Secret sys/s is not the digest of its content"))
            );
        }
    }

    #[test]
    fn an_object_of_which_everything_is_known_is_unpacked_when_it_is_asked_for() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}});
        let data = Some([("k".to_owned(), k8s_openapi::ByteString(object.to_string().into_bytes()))].into());
        let secrets: Secrets = [("n/s".to_owned(), Ok(Secret { data, ..Secret::default() }.into()))].into();
        let place = ObjectSourceRef { name: "s".into(), namespace: "n".into(), key: "k".into() };
        let read = || super::read("deploy", &place, &secrets, "sys").unwrap();
        let (first, again) = (read(), read());
        assert!(first.object.get().is_some() && again.object.get().is_none());
        assert_eq!(again.known.key, ObjectKey::of(&object));
        assert_eq!(again.known.digest, first.known.digest);
        assert_eq!((again.object(), again.clone().to_object()), (&object, object.clone()));
    }

    #[test]
    fn content_is_what_the_digest_of_the_revision_says() {
        let found = [observed("deploy", "sha256:aa")];
        let set = |annotations: &[(&str, &str)]| {
            let mut set = ClusterObjectSet::new("ext-1", ClusterObjectSetSpec::default());
            let owned = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            set.metadata.annotations = Some(owned.collect());
            set
        };
        let digest = content_digest([("deploy", "sha256:aa")]);
        let rendered = (RENDERED_DIGEST_ANNOTATION, "sha256:r");
        assert!(verify(&set(&[rendered, (CONTENT_DIGEST_ANNOTATION, &digest)]), &found).is_ok());
        let other = set(&[rendered, (CONTENT_DIGEST_ANNOTATION, "sha256:bb")]);
        let error = verify(&other, &found).unwrap_err();
        assert!(error.is_blocking());
        assert!(error.to_string().starts_with(&format!("the content of the revision has digest {digest}, ")));
        // An earlier version meant something else by it; upstream has none.
        assert!(verify(&set(&[(CONTENT_DIGEST_ANNOTATION, "sha256:bb")]), &found).is_ok());
        assert!(verify(&set(&[]), &found).is_ok());
    }

    #[test]
    fn content_may_be_recorded_once_and_then_must_stay() {
        let a = [observed("deploy", "sha256:aa")];
        let b = [observed("deploy", "sha256:bb")];
        assert!(check_unchanged(&[], &a).is_ok());
        assert!(check_unchanged(&a, &a).is_ok());
        assert_eq!(
            check_unchanged(&a, &b).unwrap_err().to_string(),
            "resolved content of 1 phase(s) has changed: phase \"deploy\" (expected digest sha256:aa, got sha256:bb); \
             a referenced object source may have been deleted and recreated with different content"
        );
        assert_eq!(
            check_unchanged(&a, &[]).unwrap_err().to_string(),
            "number of phases has changed (expected 1 phases, got 0)"
        );
    }
}
