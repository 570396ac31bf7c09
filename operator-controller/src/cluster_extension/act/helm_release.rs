//! Takes over what upstream installed before this program.
//!
//! Revisions of its newer runtime are revisions like ours, but for the mark ([`super::marking`]) and the account they
//! act as. What its Helm
//! runtime deployed becomes revision 1, which counts as installed from its first moment. Releases are only
//! read; they are owned by the extension and go with it.
//!
//! A Secret that looks like a release proves nothing, since any user who may create Secrets can write one. So the
//! extension's status must say that upstream has installed this bundle.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, ResourceExt, api::ListParams, core::PartialObjectMeta};
use olm_api::{
    ConditionStatus, ConditionType, ConditionWriter, Reason,
    names::{
        BUNDLE_NAME, BUNDLE_REFERENCE, BUNDLE_RELEASE, BUNDLE_VERSION, IDENTITY_ANNOTATION, PACKAGE_NAME,
        PROGRAM_FIELD_MANAGER,
    },
    v1::{BundleMetadata, ClusterExtension, ClusterObjectSet, ObservedPhase},
};
use olm_objectset::{Phase, Release, limits::RELEASE_CHUNKS_MAX, phase_digest};
use olm_runtime::{AccountRef, api_text, bounded, post_as};
use serde_json::json;

use crate::cluster_extension::act::revision::{NewRevision, RevisionWriter};
use crate::cluster_extension::decide::prepared;
use crate::cluster_extension::observe::revisions::{BundleRecord, Revision, Revisions};
use crate::cluster_extension::plan::Draft;
use crate::cluster_extension::report::StepError;
use crate::{
    cluster_object_set::content::{self, ContentError},
    facts::policies::Enforcement,
};

/// Type of the Secret that a release begins in.
const INDEX_TYPE: &str = "operatorframework.io/index.v1";
/// Type of the Secrets that it goes on in.
const CHUNK_TYPE: &str = "operatorframework.io/chunk.v1";
/// Its status while it is what runs; there are also earlier, failed and unfinished ones.
const DEPLOYED: &str = "deployed";
/// What the condition `Succeeded` of a revision says that was made of a release.
const MIGRATED: &str = "Revision succeeded - migrated from Helm release";
/// Attempts at a status that others write too.
const STATUS_ATTEMPTS: usize = 5;

/// Takes over what upstream left of one extension.
pub(crate) struct Takeover<'a> {
    pub(crate) writer: RevisionWriter<'a>,
    /// Whom the revisions shall act as, if that is known.
    pub(crate) account: Option<&'a AccountRef>,
    pub(crate) now: Timestamp,
}

/// A release and the Secret it was found in.
struct Found {
    secret: String,
    release: Release,
}

impl Takeover<'_> {
    /// Takes over what there is; `true` when something was written, so that `revisions` are to be read anew.
    ///
    /// # Errors
    /// A release cannot be used, or a request failed. Nothing that is installed was touched.
    pub(crate) async fn run(&self, revisions: &Revisions) -> Result<bool, StepError> {
        if revisions.all().is_empty() {
            let Some(installed) = installed_by_upstream(self.writer.extension) else { return Ok(false) };
            let Some(found) = self.deployed_release().await? else { return Ok(false) };
            self.migrate(found, installed).await?;
            return Ok(true);
        }
        let mut written = false;
        for revision in revisions.all().iter().filter(|r| !r.is_over()) {
            if revision.is_migrated() && revision.is_active() && !revision.succeeded() {
                // A crash came between its creation and this.
                let observed = self.observed_again(&revision.name).await?;
                self.succeed(&revision.name, &observed).await?;
                written = true;
            }
            if let Some(account) = self.account.filter(|_| revision.account.is_none()) {
                match self.writer.cx.guard.enforcement() {
                    Enforcement::InForce => self.give_account(revision, account).await?,
                    Enforcement::Unknown => return Err(transient(Enforcement::UNKNOWN.to_owned())),
                    // The next revision names it.
                    Enforcement::Broken => continue,
                }
                written = true;
            }
        }
        Ok(written)
    }

    /// Makes revision 1 of a release.
    async fn migrate(&self, found: Found, installed: &BundleMetadata) -> Result<(), StepError> {
        let Found { secret, release } = found;
        let refused = |what: &str| self.refused(&secret, what);
        let extension = self.writer.extension;
        if release.name != extension.name_any() || release.namespace != extension.spec.namespace {
            return Err(refused("it is the release of another extension"));
        }
        let label = |key: &str| release.labels.get(key).filter(|value| !value.is_empty()).cloned();
        let needed = |key: &str| label(key).ok_or_else(|| format!("it has no label {key}"));
        let bundle = BundleRecord {
            name: needed(BUNDLE_NAME).map_err(|what| refused(&what))?,
            package: needed(PACKAGE_NAME).map_err(|what| refused(&what))?,
            version: needed(BUNDLE_VERSION).map_err(|what| refused(&what))?,
            release: release.labels.get(BUNDLE_RELEASE).cloned(),
            reference: label(BUNDLE_REFERENCE).unwrap_or_default(),
        };
        if !is_of(&bundle, installed) {
            return Err(refused(&format!(
                "it is of bundle {:?} with version {:?}, and status.install of the extension names {:?} with version {:?}",
                bundle.name, bundle.version, installed.name, installed.version
            )));
        }
        let phases = prepared(&release.name, &bundle, release.objects.into_iter());
        let phases = phases.map_err(|e| refused(&e.to_string()))?;
        let number = self.writer.next_number(&Revisions::default()).map_err(transient)?;
        let draft = Draft { bundle, phases, ..Draft::default() };
        let new = NewRevision { number, draft: &draft, account: self.account, planned: None };
        let name = self.writer.create(&new, &Revisions::default()).await.map_err(transient)?;
        tracing::info!(extension = extension.name_any(), secret, revision = name, "Helm release taken over");
        self.succeed(&name, &observed_phases(&draft.phases)).await
    }

    /// The digests of a release that was taken over already: without them the revision would not be known to hold what
    /// is wanted. They are those of the revision's own content; where it cannot be used there are none, and its own
    /// controller says why.
    async fn observed_again(&self, name: &str) -> Result<Vec<ObservedPhase>, StepError> {
        let sets: Api<ClusterObjectSet> = Api::all(self.writer.cx.controller());
        let set = bounded(sets.get(name)).await.map_err(|e| transient(api_text(&e)))?;
        match content::load(&set, &self.writer.cx.contents, None).await {
            Ok(phases) => Ok(content::digests(&phases)),
            Err(error @ ContentError::Missing { .. }) => Err(transient(error.to_string())),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Lets a revision count as installed.
    async fn succeed(&self, name: &str, observed: &[ObservedPhase]) -> Result<(), StepError> {
        let sets: Api<ClusterObjectSet> = Api::all(self.writer.cx.controller());
        let params = post_as(PROGRAM_FIELD_MANAGER);
        let mut attempt = 1;
        loop {
            let mut set = bounded(sets.get(name)).await.map_err(|e| transient(api_text(&e)))?;
            let mut status = set.status.take().unwrap_or_default();
            if status.conditions.is_true(ConditionType::Succeeded) {
                return Ok(());
            }
            let (conditions, generation) = (&mut status.conditions, set.metadata.generation);
            let mut writer = ConditionWriter { conditions, generation, now: self.now };
            writer.put(ConditionType::Succeeded, ConditionStatus::True, Reason::Succeeded, MIGRATED);
            if status.observed_phases.is_empty() {
                status.observed_phases = observed.to_vec();
            }
            set.status = Some(status);
            match bounded(sets.replace_status(name, &params, &set)).await {
                Ok(written) => {
                    self.writer.cx.wrote_set(self.writer.extension, &written.metadata);
                    return Ok(());
                }
                // The revision's own controller writes as well.
                Err(kube::Error::Api(status)) if status.is_conflict() && attempt < STATUS_ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(transient(api_text(&error))),
            }
        }
    }

    /// Records whom a revision acts as; upstream's act as the program.
    async fn give_account(&self, revision: &Revision, account: &AccountRef) -> Result<(), StepError> {
        let annotations = self.writer.acting_as(account);
        let patch = json!({"metadata": {"uid": revision.uid, "annotations": annotations}});
        let patched = self.writer.cx.patch_set(self.writer.extension, &revision.name, patch).await;
        patched.map(drop).map_err(|e| transient(api_text(&e)))
    }

    /// The release of the extension that is deployed. Upstream marks one as deployed: of two, one is not upstream's.
    async fn deployed_release(&self) -> Result<Option<Found>, StepError> {
        let extension = self.writer.extension;
        let labels = format!("name={},owner=operator-controller,type=index", extension.name_any());
        let params = ListParams::default().labels(&labels).fields(&format!("type={INDEX_TYPE}"));
        let listed = bounded(self.secrets().list_metadata(&params)).await;
        let listed = listed.map_err(|e| transient(format!("listing Helm releases: {}", api_text(&e))))?;
        let uid = extension.uid().unwrap_or_default();
        let label = |secret: &PartialObjectMeta<Secret>, key: &str| secret.labels().get(key).cloned();
        let deployed: Vec<String> = listed
            .items
            .iter()
            .filter(|secret| is_controlled(secret.owner_references(), &uid))
            .filter(|secret| label(secret, "status").as_deref() == Some(DEPLOYED))
            .map(ResourceExt::name_any)
            .collect();
        match deployed.as_slice() {
            [] => Ok(None),
            [name] => self.read(name.clone()).await.map(Some),
            several => Err(StepError::Takeover {
                text: format!(
                    "cannot take over a Helm release: Secrets {} in namespace {} all claim to be the deployed one, but there can only be one: delete those that upstream did not write",
                    several.join(", "),
                    self.writer.cx.system_namespace
                ),
                terminal: true,
            }),
        }
    }

    async fn read(&self, name: String) -> Result<Found, StepError> {
        let refused = |what: &str| self.refused(&name, what);
        let index = self.get(&name, &name, INDEX_TYPE).await?;
        let data = index.data.unwrap_or_default();
        let mut bytes = data.get("chunk").ok_or_else(|| refused("it has no key \"chunk\""))?.0.clone();
        let more: Vec<String> = match data.get("extraChunks") {
            Some(list) => serde_json::from_slice(&list.0)
                .map_err(|_| refused("its key \"extraChunks\" is not a list of names"))?,
            None => Vec::new(),
        };
        if more.len() >= RELEASE_CHUNKS_MAX {
            return Err(refused(&format!("it has more than {RELEASE_CHUNKS_MAX} chunks")));
        }
        let uid = index.metadata.uid.unwrap_or_default();
        for chunk in more {
            let secret = self.get(&name, &chunk, CHUNK_TYPE).await?;
            if !is_controlled(secret.owner_references(), &uid) {
                return Err(refused(&format!("its chunk {chunk:?} belongs to something else")));
            }
            let part = secret.data.unwrap_or_default().remove("chunk");
            bytes.extend(part.ok_or_else(|| refused(&format!("its chunk {chunk:?} is empty")))?.0);
        }
        // Several of these at once would stand in the way of everything else.
        let decoded = tokio::task::spawn_blocking(move || Release::decode(&bytes)).await;
        let decoded = decoded.map_err(|e| transient(format!("reading a Helm release: {e}")))?;
        let release = decoded.map_err(|e| refused(&e.to_string()))?;
        Ok(Found { secret: name, release })
    }

    async fn get(&self, release: &str, name: &str, wanted: &str) -> Result<Secret, StepError> {
        let found = bounded(self.secrets().get_opt(name)).await.map_err(|e| transient(api_text(&e)))?;
        let secret = found.ok_or_else(|| self.refused(release, &format!("Secret {name:?} is missing")))?;
        if secret.type_.as_deref() != Some(wanted) {
            return Err(self.refused(release, &format!("Secret {name:?} is not of type {wanted}")));
        }
        Ok(secret)
    }

    fn refused(&self, secret: &str, what: &str) -> StepError {
        StepError::Takeover {
            text: format!(
                "cannot take over the Helm release in Secret {}/{secret}: {what}: restore it from a backup, or delete this Secret to roll out the bundle that the spec asks for over what is installed",
                self.writer.cx.system_namespace
            ),
            terminal: true,
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.writer.cx.controller(), &self.writer.cx.system_namespace)
    }
}

/// The bundle that upstream says it has installed by Helm: only who may write statuses can say so, and upstream's other
/// runtime names its revisions beside it, as this program does. An extension that this program has worked on before is
/// nothing to take over, whatever appears later.
fn installed_by_upstream(extension: &ClusterExtension) -> Option<&BundleMetadata> {
    let status = extension.status.as_ref()?;
    let is_ours = extension.annotations().contains_key(IDENTITY_ANNOTATION);
    let installed = status.install.as_ref().map(|install| &install.bundle);
    installed.filter(|_| !is_ours && status.active_revisions.is_empty())
}

/// Whether the bundle is the one that a status names. The release is newer than the rest of both.
fn is_of(bundle: &BundleRecord, installed: &BundleMetadata) -> bool {
    let release = bundle.release.as_ref().zip(installed.release.as_ref());
    bundle.name == installed.name
        && bundle.version == installed.version
        && release.is_none_or(|(ours, theirs)| ours == theirs)
}

/// The digests that a revision of these phases records.
pub(crate) fn observed_phases(phases: &[Phase]) -> Vec<ObservedPhase> {
    let digest = |phase: &Phase| ObservedPhase {
        name: phase.name.clone(),
        digest: phase_digest(&phase.name, &phase.objects),
    };
    phases.iter().map(digest).collect()
}

fn is_controlled(owners: &[OwnerReference], uid: &str) -> bool {
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn transient(text: String) -> StepError {
    StepError::Takeover { text, terminal: false }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn extension(annotations: &Value, status: &Value) -> ClusterExtension {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "annotations": annotations},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_what_upstream_installed_by_helm_is_taken_over() {
        let is_upstreams = |annotations: &Value, status: &Value| {
            installed_by_upstream(&extension(annotations, status)).is_some()
        };
        let install = json!({"bundle": {"name": "p.v1.0.0", "version": "1.0.0"}});
        let (none, installed) = (json!({}), json!({"install": install}));
        assert!(is_upstreams(&none, &installed));
        // Nothing is installed, or nothing is known yet.
        assert!(!is_upstreams(&none, &none));
        assert!(!is_upstreams(&none, &Value::Null));
        // It came as a revision.
        assert!(!is_upstreams(&none, &json!({"install": install, "activeRevisions": [{"name": "e-1"}]})));
        // This program has worked on it.
        assert!(!is_upstreams(&json!({IDENTITY_ANNOTATION: "any"}), &installed));
    }

    #[test]
    fn a_release_is_that_of_the_bundle_in_the_status() {
        let bundle = |name: &str, version: &str, release: Option<&str>| BundleRecord {
            name: name.into(),
            version: version.into(),
            release: release.map(str::to_owned),
            ..BundleRecord::default()
        };
        let status = |release: Option<&str>| BundleMetadata {
            name: "p.v1.0.0".into(),
            version: "1.0.0".into(),
            release: release.map(str::to_owned),
        };
        assert!(is_of(&bundle("p.v1.0.0", "1.0.0", None), &status(None)));
        assert!(is_of(&bundle("p.v1.0.0", "1.0.0", Some("1")), &status(None)));
        assert!(is_of(&bundle("p.v1.0.0", "1.0.0", Some("1")), &status(Some("1"))));
        assert!(!is_of(&bundle("p.v1.0.0", "1.0.0", Some("1")), &status(Some("2"))));
        assert!(!is_of(&bundle("p.v1.0.0", "1.0.1", None), &status(None)));
        assert!(!is_of(&bundle("q.v1.0.0", "1.0.0", None), &status(None)));
    }
}
