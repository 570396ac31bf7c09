//! In which order objects were edited, also of different kinds.

use std::{collections::HashMap, sync::Arc};

use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;

/// Which objects were edited last, as numbers that grow with each edit of any of them. Status, labels and annotations do not
/// count: controllers write these, and would come before what people ask for. Clones share what they know.
#[derive(Debug, Clone, Default)]
pub struct Edits(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    count: u64,
    objects: HashMap<(String, String), Edit>,
}

#[derive(Debug)]
struct Edit {
    uid: String,
    generation: i64,
    is_deleted: bool,
    number: u64,
}

impl Edits {
    /// The number of the last edit of an object as it is now: its creation, a new generation, or its deletion.
    pub fn note<K: Resource<DynamicType = ()>>(&self, object: &K) -> u64 {
        let meta = object.meta();
        let (uid, generation) = (object.uid().unwrap_or_default(), meta.generation.unwrap_or_default());
        let is_deleted = meta.deletion_timestamp.is_some();
        let known = &mut *self.0.lock();
        let key = (K::kind(&()).into_owned(), object.name_any());
        if let Some(edit) = known.objects.get(&key)
            && (&edit.uid, edit.generation, edit.is_deleted) == (&uid, generation, is_deleted)
        {
            return edit.number;
        }
        known.count += 1;
        known.objects.insert(key, Edit { uid, generation, is_deleted, number: known.count });
        known.count
    }

    /// The number of the last edit of another object, 0 if it is unknown.
    pub fn last(&self, kind: &str, name: &str) -> u64 {
        self.0.lock().objects.get(&(kind.to_owned(), name.to_owned())).map_or(0, |edit| edit.number)
    }

    /// Forgets an object that has gone.
    pub fn forget(&self, kind: &str, name: &str) {
        self.0.lock().objects.remove(&(kind.to_owned(), name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    #[test]
    fn creation_generation_and_deletion_are_edits_and_nothing_else() {
        let edits = Edits::default();
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("a".to_owned());
        let mut other = namespace.clone();
        other.metadata.name = Some("b".to_owned());
        assert_eq!((edits.note(&namespace), edits.note(&other), edits.note(&namespace)), (1, 2, 1));
        namespace.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
        namespace.metadata.resource_version = Some("7".to_owned());
        assert_eq!(edits.note(&namespace), 1);
        namespace.metadata.generation = Some(2);
        assert_eq!(edits.note(&namespace), 3);
        namespace.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!((edits.note(&namespace), edits.note(&namespace)), (4, 4));
        assert_eq!((edits.last("Namespace", "a"), edits.last("Namespace", "c")), (4, 0));
        edits.forget("Namespace", "a");
        assert_eq!((edits.last("Namespace", "a"), edits.0.lock().objects.len()), (0, 1));
        other.metadata.uid = Some("another".to_owned());
        assert_eq!(edits.note(&other), 5, "another object of its name");
    }
}
