//! What holds at every write of the program, whatever went wrong before: each change is checked when it is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use olm_api::names::{
    BUNDLE_NAME, DELETION_POLICY_ANNOTATION, REQUIRED_BY_ANNOTATION, REVISION_OF_ANNOTATION,
};
use serde_json::Value;

use super::{
    consent::Consent,
    store::{Key, Store},
};

/// The label of objects that neither the program nor what it installs has made.
pub(crate) const FOREIGN_LABEL: &str = "example.com/foreign";

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Properties {
    /// Changes that the program made.
    pub(crate) writes: u64,
    /// What it must not have done, each with its time.
    pub(crate) violations: Vec<String>,
    /// UIDs of extensions, each with the name of a bundle that was rolled out for it.
    rolled_out: BTreeSet<(String, String)>,
    /// The UID of each revision with that of its extension, also once the revision is gone: what it owned goes later.
    revision_of: BTreeMap<String, String>,
    /// What the update policy has to say.
    pub(crate) consent: Consent,
}

impl Properties {
    /// Counts a change of the program, and checks it: an object `before`, and `after` unless it is deleted.
    pub(super) fn check(
        &mut self,
        (key, time): (&Key, Duration),
        before: Option<&Value>,
        after: Option<&Value>,
        store: &Store,
    ) {
        self.writes += 1;
        if let Some(set) = after.filter(|_| key.0 == "clusterobjectsets") {
            let uid = set["metadata"]["uid"].as_str().map(str::to_owned);
            let extension =
                set["metadata"]["annotations"][REVISION_OF_ANNOTATION].as_str().map(str::to_owned);
            self.revision_of.extend(uid.zip(extension));
        }
        let found = match after {
            None => before.and_then(|object| deletion(key, object, store)),
            Some(object) => self
                .report(key, object)
                .or_else(|| self.still_owned(key, object, store))
                .or_else(|| self.consent.check((key, time), before, object))
                .or_else(|| moved_back(before?, object, store)),
        };
        let is_foreign =
            |object: &Value| object.pointer("/metadata/labels").is_some_and(|l| !l[FOREIGN_LABEL].is_null());
        let foreign = before.filter(|object| is_foreign(object)).map(|_| "it is foreign".to_owned());
        for text in found.into_iter().chain(foreign) {
            self.violations.push(format!("{:.3} s: {key:?}: {text}", time.as_secs_f64()));
        }
    }

    /// A status names only bundles that were rolled out.
    fn report(&mut self, (resource, ..): &Key, object: &Value) -> Option<String> {
        let annotation = |name: &str| object["metadata"]["annotations"][name].as_str().map(str::to_owned);
        match resource.as_str() {
            "clusterobjectsets" if condition(object, "Succeeded") == Some("True") => {
                let names = annotation(REVISION_OF_ANNOTATION).zip(annotation(BUNDLE_NAME));
                self.rolled_out.extend(names);
                None
            }
            "clusterextensions" => {
                let bundle = object["status"]["install"]["bundle"]["name"].as_str()?.to_owned();
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                let is_rolled_out = self.rolled_out.contains(&(uid, bundle.clone()));
                (!is_rolled_out).then(|| format!("the status names {bundle}, which was not rolled out"))
            }
            _ => None,
        }
    }

    /// No CRD has an owner, whose end would be its own, while an extension reports that its policy is in force. What an
    /// earlier extension of the name has left behind goes with that one.
    fn still_owned(&self, (resource, ..): &Key, object: &Value, store: &Store) -> Option<String> {
        if resource != "clusterextensions" || condition(object, "DeletionPolicy") != Some("True") {
            return None;
        }
        let is_of_another = |owner: &Value| {
            let extension = owner["uid"].as_str().and_then(|uid| self.revision_of.get(uid));
            extension.is_some_and(|extension| object["metadata"]["uid"] != extension.as_str())
        };
        let is_owned = |crd: &Value| {
            let owners = crd["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
            owners.iter().any(|owner| !is_of_another(owner))
        };
        let crds =
            store.objects().iter().filter(|((resource, ..), _)| resource == "customresourcedefinitions");
        let found = crds.into_iter().find(|(_, crd)| is_owned(crd))?;
        Some(format!("its deletion policy is reported as in force, and CRD {:?} has an owner", found.0.2))
    }
}

/// The status of a condition.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// Only what is its own is deleted, nothing that an active revision controls, and no CRD under a policy that retains it.
fn deletion((resource, ..): &Key, object: &Value, store: &Store) -> Option<String> {
    let is_program =
        |owner: &Value| owner["kind"] == "ClusterObjectSet" || owner["kind"] == "ClusterExtension";
    let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_owned = owners.iter().any(is_program)
        // Content is written before its revision.
        || object["type"].as_str().is_some_and(|kind| kind.starts_with("olm.operatorframework.io/"))
        // Created for another extension.
        || object["metadata"]["annotations"][REQUIRED_BY_ANNOTATION].is_string();
    if resource == "customresourcedefinitions" {
        let retains = |extension: &Value| {
            !extension["metadata"]["annotations"][DELETION_POLICY_ANNOTATION].is_null()
                && condition(extension, "DeletionPolicy") == Some("True")
        };
        let extensions = store.objects().iter().filter(|((resource, ..), _)| resource == "clusterextensions");
        if extensions.into_iter().any(|(_, extension)| retains(extension)) {
            return Some("a CRD is deleted that the deletion policy retains".to_owned());
        }
    }
    let active = controlling_set(object, store).filter(|set| {
        set["spec"]["lifecycleState"] == "Active" && set["metadata"]["deletionTimestamp"].is_null()
    });
    if let Some(set) = active {
        return Some(format!("it is deleted, and {} controls it and is active", set["metadata"]["name"]));
    }
    (!is_owned).then(|| "it is deleted, and nothing says that it is the program's".to_owned())
}

/// The revision that controls an object.
fn controlling_set<'s>(object: &Value, store: &'s Store) -> Option<&'s Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let key = ("clusterobjectsets".to_owned(), String::new(), owner["name"].as_str()?.to_owned());
    store.get(&key).map(|set| &**set).filter(|set| set["metadata"]["uid"] == owner["uid"])
}

/// No object goes from a revision to an earlier one, or to one that is archived.
fn moved_back(before: &Value, after: &Value, store: &Store) -> Option<String> {
    let (from, to) = (controlling_set(before, store)?, controlling_set(after, store)?);
    let number = |set: &Value| set["spec"]["revision"].as_i64();
    let name = |set: &Value| set["metadata"]["name"].to_string();
    if number(to) < number(from) {
        return Some(format!("{} takes it from the later {}", name(to), name(from)));
    }
    (from["metadata"]["uid"] != to["metadata"]["uid"] && to["spec"]["lifecycleState"] == "Archived")
        .then(|| format!("{} takes it and is archived", name(to)))
}
