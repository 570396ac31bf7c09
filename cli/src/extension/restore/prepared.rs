//! An object of a snapshot as it is applied.

use std::collections::BTreeMap;

use olm_object::text;
use serde_json::{Map, Value, json};

use super::checked::{Checked, owners};

/// What is to be done for an object in a round.
pub(super) enum Prepared {
    /// It was restored in an earlier round.
    Done,
    /// An owner has to be restored first.
    Waits,
    Ready {
        object: Value,
        old_uid: String,
        dropped: usize,
    },
}

/// The fields of the metadata that users have.
const RESTORED: [&str; 5] = ["name", "namespace", "labels", "annotations", "finalizers"];

/// Owners that are restored, by their UIDs in the snapshot: the UIDs they have now, and the round they were restored in.
pub(super) type NewUids = BTreeMap<String, (String, usize)>;

/// Prepares an object for round `round`, the last one or not.
pub(super) fn prepare(
    object: &Value,
    checked: &Checked,
    new_uids: &NewUids,
    (round, is_last): (usize, bool),
) -> Prepared {
    let mut ready_in = Some(0);
    for uid in owners(object).filter(|uid| checked.owners.contains(*uid)) {
        let after = new_uids.get(uid).map(|(_, restored)| restored + 1);
        ready_in = ready_in.zip(after).map(|(a, b)| a.max(b));
    }
    match ready_in {
        Some(ready_in) if ready_in < round => return Prepared::Done,
        Some(ready_in) if ready_in == round => {}
        _ if is_last => {}
        _ => return Prepared::Waits,
    }
    let (references, dropped) = references(object, new_uids);
    let mut metadata = Map::new();
    for field in RESTORED {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    if !references.is_empty() {
        metadata.insert("ownerReferences".to_owned(), references.into());
    }
    let old_uid = text(object, "/metadata/uid").to_owned();
    let mut object = object.clone();
    object["metadata"] = metadata.into();
    Prepared::Ready { object, old_uid, dropped }
}

/// The references to owners that exist, with their new UIDs, and how many others there were: with one of these, the garbage
/// collector would delete the object.
fn references(object: &Value, new_uids: &NewUids) -> (Vec<Value>, usize) {
    let all = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let with_new_uid = |owner: &Value| {
        let (uid, _) = new_uids.get(text(owner, "/uid"))?;
        let mut owner = owner.clone();
        owner["uid"] = json!(uid);
        Some(owner)
    };
    let references: Vec<Value> = all.iter().filter_map(with_new_uid).collect();
    let dropped = all.len() - references.len();
    (references, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, owners: &[&str]) -> Value {
        let owners: Vec<Value> = owners.iter().map(|uid| json!({"kind": "Lamp", "uid": uid})).collect();
        json!({
            "spec": {"a": 1},
            "metadata": {
                "name": uid, "uid": uid, "resourceVersion": "7", "creationTimestamp": "x",
                "labels": {"l": "1"}, "ownerReferences": owners,
            },
        })
    }

    fn applied(prepared: Prepared) -> Option<(Value, usize)> {
        if let Prepared::Ready { object, dropped, .. } = prepared { Some((object, dropped)) } else { None }
    }

    #[test]
    fn objects_come_after_their_owners_with_the_new_uids() {
        let checked = Checked { owners: ["a", "b"].map(str::to_owned).into(), ..Checked::default() };
        let mut uids = NewUids::new();
        let [alone, owned, deep] =
            [object("a", &[]), object("b", &["a", "elsewhere"]), object("c", &["b", "a"])];
        let made = applied(prepare(&alone, &checked, &uids, (0, false))).unwrap();
        assert_eq!(made, (json!({"spec": {"a": 1}, "metadata": {"name": "a", "labels": {"l": "1"}}}), 0));
        assert!(matches!(prepare(&owned, &checked, &uids, (0, false)), Prepared::Waits));
        uids.insert("a".to_owned(), ("new-a".to_owned(), 0));
        // Restored in this very round: what it owns comes in the next one, and once.
        assert!(matches!(prepare(&owned, &checked, &uids, (0, false)), Prepared::Waits));
        let (object, dropped) = applied(prepare(&owned, &checked, &uids, (1, false))).unwrap();
        assert_eq!(object["metadata"]["ownerReferences"], json!([{"kind": "Lamp", "uid": "new-a"}]));
        assert_eq!(dropped, 1);
        assert!(matches!(prepare(&owned, &checked, &uids, (2, false)), Prepared::Done));
        assert!(matches!(prepare(&alone, &checked, &uids, (1, false)), Prepared::Done));
        assert!(matches!(prepare(&deep, &checked, &uids, (1, false)), Prepared::Waits));
        uids.insert("b".to_owned(), ("new-b".to_owned(), 1));
        assert!(applied(prepare(&deep, &checked, &uids, (2, false))).is_some());
    }

    #[test]
    fn owners_in_a_circle_are_left_out_in_the_last_round() {
        let checked = Checked { owners: ["a", "b"].map(str::to_owned).into(), ..Checked::default() };
        let circle = object("a", &["b"]);
        assert!(matches!(prepare(&circle, &checked, &NewUids::new(), (1, false)), Prepared::Waits));
        let (object, dropped) = applied(prepare(&circle, &checked, &NewUids::new(), (1, true))).unwrap();
        assert_eq!((object["metadata"].get("ownerReferences"), dropped), (None, 1));
    }
}
