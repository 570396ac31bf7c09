//! What a snapshot consists of, once all of it was read: nothing is written for a file that is not whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
};

use anyhow::{Context as _, bail};
use kube::api::ApiResource;
use olm_object::{
    names::{is_label, is_subdomain},
    text,
};
use olm_text::one_line;
use serde_json::Value;

use super::super::snapshot::{
    file::{FORMAT, Next, Reader, Record},
    resource, version,
};

/// Owners of one object; more than the API server has been seen with.
const OWNERS_MAX: usize = 64;

/// A snapshot that is whole.
#[derive(Default)]
pub(super) struct Checked {
    pub(super) extension: String,
    /// CRDs by name.
    pub(super) definitions: BTreeMap<String, Value>,
    pub(super) objects: usize,
    /// UIDs of objects of the snapshot that own others of it.
    pub(super) owners: BTreeSet<String>,
    /// The kinds of the CRDs, by API version and kind.
    pub(super) kinds: BTreeMap<(String, String), Kind>,
}

pub(super) struct Kind {
    definition: String,
    resource: ApiResource,
    is_namespaced: bool,
    has_status: bool,
}

impl Checked {
    fn kind(&self, object: &Value) -> Option<&Kind> {
        self.kinds.get(&(text(object, "/apiVersion").to_owned(), text(object, "/kind").to_owned()))
    }

    /// The CRD of an object and its resource.
    pub(super) fn resource(&self, object: &Value) -> Option<(&str, &ApiResource)> {
        self.kind(object).map(|kind| (kind.definition.as_str(), &kind.resource))
    }

    /// Whether the status of an object is written apart.
    pub(super) fn has_status_subresource(&self, object: &Value) -> bool {
        self.kind(object).is_some_and(|kind| kind.has_status)
    }

    fn add_definition(&mut self, definition: Value) -> anyhow::Result<()> {
        let name = text(&definition, "/metadata/name").to_owned();
        let is_crd = text(&definition, "/apiVersion") == "apiextensions.k8s.io/v1"
            && text(&definition, "/kind") == "CustomResourceDefinition";
        let (group, plural) = (text(&definition, "/spec/group"), text(&definition, "/spec/names/plural"));
        let is_named = is_subdomain(group) && is_label(plural) && name == format!("{plural}.{group}");
        let served = version(&definition).filter(|version| is_label(version)).zip(resource(&definition));
        let Some((served, resource)) = served.filter(|_| is_crd && is_named) else {
            bail!("the snapshot has a CRD that is none: {}", one_line(&name));
        };
        let versions = definition["spec"]["versions"].as_array();
        let has_status = versions
            .into_iter()
            .flatten()
            .any(|version| version["name"] == served && version["subresources"]["status"].is_object());
        let is_namespaced = definition["spec"]["scope"] == "Namespaced";
        let key = (resource.api_version.clone(), resource.kind.clone());
        let kind = Kind { definition: name.clone(), resource, is_namespaced, has_status };
        self.kinds.insert(key, kind);
        self.definitions.insert(name, definition);
        Ok(())
    }

    /// Checks that an object is one of the CRDs': no other kind is ever written.
    fn check_object(&self, object: &Value) -> anyhow::Result<()> {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let fits = self.kind(object).is_some_and(|kind| {
            let is_placed = if kind.is_namespaced { is_label(namespace) } else { namespace.is_empty() };
            is_placed && is_subdomain(name)
        });
        let owners = object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        if !fits || owners > OWNERS_MAX {
            let label = format!("{} {namespace}/{name}", text(object, "/kind"));
            bail!("the snapshot has an object that is not of one of its CRDs: {}", one_line(&label));
        }
        Ok(())
    }
}

/// Reads a whole file.
pub(super) fn check(file: File) -> anyhow::Result<Checked> {
    let mut reader = Reader::new(file);
    let (mut checked, mut uids, mut referenced) = (Checked::default(), BTreeSet::new(), BTreeSet::new());
    let (mut has_header, mut has_end) = (false, false);
    loop {
        let records = match reader.next()? {
            Next::Member(records) => records,
            Next::End => break,
            Next::Torn(_) => bail!("the snapshot is not complete: run \"olm snapshot\" again with this file"),
        };
        for record in records {
            if has_end || has_header == matches!(record, Record::Snapshot(_)) {
                bail!("the file is no snapshot: its records are not in order");
            }
            match record {
                Record::Snapshot(header) if header.format == FORMAT && is_subdomain(&header.extension) => {
                    has_header = true;
                    checked.extension = header.extension;
                }
                Record::Snapshot(_) => bail!("the file is a snapshot of another form"),
                Record::Definition(definition) => checked.add_definition(definition)?,
                Record::Object(object) => {
                    checked.check_object(&object)?;
                    uids.insert(text(&object, "/metadata/uid").to_owned());
                    referenced.extend(owners(&object).map(str::to_owned));
                }
                Record::Progress(_) => {}
                Record::End(_) => has_end = true,
            }
        }
    }
    if !has_end {
        bail!("the snapshot is not complete: run \"olm snapshot\" again with this file");
    }
    checked.objects = reader.totals.objects();
    checked.owners = referenced.intersection(&uids).cloned().collect();
    (!checked.definitions.is_empty()).then_some(checked).context("the snapshot has no CRDs")
}

/// The UIDs of an object's owners.
pub(super) fn owners(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(|owner| text(owner, "/uid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::extension::snapshot::file::{Header, Totals, Writer};

    fn crd(name: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "lamps", "kind": "Lamp"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}],
            },
        })
    }

    fn lamp(namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Lamp",
            "metadata": {"name": name, "namespace": namespace, "uid": name},
        })
    }

    fn checked(records: &[Record], ends: bool) -> Result<Checked, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::new(file.reopen().unwrap(), Totals::default());
        let header = Header { format: FORMAT, extension: "lamps".into(), ..Header::default() };
        for record in [Record::Snapshot(header)].iter().chain(records) {
            writer.add(record).unwrap();
        }
        writer.flush().unwrap();
        if ends {
            writer.finish().unwrap();
        }
        check(file.reopen().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_snapshot_is_read() {
        let mut owned = lamp("n", "b");
        owned["metadata"]["ownerReferences"] = json!([{"uid": "a"}, {"uid": "elsewhere"}]);
        let records = [
            Record::Definition(crd("lamps.example.com")),
            Record::Object(owned),
            Record::Object(lamp("n", "a")),
        ];
        let checked = self::checked(&records, true).unwrap();
        assert_eq!((checked.objects, checked.extension.as_str()), (2, "lamps"));
        assert_eq!(checked.owners.iter().collect::<Vec<_>>(), ["a"]);
        assert!(checked.has_status_subresource(&lamp("n", "a")));
        assert!(self::checked(&records, false).err().unwrap().contains("not complete"));
    }

    #[test]
    fn hostile_files_are_rejected() {
        let object = |change: fn(&mut Value)| {
            let mut object = lamp("n", "a");
            change(&mut object);
            Record::Object(object)
        };
        for hostile in [
            Record::Definition(crd("lamps.example.org")),
            Record::Definition(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})),
            object(|one| one["kind"] = "ClusterRole".into()),
            object(|one| one["apiVersion"] = "v1".into()),
            object(|one| one["metadata"]["name"] = "../secrets".into()),
            object(|one| one["metadata"]["namespace"] = "".into()),
            object(|one| one["metadata"]["namespace"] = "a/b".into()),
            object(|one| one["metadata"]["ownerReferences"] = vec![json!({"uid": "u"}); 65].into()),
        ] {
            let records = [Record::Definition(crd("lamps.example.com")), hostile];
            let error = checked(&records, true).err();
            assert!(error.is_some_and(|error| error.starts_with("the snapshot has a")), "{:?}", records[1]);
        }
        assert!(checked(&[], true).err().unwrap().contains("has no CRDs"));
    }
}
