//! Which bundle an extension should have: asks the catalogs, and says what there is to say about their answer.

use jiff::Timestamp;
use olm_api::v1::{ClusterExtension, UpgradeConstraintPolicy};
use olm_fbc::Property;
use olm_resolve::{
    Audience, CatalogView, Cause, DeprecationData, Installed, MajorUpdates, Request, Resolution,
    ResolveError, SUMMARY_BUNDLES_MAX, UpgradePolicy, advice, deprecation_data, deprecation_status,
    keep_installed, resolve, summary,
};
use olm_semver::ReleaseSupport;
use olm_text::one_line;

use crate::catalogs::{Answer, Wait};
use crate::cluster_extension::annotations;
use crate::cluster_extension::decide::{Features, Steps};
use crate::cluster_extension::observe::revisions::{BundleRecord, Revision, Revisions};
use crate::cluster_extension::report::{Progress, StepError};

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
    /// The sentence for people.
    pub(crate) fn told(&self) -> String {
        let (name, version) = (&self.bundle.name, self.bundle.display_version());
        let told = match &self.catalog {
            Some(catalog) => format!("Resolved bundle {name} with version {version} from catalog {catalog}"),
            None => format!("Stays with bundle {name} of version {version}, which no catalog has any more"),
        };
        one_line(&told).into_owned()
    }
}

impl Steps<'_> {
    pub(crate) async fn choose(
        &self,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<Chosen, StepError> {
        let request = request(self.extension, revisions.installed(), self.features).ok_or_else(|| {
            failed("spec.source.catalog is not set: name the package to install".to_owned())
        })?;
        let selector = self.extension.spec.source.catalog.as_ref().and_then(|c| c.selector.as_ref());
        let installed_name = revisions.installed().map(|r| r.bundle.name.as_str());
        let unknown = || deprecation_status(DeprecationData::Unavailable, &request.channels, installed_name);
        progress.deprecations = Some(unknown());
        let answers = self.catalogs.ask(&request.package, selector, self.now).await.map_err(failed)?;
        let views: Vec<_> = answers.iter().map(Answer::view).collect();
        match self.resolve(&request, &views) {
            Ok(found) => {
                let data = DeprecationData::Available(found.deprecation.as_ref());
                progress.deprecations = Some(deprecation_status(data, &request.channels, installed_name));
                progress.notes.extend(left_out(&views, &found));
                progress.notes.extend(held_back(&request, &views, &found));
                progress.crossed = crossed(revisions, &found);
                Ok(Chosen {
                    catalog: Some(found.catalog.clone()),
                    properties: found.properties.clone(),
                    bundle: record(found, self.features.releases),
                })
            }
            Err(error) => {
                let kept = keep_installed(&request, &views).and(revisions.installed());
                if let Some(kept) = kept {
                    progress.notes.push(format!(
                        "No catalog has the package {:?} any more; the installed bundle {} is kept.",
                        request.package, kept.bundle.name
                    ));
                    let bundle = kept.bundle.clone();
                    return Ok(Chosen { bundle, catalog: None, properties: Vec::new() });
                }
                let data = deprecation_data(&request, &views);
                progress.deprecations = Some(deprecation_status(data, &request.channels, installed_name));
                let explanation = self.explanation(&error, progress);
                Err(StepError::Resolution { explanation, text: error.to_string() })
            }
        }
    }

    /// The answer; when all that is waited for has never been served and the time for that is over, the answer
    /// without it.
    fn resolve(&self, request: &Request, views: &[CatalogView<'_>]) -> Result<Resolution, ResolveError> {
        let error = match resolve(request, views) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let Cause::CatalogUnavailable { waiting_for, .. } = &error.cause else { return Err(error) };
        if self.catalogs.wait_for(waiting_for, self.now) != Wait::Over {
            return Err(error);
        }
        let rest: Vec<_> =
            views.iter().filter(|view| !waiting_for.iter().any(|name| name == view.name)).cloned().collect();
        resolve(request, &rest).map_err(|_| error)
    }

    /// The remedy and the rejected candidates.
    fn explanation(&self, error: &ResolveError, progress: &mut Progress) -> Option<String> {
        let mut told: Vec<String> = advice(error, Audience::Cluster).into_iter().collect();
        if let Cause::CatalogUnavailable { waiting_for, answer: Some(_), .. } = &error.cause
            && let Wait::Until(deadline) = self.catalogs.wait_for(waiting_for, self.now)
        {
            progress.look_again = Some(until(self.now, deadline));
            told.push(format!("That answer is taken at {deadline:.0} if nothing changes before."));
        }
        let summary = summary(&error.rejected, SUMMARY_BUNDLES_MAX);
        if !summary.is_empty() {
            told.push(format!("Rejected: {summary}"));
        }
        (!told.is_empty()).then(|| told.join("\n"))
    }
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
            "Bundle {} is taken from catalog {}, although a catalog of the same or a higher priority may have another one and cannot be read: {}.",
            found.bundle,
            found.catalog,
            away.join(", ")
        )
    })
}

fn until(now: Timestamp, deadline: Timestamp) -> std::time::Duration {
    // A second more than needed does no harm, one less would be a pass for nothing.
    std::time::Duration::try_from(deadline.duration_since(now)).unwrap_or_default()
        + std::time::Duration::from_secs(1)
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
        "The update to bundle {} is held back: it leads to another major version. Remove the annotation {} to go there.",
        other.bundle,
        olm_api::names::MAJOR_UPDATES_ANNOTATION
    ))
}

/// A sentence about an update that leads to another catalog than the one the installed bundle came from.
fn crossed(revisions: &Revisions, found: &Resolution) -> Option<String> {
    let latest = revisions.latest_active().or_else(|| revisions.installed())?;
    let origin = latest.catalog.as_ref().filter(|origin| **origin != found.catalog)?;
    let told = if latest.bundle.name == found.bundle {
        format!(
            "Bundle {} is taken from catalog {} from now on, no longer from {origin}",
            found.bundle, found.catalog
        )
    } else {
        format!(
            "The update from bundle {} of catalog {origin} leads to bundle {} of catalog {}",
            latest.bundle.name, found.bundle, found.catalog
        )
    };
    Some(one_line(&told).into_owned())
}

/// What a revision records of the bundle; without release support the release goes back into the version.
fn record(found: Resolution, releases: ReleaseSupport) -> BundleRecord {
    let (version, release) = found.version.recorded(releases);
    BundleRecord { name: found.bundle, package: found.package, version, release, reference: found.image }
}

fn failed(text: String) -> StepError {
    StepError::Resolution { text, explanation: None }
}

fn request(
    extension: &ClusterExtension,
    installed: Option<&Revision>,
    features: Features,
) -> Option<Request> {
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
            catalog: revision.catalog.clone(),
        }),
        options: olm_resolve::Options {
            dependencies: annotations::dependencies(extension),
            releases: features.releases,
            same_catalog: annotations::same_catalog(extension),
            major_updates: annotations::major_updates(extension),
        },
    })
}
