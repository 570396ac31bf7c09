//! Whether what the chosen bundle declares to need is installed: checked before a new revision is made, and noted of an
//! installed bundle.

pub(crate) mod install;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use olm_api::{
    ConditionType::Stalled,
    names::{CATALOG_PROPERTIES_ANNOTATION, DECLARED_ANNOTATION, PROPERTIES_ANNOTATION},
    ownership::revision_of,
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_dependencies::{
    InstalledBundle, PendingBundle, Provider, Requirement, Work, can_proceed, cluster_extension, is_met,
    providers, recorded_properties, requirements, unmet,
};
use olm_fbc::{PROPERTY_PACKAGE, PackageContent, Property};
use olm_object::GroupVersionKind;
use olm_runtime::DiscoveryError;
use olm_semver::{BundleVersion, ReleaseSupport, Version};
use serde_json::json;

use super::resolve::Chosen;
use crate::facts::readable;
use crate::{
    cluster_extension::{
        Context, annotations,
        observe::{
            Observed,
            revisions::{BundleRecord, Revision, Revisions},
        },
        report::{Cause, StepError},
    },
    facts::installed::Pending,
    interest::{Interest, Wanted},
};
use install::{Dependencies, Installs, installs};

/// Requirements that are explained at length.
const EXPLAINED_MAX: usize = 3;

/// A bundle that an extension has installed, or is rolling out.
pub(crate) struct Installed {
    extension: String,
    bundle: BundleRecord,
    version: Option<Version>,
    properties: Vec<Property>,
    /// Whether these are all of them.
    is_whole: bool,
    /// Whether its revision needs a person.
    is_stalled: bool,
}

impl Installed {
    /// Its extension and what it requires; nothing if that is not known.
    fn requirements(&self) -> Option<(&str, Vec<Requirement>)> {
        let known = requirements(&self.properties).ok().filter(|_| self.is_whole)?;
        Some((&self.extension, known))
    }

    fn as_installed(&self) -> InstalledBundle<'_> {
        InstalledBundle {
            package: &self.bundle.package,
            version: self.version.as_ref(),
            properties: &self.properties,
        }
    }
}

/// How a bundle can be installed.
pub(crate) enum Required {
    /// Nothing is in the way; a sentence about what is missing all the same.
    Met(Option<String>),
    /// Once these are.
    After(Box<Dependencies>),
}

/// Checks what the bundle needs by its catalog's properties and by what it `declares` itself. When it is installed or
/// rolling out already, nothing is in the way.
///
/// # Errors
/// Something that it needs is not installed.
pub(crate) async fn require(
    cx: &Context,
    observed: &Observed<'_>,
    chosen: &Chosen,
    declares: &[Property],
) -> Result<Required, StepError> {
    let name = observed.extension.name_any();
    let mut properties = chosen.properties.clone();
    properties.extend(declares.iter().cloned());
    let failed = |cause| StepError::Bundle { bundle: chosen.bundle.clone(), cause };
    let needed = requirements(&properties).map_err(|error| failed(Cause::terminal(error)))?;
    if needed.is_empty() || !cx.checks_dependencies {
        cx.installed.forget(&name);
        return Ok(Required::Met(None));
    }
    let installed = bundles(cx, &name, Revisions::installed);
    let present: Vec<InstalledBundle<'_>> = installed.iter().map(Installed::as_installed).collect();
    let mut pending = cx.installed.get();
    pending.remove(&name);
    let asked = needed.iter().chain(pending.values().flat_map(|other| &other.requirements));
    let kinds: BTreeSet<GroupVersionKind> = asked.flat_map(Requirement::kinds).cloned().collect();
    let served = served(cx, kinds).await.map_err(|text| failed(Cause::transient(text)))?;
    let is_served = |kind: &GroupVersionKind| served.contains(kind);
    let work = Work::default();
    let missing: Vec<Requirement> =
        unmet(&needed, &present, &is_served, &work).into_iter().cloned().collect();
    let unknown = work.check().err();
    let is_installed = observed.revisions.installed().is_some_and(|r| r.bundle == chosen.bundle);
    if !is_installed && let Some(error) = unknown {
        return Err(failed(Cause::terminal(error)));
    }
    let list = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if is_installed || missing.is_empty() {
        cx.installed.set_met(&name, observed.wanted);
        let bundle = &chosen.bundle.name;
        return Ok(Required::Met(match unknown {
            Some(error) => Some(format!("The installed bundle {bundle}: {error}.")),
            None => (!missing.is_empty()).then(|| {
                format!("The installed bundle {bundle} requires what is no longer installed: {list}.")
            }),
        }));
    }
    let me = Pending {
        package: chosen.bundle.package.clone(),
        version: version(&chosen.bundle),
        properties,
        requirements: needed,
    };
    cx.installed.set_pending(&name, me.clone(), observed.wanted);
    let others = pending.iter().map(|(name, other)| (name.as_str(), other.as_ref()));
    let waiting: Vec<PendingBundle<'_>> =
        others.chain([(name.as_str(), &me)]).map(|(name, one)| waiting(name, one)).collect();
    if can_proceed(&name, &waiting, &present, &is_served) {
        return Ok(Required::Met(Some(format!(
            "The bundle is installed together with others that need it in turn, although this is not installed yet: {list}."
        ))));
    }
    let text = format!("bundle {:?} requires what is not installed: {list}", chosen.bundle.name);
    after(cx, observed, text, (missing, &installed)).await
}

/// What comes before the bundle, if something is created for it or is rolling out.
async fn after(
    cx: &Context,
    observed: &Observed<'_>,
    text: String,
    (missing, installed): (Vec<Requirement>, &[Installed]),
) -> Result<Required, StepError> {
    let coming = Coming::of(cx, &observed.extension.name_any(), missing);
    let error = |explanation, recovers| StepError::Resolution {
        text,
        explanation: Some(explanation),
        answer_at: None,
        recovers,
    };
    let is_asked = annotations::installs_dependencies(observed.extension) && !coming.missing.is_empty();
    let refusal = match if is_asked { Some(to_install(cx, observed, &coming.missing).await) } else { None } {
        Some(Ok(Installs { create, awaited, is_stalled })) => {
            observed.wanted.add([Interest::Extensions]);
            let created =
                |one: &ClusterExtension| format!("ClusterExtension {:?} is created for it.", one.name_any());
            let lines = coming.lines.iter().cloned().chain(awaited).chain(create.iter().map(created));
            let explanation = lines.take(EXPLAINED_MAX).collect::<Vec<_>>().join("\n");
            let waits = error(explanation, !coming.is_stalled && !is_stalled);
            if create.is_empty() {
                return Err(waits);
            }
            return Ok(Required::After(Box::new(Dependencies { create, waits })));
        }
        Some(Err(why)) => Some(why),
        None => None,
    };
    let remedies = remedies(cx, observed.wanted, &coming.missing, installed).await;
    let lines = coming.lines.iter().take(EXPLAINED_MAX).cloned().chain(refusal).chain([remedies]);
    let explanation = lines.collect::<Vec<_>>().join("\n");
    Err(error(explanation, coming.missing.is_empty() && !coming.is_stalled))
}

/// The extensions that are created for missing requirements, from the catalogs that the extension itself uses.
async fn to_install(
    cx: &Context,
    observed: &Observed<'_>,
    missing: &[Requirement],
) -> Result<Installs, String> {
    // Packages first: what they bring may be what the others ask for.
    let mut missing: Vec<&Requirement> = missing.iter().collect();
    missing.sort_by_key(|requirement| requirement.packages().is_empty());
    let catalog = observed.extension.spec.source.catalog.as_ref();
    let selector = catalog.and_then(|catalog| catalog.selector.as_ref());
    let mut found = Vec::new();
    for (requirement, work) in missing.iter().zip(Work::shares(missing.len())) {
        let packages = packages_for(cx, observed.wanted, requirement, selector).await;
        found.push((*requirement, providers(requirement, &views(&packages), &work)));
    }
    let state = cx.extensions.state();
    let all: Vec<&ClusterExtension> = readable(&state).collect();
    installs(observed.extension, &found, &all)
}

/// Pairs of names: an extension, and one whose bundle meets a requirement of it. Nothing if that is not known.
pub(crate) fn needs(cx: &Context) -> Option<BTreeSet<(String, String)>> {
    let mut installed = bundles(cx, "", Revisions::installed);
    // What is being removed needs it to the end, and what is rolling out already.
    let is_in_use = |revision: &&Revision| revision.is_active() || revision.is_deleted();
    installed.extend(bundles(cx, "", |revisions| revisions.all().iter().rev().find(is_in_use)));
    let pending = cx.installed.get();
    let waiting = pending.iter().map(|(name, one)| Some((name.as_str(), one.requirements.clone())));
    let work = Work::default();
    let mut found = BTreeSet::new();
    for needy in installed.iter().map(Installed::requirements).chain(waiting) {
        let (name, requirements) = needy?;
        for requirement in requirements.iter().filter(|one| !one.is_conflict()) {
            let meets = |other: &&Installed| {
                other.extension != name && is_met(requirement, &[other.as_installed()], &|_| false, &work)
            };
            found.extend(installed.iter().filter(meets).map(|it| (name.to_owned(), it.extension.clone())));
        }
    }
    work.check().is_ok().then_some(found)
}

/// What other extensions are rolling out at the moment, of what is required.
struct Coming {
    /// A sentence for each requirement that it will meet.
    lines: Vec<String>,
    /// Whether one of those roll-outs needs a person.
    is_stalled: bool,
    /// The requirements that nothing will meet.
    missing: Vec<Requirement>,
}

impl Coming {
    fn of(cx: &Context, but_for: &str, missing: Vec<Requirement>) -> Self {
        let rolling = bundles(cx, but_for, |revisions| revisions.rolling_out().last().copied());
        let mut coming = Self { lines: Vec::new(), is_stalled: false, missing: Vec::new() };
        let work = Work::default();
        for requirement in missing {
            let will_meet =
                |there: &&Installed| is_met(&requirement, &[there.as_installed()], &|_| false, &work);
            // A roll-out does not end a conflict.
            let found = rolling.iter().find(will_meet).filter(|_| !requirement.is_conflict());
            let Some(there) = found else {
                coming.missing.push(requirement);
                continue;
            };
            let Installed { extension, bundle, is_stalled, .. } = there;
            let state = if *is_stalled { ", and is stalled: see its conditions" } else { "" };
            let line = format!(
                "ClusterExtension {extension:?} is installing bundle {}, which meets it{state}: {requirement}.",
                bundle.name
            );
            coming.is_stalled |= is_stalled;
            coming.lines.push(line);
        }
        coming
    }
}

/// The bundle of one revision of each other extension.
pub(crate) fn bundles(
    cx: &Context,
    but_for: &str,
    revision: impl Fn(&Revisions) -> Option<&Revision>,
) -> Vec<Installed> {
    let mut by_owner: BTreeMap<(String, String), Vec<ClusterObjectSet>> = BTreeMap::new();
    for guarded in cx.sets.state() {
        let Ok(set) = &guarded.0 else { continue };
        if let Some(owner) = revision_of(&set.metadata).filter(|owner| owner.name != but_for) {
            by_owner.entry((owner.name.to_owned(), owner.uid.to_owned())).or_default().push(set.clone());
        }
    }
    let found = by_owner.into_iter().filter_map(|((extension, _), sets)| {
        let revisions = Revisions::read(sets.into_iter());
        let revision = revision(&revisions)?;
        Some(Installed {
            extension,
            bundle: revision.bundle.clone(),
            version: version(&revision.bundle),
            properties: properties(revision),
            is_whole: revision.annotation(DECLARED_ANNOTATION).is_none_or(|text| declared(text).is_some()),
            is_stalled: revision.condition(Stalled).is_some(),
        })
    });
    found.collect()
}

/// Which of the kinds the cluster serves.
async fn served(
    cx: &Context,
    kinds: BTreeSet<GroupVersionKind>,
) -> Result<BTreeSet<GroupVersionKind>, String> {
    let mut served = BTreeSet::new();
    for kind in kinds {
        match cx.discovery.kind(&kind.api_version(), &kind.kind).await {
            Ok(_) => drop(served.insert(kind)),
            // What came since is to be seen at the next look.
            Err(DiscoveryError::Unknown { .. }) => cx.discovery.forget(&kind.api_version()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(served)
}

/// What to do about each of the requirements.
pub(crate) async fn remedies(
    cx: &Context,
    wanted: &Wanted,
    missing: &[Requirement],
    installed: &[Installed],
) -> String {
    // Packages first: what they bring may be what the others ask for.
    let mut missing: Vec<&Requirement> = missing.iter().collect();
    missing.sort_by_key(|requirement| requirement.packages().is_empty());
    let (mut lines, mut named, work) = (Vec::new(), BTreeSet::new(), Work::shares(EXPLAINED_MAX));
    for (requirement, work) in missing.iter().zip(work) {
        lines.push(remedy((cx, wanted), requirement, installed, &mut named, work).await);
    }
    if missing.len() > EXPLAINED_MAX {
        lines.push(format!("And {} more requirements.", missing.len() - EXPLAINED_MAX));
    }
    lines.push("The extension continues by itself once everything is installed.".to_owned());
    lines.join("\n")
}

/// What to do about one of them; extensions for packages that are `named` already are not written out again.
async fn remedy(
    (cx, wanted): (&Context, &Wanted),
    requirement: &Requirement,
    installed: &[Installed],
    named: &mut BTreeSet<String>,
    work: Work,
) -> String {
    if requirement.is_conflict() {
        let fights = |there: &&Installed| !is_met(requirement, &[there.as_installed()], &|_| false, &work);
        let fighting = installed
            .iter()
            .filter(fights)
            .map(|there| format!("bundle {} (ClusterExtension {:?})", there.bundle.name, there.extension));
        let fighting = fighting.collect::<Vec<_>>().join(", ");
        return format!("It conflicts with {fighting}: uninstall one of them.");
    }
    let mut text = format!("Needed: {requirement}.");
    for (package, _) in requirement.packages() {
        for there in installed.iter().filter(|there| there.bundle.package == package) {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                " Version {} is installed (ClusterExtension {:?}), which does not meet it.",
                there.bundle.display_version(),
                there.extension
            );
        }
    }
    let packages = packages_for(cx, wanted, requirement, None).await;
    let found = providers(requirement, &views(&packages), &work);
    let Some(first) = found.first() else {
        text.push_str(" No catalog of this cluster has a bundle that meets it: add a catalog that does, or install it in another way.");
        return text;
    };
    let shown = |one: &Provider| format!("package {} {} (catalog {})", one.package, one.version, one.catalog);
    let providers: Vec<String> = found.iter().map(shown).collect();
    let _ = write!(text, " It would be met by {}.", providers.join(" or "));
    if let Some(there) = installed.iter().find(|there| there.bundle.package == first.package) {
        let _ = write!(
            text,
            " Allow that version in ClusterExtension {:?} (spec.source.catalog).",
            there.extension
        );
        return text;
    }
    if !named.insert(first.package.clone()) {
        text.push_str(" That package is named above.");
        return text;
    }
    let _ = write!(
        text,
        " To install it, create the namespace {:?} with a ServiceAccount that has the permissions, then apply:\n{}",
        first.package,
        olm_yaml::to_yaml(&cluster_extension(requirement, first)).trim_end()
    );
    text
}

fn views(packages: &[(String, i32, PackageContent)]) -> Vec<(&str, i32, &PackageContent)> {
    packages.iter().map(|(catalog, priority, package)| (catalog.as_str(), *priority, package)).collect()
}

/// The packages of the catalogs that might meet the requirement.
async fn packages_for(
    cx: &Context,
    wanted: &Wanted,
    requirement: &Requirement,
    selector: Option<&LabelSelector>,
) -> Vec<(String, i32, PackageContent)> {
    let mut found = Vec::new();
    let names: BTreeSet<&str> = requirement.packages().into_iter().map(|(name, _)| name).collect();
    for name in names {
        // A catalog that cannot be read is no help now.
        for answer in cx.catalogs.ask(name, selector, (cx.clock.now(), wanted)).await.unwrap_or_default() {
            if let Ok(content) = answer.content {
                found.push((answer.name, answer.priority, content.as_ref().clone()));
            }
        }
    }
    for text in requirement.search_terms() {
        found.extend(cx.catalogs.mentioning(&json!(text).to_string(), selector).await);
    }
    found
}

fn waiting<'a>(name: &'a str, one: &'a Pending) -> PendingBundle<'a> {
    let bundle =
        InstalledBundle { package: &one.package, version: one.version.as_ref(), properties: &one.properties };
    PendingBundle { extension: name, bundle, requirements: &one.requirements }
}

fn version(bundle: &BundleRecord) -> Option<Version> {
    let parsed = BundleVersion::from_fields(&bundle.version, bundle.release.as_deref(), ReleaseSupport::On);
    parsed.ok().map(|version| version.version)
}

/// What a bundle itself declares to require, as its revision records it; nothing if that cannot be read.
pub(crate) fn declared(recorded: &str) -> Option<Vec<Property>> {
    serde_json::from_str(recorded).ok()
}

/// The properties of an installed bundle: those of its catalog, where we recorded them, and its own.
fn properties(revision: &Revision) -> Vec<Property> {
    let [of_catalog, own] = [CATALOG_PROPERTIES_ANNOTATION, PROPERTIES_ANNOTATION]
        .map(|annotation| revision.annotation(annotation).unwrap_or_default());
    let mut all = recorded_properties(of_catalog, own);
    all.extend(revision.annotation(DECLARED_ANNOTATION).and_then(declared).unwrap_or_default());
    if !all.iter().any(|property| property.kind == PROPERTY_PACKAGE) {
        let value = json!({"packageName": revision.bundle.package, "version": revision.bundle.version});
        all.push(Property { kind: PROPERTY_PACKAGE.to_owned(), value });
    }
    all
}
