//! What the InstallPlan that a Subscription waits for would do to a cluster.
//!
//! The objects are made from the bundles, as the controller makes them, and compared with those of the cluster. The
//! API server is asked in dry-runs, in the name of the user who runs the command.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
};
use olm_api_classic::{InstallPlan, Step, Subscription};
use olm_bundle::{CSV_KIND, first_manifests};
use olm_classic_core::plan::{
    Content, PlannedBundle, PlannedObject, Reference, crds,
    object::{self, Place, prepared, updated},
    objects, texts,
};
use olm_image::Digest;
use olm_object::{ObjectKey, text};
use olm_plan::{DryRunVerdict, Found, Writes, deletion_plan, image_changes, write_plan};
use olm_runtime::{Discovery, DiscoveryError, Kind, api_text, bounded, if_exists};
use serde::Serialize;
use serde_json::{Value, json};

use crate::sources::{Registries, Source};

/// Most bundles of a plan, as for the controller.
const BUNDLES_MAX: usize = 100;
/// Most steps of a plan, as for the controller.
const STEPS_MAX: usize = 2_000;
/// The phases of objects: those that steps make, and the Deployments of operators.
const STEP: &str = "step";
const OPERATOR: &str = "operator";

/// The plan of a Subscription, and what it would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    pub(crate) namespace: String,
    pub(crate) subscription: String,
    /// Whether the cluster would change.
    #[serde(rename = "difference")]
    pub(crate) has_changes: bool,
    /// Why nothing is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    install_plan: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    installs: Vec<String>,
    #[serde(flatten)]
    writes: Writes,
}

impl Difference {
    /// Asks cluster and registries.
    pub(crate) async fn read(
        client: &Client,
        registries: &Registries,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Self> {
        let api: Api<Subscription> = Api::namespaced(client.clone(), namespace);
        let found = if_exists(api.get(name)).await;
        let found = found.with_context(|| format!("reading Subscription {namespace}/{name}"))?;
        let subscription = found.with_context(|| {
            format!("there is no Subscription {name:?} in namespace {namespace}: name another one with -n")
        })?;
        let api: Api<InstallPlan> = Api::namespaced(client.clone(), namespace);
        let status = subscription.status.clone().unwrap_or_default();
        let reference = status.install_plan_ref.and_then(|one| one.name);
        let plans = bounded(api.list(&ListParams::default())).await.context("reading InstallPlans")?.items;
        let plan = plans.iter().find(|plan| Some(plan.name_any()) == reference);
        let is_pending = |plan: &&InstallPlan| phase(plan) != texts::COMPLETE;
        let mut difference = Self {
            namespace: namespace.to_owned(),
            subscription: name.to_owned(),
            has_changes: false,
            why: None,
            install_plan: None,
            installs: Vec::new(),
            writes: Writes::default(),
        };
        let Some(plan) = plan.filter(is_pending) else {
            let ready = status.conditions.into_iter().find(|one| one.type_ == "Ready");
            let ready = ready.and_then(|one| one.message).unwrap_or_default();
            difference.why = Some(format!("no InstallPlan is pending. {ready}").trim().to_owned());
            return Ok(difference);
        };
        let discovery = Discovery::new(client.clone());
        let mut pending =
            Pending { client, discovery, plan, plans: &plans, namespace, writes: Writes::default() };
        let bundles = pending.bundles(registries).await?;
        pending.add(&bundles).await?;
        difference.install_plan = Some(plan.name_any());
        difference.installs.clone_from(&plan.spec.cluster_service_version_names);
        difference.has_changes = !pending.writes.is_empty();
        difference.writes = pending.writes;
        Ok(difference)
    }

    /// The text form.
    pub(crate) fn to_text(&self) -> String {
        let subject = format!("Subscription {}/{}", self.namespace, self.subscription);
        match (&self.why, &self.install_plan) {
            (None, Some(plan)) => {
                format!(
                    "{subject}: InstallPlan {plan} would install {}\n{}",
                    self.installs.join(", "),
                    self.writes.to_text().trim_end()
                )
            }
            (why, _) => format!("{subject}: no difference: {}", why.as_deref().unwrap_or_default()),
        }
    }
}

fn phase(plan: &InstallPlan) -> &str {
    plan.status.as_ref().map_or("", |status| status.phase.as_str())
}

/// A plan that is not carried out.
struct Pending<'a> {
    client: &'a Client,
    discovery: Discovery,
    plan: &'a InstallPlan,
    plans: &'a [InstallPlan],
    namespace: &'a str,
    writes: Writes,
}

impl Pending<'_> {
    fn steps(&self) -> &[Step] {
        self.plan.status.as_ref().map(|status| status.plan.as_slice()).unwrap_or_default()
    }

    /// The objects of all steps, and the ClusterServiceVersions that are replaced.
    async fn bundles(
        &mut self,
        registries: &Registries,
    ) -> anyhow::Result<Vec<(Vec<PlannedObject>, String)>> {
        if self.steps().len() > STEPS_MAX {
            bail!("InstallPlan {} has more than {STEPS_MAX} steps", self.plan.name_any());
        }
        let (mut references, mut subscriptions) = (BTreeMap::new(), Vec::new());
        for step in self.steps() {
            let manifest = step.resource.manifest.as_deref().unwrap_or_default();
            let unreadable = || texts::unreadable(&step.resource.name, "not one of olm-classic");
            if step.resource.kind == "Subscription" {
                let object: Value = serde_json::from_str(manifest).with_context(unreadable)?;
                subscriptions.push(PlannedObject { step: step.clone(), object });
            } else if step.resource.kind == CSV_KIND {
                let reference: Reference = serde_json::from_str(manifest).with_context(unreadable)?;
                references.insert(step.resolving.clone(), reference);
            }
        }
        if references.len() > BUNDLES_MAX {
            bail!("InstallPlan {} has more than {BUNDLES_MAX} bundles", self.plan.name_any());
        }
        let mut all = vec![(subscriptions, String::new())];
        for (name, reference) in references {
            if reference.kind == Content::Catalog {
                let note = format!(
                    "{name} is in its catalog as a whole, which only the controller reads: its objects are not compared"
                );
                self.writes.notes.push(note);
                continue;
            }
            let planned = planned(self.namespace, &name, &reference, registries).await?;
            all.push((planned, reference.replaces));
        }
        Ok(all)
    }

    /// Plans the writes of all bundles, and what goes afterwards.
    async fn add(&mut self, bundles: &[(Vec<PlannedObject>, String)]) -> anyhow::Result<()> {
        let written: BTreeSet<(String, &str)> = bundles
            .iter()
            .flat_map(|(planned, _)| planned)
            .map(|one| (one.step.resource.kind.clone(), one.step.resource.name.as_str()))
            .collect();
        for (planned, replaces) in bundles {
            let mut deployments = Vec::new();
            for one in planned {
                self.add_object(&one.step, &one.object).await?;
                if one.step.resource.kind == CSV_KIND {
                    deployments = self::deployments(&one.object, self.namespace);
                }
            }
            let old = if replaces.is_empty() { None } else { self.old(replaces).await? };
            self.add_deployments(&deployments, old.as_ref()).await?;
            if let Some(old) = old {
                self.add_leavers(replaces, &old, &written).await?;
            }
        }
        Ok(())
    }

    /// The ClusterServiceVersion that is replaced, if it is installed.
    async fn old(&self, name: &str) -> anyhow::Result<Option<Value>> {
        match self.live("operators.coreos.com/v1alpha1", CSV_KIND, name).await {
            Found::Present(old) => Ok(Some(old)),
            Found::Absent => Ok(None),
            Found::Unknown(why) => bail!("reading ClusterServiceVersion {name}: {why}"),
        }
    }

    /// Plans the write of one step's object.
    async fn add_object(&mut self, step: &Step, object: &Value) -> anyhow::Result<()> {
        let (api_version, kind_name) = object::kind(step);
        let kind = match self.discovery.kind(&api_version, kind_name).await {
            Ok(kind) => Some(kind),
            Err(DiscoveryError::Unknown { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let is_crd = kind_name == "CustomResourceDefinition";
        let is_namespaced = kind.as_ref().is_none_or(|kind| kind.namespaced);
        let (plan, namespace) = (self.plan.name_any(), self.namespace);
        let mut wanted =
            prepared(step, object, Place { plan: &plan, namespace, is_namespaced, csv_uid: None });
        if is_crd {
            let (key, value) = crds::alongside(namespace, &step.resolving);
            if !wanted["metadata"]["annotations"].is_object() {
                wanted["metadata"]["annotations"] = json!({});
            }
            wanted["metadata"]["annotations"][key] = value.into();
        }
        let Some(kind) = kind else {
            let mut planned = write_plan(STEP, &wanted, &Found::Absent, None);
            planned.note = Some("the cluster does not serve this kind".to_owned());
            self.writes.objects.push(planned);
            return Ok(());
        };
        let found = self.live(&api_version, kind_name, &step.resource.name).await;
        let after = match &found {
            Found::Absent => Some(wanted.clone()),
            Found::Unknown(_) => None,
            Found::Present(_) if object::is_created_only(step) => {
                wanted = found_object(&found);
                None
            }
            // Annotations of ClusterServiceVersions that are gone may go too; that is no difference worth a request.
            Found::Present(live) if is_crd => crds::replaced(live, &wanted, |_, _| true),
            Found::Present(live) => updated(live, &wanted),
        };
        let stored = match after {
            Some(after) => self.dry_run(&kind, &after, found == Found::Absent).await,
            None => None,
        };
        self.writes.objects.push(write_plan(STEP, &wanted, &found, stored.as_ref()));
        Ok(())
    }

    /// Plans the Deployments of an operator.
    async fn add_deployments(&mut self, wanted: &[Value], old: Option<&Value>) -> anyhow::Result<()> {
        let mut live = Vec::new();
        for one in wanted {
            let found = self.live("apps/v1", "Deployment", text(one, "/metadata/name")).await;
            self.writes.objects.push(write_plan(OPERATOR, one, &found, None));
            live.extend(Some(found_object(&found)).filter(Value::is_object));
        }
        let names: BTreeSet<&str> = wanted.iter().map(|one| text(one, "/metadata/name")).collect();
        for one in old.map(|old| deployments(old, self.namespace)).unwrap_or_default() {
            if !names.contains(text(&one, "/metadata/name")) {
                self.writes.objects.push(deletion_plan(OPERATOR, &one));
                live.push(one);
            }
        }
        self.writes.images.extend(image_changes(&live, wanted));
        Ok(())
    }

    /// Plans what goes with a ClusterServiceVersion that is replaced: itself, and the objects that its plan made and no step
    /// of this one writes. CRDs stay, and so do Subscriptions.
    async fn add_leavers(
        &mut self,
        replaces: &str,
        old: &Value,
        written: &BTreeSet<(String, &str)>,
    ) -> anyhow::Result<()> {
        self.writes.objects.push(deletion_plan(STEP, old));
        let made = self.plans.iter().filter(|plan| {
            phase(plan) == texts::COMPLETE
                && plan.spec.cluster_service_version_names.iter().any(|name| name == replaces)
        });
        let Some(made) = made.max_by_key(|plan| plan.spec.generation) else {
            let note =
                format!("the InstallPlan of {replaces} is gone: objects that go with it are not known");
            self.writes.notes.push(note);
            return Ok(());
        };
        let stays = [CSV_KIND, "CustomResourceDefinition", "Subscription"];
        for step in made.status.iter().flat_map(|status| &status.plan).take(STEPS_MAX) {
            let resource = &step.resource;
            let is_written = written.contains(&(resource.kind.clone(), resource.name.as_str()));
            if step.resolving != replaces || is_written || stays.contains(&resource.kind.as_str()) {
                continue;
            }
            let (api_version, kind) = object::kind(step);
            if let Found::Present(live) = self.live(&api_version, kind, &resource.name).await {
                self.writes.objects.push(deletion_plan(STEP, &live));
            }
        }
        Ok(())
    }

    async fn live(&self, api_version: &str, kind: &str, name: &str) -> Found {
        let kind = match self.discovery.kind(api_version, kind).await {
            Ok(kind) => kind,
            Err(error) => return Found::Unknown(error.to_string()),
        };
        match bounded(kind.api(self.client, self.namespace).get_opt(name)).await {
            Ok(None) => Found::Absent,
            Ok(Some(live)) => match serde_json::to_value(live) {
                Ok(live) => Found::Present(live),
                Err(error) => Found::Unknown(error.to_string()),
            },
            Err(error) => Found::Unknown(api_text(&error)),
        }
    }

    /// The object as the API server would store it, if it says so.
    async fn dry_run(&mut self, kind: &Kind, object: &Value, is_new: bool) -> Option<Value> {
        let api = kind.api(self.client, self.namespace);
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let wanted: DynamicObject = serde_json::from_value(object.clone()).ok()?;
        let (name, key) = (wanted.name_any(), ObjectKey::of(object));
        let place = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
        let named = format!("{}.{} {place}{name}", key.kind, key.api_version());
        let answer = if is_new {
            bounded(api.create(&params, &wanted)).await
        } else {
            bounded(api.replace(&name, &params, &wanted)).await
        };
        let (verdict, stored) = match answer {
            Ok(stored) => (DryRunVerdict::Accepted, serde_json::to_value(stored).ok()),
            // Whoever asks need not be allowed what the controller is.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                (DryRunVerdict::Deferred(status.message), None)
            }
            Err(kube::Error::Api(status)) => (DryRunVerdict::of_refusal(status.code, &status.message), None),
            Err(error) => (DryRunVerdict::Deferred(api_text(&error)), None),
        };
        self.writes.dry_run.add(named, verdict);
        stored
    }
}

/// The object that was found, or nothing.
fn found_object(found: &Found) -> Value {
    match found {
        Found::Present(live) => live.clone(),
        Found::Absent | Found::Unknown(_) => Value::Null,
    }
}

/// The Deployments of a ClusterServiceVersion, as far as its strategy has them.
fn deployments(csv: &Value, namespace: &str) -> Vec<Value> {
    let all = csv.pointer("/spec/install/spec/deployments").and_then(Value::as_array);
    let deployment = |one: &Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": one["name"], "namespace": namespace, "labels": one["label"]},
            "spec": one["spec"],
        })
    };
    all.into_iter().flatten().map(deployment).collect()
}

/// The objects of a bundle, whose image is pulled.
async fn planned(
    namespace: &str,
    name: &str,
    reference: &Reference,
    registries: &Registries,
) -> anyhow::Result<Vec<PlannedObject>> {
    let digest = reference.digest.parse::<Digest>().with_context(|| format!("bundle {name}"))?;
    let image = olm_image::Reference::parse(&reference.path).with_context(|| format!("bundle {name}"))?;
    let image = olm_image::Reference::parse(&image.at(digest).to_string())?;
    let files =
        registries.bundle_files(&Source::Image(image)).await.with_context(|| format!("bundle {name}"))?;
    let bundle = PlannedBundle {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        replaces: reference.replaces.clone(),
        properties: reference.properties.clone(),
        catalog: reference.catalog_source_name.clone(),
        catalog_namespace: reference.catalog_source_namespace.clone(),
        image: reference.path.clone(),
        digest: reference.digest.clone(),
        manifests: first_manifests(&files, &mut Vec::new()),
    };
    Ok(objects(&bundle)?)
}
