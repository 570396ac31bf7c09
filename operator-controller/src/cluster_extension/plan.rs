//! The plan of a new revision (`olm-plan`): made before anything is written, then carried out. Making it writes nothing.

pub(crate) mod crds;
pub(crate) mod dry_run;
pub(crate) mod kinds;
pub(crate) mod permissions;

use std::{borrow::Cow, collections::BTreeSet};

use kube::{Client, ResourceExt};
use olm_api::v1::ClusterExtension;
use olm_fbc::Property;
use olm_objectset::Phase;
use olm_plan::{Inputs, InstalledBundle, Plan, Resolution, Section, image_changes, operator_permissions};
use olm_render::CertificateProvider;
use olm_runtime::{AccountRef, ClientError, MemoryShare};
use serde_json::Value;

use crate::facts::{readable, update_policies::InForce};
use crate::{
    cluster_extension::{
        Context,
        decide::dependencies::install::{Dependencies, lines},
        observe::{
            Observed,
            revisions::{BundleRecord, Revision, Revisions},
        },
        report::Cause,
    },
    cluster_object_set::content::{Item, LoadedPhase, load},
};
use crds::Checked;

/// What a new revision would consist of.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) bundle: BundleRecord,
    pub(crate) phases: Vec<Phase>,
    pub(crate) inputs_digest: String,
    /// Of the objects.
    pub(crate) content_digest: String,
    /// Of what was rendered, and of the reinstallation that was asked for.
    pub(crate) rendered_digest: String,
    /// The catalog that has the bundle, if one has.
    pub(crate) catalog: Option<String>,
    /// The bundle's properties there.
    pub(crate) catalog_properties: Vec<Property>,
    /// The CSV's `olm.properties`, carried over unchanged.
    pub(crate) properties: Option<String>,
    /// What the bundle itself declares to require.
    pub(crate) declared: Vec<Property>,
    /// What is created before it, because the bundle requires it.
    pub(crate) dependencies: Option<Dependencies>,
    /// Who makes the certificates of its webhooks, if it has any.
    pub(crate) certificate_provider: Option<CertificateProvider>,
    /// The revision whose objects come back with it.
    pub(crate) rolled_back_to: Option<i64>,
    /// The revision that failed and whose place it takes without a person's asking, as it is recorded.
    pub(crate) returned_from: Option<String>,
    /// Held as long as its objects are in memory.
    pub(crate) _memory: Option<MemoryShare>,
}

/// A draft with its plan.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) draft: Draft,
    pub(crate) number: i64,
    pub(crate) crd_changes: Option<String>,
    /// Whether its CRDs are created before anything else, because there was no dry run of those that are new.
    pub(crate) crds_first: bool,
    /// What keeps it from being carried out.
    pub(crate) obstacle: Option<Cause>,
    /// Sentences for `Ready`.
    pub(crate) notes: Vec<String>,
}

/// What the active revisions consist of, the newest first.
pub(crate) type Contents = Vec<(i64, Vec<LoadedPhase>)>;

/// The client of the account, or why there is none.
type AccountClient = Result<Client, String>;

/// Why something was not checked.
const OBSTACLE: &str = "the obstacle must be removed first";

/// Finds out what a new revision made of `draft` would do; `notes` are sentences for `Ready` so far.
///
/// # Errors
/// Something could not be found out. When only a plan is wanted, most of that is in the plan instead.
pub(crate) async fn plan(
    cx: &Context,
    observed: &Observed<'_>,
    draft: Draft,
    notes: &[String],
) -> Result<Planned, Cause> {
    let Observed { extension, account, revisions, .. } = observed;
    let client = account_client(cx, account).await?;
    let number = observed.writer(cx).next_number(revisions).map_err(Cause::terminal)?;
    let revision = format!("{}-{number}", extension.name_any());
    let contents = contents(cx, revisions, client.as_ref().ok()).await;
    let reviewer = client.clone().unwrap_or_else(|_| cx.controller());
    let Checked { changes, findings, notes: more, mut obstacle, new } =
        crds::check(cx, observed, &reviewer, &draft).await?;
    let notes: Vec<String> = notes.iter().cloned().chain(more).collect();
    let mut served = Cow::Borrowed(draft.phases.as_slice());
    if obstacle.is_none() || cx.only_plans {
        match kinds::of_served_kinds(cx, observed, &draft).await {
            Ok(phases) => served = phases,
            Err(cause) => drop(obstacle.get_or_insert(cause)),
        }
    }
    let is_blocked = |obstacle: &Option<Cause>| obstacle.is_some() && !cx.only_plans;
    let (missing_permissions, refusal) = if is_blocked(&obstacle) {
        (Section::unknown(OBSTACLE), None)
    } else {
        permissions::missing(cx, &client, (account, &draft), &served, &revision).await
    };
    obstacle = obstacle.or(refusal);
    let created_first = if spares_new_crds(cx, extension, &contents) { new } else { BTreeSet::new() };
    let (objects, dry_run) = if is_blocked(&obstacle) {
        (Section::unknown(OBSTACLE), Section::unknown(OBSTACLE))
    } else {
        let is_short = missing_permissions.known().is_some_and(|missing| !missing.is_empty());
        let asker = if is_short { Err(permissions::MISSING.to_owned()) } else { client.clone() };
        // A plan alone may have no token of the ServiceAccount; the controller may read little by itself.
        let reader = if cx.only_plans { cx.controller() } else { reviewer };
        let known = (contents.as_deref().unwrap_or_default(), &created_first);
        let (objects, dry_run, refusal) =
            dry_run::objects(cx, observed, (&asker, &reader), (&draft, &served), known).await;
        obstacle = obstacle.or(refusal);
        (objects, dry_run)
    };
    drop(served);
    let old = contents.as_ref().map_err(Clone::clone).map(|contents| installed(contents, revisions));
    let new = || draft.phases.iter().flat_map(|phase| &phase.objects);
    let state = cx.extensions.state();
    let all: Vec<&ClusterExtension> = readable(&state).collect();
    let create = draft.dependencies.as_ref().map_or(&[][..], |dependencies| &dependencies.create);
    let (create, dependencies) = lines(extension, create, &all);
    let plan = Plan {
        extension: extension.name_any(),
        revision,
        inputs: inputs(observed, &draft, dependencies),
        resolution: Section::Known(resolution(&draft, revisions)),
        dependencies: create,
        objects,
        images: known(old.as_ref(), |old| image_changes(old.iter().copied(), new())),
        crds: Section::Known(findings),
        missing_permissions,
        operator_permissions: known(old.as_ref(), |old| operator_permissions(old.iter().copied(), new())),
        dry_run,
        refusal: None,
        notes: notes.clone(),
    };
    let (plan, crd_changes, crds_first) = (plan.sorted(), changes.recorded(), !created_first.is_empty());
    Ok(Planned { plan, draft, number, crd_changes, crds_first, obstacle, notes })
}

/// Whether the new CRDs of a revision are created before everything else, instead of a dry run: only with the first revision,
/// when nothing is there that could be left half changed, and when no policy keeps the plan for a person to read.
fn spares_new_crds(cx: &Context, extension: &ClusterExtension, known: &Result<Contents, String>) -> bool {
    !cx.only_plans
        && known.as_ref().is_ok_and(Vec::is_empty)
        && matches!(cx.update_policies.in_force(extension), InForce::Nothing)
}

/// What the plan is made of.
fn inputs(observed: &Observed<'_>, draft: &Draft, dependencies: Vec<String>) -> Inputs {
    let Observed { extension, account, .. } = observed;
    Inputs {
        digest: draft.inputs_digest.clone(),
        content_digest: draft.content_digest.clone(),
        namespace: extension.spec.namespace.clone(),
        service_account: format!("{}/{}", account.namespace, account.name),
        dependencies,
    }
}

async fn account_client(cx: &Context, account: &AccountRef) -> Result<AccountClient, Cause> {
    match cx.accounts.client(account).await {
        Ok(client) => Ok(Ok(client)),
        Err(ClientError::TokenForbidden { message, .. }) if cx.only_plans => Ok(Err(format!(
            "this needs a token of ServiceAccount {:?} in namespace {:?}, which you may not create: {message}",
            account.name, account.namespace
        ))),
        Err(ClientError::AccountNotFound { .. }) if cx.only_plans => Ok(Err(format!(
            "this is asked as ServiceAccount {:?} in namespace {:?}, which does not exist yet",
            account.name, account.namespace
        ))),
        Err(error) => Err(Cause::transient(error)),
    }
}

/// What the active revisions consist of.
pub(crate) async fn contents(
    cx: &Context,
    revisions: &Revisions,
    account: Option<&Client>,
) -> Result<Contents, String> {
    let mut contents = Vec::new();
    for revision in revisions.active().rev() {
        let phases = load(&revision.set, &cx.contents, account).await;
        let phases = phases
            .map_err(|cause| format!("the content of revision {} could not be read: {cause}", revision.name));
        contents.push((revision.number, phases?));
    }
    Ok(contents)
}

fn refused(text: &str) -> Cause {
    Cause::transient(format!("creating new Revision: {text}"))
}

/// A section that needs the content of the installed revision.
fn known<T>(old: Result<&Vec<&Value>, &String>, make: impl FnOnce(&Vec<&Value>) -> T) -> Section<T> {
    old.map_or_else(|why| Section::unknown(why.as_str()), |old| Section::Known(make(old)))
}

/// The objects of the installed revision; none if nothing is installed.
fn installed<'c>(contents: &'c Contents, revisions: &Revisions) -> Vec<&'c Value> {
    let number = revisions.installed().map(|revision| revision.number);
    let of = contents.iter().filter(|(other, _)| Some(*other) == number);
    of.flat_map(|(_, phases)| phases).flat_map(|phase| &phase.items).map(Item::object).collect()
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
