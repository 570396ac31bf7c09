//! The plan of a new revision (`olm-plan`): made before anything is written, then carried out.
//!
//! Whoever has objects for a new revision makes a [`Draft`] of them, lets [`Steps::plan`] find out what it would do,
//! and hands the result to [`Steps::write`]. Making a plan writes nothing.

pub(crate) mod crds;
pub(crate) mod kinds;

use std::{borrow::Cow, collections::BTreeSet};

use kube::{Api, Client, ResourceExt};
use olm_api::v1::{ClusterObjectSet, CollisionProtection};
use olm_fbc::Property;
use olm_object::ObjectKey;
use olm_objectset::{Action, DeletionPolicy, Owner, OwnershipContext, Phase, Sibling, action};
use olm_plan::{
    DryRun, Found, Inputs, InstalledBundle, ObjectFacts, ObjectPlan, Plan, Resolution, Section,
    image_changes, object_plan, operator_permissions,
};
use olm_render::CertificateProvider;
use olm_runtime::{AccountRef, ClientError, MemoryShare, api_text, bounded};
use olm_text::one_line;
use serde_json::Value;

use crate::cluster_extension::act::revision::{Digests, NewRevision};
use crate::cluster_extension::decide::{Steps, content_digest};
use crate::cluster_extension::observe::revisions::{BundleRecord, Revision, Revisions};
use crate::cluster_extension::plan::crds as crd_changes;
use crate::cluster_extension::plan::crds::Checked;
use crate::cluster_extension::report::{Cause, Created, Progress};
use crate::deletion_policy::extension as keeping;
use crate::{
    cluster_object_set::{LoadedPhase, load},
    preflight::{self, Look},
    webhook_certificates,
};

/// What a new revision would consist of.
pub(crate) struct Draft {
    pub(crate) bundle: BundleRecord,
    pub(crate) phases: Vec<Phase>,
    pub(crate) inputs_digest: String,
    /// Of what was rendered, and of the reinstallation that was asked for.
    pub(crate) rendered_digest: String,
    /// The catalog that has the bundle, if one has.
    pub(crate) catalog: Option<String>,
    /// The bundle's properties there.
    pub(crate) catalog_properties: Vec<Property>,
    /// The CSV's `olm.properties`, carried over unchanged.
    pub(crate) properties: Option<String>,
    /// Who makes the certificates of its webhooks, if it has any.
    pub(crate) certificate_provider: Option<CertificateProvider>,
    /// The revision whose objects come back with it.
    pub(crate) rolled_back_to: Option<i64>,
    /// Held as long as its objects are in memory.
    pub(crate) _memory: Option<MemoryShare>,
}

/// A draft with its plan.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    draft: Draft,
    number: i64,
    crd_changes: Option<String>,
    /// What stands in the way of carrying it out.
    obstacle: Option<Cause>,
}

/// What the active revisions consist of, the newest first.
pub(crate) type Contents = Vec<(i64, Vec<LoadedPhase>)>;

/// The client of the account, or why there is none.
type AccountClient = Result<Client, String>;

impl Steps<'_> {
    /// Finds out what a new revision made of `draft` would do.
    ///
    /// # Errors
    /// Something could not be found out. When only a plan is wanted, most of that stands in the plan instead.
    pub(crate) async fn plan(
        &self,
        account: &AccountRef,
        draft: Draft,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<Planned, Cause> {
        let client = self.account_client(account).await?;
        let number = self.writer().next_number(revisions).map_err(Cause::terminal)?;
        let revision = format!("{}-{number}", self.extension.name_any());
        let contents = self.contents(revisions, client.as_ref().ok()).await;
        let reviewer = client.clone().unwrap_or_else(|_| self.accounts.controller());
        let Checked { changes, findings, mut obstacle } = crd_changes::check(
            self.extension,
            &self.accounts.controller(),
            (account, &reviewer),
            (&draft.phases, revisions),
            progress,
        )
        .await?;
        let mut served = Cow::Borrowed(draft.phases.as_slice());
        if obstacle.is_none() || self.only_plans {
            match self.of_served_kinds(&draft.phases).await {
                Ok(phases) => served = phases,
                Err(cause) => drop(obstacle.get_or_insert(cause)),
            }
        }
        let provider = draft.certificate_provider;
        let missing_rights = self
            .missing_rights(&client, (account, &draft.bundle), (&served, provider), &revision, &mut obstacle)
            .await;
        let lacks_rights = missing_rights.known().is_some_and(|missing| !missing.is_empty());
        let asker = if lacks_rights { Err(LACKS_RIGHTS.to_owned()) } else { client.clone() };
        // Who only plans may lack the account's token; the controller may read little by itself.
        let controller = self.accounts.controller();
        let reader = if self.only_plans { &controller } else { &reviewer };
        let (objects, dry_run) =
            self.look((&asker, reader), (&draft, &served), &contents, revisions, &mut obstacle).await;
        drop(served);
        let old = contents.as_ref().map_err(Clone::clone).map(|contents| installed(contents, revisions));
        let new = || draft.phases.iter().flat_map(|phase| &phase.objects);
        let plan = Plan {
            extension: self.extension.name_any(),
            revision,
            inputs: Inputs {
                digest: draft.inputs_digest.clone(),
                content_digest: content_digest(&draft.phases),
                namespace: self.extension.spec.namespace.clone(),
                account: format!("{}/{}", account.namespace, account.name),
            },
            resolution: Section::Known(resolution(&draft, revisions)),
            objects,
            images: known(old.as_ref(), |old| image_changes(old.iter().copied(), new())),
            crds: Section::Known(findings),
            missing_rights,
            operator_rights: known(old.as_ref(), |old| operator_permissions(old.iter().copied(), new())),
            dry_run,
            refusal: None,
            notes: progress.notes.clone(),
        };
        Ok(Planned { plan: plan.sorted(), draft, number, crd_changes: changes.recorded(), obstacle })
    }

    /// Carries a plan out: writes the revision, unless something stands in the way.
    ///
    /// # Errors
    /// What stands in the way, or what went wrong.
    pub(crate) async fn write(
        &self,
        account: &AccountRef,
        planned: Planned,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<(), Cause> {
        let Planned { plan, draft, number, crd_changes, obstacle } = planned;
        if let Some(cause) = obstacle {
            return Err(cause);
        }
        let digest = plan.digest();
        let added_permissions = increase(&plan, revisions);
        let new = NewRevision {
            number,
            bundle: &draft.bundle,
            account: Some(account),
            phases: &draft.phases,
            made_from: Some(Digests {
                inputs: &draft.inputs_digest,
                rendered: &draft.rendered_digest,
                content: &plan.inputs.content_digest,
                plan: &digest,
            }),
            properties: draft.properties.as_deref(),
            catalog: draft.catalog.as_deref(),
            catalog_properties: &draft.catalog_properties,
            certificate_provider: draft.certificate_provider,
            crd_changes,
            added_permissions: added_permissions.as_deref(),
            rolled_back_to: draft.rolled_back_to,
        };
        let name = self.writer().create(&new, revisions).await.map_err(Cause::transient)?;
        progress.created = Some(Created { name, bundle: draft.bundle, added_permissions });
        Ok(())
    }

    async fn account_client(&self, account: &AccountRef) -> Result<AccountClient, Cause> {
        match self.accounts.client(account).await {
            Ok(client) => Ok(Ok(client)),
            Err(ClientError::TokenForbidden { message, .. }) if self.only_plans => Ok(Err(format!(
                "it takes a token of service account {:?} in namespace {:?}, and you may not make one: {message}",
                account.name, account.namespace
            ))),
            Err(error) => Err(Cause::transient(error)),
        }
    }

    /// What the active revisions consist of.
    pub(crate) async fn contents(
        &self,
        revisions: &Revisions,
        account: Option<&Client>,
    ) -> Result<Contents, String> {
        let controller = self.accounts.controller();
        let mut contents = Vec::new();
        for revision in revisions.active().rev() {
            let failed = |cause: &dyn std::fmt::Display| {
                format!("the content of revision {} could not be read: {cause}", revision.name)
            };
            let api: Api<ClusterObjectSet> = Api::all(controller.clone());
            let set = bounded(api.get(&revision.name)).await.map_err(|e| failed(&api_text(&e)))?;
            let phases = load(&set, &controller, account, self.system_namespace).await;
            contents.push((revision.number, phases.map_err(|e| failed(&e))?));
        }
        Ok(contents)
    }

    async fn missing_rights(
        &self,
        client: &AccountClient,
        (account, bundle): (&AccountRef, &BundleRecord),
        (phases, provider): (&[Phase], Option<CertificateProvider>),
        revision: &str,
        obstacle: &mut Option<Cause>,
    ) -> Section<Vec<olm_rbac::Permission>> {
        let client = match client {
            _ if !self.features.preflight_permissions => {
                return Section::unknown("the feature gate PreflightPermissions is off");
            }
            _ if obstacle.is_some() && !self.only_plans => return Section::unknown(OBSTACLE),
            Err(why) => return Section::unknown(why),
            Ok(client) => client,
        };
        let mut written = phases.to_vec();
        if provider == Some(CertificateProvider::BuiltIn) {
            written.push(webhook_certificates::secrets(phases));
        }
        let controller = self.accounts.controller();
        let missing =
            preflight::missing_rights(client, &controller, self.discovery, &written, revision).await;
        match missing {
            Err(why) => {
                obstacle.get_or_insert_with(|| refused(&why));
                Section::unknown(why)
            }
            Ok(missing) => {
                if !missing.is_empty() {
                    obstacle.get_or_insert_with(|| {
                        refused(&olm_rbac::report(&missing)).explained(Some(granting(account, bundle)))
                    });
                }
                Section::Known(missing)
            }
        }
    }

    /// What becomes of the objects, and what the API server thinks of them.
    async fn look(
        &self,
        (asker, reader): (&AccountClient, &Client),
        (draft, served): (&Draft, &[Phase]),
        contents: &Result<Contents, String>,
        revisions: &Revisions,
        obstacle: &mut Option<Cause>,
    ) -> (Section<Vec<ObjectPlan>>, Section<DryRun>) {
        if obstacle.is_some() && !self.only_plans {
            return (Section::unknown(OBSTACLE), Section::unknown(OBSTACLE));
        }
        let known = contents.as_deref().unwrap_or_default();
        let rolled_out: BTreeSet<ObjectKey> = objects_of(known).map(|(_, o)| ObjectKey::of(o)).collect();
        let looked = preflight::look(&Look {
            account: asker.as_ref().ok(),
            reader,
            discovery: self.discovery,
            phases: served,
            rolled_out: &rolled_out,
        })
        .await;
        let (mut plans, mut dry_run) = (Vec::new(), DryRun::default());
        let desired = pairs(served);
        for ((phase, desired), looked) in desired.zip(looked) {
            let key = ObjectKey::of(desired);
            if let Some(said) = looked.said {
                dry_run.add(key.to_string(), said);
            }
            let note = self.collision(desired, &looked.found, revisions);
            let mut same = objects_of(known).filter(|(_, old)| ObjectKey::of(old).same_object(&key));
            plans.push(object_plan(&ObjectFacts {
                phase,
                desired: Some(desired),
                old: same.next().map(|(_, old)| old),
                found: looked.found,
                would_be: looked.would_be.as_ref(),
                note,
            }));
        }
        plans.extend(left_out(draft, served));
        let policy = keeping::asked(self.extension).unwrap_or_default();
        plans.extend(gone(known, draft, policy));
        if let Some(text) = dry_run.refusal() {
            obstacle.get_or_insert_with(|| refused(&text));
        }
        let dry_run = match asker {
            Ok(_) => Section::Known(dry_run),
            Err(why) => Section::unknown(why.as_str()),
        };
        (Section::Known(plans), dry_run)
    }

    /// A sentence about an object that is somebody else's.
    fn collision(&self, desired: &Value, found: &Found, revisions: &Revisions) -> Option<String> {
        let Found::Present(live) = found else { return None };
        let owner = Owner {
            api_version: String::new(),
            kind: String::new(),
            name: self.extension.name_any(),
            uid: String::new(),
            revision: revisions.last_number().saturating_add(1),
            policy: DeletionPolicy::Delete,
        };
        let siblings: Vec<Sibling> =
            revisions.all().iter().map(|r| Sibling { uid: r.uid.clone(), revision: r.number }).collect();
        let state = self.sets.state();
        let known = state.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        let present: BTreeSet<String> = known.filter_map(ResourceExt::uid).collect();
        let context = OwnershipContext { owner: &owner, siblings: &siblings, present: Some(&present) };
        let planned = action(context, CollisionProtection::Prevent, desired, Some(live), None);
        matches!(planned, Action::Collision { .. })
            .then(|| "it is there already and is not the extension's: the roll-out stops at it".to_owned())
    }
}

/// Why nothing is asked as the account.
const LACKS_RIGHTS: &str = "the account lacks rights, which is all that the API server would say";
/// Why something was not looked at.
const OBSTACLE: &str = "what stands in the way has to go first";

/// How the permissions are granted that an account lacks for a bundle.
fn granting(account: &AccountRef, bundle: &BundleRecord) -> String {
    let AccountRef { namespace, name } = account;
    format!(
        "Grant ServiceAccount {namespace}/{name} these permissions: \"olm bundle rbac {} -n {namespace} --service-account {name}\" prints everything that the bundle needs as manifests.",
        one_line(&bundle.reference)
    )
}

fn refused(text: &str) -> Cause {
    Cause::transient(format!("creating new Revision: {text}"))
}

/// A section that needs the content of the installed revision.
fn known<T>(old: Result<&Vec<&Value>, &String>, make: impl FnOnce(&Vec<&Value>) -> T) -> Section<T> {
    old.map_or_else(|why| Section::unknown(why.as_str()), |old| Section::Known(make(old)))
}

fn objects_of(contents: &[(i64, Vec<LoadedPhase>)]) -> impl Iterator<Item = (&str, &Value)> {
    let phases = contents.iter().flat_map(|(_, phases)| phases);
    phases.flat_map(|phase| phase.items.iter().map(|item| (phase.name.as_str(), &item.stored)))
}

/// Objects with the names of their phases.
fn pairs(phases: &[Phase]) -> impl Iterator<Item = (&str, &Value)> {
    phases.iter().flat_map(|phase| phase.objects.iter().map(|object| (phase.name.as_str(), object)))
}

/// The objects that are left out for now.
fn left_out(draft: &Draft, served: &[Phase]) -> Vec<ObjectPlan> {
    let there: BTreeSet<ObjectKey> = pairs(served).map(|(_, object)| ObjectKey::of(object)).collect();
    let left_out = pairs(&draft.phases).filter(|(_, object)| !there.contains(&ObjectKey::of(object)));
    let plan = |(phase, object)| {
        object_plan(&ObjectFacts {
            phase,
            desired: Some(object),
            old: None,
            found: Found::Absent,
            would_be: None,
            note: Some("it is left out until the cluster serves its kind".to_owned()),
        })
    };
    left_out.map(plan).collect()
}

/// The objects of the installed revision; none if nothing is installed.
fn installed<'c>(contents: &'c Contents, revisions: &Revisions) -> Vec<&'c Value> {
    let number = revisions.installed().map(|revision| revision.number);
    let of = contents.iter().filter(|(other, _)| Some(*other) == number);
    of.flat_map(|(_, phases)| phases).flat_map(|phase| &phase.items).map(|item| &item.stored).collect()
}

/// The objects that go: those of active revisions that the new one does not have.
fn gone(contents: &[(i64, Vec<LoadedPhase>)], draft: &Draft, policy: DeletionPolicy) -> Vec<ObjectPlan> {
    let mut told: Vec<ObjectKey> =
        draft.phases.iter().flat_map(|phase| &phase.objects).map(ObjectKey::of).collect();
    let mut plans = Vec::new();
    for (phase, old) in objects_of(contents) {
        let key = ObjectKey::of(old);
        if told.iter().any(|other| other.same_object(&key)) {
            continue;
        }
        let kept = policy.keeps_when_dropped(&key);
        told.push(key);
        let found = Found::Absent;
        let note = kept.then(|| "the deletion policy keeps it".to_owned());
        let facts = ObjectFacts { phase, desired: None, old: Some(old), found, would_be: None, note };
        plans.push(object_plan(&facts));
    }
    plans
}

fn resolution(draft: &Draft, revisions: &Revisions) -> Resolution {
    let of = |revision: &Revision| InstalledBundle {
        bundle: revision.bundle.name.clone(),
        version: revision.bundle.display_version(),
        image: revision.bundle.reference.clone(),
        revision: revision.name.clone(),
    };
    Resolution {
        package: draft.bundle.package.clone(),
        bundle: draft.bundle.name.clone(),
        version: draft.bundle.display_version(),
        image: draft.bundle.reference.clone(),
        catalog: draft.catalog.clone(),
        installed: revisions.installed().map(of),
    }
}

/// A sentence about rights beyond those of the installed revision.
fn increase(plan: &Plan, revisions: &Revisions) -> Option<String> {
    let installed = revisions.installed()?;
    let rights = plan.operator_rights.known()?;
    let accounts: Vec<&str> = rights.increase.iter().map(|one| one.account.as_str()).collect();
    let dangers: BTreeSet<&str> =
        rights.increase.iter().flat_map(|one| &one.dangers).map(String::as_str).collect();
    let added: usize = rights.increase.iter().map(|one| one.rights.len() + one.foreign_roles.len()).sum();
    let dangers: Vec<String> = dangers.into_iter().map(|danger| format!("; it {danger}")).collect();
    (added > 0).then(|| {
        format!(
            "Bundle {} gives service account {} more rights than {} did ({added} more){}",
            plan.resolution.known().map_or("", |chosen| chosen.bundle.as_str()),
            accounts.join(", "),
            installed.bundle.name,
            dangers.concat()
        )
    })
}
