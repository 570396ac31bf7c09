//! `olm restore`: brings the CRDs and custom resources of a snapshot back.

mod checked;
mod prepared;

use std::{fs::File, io::Write, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use olm_object::text;
use olm_runtime::{bounded, if_exists};
use olm_text::visible;
use serde_json::Value;
use tokio::time::Instant;

use self::{
    checked::{Checked, check},
    prepared::{NewUids, Prepared, prepare},
};
use super::{
    question::Consent,
    snapshot::file::{Next, Reader, Record},
};
use crate::{cluster::Cluster, output::counted};

/// The help text below the options.
pub(crate) const HELP: &str = "The whole file is checked first. CRDs that the cluster does not have are created, and those that it has stay as they are.
Custom resources are applied with a field manager of their own, owners before what they own, status included; what other
field managers have changed since is left to them and reported, unless --force is given. Running the command again changes
nothing more, and continues after an interruption. Namespaces have to exist. Pass --dry-run to see what would be done.

Exit codes: 0 restored, 1 error, or not everything could be restored.

Examples:
  olm restore grafana.snapshot --dry-run
  olm restore grafana.snapshot --yes";

/// The field manager of what is restored.
const FIELD_MANAGER: &str = "olm-restore";
/// Objects that are written at once.
const CONCURRENT: usize = 8;
/// How long a new CRD may take until its kind is served.
const ESTABLISHED: Duration = Duration::from_mins(1);
/// How deep owners may be nested.
const ROUNDS_MAX: usize = 64;
/// Failures that are written out; the others are counted.
const FAILURES_SHOWN: usize = 20;

/// `olm restore`
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The file that "olm snapshot" wrote
    file: PathBuf,
    /// Take over fields that other field managers have changed since
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: Cluster,
}

impl Restore {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.consent.check()?;
        let path = self.file.display().to_string();
        let open = || File::open(&self.file).with_context(|| path.clone());
        let checked = check(open()?).with_context(|| path.clone())?;
        let client = self.cluster.client().await?;
        let (crds, objects) =
            (counted(checked.definitions.len(), "CRD"), counted(checked.objects, "custom resource"));
        let text = format!("{path}: {crds} and {objects} of extension {}", checked.extension);
        writeln!(out, "{}", visible(&text))?;
        if !self.consent.dry_run && !self.consent.ask(&format!("Restore {objects}?"))? {
            return Ok(());
        }
        let absent = self.definitions(&client, &checked, out).await?;
        let writes =
            Writes { client, checked: &checked, force: self.force, dry_run: self.consent.dry_run, absent };
        let mut done = Done::default();
        loop {
            let before = done.new_uids.len();
            let waiting = writes.round(Reader::new(open()?), &mut done).await?;
            done.rounds += 1;
            if waiting == 0 {
                break;
            }
            // What own each other in a circle, or too deep, come without these references.
            done.is_last = done.new_uids.len() == before || done.rounds >= ROUNDS_MAX;
        }
        done.report(self.consent.dry_run, out)
    }

    /// Creates the CRDs that are missing and waits until their kinds are served; the names of those that still are.
    async fn definitions(
        &self,
        client: &Client,
        checked: &Checked,
        out: &mut dyn Write,
    ) -> anyhow::Result<Vec<String>> {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut absent = Vec::new();
        for (name, definition) in &checked.definitions {
            let live =
                if_exists(api.get_metadata(name)).await.with_context(|| format!("reading CRD {name}"))?;
            if live.is_some() {
                writeln!(out, "{}", visible(&format!("  CRD {name} is there and stays as it is")))?;
                continue;
            }
            let crd = serde_json::from_value(definition.clone()).with_context(|| format!("CRD {name}"))?;
            let params =
                PostParams { dry_run: self.consent.dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
            bounded(api.create(&params, &crd)).await.with_context(|| format!("creating CRD {name}"))?;
            writeln!(out, "{}", visible(&format!("  created: CRD {name}")))?;
            if self.consent.dry_run {
                absent.push(name.clone());
            }
        }
        for name in checked.definitions.keys().filter(|name| !absent.contains(name)) {
            established(&api, name).await?;
        }
        Ok(absent)
    }
}

async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> anyhow::Result<()> {
    let until = Instant::now() + ESTABLISHED;
    loop {
        let crd = bounded(api.get(name)).await.with_context(|| format!("reading CRD {name}"))?;
        let conditions = crd.status.into_iter().flat_map(|status| status.conditions.unwrap_or_default());
        if conditions.into_iter().any(|one| one.type_ == "Established" && one.status == "True") {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("CRD {name} is not served after {} s: see its conditions", ESTABLISHED.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What was restored so far.
#[derive(Default)]
struct Done {
    rounds: usize,
    /// Whether the next round restores what is left.
    is_last: bool,
    new_uids: NewUids,
    restored: usize,
    /// Objects whose kind the cluster does not have in a dry run.
    unserved: usize,
    /// Objects that have a status of other field managers now.
    newer_status: usize,
    dropped_references: usize,
    failures: Vec<String>,
    failed: usize,
}

impl Done {
    fn report(&self, dry_run: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let restored = counted(self.restored, "custom resource");
        let would = if dry_run { "would be " } else { "" };
        writeln!(out, "{restored} {would}restored")?;
        if self.unserved > 0 {
            writeln!(
                out,
                "{} not tried: their CRDs do not exist yet",
                counted(self.unserved, "custom resource")
            )?;
        }
        if self.newer_status > 0 {
            let objects = counted(self.newer_status, "custom resource");
            writeln!(out, "{objects} kept the status that another program has written since")?;
        }
        if self.dropped_references > 0 {
            let references = counted(self.dropped_references, "reference");
            writeln!(out, "{references} to owners that are not in the snapshot were left out")?;
        }
        for failure in &self.failures {
            writeln!(out, "{}", visible(&format!("  failed: {failure}")))?;
        }
        match self.failed {
            0 => Ok(()),
            failed => bail!(
                "{} could not be restored: remove the cause and run the command again",
                counted(failed, "custom resource")
            ),
        }
    }
}

/// What became of an object.
enum Outcome {
    Restored { old_uid: String, new_uid: String, has_newer_status: bool },
    Unserved,
    Failed(String),
}

struct Writes<'a> {
    client: Client,
    checked: &'a Checked,
    force: bool,
    dry_run: bool,
    /// CRDs that the cluster does not have.
    absent: Vec<String>,
}

impl Writes<'_> {
    /// Restores the objects whose owners were restored in the rounds before; the number of those that wait.
    async fn round(&self, mut reader: Reader, done: &mut Done) -> anyhow::Result<usize> {
        let mut waiting = 0;
        while let Next::Member(records) = reader.next()? {
            let mut ready = Vec::new();
            for record in records {
                let Record::Object(object) = record else { continue };
                match prepare(&object, self.checked, &done.new_uids, (done.rounds, done.is_last)) {
                    Prepared::Done => {}
                    Prepared::Waits => waiting += 1,
                    Prepared::Ready { object, old_uid, dropped } => {
                        done.dropped_references += dropped;
                        ready.push((object, old_uid));
                    }
                }
            }
            let mut outcomes = stream::iter(ready.into_iter().map(|(object, uid)| self.restore(object, uid)))
                .buffer_unordered(CONCURRENT);
            while let Some(outcome) = outcomes.next().await {
                self.note(outcome, done);
            }
        }
        Ok(waiting)
    }

    fn note(&self, outcome: Outcome, done: &mut Done) {
        match outcome {
            Outcome::Restored { old_uid, new_uid, has_newer_status } => {
                done.restored += 1;
                done.newer_status += usize::from(has_newer_status);
                if self.checked.owners.contains(&old_uid) {
                    done.new_uids.insert(old_uid, (new_uid, done.rounds));
                }
            }
            Outcome::Unserved => done.unserved += 1,
            Outcome::Failed(text) => {
                done.failed += 1;
                if done.failures.len() < FAILURES_SHOWN {
                    done.failures.push(text);
                }
            }
        }
    }

    async fn restore(&self, object: Value, old_uid: String) -> Outcome {
        let label = super::manifests::label(&object);
        let Some((name, resource)) = self.checked.resource(&object) else {
            return Outcome::Failed(format!("{label}: its CRD is not in the snapshot"));
        };
        if self.absent.iter().any(|absent| absent == name) {
            return Outcome::Unserved;
        }
        let restored = self.apply(object, resource).await;
        restored.map_or_else(
            |error| Outcome::Failed(format!("{label}: {}", olm_runtime::api_text(&error))),
            |(live, has_newer_status)| Outcome::Restored {
                old_uid,
                new_uid: live.uid().unwrap_or_default(),
                has_newer_status,
            },
        )
    }

    /// Applies an object, and its status where that is written apart; whether another program has written it since.
    async fn apply(
        &self,
        mut object: Value,
        resource: &ApiResource,
    ) -> Result<(DynamicObject, bool), kube::Error> {
        let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        };
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        let mut params = PatchParams::apply(FIELD_MANAGER);
        params.dry_run = self.dry_run;
        params.force = self.force;
        let has_subresource = self.checked.has_status_subresource(&object);
        let status = if has_subresource {
            object.as_object_mut().and_then(|object| object.remove("status"))
        } else {
            None
        };
        let live = bounded(api.patch(&name, &params, &Patch::Apply(&object))).await?;
        // In a dry run an object that is new has no status to be written to.
        let Some(status) = status.filter(|_| !self.dry_run) else { return Ok((live, false)) };
        let mut apart = serde_json::json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": name}, "status": status,
        });
        if !namespace.is_empty() {
            apart["metadata"]["namespace"] = namespace.into();
        }
        match bounded(api.patch_status(&name, &params, &Patch::Apply(&apart))).await {
            Ok(live) => Ok((live, false)),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok((live, true)),
            Err(error) => Err(error),
        }
    }
}
