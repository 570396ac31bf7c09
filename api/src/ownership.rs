//! Which ClusterObjectSets are revisions of which ClusterExtension: one answer for all callers.
//!
//! A revision is controlled by its extension, by an owner reference with the group, kind, name and UID of the extension,
//! and carries the mark that only the controller may write. Each of these alone proves nothing: everyone who may create
//! object sets could write it where the admission policies are not in force.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::names::{GROUP, OWNER_NAME_LABEL, REVISION_OF_ANNOTATION, TAKEN_OVER_ANNOTATION};

/// The kind of extensions.
const EXTENSION_KIND: &str = "ClusterExtension";

/// The identity of a ClusterExtension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtensionId<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its UID; never empty.
    pub uid: &'a str,
}

impl<'a> ExtensionId<'a> {
    /// The identity in the metadata of an extension that is stored in a cluster.
    pub fn of(extension: &'a ObjectMeta) -> Option<Self> {
        Self::new(extension.name.as_deref()?, extension.uid.as_deref()?)
    }

    fn new(name: &'a str, uid: &'a str) -> Option<Self> {
        (!name.is_empty() && !uid.is_empty()).then_some(Self { name, uid })
    }
}

/// The relation of an object set to an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// One of its revisions.
    Revision,
    /// It claims to belong to the extension, and is none of its revisions.
    Foreign,
    /// Nothing, or a revision of an earlier extension of the same name.
    Unrelated,
}

/// The extension whose UID and name are in the controller reference, marked or not.
pub fn controlling_extension(set: &ObjectMeta) -> Option<ExtensionId<'_>> {
    let mut controllers = set.owner_references.iter().flatten().filter(|r| r.controller == Some(true));
    let (controller, other) = (controllers.next()?, controllers.next());
    let is_extension =
        controller.kind == EXTENSION_KIND && group(controller) == Some(GROUP) && other.is_none();
    ExtensionId::new(&controller.name, &controller.uid).filter(|_| is_extension)
}

/// The UID in the mark.
pub fn mark(set: &ObjectMeta) -> Option<&str> {
    set.annotations.as_ref()?.get(REVISION_OF_ANNOTATION).map(String::as_str)
}

/// The extension that an object set is a revision of.
pub fn revision_of(set: &ObjectMeta) -> Option<ExtensionId<'_>> {
    controlling_extension(set).filter(|extension| mark(set) == Some(extension.uid))
}

/// The relation of an object set to an extension.
pub fn relation(set: &ObjectMeta, extension: ExtensionId<'_>) -> Relation {
    match revision_of(set) {
        Some(owner) if owner == extension => Relation::Revision,
        Some(owner) if owner.uid != extension.uid => Relation::Unrelated,
        // What an earlier extension of this name left behind when it was deleted without its dependents.
        None if set.owner_references.iter().flatten().next().is_none()
            && mark(set).is_some_and(|uid| uid != extension.uid) =>
        {
            Relation::Unrelated
        }
        _ if claims(set, extension) => Relation::Foreign,
        _ => Relation::Unrelated,
    }
}

/// Whether an object set says in some way that it belongs to the extension.
fn claims(set: &ObjectMeta, extension: ExtensionId<'_>) -> bool {
    let by_reference = set.owner_references.iter().flatten().any(|r| {
        let is_named = r.kind == EXTENSION_KIND && r.name == extension.name;
        r.uid == extension.uid || is_named
    });
    let label = set.labels.as_ref().and_then(|labels| labels.get(OWNER_NAME_LABEL));
    by_reference || label.is_some_and(|name| name == extension.name) || mark(set) == Some(extension.uid)
}

/// The name of a revision.
pub fn revision_name(extension: &str, number: i64) -> String {
    format!("{extension}-{number}")
}

/// The extension whose revisions have names like this one.
pub fn named_like_revision_of(set: &str) -> Option<&str> {
    let (extension, number) = set.rsplit_once('-')?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(extension)
}

/// The names and UIDs of extensions that an object set claims to belong to, by references and labels.
pub fn claimed(set: &ObjectMeta) -> impl Iterator<Item = (&str, Option<&str>)> {
    let references = set.owner_references.iter().flatten();
    let references = references
        .filter(|r| r.controller == Some(true) || r.kind == EXTENSION_KIND)
        .map(|r| (r.name.as_str(), Some(r.uid.as_str())));
    let label = set.labels.as_ref().and_then(|labels| labels.get(OWNER_NAME_LABEL));
    references.chain(label.map(|name| (name.as_str(), None)))
}

/// The UIDs by which an object set may claim to belong to an extension.
pub fn claimed_uids(set: &ObjectMeta) -> impl Iterator<Item = &str> {
    set.owner_references.iter().flatten().map(|r| r.uid.as_str()).chain(mark(set))
}

/// Whether the revisions that an earlier program made for an extension are marked: from then on no other is.
pub fn is_taken_over(extension: &ObjectMeta) -> bool {
    let recorded = extension.annotations.as_ref().and_then(|all| all.get(TAKEN_OVER_ANNOTATION));
    recorded.is_some() && recorded == extension.uid.as_ref()
}

fn group(reference: &OwnerReference) -> Option<&str> {
    reference.api_version.split_once('/').map(|(group, _)| group)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const US: ExtensionId<'_> = ExtensionId { name: "ext", uid: "u" };

    fn reference(
        api_version: &str,
        kind: &str,
        name: &str,
        uid: &str,
        controller: Option<bool>,
    ) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.into(),
            controller,
            ..OwnerReference::default()
        }
    }

    fn set(references: &[OwnerReference], mark: Option<&str>, label: Option<&str>) -> ObjectMeta {
        let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        ObjectMeta {
            owner_references: Some(references.to_vec()),
            annotations: mark.map(|uid| one(REVISION_OF_ANNOTATION, uid)),
            labels: label.map(|name| one(OWNER_NAME_LABEL, name)),
            ..ObjectMeta::default()
        }
    }

    /// A set in words, its references, its mark, its label, and its relation to [`US`].
    type Case = (&'static str, Vec<OwnerReference>, Option<&'static str>, Option<&'static str>, Relation);

    const OURS: &str = "olm.operatorframework.io/v1";
    const KIND: &str = "ClusterExtension";

    fn whole() -> OwnerReference {
        reference(OURS, KIND, "ext", "u", Some(true))
    }

    fn revisions_and_near_misses() -> Vec<Case> {
        use Relation::{Foreign, Revision};
        vec![
            ("made by the controller", vec![whole()], Some("u"), Some("ext"), Revision),
            ("without the label", vec![whole()], Some("u"), None, Revision),
            (
                "a later version of the API",
                vec![reference("olm.operatorframework.io/v2", KIND, "ext", "u", Some(true))],
                Some("u"),
                None,
                Revision,
            ),
            (
                "beside an owner of another kind",
                vec![reference("v1", "ConfigMap", "boss", "x", None), whole()],
                Some("u"),
                None,
                Revision,
            ),
            ("without the mark", vec![whole()], None, Some("ext"), Foreign),
            ("with the mark of another", vec![whole()], Some("x"), Some("ext"), Foreign),
            ("with an empty mark", vec![whole()], Some(""), Some("ext"), Foreign),
        ]
    }

    fn by(api_version: &str, kind: &str, name: &str, uid: &str) -> Vec<OwnerReference> {
        vec![reference(api_version, kind, name, uid, Some(true))]
    }

    fn other_owners() -> Vec<Case> {
        use Relation::{Foreign, Unrelated};
        vec![
            ("of a foreign API", by("not.olm/v1", KIND, "ext", "u"), Some("u"), None, Foreign),
            (
                "of a group that begins like ours",
                by("olm.operatorframework.io.example.com/v1", KIND, "ext", "u"),
                Some("u"),
                None,
                Foreign,
            ),
            ("of no group", by("v1", KIND, "ext", "u"), Some("u"), None, Foreign),
            ("of another kind", by(OURS, "ClusterCatalog", "ext", "u"), Some("u"), None, Foreign),
            ("under another name", by(OURS, KIND, "mine", "u"), Some("u"), None, Foreign),
            ("under another name and without the mark", by(OURS, KIND, "mine", "u"), None, None, Foreign),
            (
                "not as its controller",
                vec![reference(OURS, KIND, "ext", "u", None)],
                Some("u"),
                None,
                Foreign,
            ),
            (
                "with two controllers",
                vec![whole(), reference("v1", "ConfigMap", "boss", "x", Some(true))],
                Some("u"),
                None,
                Foreign,
            ),
            ("of the same name, for the UID of another", by(OURS, KIND, "ext", "x"), None, None, Foreign),
            (
                "of an earlier extension of the name",
                by(OURS, KIND, "ext", "x"),
                Some("x"),
                Some("ext"),
                Unrelated,
            ),
            ("left by an earlier extension", vec![], Some("x"), Some("ext"), Unrelated),
            ("with the label alone", vec![], None, Some("ext"), Foreign),
            ("with the mark alone", vec![], Some("u"), None, Foreign),
            ("with nothing", vec![], None, None, Unrelated),
            ("of another extension", by(OURS, KIND, "other", "o"), Some("o"), Some("other"), Unrelated),
        ]
    }

    #[test]
    fn a_revision_has_the_whole_reference_and_the_mark() {
        for (what, references, mark, label, wanted) in
            revisions_and_near_misses().into_iter().chain(other_owners())
        {
            let set = set(&references, mark, label);
            assert_eq!(relation(&set, US), wanted, "{what}");
            assert_eq!(revision_of(&set) == Some(US), wanted == Relation::Revision, "{what}");
        }
    }

    #[test]
    fn names_of_revisions_tell_of_their_extension() {
        assert_eq!(named_like_revision_of(&revision_name("ext-a", 12)), Some("ext-a"));
        assert_eq!(named_like_revision_of("ext-1-2"), Some("ext-1"));
        for name in ["ext", "ext-", "ext-a", "ext-1a", "1", ""] {
            assert_eq!(named_like_revision_of(name), None, "{name}");
        }
    }

    #[test]
    fn an_extension_without_an_identity_has_no_revisions() {
        assert_eq!(ExtensionId::of(&ObjectMeta::default()), None);
        let named =
            ObjectMeta { name: Some("ext".into()), uid: Some(String::new()), ..ObjectMeta::default() };
        assert_eq!(ExtensionId::of(&named), None);
        let anonymous = reference("olm.operatorframework.io/v1", "ClusterExtension", "ext", "", Some(true));
        assert_eq!(revision_of(&set(&[anonymous], Some(""), None)), None);
    }

    #[test]
    fn the_record_of_the_takeover_counts_for_its_own_extension() {
        let with = |uid: &str, record: Option<&str>| ObjectMeta {
            uid: Some(uid.to_owned()),
            annotations: record
                .map(|uid| BTreeMap::from([(TAKEN_OVER_ANNOTATION.to_owned(), uid.to_owned())])),
            ..ObjectMeta::default()
        };
        assert!(is_taken_over(&with("u", Some("u"))));
        // Copied along with the manifest of an earlier one.
        assert!(!is_taken_over(&with("u", Some("x"))));
        assert!(!is_taken_over(&with("u", None)));
        assert!(!is_taken_over(&ObjectMeta::default()));
    }
}
