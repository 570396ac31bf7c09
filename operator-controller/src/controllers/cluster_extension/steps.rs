//! The steps of a pass: read the revisions, choose a bundle, fetch and render it, check and write a revision.

use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::{
    names::OWNER_NAME_LABEL,
    v1::{ClusterExtension, ClusterObjectSet, UpgradeConstraintPolicy},
};
use olm_image::PullError;
use olm_objectset::{Origin, Phase, assign, phase_digest, prepare, sha256};
use olm_render::{CertificateProvider, Options, Rendered, render};
use olm_resolve::{
    DependencyHandling, DeprecationData, Installed, Request, Resolution, ResolveError, SUMMARY_BUNDLES_MAX,
    UpgradePolicy, deprecation_status, keep_installed, resolve, summary,
};
use olm_runtime::{AccountRef, Accounts, Discovery, bounded};
use olm_semver::ReleaseSupport;
use serde_json::{Value, json};

use super::{
    apply::{NewRevision, RevisionWriter},
    crd_changes::{self, CrdChanges},
    progress::{Cause, CauseKind, Progress, StepError},
    revisions::{BundleRecord, Revision, Revisions},
};
use crate::{bundles::Bundles, catalogs::Catalogs, controllers::api_text, preflight};

/// What can be turned off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    pub(crate) render: olm_render::Features,
    pub(crate) releases: ReleaseSupport,
    pub(crate) preflight_permissions: bool,
    pub(crate) certificates: CertificateProvider,
}

/// What the steps work with.
pub(crate) struct Steps<'a> {
    pub(crate) extension: &'a ClusterExtension,
    pub(crate) accounts: &'a Accounts,
    pub(crate) discovery: &'a Discovery,
    pub(crate) catalogs: &'a Catalogs,
    pub(crate) bundles: &'a Bundles,
    pub(crate) features: Features,
    pub(crate) system_namespace: &'a str,
}

impl Steps<'_> {
    /// Runs the steps; facts go to `progress` as they are found.
    pub(crate) async fn run(&self, account: &AccountRef, progress: &mut Progress) -> Result<(), StepError> {
        let revisions = self.revisions().await.map_err(StepError::Revisions)?;
        progress.revisions = Some(revisions.clone());
        let settled = revisions.latest_active().is_some_and(|r| Some(r) == revisions.installed());
        if !settled {
            self.writer().tidy_secrets(&revisions).await.map_err(StepError::Revisions)?;
        }
        let bundle = self.resolve(&revisions, progress).await?;
        self.roll_out(account, &bundle, &revisions, progress)
            .await
            .map_err(|cause| StepError::Bundle { bundle, cause })
    }

    async fn revisions(&self) -> Result<Revisions, String> {
        let api: Api<ClusterObjectSet> = Api::all(self.controller());
        let mine = format!("{OWNER_NAME_LABEL}={}", self.extension.name_any());
        let listed =
            bounded(api.list(&ListParams::default().labels(&mine))).await.map_err(|e| api_text(&e))?;
        Ok(Revisions::of(&self.extension.uid().unwrap_or_default(), &listed.items))
    }

    async fn resolve(
        &self,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<BundleRecord, StepError> {
        let request = request(self.extension, revisions.installed(), self.features).ok_or_else(|| {
            failed("spec.source.catalog is not set: name the package to install".to_owned())
        })?;
        let selector = self.extension.spec.source.catalog.as_ref().and_then(|c| c.selector.as_ref());
        let installed_name = revisions.installed().map(|r| r.bundle.name.as_str());
        let unknown = || deprecation_status(DeprecationData::Unavailable, &request.channels, installed_name);
        progress.deprecations = Some(unknown());
        let answers = self.catalogs.ask(&request.package, selector).await.map_err(failed)?;
        let views: Vec<_> = answers.iter().map(crate::catalogs::Answer::view).collect();
        match resolve(&request, &views) {
            Ok(found) => {
                let data = DeprecationData::Available(found.deprecation.as_ref());
                progress.deprecations = Some(deprecation_status(data, &request.channels, installed_name));
                Ok(record(found, self.features.releases))
            }
            Err(error) => {
                let kept = keep_installed(&request, &views).and(revisions.installed());
                if let Some(kept) = kept {
                    progress.notes.push(format!(
                        "No catalog has the package {:?} any more; the installed bundle {} is kept.",
                        request.package, kept.bundle.name
                    ));
                    return Ok(kept.bundle.clone());
                }
                Err(StepError::Resolution { explanation: explanation(&error), text: error.to_string() })
            }
        }
    }

    async fn roll_out(
        &self,
        account: &AccountRef,
        bundle: &BundleRecord,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<(), Cause> {
        let inputs = self.inputs_digest(account, bundle);
        let latest = revisions.latest_active();
        if let Some(latest) = latest.filter(|l| l.inputs_digest.as_deref() == Some(inputs.as_str())) {
            if latest.bundle.reference != bundle.reference {
                progress.notes.push(format!(
                    "The catalog now names another image for this version, which is not rolled out by itself: {}",
                    bundle.reference
                ));
            }
            progress.notes.extend(crd_changes::notes(self.extension, latest, revisions));
            return self.writer().refresh(latest, &inputs).await.map_err(Cause::transient);
        }
        let Some(rendered) = self.content(bundle, revisions).await? else { return Ok(()) };
        let phases = self.phases(&rendered, bundle)?;
        let content = content_digest(&phases);
        if let Some(latest) = latest.filter(|l| l.content_digest.as_deref() == Some(content.as_str())) {
            return self.writer().refresh(latest, &inputs).await.map_err(Cause::transient);
        }
        if let Some(lowest) = &rendered.min_kube_version {
            let suits =
                preflight::check_kube_version(&self.controller(), lowest).await.map_err(Cause::transient)?;
            suits.map_err(Cause::terminal)?;
        }
        let number = revisions.last_number() + 1;
        let crd_changes = self.preflight(account, &phases, number, progress).await?;
        let new = NewRevision {
            number,
            bundle,
            account,
            phases: &phases,
            inputs_digest: &inputs,
            content_digest: &content,
            properties: rendered.olm_properties.as_deref(),
            crd_changes: crd_changes.recorded(),
        };
        self.writer().create(&new, revisions).await.map_err(Cause::transient)?;
        progress.created = Some(bundle.clone());
        Ok(())
    }

    /// The rendered bundle; `None` when it cannot be fetched but is installed already.
    async fn content(&self, bundle: &BundleRecord, revisions: &Revisions) -> Result<Option<Rendered>, Cause> {
        let files = match self.bundles.load(&bundle.reference).await {
            Ok(files) => files,
            Err(error) => {
                let installed = revisions.installed().map(|r| &r.bundle);
                if installed.is_some_and(|i| i.name == bundle.name && i.version == bundle.version) {
                    tracing::warn!(extension = self.extension.name_any(), %error, "installed bundle cannot be fetched");
                    return Ok(None);
                }
                return Err(pull_cause(&error));
            }
        };
        let options = Options {
            config: self.extension.spec.config.as_ref().and_then(|c| c.inline.clone()),
            certificate_provider: self.features.certificates,
            features: self.features.render,
            ..Options::new(self.extension.spec.namespace.clone())
        };
        let by_digest = bundle.reference.contains('@');
        let rendered = tokio::task::spawn_blocking(move || render(&files, &options))
            .await
            .map_err(|e| Cause::transient(format!("rendering the bundle: {e}")))?;
        rendered.map(Some).map_err(|error| match error.reason() {
            olm_render::Reason::InvalidConfiguration => {
                Cause { kind: CauseKind::InvalidConfiguration, ..Cause::terminal(&error) }
            }
            olm_render::Reason::Blocked if by_digest => Cause::terminal(error),
            // Behind a tag another content may appear.
            olm_render::Reason::Blocked => Cause::transient(error),
        })
    }

    fn phases(&self, rendered: &Rendered, bundle: &BundleRecord) -> Result<Vec<Phase>, Cause> {
        let name = self.extension.name_any();
        let origin = Origin { extension: &name, package: &bundle.package, version: &bundle.version };
        let objects: Result<Vec<Value>, _> =
            rendered.objects.iter().map(|o| prepare(o.clone(), &origin)).collect();
        objects.map(assign).map_err(Cause::terminal)
    }

    async fn preflight(
        &self,
        account: &AccountRef,
        phases: &[Phase],
        number: i64,
        progress: &mut Progress,
    ) -> Result<CrdChanges, Cause> {
        let client = self.accounts.client(account).await.map_err(Cause::transient)?;
        let crd_changes =
            crd_changes::check(self.extension, &self.controller(), (account, &client), phases, progress)
                .await?;
        let refused = |e: String| Cause::transient(format!("creating new Revision: {e}"));
        if self.features.preflight_permissions {
            let revision = format!("{}-{number}", self.extension.name_any());
            preflight::check_rights(&client, &self.controller(), self.discovery, phases, &revision)
                .await
                .map_err(refused)?;
        }
        preflight::dry_run(&client, self.discovery, phases).await.map_err(refused)?;
        Ok(crd_changes)
    }

    /// Digest of everything a revision is made from. The image reference is left out: the same name, version
    /// and release under another image is not rolled out by itself.
    fn inputs_digest(&self, account: &AccountRef, bundle: &BundleRecord) -> String {
        sha256(&json!({
            "bundle": [bundle.name, bundle.package, bundle.version, bundle.release],
            "namespace": self.extension.spec.namespace,
            "account": [account.namespace, account.name],
            "config": self.extension.spec.config.as_ref().and_then(|c| c.inline.as_ref()),
            "features": format!("{:?} {:?}", self.features.render, self.features.certificates),
            "program": env!("CARGO_PKG_VERSION"),
        }))
    }

    fn writer(&self) -> RevisionWriter<'_> {
        RevisionWriter {
            client: self.controller(),
            system_namespace: self.system_namespace,
            extension: self.extension,
        }
    }

    fn controller(&self) -> Client {
        self.accounts.controller()
    }
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
            catalog: None,
        }),
        options: olm_resolve::Options {
            dependencies: DependencyHandling::Refuse,
            releases: features.releases,
            ..olm_resolve::Options::default()
        },
    })
}

/// What was looked at and why it did not do.
fn explanation(error: &ResolveError) -> Option<String> {
    let summary = summary(error.passed_over(), SUMMARY_BUNDLES_MAX);
    (!summary.is_empty()).then(|| format!("Passed over: {summary}"))
}

fn pull_cause(error: &PullError) -> Cause {
    if error.is_terminal() { Cause::terminal(error) } else { Cause::transient(error) }
}

fn content_digest(phases: &[Phase]) -> String {
    let digests: Vec<Value> = phases.iter().map(|p| json!([p.name, phase_digest(p)])).collect();
    sha256(&Value::Array(digests))
}
