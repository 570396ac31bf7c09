//! The steps of a pass: read the revisions, choose a bundle, fetch and render it, plan a revision and carry it out.

pub(crate) mod acting;
pub(crate) mod content;
pub(crate) mod dependencies;
pub(crate) mod paused;
pub(crate) mod resolve;
pub(crate) mod rollback;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, api::ListParams, core::DeserializeGuard, runtime::reflector::Store};
use olm_api::{
    names::{OWNER_NAME_LABEL, REINSTALL_ANNOTATION},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX, ReadError};
use olm_fbc::Property;
use olm_objectset::{Origin, Phase, assign, phase_digest, prepare, sha256};
use olm_render::{CertificateProvider, Options, RenderError, Rendered, render};
use olm_runtime::{AccountRef, Accounts, Discovery, api_text, bounded};
use olm_semver::ReleaseSupport;
use serde_json::{Value, json};

use crate::cluster_extension::act::helm_release::Takeover;
use crate::cluster_extension::act::revision::RevisionWriter;
use crate::cluster_extension::annotations;
use crate::cluster_extension::decide::content::{Content, arrived};
use crate::cluster_extension::decide::resolve::Chosen;
use crate::cluster_extension::observe::identity::Identity;
use crate::cluster_extension::observe::revisions::{BundleRecord, Revision, Revisions};
use crate::cluster_extension::plan::crds as crd_changes;
use crate::cluster_extension::plan::kinds;
use crate::cluster_extension::plan::{Draft, Planned};
use crate::cluster_extension::report::{Cause, CauseKind, Progress, StepError};
use crate::deletion_policy::extension::Keeping;
use crate::{
    admission::Enforcement,
    bundles::{Bundles, Loaded},
    catalogs::Catalogs,
    dependents::Dependents,
    interest::Wanted,
    platform::Platform,
    preflight,
    webhook_certificates::{self, Candidates},
};

/// Type of the property with the oldest version of Kubernetes that a bundle claims to run on.
const KUBERNETES_VERSION: &str = "olm.kubeversion";

/// What the API server answers when it wants to be asked later.
const TOO_MANY_REQUESTS: u16 = 429;
/// How often it is asked then, and after what time: it names one second itself.
const PATIENT_ATTEMPTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(1);

/// What can be turned off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    pub(crate) render: olm_render::Features,
    pub(crate) releases: ReleaseSupport,
    pub(crate) preflight_permissions: bool,
    pub(crate) certificates: Candidates,
}

/// What the steps work with.
pub(crate) struct Steps<'a> {
    pub(crate) extension: &'a ClusterExtension,
    pub(crate) accounts: &'a Accounts,
    pub(crate) discovery: &'a Discovery,
    pub(crate) catalogs: &'a Catalogs,
    pub(crate) bundles: &'a Bundles,
    pub(crate) sets: &'a Store<DeserializeGuard<ClusterObjectSet>>,
    pub(crate) dependents: &'a Dependents,
    /// What is to bring the next pass.
    pub(crate) wanted: &'a Wanted,
    pub(crate) platform: &'a Platform,
    pub(crate) features: Features,
    pub(crate) system_namespace: &'a str,
    /// Which namespace and ServiceAccount the extension may use.
    pub(crate) identity: Identity,
    pub(crate) now: Timestamp,
    /// Nothing is carried out: what cannot be found out is left open in the plan instead of ending the pass.
    pub(crate) only_plans: bool,
    /// Whether the policies are in force without which no account is given to a revision that exists.
    pub(crate) enforcement: Enforcement,
    /// No Secret can have been left without an owner before this pass.
    pub(crate) is_tidy: bool,
}

/// What a pass is about to do.
pub(crate) enum Proposal {
    /// Nothing: the bundle is the installed one and cannot be fetched, so what the spec asks for waits. Why, in a
    /// sentence.
    Nothing { why: String },
    /// What is there stays, whatever else could be had; only its deadline follows the spec. Why, in a sentence.
    Keep { why: String },
    /// The latest revision is what is wanted; its record is brought up to date.
    Refresh { chosen: Chosen, inputs: String },
    /// A new revision.
    Revision { planned: Box<Planned>, bundle: BundleRecord },
}

impl Steps<'_> {
    /// Runs the steps; facts go to `progress` as they are found.
    pub(crate) async fn run(&self, account: &AccountRef, progress: &mut Progress) -> Result<(), StepError> {
        let (extension, accounts, sets) = (self.extension, self.accounts, self.sets);
        let keeping = Keeping { extension, accounts, sets, default_account: None };
        keeping.adopt(account).await.map_err(StepError::Revisions)?;
        let revisions = self.known(Some(account), progress).await?;
        self.record(progress).await?;
        if progress.recorded {
            return Ok(());
        }
        self.writer().bind(&revisions, account).await.map_err(StepError::Revisions)?;
        if !self.is_tidy {
            self.writer().tidy_secrets().await.map_err(StepError::Revisions)?;
        }
        progress.notes.extend(annotations::in_force(self.extension));
        progress.notes.extend(kinds::notes(&revisions));
        let proposal = self.propose(account, &revisions, progress).await?;
        let result = self.carry_out(account, proposal, &revisions, progress).await;
        if result.is_err() {
            // What failed is tried again before a pause ends.
            progress.look_again = None;
        }
        result
    }

    /// The revisions, what the original installed included.
    pub(crate) async fn known(
        &self,
        account: Option<&AccountRef>,
        progress: &mut Progress,
    ) -> Result<Revisions, StepError> {
        let mut revisions = self.revisions().await.map_err(StepError::Revisions)?;
        let takeover =
            Takeover { writer: self.writer(), account, enforcement: self.enforcement, now: self.now };
        if takeover.run(&revisions).await? {
            revisions = self.revisions().await.map_err(StepError::Revisions)?;
        }
        progress.platform = self.platform.judge(&self.extension.name_any(), revisions.platform_properties());
        progress.notes.extend(self.foreign_note(&revisions));
        progress.revisions = Some(revisions.clone());
        Ok(revisions)
    }

    /// The extension's revisions.
    pub(crate) async fn revisions(&self) -> Result<Revisions, String> {
        let api: Api<ClusterObjectSet> = Api::all(self.controller());
        let mine = format!("{OWNER_NAME_LABEL}={}", self.extension.name_any());
        let params = ListParams::default().labels(&mine);
        let mut attempt = 1;
        let listed = loop {
            match bounded(api.list(&params)).await {
                Ok(listed) => break listed,
                // The API server asks for patience, as it does while it begins to serve a kind anew: that is no reason
                // to say that nothing is known of what is installed.
                Err(kube::Error::Api(status))
                    if status.code == TOO_MANY_REQUESTS && attempt < PATIENT_ATTEMPTS =>
                {
                    attempt += 1;
                    tokio::time::sleep(PATIENCE).await;
                }
                Err(error) => return Err(api_text(&error)),
            }
        };
        Ok(Revisions::read(listed.items.iter().filter(|set| self.is_revision(set))))
    }

    /// What is to be done: resolution, bundle and plan. Nothing is written.
    pub(crate) async fn propose(
        &self,
        account: &AccountRef,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<Proposal, StepError> {
        // Who only plans is shown what waits.
        if self.paused(progress) && !self.only_plans {
            return self.hold(account, revisions, progress).await;
        }
        if let Some(target) = annotations::rollback_to(self.extension) {
            return self.roll_back(target, account, revisions, progress).await;
        }
        let chosen = self.choose(revisions, progress).await?;
        progress.resolved = Some(chosen.told());
        let bundle = &chosen.bundle;
        let failed = |cause| StepError::Bundle { bundle: bundle.clone(), cause };
        let inputs = self.inputs_digest(account, bundle);
        let latest = revisions.latest_active();
        let unchanged = latest.filter(|l| is_made_from(l, &inputs, account));
        match self.require(&chosen, &[], revisions, progress).await {
            // What is rolling out is not stopped half way.
            Err(error) if unchanged.is_some() => {
                tracing::debug!(extension = self.extension.name_any(), %error, "goes on rolling out");
            }
            other => other?,
        }
        if let Some(latest) = unchanged {
            if latest.bundle.reference != bundle.reference {
                progress.notes.push(format!(
                    "The catalog now names another image for this version, which is not rolled out by itself: {}. To roll it out, set the annotation {REINSTALL_ANNOTATION} to a new value.",
                    bundle.reference
                ));
            }
            progress.notes.extend(crd_changes::notes(self.extension, latest, revisions));
            return Ok(Proposal::Refresh { chosen, inputs });
        }
        bundle.check_name().map_err(failed)?;
        let (rendered, memory) = match self.content(bundle, revisions, progress).await.map_err(failed)? {
            Content::Rendered(rendered, memory) => (rendered, memory),
            Content::Away { why } => {
                progress.waits_for_content = Some(why.clone());
                return Ok(Proposal::Nothing { why });
            }
            Content::Pending { why } => {
                progress.pulling = Some(why.clone());
                return Ok(Proposal::Nothing { why });
            }
        };
        let declared = declared(&rendered).map_err(failed)?;
        self.require(&chosen, &declared, revisions, progress).await?;
        let phases = self.phases(&rendered, bundle).map_err(failed)?;
        let digest = self.rendered_digest(&phases);
        if let Some(latest) = latest.filter(|latest| self.holds(latest, &digest, &phases))
            && self.may_act_as(latest, account, &phases).await.map_err(failed)?
        {
            return Ok(Proposal::Refresh { chosen, inputs });
        }
        self.check_kubernetes(&chosen, &rendered).await.map_err(failed)?;
        let draft = Draft {
            bundle: bundle.clone(),
            phases,
            inputs_digest: inputs,
            rendered_digest: digest,
            catalog: chosen.catalog.clone(),
            catalog_properties: chosen.properties.clone(),
            properties: rendered.olm_properties.clone(),
            certificate_provider: rendered.certificate_provider,
            rolled_back_to: None,
            _memory: Some(memory),
        };
        let planned = self.plan(account, draft, revisions, progress).await.map_err(failed)?;
        Ok(Proposal::Revision { planned: Box::new(planned), bundle: bundle.clone() })
    }

    /// Refuses a bundle that needs a newer Kubernetes.
    async fn check_kubernetes(&self, chosen: &Chosen, rendered: &Rendered) -> Result<(), Cause> {
        for lowest in lowest_kubernetes(chosen, rendered) {
            let suits = preflight::check_kube_version(&self.controller(), &lowest).await;
            suits.map_err(Cause::transient).and_then(|suits| suits.map_err(Cause::terminal))?;
        }
        Ok(())
    }

    async fn carry_out(
        &self,
        account: &AccountRef,
        proposal: Proposal,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<(), StepError> {
        match proposal {
            Proposal::Nothing { .. } => Ok(()),
            Proposal::Keep { .. } => self.keep(account, revisions).await,
            Proposal::Refresh { chosen, inputs } => {
                let Some(latest) = revisions.latest_active() else { return Ok(()) };
                let refreshed = self.refresh(account, latest, (&chosen, &inputs)).await;
                refreshed.map_err(|cause| StepError::Bundle { bundle: chosen.bundle, cause })
            }
            Proposal::Revision { planned, bundle } => {
                let written = self.write(account, *planned, revisions, progress).await;
                written.map_err(|cause| StepError::Bundle { bundle, cause })
            }
        }
    }

    async fn keep(&self, account: &AccountRef, revisions: &Revisions) -> Result<(), StepError> {
        let Some(latest) = revisions.latest_active() else { return Ok(()) };
        let Some(inputs) = latest.inputs_digest.as_deref() else { return Ok(()) };
        let account = self.is_what_it_was(latest, account).await.then_some(account);
        let kept = self.writer().refresh(latest, account, inputs, None).await;
        kept.map_err(|text| StepError::Bundle {
            bundle: latest.bundle.clone(),
            cause: Cause::transient(text),
        })
    }

    async fn refresh(
        &self,
        account: &AccountRef,
        latest: &Revision,
        (chosen, inputs): (&Chosen, &str),
    ) -> Result<(), Cause> {
        let origin = chosen.catalog.as_deref().map(|catalog| (catalog, chosen.properties.as_slice()));
        self.writer().refresh(latest, Some(account), inputs, origin).await.map_err(Cause::transient)
    }

    /// The rendered bundle, unless it is on its way, or installed already and cannot be fetched now.
    async fn content(
        &self,
        bundle: &BundleRecord,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<Content, Cause> {
        let name = self.extension.name_any();
        let requested = self.bundles.request(&name, &bundle.reference).await;
        let loaded = match arrived(bundle, requested, revisions, progress)? {
            Ok(loaded) => loaded,
            Err(content) => return Ok(content),
        };
        let pulled = loaded.pulled.clone();
        if let Some(content) = self.rendered(bundle, revisions, loaded).await? {
            return Ok(content);
        }
        let requested = self.bundles.request_alone(&name, &bundle.reference, pulled).await;
        match arrived(bundle, requested, revisions, progress)? {
            Ok(loaded) => self
                .rendered(bundle, revisions, loaded)
                .await?
                .ok_or_else(|| Cause::transient("there was less memory for the bundle than before")),
            Err(content) => Ok(content),
        }
    }

    /// The rendered bundle; `None` if that takes more memory than it was given and less than there is.
    async fn rendered(
        &self,
        bundle: &BundleRecord,
        revisions: &Revisions,
        Loaded { files, memory: mut share, reading, .. }: Loaded,
    ) -> Result<Option<Content>, Cause> {
        let (files, memory) = (Arc::new(files), share.bytes());
        let options = Options {
            config: self.extension.spec.config.as_ref().and_then(|c| c.inline.clone()),
            certificate_provider: self.certificate_provider(bundle, (&files, memory), revisions).await?,
            features: self.features.render,
            ..Options::new(self.extension.spec.namespace.clone())
        };
        let by_digest = bundle.reference.contains('@');
        let rendered = tokio::task::spawn_blocking(move || render(Bundle::read(&files, memory)?, &options))
            .await
            .map_err(|e| Cause::transient(format!("rendering the bundle: {e}")))?;
        drop(reading);
        match rendered {
            Ok(rendered) => {
                share.shrink_to(rendered.memory);
                Ok(Some(Content::Rendered(Box::new(rendered), share)))
            }
            Err(RenderError::Bundle(ReadError::Memory { .. })) if memory < MEMORY_BYTES_MAX => Ok(None),
            Err(error) => Err(match error.reason() {
                olm_render::Reason::InvalidConfiguration => {
                    Cause { kind: CauseKind::InvalidConfiguration, ..Cause::terminal(&error) }
                }
                olm_render::Reason::Blocked if by_digest => Cause::terminal(error),
                // Behind a tag another content may appear.
                olm_render::Reason::Blocked => Cause::transient(error),
            }),
        }
    }

    /// The provider that was chosen for this version, else the one to be chosen now.
    async fn certificate_provider(
        &self,
        bundle: &BundleRecord,
        (files, memory): (&Arc<BundleFiles>, usize),
        revisions: &Revisions,
    ) -> Result<CertificateProvider, Cause> {
        let same = |revision: &&Revision| {
            let known = &revision.bundle;
            (&known.name, &known.version, &known.release) == (&bundle.name, &bundle.version, &bundle.release)
        };
        let chosen = revisions.latest_active().filter(same).and_then(|latest| latest.certificate_provider);
        match chosen {
            Some(provider) => Ok(provider),
            None => webhook_certificates::choose(self.features.certificates, files, memory, self.discovery)
                .await
                .map_err(Cause::transient),
        }
    }

    fn phases(&self, rendered: &Rendered, bundle: &BundleRecord) -> Result<Vec<Phase>, Cause> {
        let name = self.extension.name_any();
        let origin = Origin { extension: &name, package: &bundle.package, version: &bundle.version };
        let objects: Result<Vec<Value>, _> =
            rendered.objects.iter().map(|o| prepare(o.clone(), &origin)).collect();
        objects.map(assign).map_err(Cause::terminal)
    }

    /// Digest of everything a revision is made from. The image reference is left out: the same name, version
    /// and release under another image is not rolled out by itself.
    pub(crate) fn inputs_digest(&self, account: &AccountRef, bundle: &BundleRecord) -> String {
        let mut inputs = json!({
            "bundle": [bundle.name, bundle.package, bundle.version, bundle.release],
            "namespace": self.extension.spec.namespace,
            "account": [account.namespace, account.name],
            "config": self.extension.spec.config.as_ref().and_then(|c| c.inline.as_ref()),
            // Who makes certificates is recorded on the revision and no reason for another one.
            "features": format!("{:?}", self.features.render),
            "program": env!("CARGO_PKG_VERSION"),
        });
        if let Some(token) = annotations::reinstall(self.extension) {
            inputs["reinstall"] = token.into();
        }
        sha256(&inputs)
    }

    /// Digest of what was rendered. A reinstallation that was asked for makes it another one.
    fn rendered_digest(&self, phases: &[Phase]) -> String {
        let objects = content_digest(phases);
        match annotations::reinstall(self.extension) {
            Some(token) => sha256(&json!([objects, token])),
            None => objects,
        }
    }

    /// Whether the revision's objects are these and no reinstallation is asked for.
    fn holds(&self, revision: &Revision, rendered: &str, phases: &[Phase]) -> bool {
        let asked = revision.rendered_digest.is_none() && annotations::reinstall(self.extension).is_some();
        !asked && revision.holds(rendered, phases)
    }

    pub(crate) fn writer(&self) -> RevisionWriter<'_> {
        RevisionWriter {
            client: self.controller(),
            system_namespace: self.system_namespace,
            extension: self.extension,
            account_uid: self.identity.service_account.as_deref(),
            sets: self.sets,
        }
    }

    pub(crate) fn controller(&self) -> Client {
        self.accounts.controller()
    }
}

/// Whether a revision was made from these inputs and acts as the account, which is one of them.
pub(crate) fn is_made_from(revision: &Revision, inputs: &str, account: &AccountRef) -> bool {
    revision.inputs_digest.as_deref() == Some(inputs) && revision.account.as_ref() == Some(account)
}

/// Digest of the objects in `phases`, as the revision that holds them records it.
pub(crate) fn content_digest(phases: &[Phase]) -> String {
    let digests: Vec<(&str, String)> =
        phases.iter().map(|phase| (phase.name.as_str(), phase_digest(phase))).collect();
    olm_objectset::content_digest(digests.iter().map(|(name, digest)| (*name, digest.as_str())))
}

/// What the bundle itself declares, as properties.
fn declared(rendered: &Rendered) -> Result<Vec<Property>, Cause> {
    let declared = rendered.declared.as_ref().map_err(Cause::terminal)?;
    Ok(declared.iter().filter_map(|one| serde_json::from_value(one.clone()).ok()).collect())
}

/// The oldest versions of Kubernetes that the bundle claims to run on, by its CSV and its properties.
fn lowest_kubernetes(chosen: &Chosen, rendered: &Rendered) -> BTreeSet<String> {
    let own = rendered.declared.as_deref().unwrap_or_default().iter();
    let own = own.filter(|one| one["type"] == KUBERNETES_VERSION).map(|one| &one["value"]);
    let of_catalog = chosen.properties.iter().filter(|p| p.kind == KUBERNETES_VERSION).map(|p| &p.value);
    let versions = own.chain(of_catalog).filter_map(|value| value["version"].as_str()).map(str::to_owned);
    versions.chain(rendered.min_kube_version.clone()).collect()
}
