//! What an extension's revisions say about it: what is installed, what is rolling out.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use olm_api::{
    ConditionType,
    names::{
        BUNDLE_NAME, BUNDLE_REFERENCE, BUNDLE_RELEASE, BUNDLE_VERSION, CONTENT_DIGEST_ANNOTATION,
        MIGRATED_FROM_HELM_LABEL, PACKAGE_NAME, PROPERTIES_ANNOTATION, RENDERED_DIGEST_ANNOTATION,
        ROLLED_BACK_TO_ANNOTATION, SERVICE_ACCOUNT_NAME_ANNOTATION, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
        WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
    },
    v1::{ClusterObjectSet, LifecycleState, ObservedPhase},
};
use olm_object::names::is_subdomain;
use olm_objectset::Phase;
use olm_render::CertificateProvider;
use olm_runtime::AccountRef;

use crate::{
    cluster_extension::{act::helm_release::observed_phases, report::Cause},
    cluster_object_set::report::{has_succeeded, status::torn_down},
};

/// A bundle as a revision records it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BundleRecord {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) release: Option<String>,
    pub(crate) reference: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Revision {
    /// As last seen.
    pub(crate) set: Arc<ClusterObjectSet>,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) number: i64,
    pub(crate) bundle: BundleRecord,
    /// Whom it acts as, when that is recorded; upstream's do not.
    pub(crate) account: Option<AccountRef>,
}

impl Revision {
    fn new(set: ClusterObjectSet) -> Self {
        let annotation = |key: &str| set.annotations().get(key).cloned();
        Self {
            name: set.name_any(),
            uid: set.uid().unwrap_or_default(),
            number: set.spec.revision,
            bundle: BundleRecord {
                name: annotation(BUNDLE_NAME).unwrap_or_default(),
                package: annotation(PACKAGE_NAME).unwrap_or_default(),
                version: annotation(BUNDLE_VERSION).unwrap_or_default(),
                release: annotation(BUNDLE_RELEASE),
                reference: annotation(BUNDLE_REFERENCE).unwrap_or_default(),
            },
            account: annotation(SERVICE_ACCOUNT_NAME_ANNOTATION)
                .zip(annotation(SERVICE_ACCOUNT_NAMESPACE_ANNOTATION))
                .map(|(name, namespace)| AccountRef { namespace, name }),
            set: Arc::new(set),
        }
    }

    /// The value of an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.set.annotations().get(key).map(String::as_str)
    }

    pub(crate) fn condition(&self, type_: ConditionType) -> Option<&Condition> {
        self.set.status.as_ref()?.conditions.find(type_)
    }

    pub(crate) fn succeeded(&self) -> bool {
        has_succeeded(&self.set)
    }

    fn is_archived(&self) -> bool {
        self.set.spec.lifecycle_state == LifecycleState::Archived
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// Whether nothing is done for it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_deleted() || torn_down(&self.set)
    }

    pub(crate) fn is_active(&self) -> bool {
        !self.is_archived() && !self.is_deleted()
    }

    /// Whether it was made of a Helm release.
    pub(crate) fn is_migrated(&self) -> bool {
        self.set.labels().get(MIGRATED_FROM_HELM_LABEL).is_some_and(|value| value == "true")
    }

    /// Digest of what was rendered for it, and of the reinstallation it was made for, when we made it. Earlier versions
    /// had one annotation for this and the content.
    pub(crate) fn rendered_digest(&self) -> Option<&str> {
        self.annotation(RENDERED_DIGEST_ANNOTATION).or_else(|| self.annotation(CONTENT_DIGEST_ANNOTATION))
    }

    /// Who makes the certificates of its webhooks, when it has any and we made it.
    pub(crate) fn certificate_provider(&self) -> Option<CertificateProvider> {
        self.annotation(WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION).and_then(CertificateProvider::named)
    }

    /// The revision whose objects came back with it, if it was made for that.
    pub(crate) fn rolled_back_to(&self) -> Option<i64> {
        self.annotation(ROLLED_BACK_TO_ANNOTATION)?.parse().ok()
    }

    /// Digests of its phases, once it was carried out.
    pub(crate) fn observed_phases(&self) -> &[ObservedPhase] {
        self.set.status.as_ref().map_or(&[], |status| &status.observed_phases)
    }

    /// Whether its objects are `phases`: by the digest we recorded, or by those upstream recorded.
    pub(crate) fn holds(&self, rendered_digest: &str, phases: &[Phase]) -> bool {
        match self.rendered_digest() {
            Some(recorded) => recorded == rendered_digest,
            None => self.observed_phases() == observed_phases(phases),
        }
    }
}

/// The revisions of one extension, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Revisions(Vec<Revision>);

impl Revisions {
    /// Reads sets that are known to be revisions of one extension.
    pub(crate) fn read(sets: impl Iterator<Item = ClusterObjectSet>) -> Self {
        let mut revisions: Vec<Revision> = sets.map(Revision::new).collect();
        revisions.sort_by_key(|r| r.number);
        Self(revisions)
    }

    /// All of them, archived ones too.
    pub(crate) fn all(&self) -> &[Revision] {
        &self.0
    }

    /// The highest number given so far.
    pub(crate) fn last_number(&self) -> i64 {
        self.0.last().map_or(0, |r| r.number)
    }

    /// The revision that the extension's spec was last turned into, if it is still active.
    pub(crate) fn latest_active(&self) -> Option<&Revision> {
        self.0.last().filter(|r| r.is_active())
    }

    /// The highest active revision that has rolled out.
    pub(crate) fn installed(&self) -> Option<&Revision> {
        self.active().rev().find(|r| r.succeeded())
    }

    /// Whether no active revision has said yet how far it is, as in the first moments of a first one.
    pub(crate) fn are_silent(&self) -> bool {
        let is_silent =
            |r: &Revision| r.set.status.as_ref().is_none_or(|status| status.conditions.is_empty());
        self.active().all(is_silent)
    }

    /// The `olm.properties` of the highest active revision, by which a platform decides about its update.
    pub(crate) fn platform_properties(&self) -> Option<&str> {
        self.active().next_back().and_then(|r| r.annotation(PROPERTIES_ANNOTATION))
    }

    /// Active revisions that have not rolled out yet, in ascending order.
    pub(crate) fn rolling_out(&self) -> Vec<&Revision> {
        self.active().filter(|r| !r.succeeded()).collect()
    }

    /// The revision whose progress is the extension's: the latest that rolls out, else the installed one.
    pub(crate) fn in_progress(&self) -> Option<&Revision> {
        self.rolling_out().last().copied().or_else(|| self.installed())
    }

    /// Archived revisions that are older than the newest `keep` of them.
    pub(crate) fn superfluous(&self, keep: usize) -> Vec<&Revision> {
        let archived: Vec<&Revision> = self.0.iter().filter(|r| r.is_archived() && !r.is_deleted()).collect();
        let surplus = archived.len().saturating_sub(keep);
        archived.into_iter().take(surplus).collect()
    }

    /// Those that are neither archived nor on their way out, in ascending order.
    pub(crate) fn active(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        self.0.iter().filter(|r| r.is_active())
    }
}

/// The annotations that say whom a revision acts as.
pub(crate) fn account_annotations(account: &AccountRef) -> [(&'static str, &str); 2] {
    [
        (SERVICE_ACCOUNT_NAME_ANNOTATION, &account.name),
        (SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, &account.namespace),
    ]
}

impl BundleRecord {
    /// Refuses a name that no status can hold: the bundle would be installed and never reported.
    ///
    /// # Errors
    /// The name is no DNS1123 subdomain.
    pub(crate) fn check_name(&self) -> Result<(), Cause> {
        if is_subdomain(&self.name) {
            return Ok(());
        }
        Err(Cause::terminal(
            "the name of the bundle is not a valid DNS1123 subdomain, as status.install.bundle.name has to be: give the bundle another name in its catalog",
        ))
    }

    /// The version as shown to people, the release included.
    pub(crate) fn display_version(&self) -> String {
        match self.release.as_deref() {
            Some(release) if !release.is_empty() => format!("{}+{release}", self.version),
            _ => self.version.clone(),
        }
    }

    /// The annotations under which a revision records its bundle.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let fixed = [
            (BUNDLE_NAME, &self.name),
            (PACKAGE_NAME, &self.package),
            (BUNDLE_VERSION, &self.version),
            (BUNDLE_REFERENCE, &self.reference),
        ];
        let release = self.release.as_ref().map(|release| (BUNDLE_RELEASE, release));
        fixed.into_iter().chain(release).map(|(key, value)| (key.to_owned(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use olm_api::{
        ConditionStatus, ConditionUpdate, Reason,
        v1::{ClusterObjectSetSpec, ClusterObjectSetStatus},
    };

    use super::*;
    use crate::cluster_extension::report::CauseKind;

    fn set(number: i64, lifecycle_state: LifecycleState, succeeded: bool) -> ClusterObjectSet {
        let spec = ClusterObjectSetSpec { revision: number, lifecycle_state, ..Default::default() };
        let mut set = ClusterObjectSet::new(&format!("ext-{number}"), spec);
        if succeeded {
            let mut status = ClusterObjectSetStatus::default();
            let update = ConditionUpdate::new(
                ConditionType::Succeeded,
                ConditionStatus::True,
                Reason::Succeeded,
                "Revision succeeded rolling out.",
                None,
            );
            status.conditions.set(update, Timestamp::UNIX_EPOCH);
            set.status = Some(status);
        }
        set
    }

    #[test]
    fn the_highest_revision_that_rolled_out_is_installed() {
        use LifecycleState::{Active, Archived};
        let sets = [set(3, Active, false), set(1, Archived, true), set(2, Active, true)];
        let revisions = Revisions::read(sets.iter().cloned());
        assert_eq!(revisions.installed().unwrap().number, 2);
        assert_eq!(revisions.rolling_out().iter().map(|r| r.number).collect::<Vec<_>>(), [3]);
        assert_eq!(revisions.latest_active().unwrap().number, 3);
        assert_eq!(revisions.last_number(), 3);
    }

    #[test]
    fn only_first_revisions_are_silent() {
        use LifecycleState::{Active, Archived};
        let are_silent = |sets: &[ClusterObjectSet]| Revisions::read(sets.iter().cloned()).are_silent();
        assert!(are_silent(&[]) && are_silent(&[set(1, Active, false)]));
        assert!(are_silent(&[set(1, Archived, true), set(2, Active, false)]));
        assert!(!are_silent(&[set(1, Active, true)]));
        assert!(!are_silent(&[set(1, Active, true), set(2, Active, false)]));
    }

    #[test]
    fn a_latest_revision_archived_by_hand_is_not_continued() {
        let sets = [set(1, LifecycleState::Active, true), set(2, LifecycleState::Archived, false)];
        let revisions = Revisions::read(sets.iter().cloned());
        assert!(revisions.latest_active().is_none());
        assert_eq!(revisions.last_number(), 2);
    }

    #[test]
    fn only_the_newest_archived_revisions_are_kept() {
        let sets: Vec<_> = (1..=8).map(|n| set(n, LifecycleState::Archived, true)).collect();
        let names: Vec<_> =
            Revisions::read(sets.iter().cloned()).superfluous(5).iter().map(|r| r.number).collect();
        assert_eq!(names, [1, 2, 3]);
    }

    #[test]
    fn a_revision_of_the_original_is_known_by_the_digests_it_observed() {
        let phase = |text: &str| Phase {
            name: "deploy".into(),
            objects: vec![serde_json::json!({"kind": "A", "spec": text})],
        };
        let mut set = set(1, LifecycleState::Active, true);
        let observed = observed_phases(&[phase("<a>")]);
        set.status.as_mut().unwrap().observed_phases = observed;
        let holds = |set: &ClusterObjectSet, phases: &[Phase]| {
            Revisions::read(std::iter::once(set.clone())).all()[0].holds("sha256:ours", phases)
        };
        assert!(holds(&set, &[phase("<a>")]));
        assert!(!holds(&set, &[phase("b")]));
        assert!(!holds(&set, &[]));
        // A digest of ours counts alone; earlier versions had it under another name.
        for name in [RENDERED_DIGEST_ANNOTATION, CONTENT_DIGEST_ANNOTATION] {
            let mut set = set.clone();
            set.annotations_mut().insert(name.to_owned(), "sha256:ours".to_owned());
            assert!(holds(&set, &[phase("b")]));
        }
        let both = [(RENDERED_DIGEST_ANNOTATION, "sha256:r"), (CONTENT_DIGEST_ANNOTATION, "sha256:ours")];
        set.annotations_mut().extend(both.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert!(!holds(&set, &[phase("b")]));
    }

    #[test]
    fn a_name_that_no_status_can_hold_is_refused() {
        let named = |name: &str| BundleRecord {
            name: name.to_owned(),
            package: "p".to_owned(),
            version: "1.0.0".to_owned(),
            release: None,
            reference: "r".to_owned(),
        };
        for name in ["a", "a.v1.0.0", "a-b.v1.0.0-2", "0.1", &"a".repeat(253)] {
            assert_eq!(named(name).check_name(), Ok(()), "{name}");
        }
        for name in
            ["", "A.v1.0.0", "a.v1.0.0+2", "a_b", "a..b", ".a", "a.", "-a", "a-.b", "ü", &"a".repeat(254)]
        {
            assert!(named(name).check_name().is_err_and(|e| e.kind == CauseKind::Terminal), "{name}");
        }
    }
}
