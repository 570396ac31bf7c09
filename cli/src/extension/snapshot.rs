//! `olm snapshot`: the CRDs of an extension with all their custom resources, in a file that `olm restore` reads.

pub(crate) mod file;

use std::{
    fs::{File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use olm_api::{
    names::{OWNER_NAME_LABEL, OWNER_UID_ANNOTATION},
    v1::ClusterExtension,
};
use olm_object::text;
use olm_runtime::bounded;
use olm_text::one_line;
use serde_json::{Value, json};

use self::file::{FORMAT, Header, Next, Progress, Reader, Record, Totals, Writer};
use super::revisions::extension;
use crate::{cluster::Cluster, output::counted};

/// The help text below the options.
pub(crate) const HELP: &str = "The file has the CRDs of the extension and every custom resource of their kinds in every namespace, with status, as lines
of JSON in gzip members. It is written page by page; if the command is stopped, run it again with the same file, and it
continues. Objects that change meanwhile are in the file as they were when they were read. Secrets and other objects that
custom resources refer to are not in it. The file may hold what custom resources hold: only its owner may read it.

Exit codes: 0 complete, 1 error.

Examples:
  olm snapshot grafana-operator -o grafana.snapshot
  olm restore grafana.snapshot --dry-run";

/// Custom resources of one page.
const PAGE_OBJECTS: u32 = 100;

/// `olm snapshot`
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// Name of the ClusterExtension
    extension: String,
    /// The file to write; one that an earlier run began is continued
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    cluster: Cluster,
}

impl Snapshot {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let seen = extension(&client, &self.extension).await?;
        let (begun, file) = open(&self.output, &seen).with_context(|| self.output.display().to_string())?;
        let mut writer = Writer::new(file, begun.totals);
        let mut definitions = begun.definitions;
        if definitions.is_empty() {
            definitions = read_definitions(&client, &seen).await?;
            write_definitions(&mut writer, &seen, &definitions)?;
        } else {
            writeln!(out, "continuing after {}", counted(writer.objects(), "custom resource"))?;
        }
        let begins_at = definitions.iter().position(|one| text(one, "/metadata/name") == begun.at.definition);
        for (index, definition) in definitions.iter().enumerate().skip(begins_at.unwrap_or_default()) {
            let at = if Some(index) == begins_at { begun.at.clone() } else { Progress::default() };
            if !at.done {
                write_objects(&client, definition, at, &mut writer).await?;
            }
        }
        let end = writer.finish()?;
        let (crds, objects) = (counted(end.definitions, "CRD"), counted(end.objects, "custom resource"));
        let path = self.output.display().to_string();
        writeln!(out, "{}: {crds}, {objects}, {}", one_line(&path), end.digest)?;
        Ok(())
    }
}

/// What an earlier run has written.
#[derive(Default)]
struct Begun {
    totals: Totals,
    definitions: Vec<Value>,
    at: Progress,
}

/// Opens the file, to be continued behind its last whole member.
fn open(path: &Path, seen: &ClusterExtension) -> anyhow::Result<(Begun, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let (begun, length) = begun(file.try_clone()?, seen)?;
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    Ok((begun, file))
}

/// What a file has of a snapshot of this extension, and how long that is.
fn begun(file: File, seen: &ClusterExtension) -> anyhow::Result<(Begun, u64)> {
    let size = file.metadata()?.len();
    let mut reader = Reader::new(file);
    let (mut begun, mut has_header, mut are_complete) = (Begun::default(), false, false);
    let length = loop {
        let records = match reader.next()? {
            Next::Member(records) => records,
            Next::End => break size,
            Next::Torn(_) if !has_header => {
                bail!("the file exists and is no snapshot: pass another one with --output")
            }
            Next::Torn(start) => break start,
        };
        for record in records {
            match record {
                Record::Snapshot(header) if !has_header => {
                    check(&header, seen)?;
                    has_header = true;
                }
                _ if !has_header => {
                    bail!("the file exists and is no snapshot: pass another one with --output")
                }
                Record::Snapshot(_) => bail!("the file has two beginnings: pass another one with --output"),
                Record::Definition(definition) => begun.definitions.push(definition),
                Record::Object(_) => {}
                Record::Progress(progress) => {
                    are_complete = true;
                    begun.at = progress;
                }
                Record::End(_) => bail!("the snapshot is complete: pass another file with --output"),
            }
        }
        begun.totals = reader.totals.clone();
    };
    // Without all CRDs there is nothing to continue.
    Ok(if are_complete { (begun, length) } else { (Begun::default(), 0) })
}

fn check(header: &Header, seen: &ClusterExtension) -> anyhow::Result<()> {
    if header.format != FORMAT {
        bail!("the file has form {} of snapshots, and this version of olm writes {FORMAT}", header.format);
    }
    if header.extension != seen.name_any() || Some(&header.uid) != seen.metadata.uid.as_ref() {
        bail!(
            "the file is a snapshot of another extension ({}): pass another one with --output",
            one_line(&header.extension)
        );
    }
    Ok(())
}

/// The CRDs of the extension, as they are restored.
async fn read_definitions(client: &Client, seen: &ClusterExtension) -> anyhow::Result<Vec<Value>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let labelled = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", seen.name_any()));
    let listed = bounded(api.list(&labelled)).await.context("listing CustomResourceDefinitions")?;
    let mut definitions =
        listed.items.iter().map(definition).collect::<Result<Vec<_>, serde_json::Error>>()?;
    definitions.sort_by_key(|one| text(one, "/metadata/name").to_owned());
    if definitions.is_empty() {
        bail!("ClusterExtension {} has no CRDs: there is nothing to save", seen.name_any());
    }
    Ok(definitions)
}

/// A CRD without what the API server writes, in the form that a deletion policy gives it: an extension of the same name and
/// package takes it over.
fn definition(crd: &CustomResourceDefinition) -> Result<Value, serde_json::Error> {
    let mut annotations = crd.annotations().clone();
    if let Some(owner) = crd.owner_references().iter().find(|owner| owner.controller == Some(true)) {
        annotations.insert(OWNER_UID_ANNOTATION.to_owned(), owner.uid.clone());
    }
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name_any(), "labels": crd.labels(), "annotations": annotations},
        "spec": serde_json::to_value(&crd.spec)?,
    }))
}

fn write_definitions(
    writer: &mut Writer,
    seen: &ClusterExtension,
    definitions: &[Value],
) -> anyhow::Result<()> {
    writer.add(&Record::Snapshot(Header {
        format: FORMAT,
        extension: seen.name_any(),
        uid: seen.uid().unwrap_or_default(),
        taken: Timestamp::now().to_string(),
    }))?;
    for definition in definitions {
        writer.add(&Record::Definition(definition.clone()))?;
        if writer.is_full() {
            writer.flush()?;
        }
    }
    writer.add(&Record::Progress(Progress::default()))?;
    writer.flush()
}

/// The version at which objects are read: the one that they are stored at, if it is served.
pub(crate) fn version(definition: &Value) -> Option<&str> {
    let served =
        || definition["spec"]["versions"].as_array().into_iter().flatten().filter(|v| v["served"] == true);
    let version = served().find(|version| version["storage"] == true).or_else(|| served().next())?;
    version["name"].as_str()
}

/// The kind of a CRD's objects.
pub(crate) fn resource(definition: &Value) -> Option<ApiResource> {
    let gvk = GroupVersionKind::gvk(
        text(definition, "/spec/group"),
        version(definition)?,
        text(definition, "/spec/names/kind"),
    );
    Some(ApiResource::from_gvk_with_plural(&gvk, text(definition, "/spec/names/plural")))
}

/// Writes the objects of a CRD from `at` on.
async fn write_objects(
    client: &Client,
    definition: &Value,
    mut at: Progress,
    writer: &mut Writer,
) -> anyhow::Result<()> {
    let name = text(definition, "/metadata/name");
    let resource = resource(definition).with_context(|| format!("CRD {name} serves no version"))?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    name.clone_into(&mut at.definition);
    loop {
        let mut params = ListParams::default().limit(PAGE_OBJECTS);
        params.continue_token.clone_from(&at.next);
        let page = match bounded(api.list(&params)).await {
            // The token has expired: the list is read again, without what is written.
            Err(kube::Error::Api(status)) if status.code == 410 && at.next.is_some() => {
                at.next = None;
                continue;
            }
            page => page.with_context(|| format!("listing {name}"))?,
        };
        for object in page.items {
            let key = key(&object);
            if at.last.as_ref().is_some_and(|last| key <= *last) {
                continue;
            }
            writer.add(&Record::Object(saved(object, &resource)?))?;
            at.last = Some(key);
            if writer.is_full() {
                // Of the page only what follows the last object is read again.
                writer.add(&Record::Progress(at.clone()))?;
                writer.flush()?;
            }
        }
        at.next = page.metadata.continue_.filter(|next| !next.is_empty());
        at.done = at.next.is_none();
        writer.add(&Record::Progress(at.clone()))?;
        writer.flush()?;
        if at.done {
            return Ok(());
        }
    }
}

/// The key by which the API server sorts objects.
fn key(object: &DynamicObject) -> String {
    let name = object.name_any();
    object.namespace().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
}

/// An object without the record of who wrote its fields.
fn saved(mut object: DynamicObject, resource: &ApiResource) -> Result<Value, serde_json::Error> {
    object.metadata.managed_fields = None;
    let mut object = serde_json::to_value(object)?;
    object["apiVersion"] = resource.api_version.clone().into();
    object["kind"] = resource.kind.clone().into();
    Ok(object)
}
