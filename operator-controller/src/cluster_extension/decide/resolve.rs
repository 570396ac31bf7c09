//! Which bundle an extension should have: asks the catalogs, and says what there is to say about their answer.

use jiff::Timestamp;
use olm_api::{
    names::CATALOG_ANNOTATION,
    v1::{ClusterExtension, UpgradeConstraintPolicy},
};
use olm_fbc::Property;
use olm_resolve::{
    Audience, CatalogView, Cause, Ceiling, DeprecationData, Installed, MajorUpdates, Request, Resolution,
    ResolveError, SUMMARY_BUNDLES_MAX, UpgradePolicy, advice, available_update, deprecation_data,
    deprecation_status, explain, keep_installed, resolve, summary,
};
use olm_semver::ReleaseSupport;
use olm_text::{did_you_mean, one_line};

use crate::{
    cluster_extension::{
        Context, annotations,
        observe::{
            self, Observed,
            revisions::{BundleRecord, Revision, Revisions},
        },
        report::{Report, StepError},
    },
    facts::{
        catalogs::{Answer, Wait},
        update_policies::InForce,
    },
    interest::Wanted,
    plan::CatalogAnswer,
};

/// The bundle an extension should have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) bundle: BundleRecord,
    /// The catalog that has it; `None` when no catalog has the package any more.
    pub(crate) catalog: Option<String>,
    /// Its properties there.
    pub(crate) properties: Vec<Property>,
}

impl Chosen {
    pub(crate) fn message(&self) -> String {
        let (name, version) = (&self.bundle.name, self.bundle.display_version());
        let message = match &self.catalog {
            Some(catalog) => format!("Resolved bundle {name} with version {version} from catalog {catalog}"),
            None => format!("Keeping bundle {name} of version {version}, which no catalog has any more"),
        };
        one_line(&message).into_owned()
    }
}

/// The bundle that the catalogs have for the extension, and the report with what else they say.
pub(crate) async fn choose(
    cx: &Context,
    observed: &Observed<'_>,
    mut report: Report,
) -> (Report, Result<Chosen, StepError>) {
    let Observed { extension, revisions, now, .. } = observed;
    let Some(request) = request(cx, extension, revisions.installed()) else {
        let text = "spec.source.catalog is not set: set packageName to the package to install";
        return (report, Err(failed(text.to_owned())));
    };
    let selector = extension.spec.source.catalog.as_ref().and_then(|c| c.selector.as_ref());
    let installed = revisions.installed().map(|r| r.bundle.name.as_str());
    let deprecations = |data| Some(deprecation_status(data, &request.channels, installed));
    report.deprecations = deprecations(DeprecationData::Unavailable);
    let answers = match cx.catalogs.ask(&request.package, selector, (*now, observed.wanted)).await {
        Ok(answers) => answers,
        Err(text) => return (report, Err(failed(text))),
    };
    let views: Vec<_> = answers.iter().map(Answer::view).collect();
    let found = resolve_in_time(cx, &request, &views, *now);
    report.update = available_update(&request, &views, found.as_ref().ok());
    let error = match found {
        Ok(found) => {
            report.notes.extend(left_out(&views, &found));
            report.notes.extend(held_back(&request, &views, &found));
            report.notes.extend(beyond_policy(&request, &views, &found));
            report.deprecations = deprecations(DeprecationData::Available(found.deprecation.as_ref()));
            report.crossed = crossed(revisions, &found);
            let (catalog, properties) = (Some(found.catalog.clone()), found.properties.clone());
            let bundle = record(found, cx.features.releases);
            return (report, Ok(Chosen { bundle, catalog, properties }));
        }
        Err(error) => error,
    };
    let Some(kept) = keep_installed(&request, &views).and(revisions.installed()) else {
        report.deprecations = deprecations(deprecation_data(&request, &views));
        let similar = similar_packages(cx, &error, &request, &views).await;
        return (report, Err(explained(cx, &error, similar, *now)));
    };
    report.notes.push(format!(
        "No catalog has the package {:?} any more; the installed bundle {} is kept.",
        request.package, kept.bundle.name
    ));
    (report, Ok(Chosen { bundle: kept.bundle.clone(), catalog: None, properties: Vec::new() }))
}

/// What the catalogs say of deprecation and of updates, where no bundle is chosen from them. No plan shows it.
pub(crate) async fn inform(cx: &Context, observed: &Observed<'_>, report: Report) -> Report {
    let Observed { extension, revisions, now, .. } = observed;
    let request = request(cx, extension, revisions.installed()).filter(|_| !cx.only_plans);
    let Some(request) = request else { return report };
    let selector = extension.spec.source.catalog.as_ref().and_then(|c| c.selector.as_ref());
    // With a selector that is not valid no catalog is asked, which is what the report says.
    let answers =
        cx.catalogs.ask(&request.package, selector, (*now, observed.wanted)).await.unwrap_or_default();
    let views: Vec<_> = answers.iter().map(Answer::view).collect();
    let found = resolve(&request, &views).ok();
    let data = match &found {
        Some(found) => DeprecationData::Available(found.deprecation.as_ref()),
        None => deprecation_data(&request, &views),
    };
    let installed = revisions.installed().map(|r| r.bundle.name.as_str());
    let deprecations = Some(deprecation_status(data, &request.channels, installed));
    Report { deprecations, update: available_update(&request, &views, found.as_ref()), ..report }
}

/// The answer of the catalogs, whatever is installed or paused.
///
/// # Errors
/// The catalogs cannot be read.
pub(crate) async fn answer(cx: &Context, extension: &ClusterExtension) -> Result<CatalogAnswer, String> {
    let revisions = observe::revisions(cx, extension)?;
    let request = request(cx, extension, revisions.installed()).ok_or("spec.source.catalog is not set")?;
    let selector = extension.spec.source.catalog.as_ref().and_then(|c| c.selector.as_ref());
    let answers = cx.catalogs.ask(&request.package, selector, (cx.clock.now(), &Wanted::default())).await?;
    let views: Vec<_> = answers.iter().map(Answer::view).collect();
    let chosen = resolve(&request, &views).map_err(|error| error.to_string());
    let counts =
        |view: &&CatalogView<'_>| view.content.as_ref().is_ok_and(|content| !content.bundles.is_empty());
    let catalogs = views.iter().filter(|view| view.content.is_err() || counts(view));
    let catalogs = catalogs.map(|view| view.name.to_owned()).collect();
    Ok(CatalogAnswer { chosen, rejected: explain(&request, &views), catalogs })
}

/// The answer; when all that is waited for has never been served and the time for that is over, the answer
/// without it.
fn resolve_in_time(
    cx: &Context,
    request: &Request,
    views: &[CatalogView<'_>],
    now: Timestamp,
) -> Result<Resolution, ResolveError> {
    let error = match resolve(request, views) {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let Cause::CatalogUnavailable { waiting_for, .. } = &error.cause else { return Err(error) };
    if cx.catalogs.wait_for(waiting_for, now) != Wait::Over {
        return Err(error);
    }
    let rest: Vec<_> =
        views.iter().filter(|view| !waiting_for.iter().any(|name| name == view.name)).cloned().collect();
    resolve(request, &rest).map_err(|_| error)
}

/// A question about the package's name, where no catalog that can be read has the package.
async fn similar_packages(
    cx: &Context,
    error: &ResolveError,
    request: &Request,
    views: &[CatalogView<'_>],
) -> Option<String> {
    let is_unknown = error.rejected.is_empty()
        && matches!(error.cause, Cause::NotFound { .. } | Cause::CatalogUnavailable { .. });
    if !is_unknown {
        return None;
    }
    let readable = views.iter().filter(|view| view.content.is_ok());
    let readable: Vec<String> = readable.map(|view| view.name.to_owned()).collect();
    let packages = cx.catalogs.packages(&readable).await;
    did_you_mean(&request.package, packages.iter().map(String::as_str))
}

/// The error with its remedy and the rejected candidates.
fn explained(cx: &Context, error: &ResolveError, similar: Option<String>, now: Timestamp) -> StepError {
    let remedy = advice(error, Audience::Cluster).into_iter().chain(similar).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = Some(remedy).filter(|remedy| !remedy.is_empty()).into_iter().collect();
    let (mut answer_at, mut recovers) = (None, false);
    if let Cause::CatalogUnavailable { waiting_for, answer, .. } = &error.cause {
        if answer.is_some()
            && let Wait::Until(deadline) = cx.catalogs.wait_for(waiting_for, now)
        {
            answer_at = Some(deadline);
            lines.push(format!("This bundle is chosen at {deadline:.0} if nothing changes until then."));
        }
        recovers = answer_at.is_some() || !cx.catalogs.are_stalled(waiting_for);
    }
    let summary = summary(&error.rejected, SUMMARY_BUNDLES_MAX);
    if !summary.is_empty() {
        lines.push(format!("Rejected: {summary}"));
    }
    let explanation = (!lines.is_empty()).then(|| lines.join("\n"));
    StepError::Resolution { explanation, answer_at, recovers, text: error.to_string() }
}

/// A sentence about catalogs that might have had the answer and cannot be read.
fn left_out(views: &[CatalogView<'_>], found: &Resolution) -> Option<String> {
    let chosen = views.iter().find(|view| view.name == found.catalog)?;
    let away: Vec<&str> = views
        .iter()
        .filter(|view| view.content.is_err() && view.priority >= chosen.priority)
        .map(|view| view.name)
        .collect();
    (!away.is_empty()).then(|| {
        format!(
            "Bundle {} was chosen from catalog {}, although a catalog of the same or a higher priority cannot be read and may have another one: {}.",
            found.bundle,
            found.catalog,
            away.join(", ")
        )
    })
}

/// A sentence about the update that is held back by the annotation, if there is one.
fn held_back(request: &Request, views: &[CatalogView<'_>], found: &Resolution) -> Option<String> {
    if request.options.major_updates == MajorUpdates::Allow {
        return None;
    }
    let mut free = request.clone();
    free.options.major_updates = MajorUpdates::Allow;
    let other = resolve(&free, views).ok().filter(|other| other.bundle != found.bundle)?;
    Some(format!(
        "The upgrade to bundle {} is held back because it changes the major version. To allow it, remove the annotation {}.",
        other.bundle,
        olm_api::names::MAJOR_UPDATES_ANNOTATION
    ))
}

/// A sentence about the bundle that the update policy does not allow, if there is a better one.
fn beyond_policy(request: &Request, views: &[CatalogView<'_>], found: &Resolution) -> Option<String> {
    let policy = &request.ceiling.as_ref()?.policy;
    let free = Request { ceiling: None, ..request.clone() };
    let other = resolve(&free, views).ok().filter(|other| other.bundle != found.bundle)?;
    let text = format!(
        "Bundle {} of catalog {} is held back because update policy {policy} does not allow it.",
        other.bundle, other.catalog
    );
    Some(one_line(&text).into_owned())
}

/// A sentence about an update that leads to another catalog than the one the installed bundle came from.
fn crossed(revisions: &Revisions, found: &Resolution) -> Option<String> {
    let latest = revisions.latest_active().or_else(|| revisions.installed())?;
    let origin = latest.annotation(CATALOG_ANNOTATION).filter(|origin| *origin != found.catalog)?;
    let reported = if latest.bundle.name == found.bundle {
        format!("Bundle {} now comes from catalog {}, no longer from {origin}", found.bundle, found.catalog)
    } else {
        format!(
            "The upgrade from bundle {} of catalog {origin} leads to bundle {} of catalog {}",
            latest.bundle.name, found.bundle, found.catalog
        )
    };
    Some(one_line(&reported).into_owned())
}

/// What a revision records of the bundle; without release support the release goes back into the version.
fn record(found: Resolution, releases: ReleaseSupport) -> BundleRecord {
    let (version, release) = found.version.recorded(releases);
    BundleRecord { name: found.bundle, package: found.package, version, release, reference: found.image }
}

fn failed(text: String) -> StepError {
    StepError::Resolution { text, explanation: None, answer_at: None, recovers: false }
}

/// What the update policy leaves of the catalogs.
fn ceiling(cx: &Context, extension: &ClusterExtension, installed: Option<&Revision>) -> Option<Ceiling> {
    let InForce::Policy(policy) = cx.update_policies.in_force(extension) else { return None };
    let limits = !policy.catalogs.is_empty() || policy.versions.is_some();
    (limits && (installed.is_some() || policy.installs)).then(|| Ceiling {
        policy: policy.name.clone(),
        catalogs: policy.catalogs.clone(),
        versions: policy.versions.clone(),
    })
}

fn request(cx: &Context, extension: &ClusterExtension, installed: Option<&Revision>) -> Option<Request> {
    let features = cx.features;
    let source = extension.spec.source.catalog.as_ref()?;
    Some(Request {
        package: source.package_name.clone(),
        version: source.version.clone().filter(|v| !v.is_empty()),
        channels: source.channels.clone(),
        upgrade_policy: match source.upgrade_constraint_policy {
            UpgradeConstraintPolicy::CatalogProvided => UpgradePolicy::CatalogProvided,
            UpgradeConstraintPolicy::SelfCertified => UpgradePolicy::SelfCertified,
        },
        installed: installed.map(|revision| Installed {
            name: revision.bundle.name.clone(),
            version: revision.bundle.version.clone(),
            release: revision.bundle.release.clone(),
            catalog: revision.annotation(CATALOG_ANNOTATION).map(str::to_owned),
        }),
        options: olm_resolve::Options {
            dependencies: annotations::dependencies(extension),
            releases: features.releases,
            same_catalog: annotations::same_catalog(extension),
            major_updates: annotations::major_updates(extension),
        },
        ceiling: ceiling(cx, extension, installed),
    })
}
