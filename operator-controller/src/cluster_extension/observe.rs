//! What is known of an extension before anything is decided: its ServiceAccount, its revisions, and what an earlier
//! program left of it.

pub(crate) mod identity;
pub(crate) mod revisions;
pub(crate) mod service_account;
pub(crate) mod takeover;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::v1::ClusterExtension;
use olm_runtime::AccountRef;

use crate::{
    cluster_extension::{
        Context,
        act::{helm_release::Takeover, revision::RevisionWriter},
        annotations,
        plan::kinds,
        report::{Outcome, Report, StepError},
    },
    deletion_policy::extension::ExtensionPolicy,
    facts::platform::Verdict,
    interest::{Interest, Wanted},
};
use identity::Identity;
use revisions::Revisions;

/// An extension that can be worked on.
pub(crate) struct Observed<'a> {
    pub(crate) extension: &'a ClusterExtension,
    /// Whom its revisions act as.
    pub(crate) account: AccountRef,
    /// The UID of that ServiceAccount, once it is known.
    pub(crate) account_uid: Option<String>,
    pub(crate) revisions: Revisions,
    /// What the revisions mean for an update of the platform.
    pub(crate) platform: Option<Verdict>,
    /// When Secrets that still wait for their revision can be removed.
    pub(crate) untidy_until: Option<Timestamp>,
    /// Sentences for `Ready`.
    pub(crate) notes: Vec<String>,
    pub(crate) now: Timestamp,
    /// What causes another reconcile.
    pub(crate) wanted: &'a Wanted,
}

impl Observed<'_> {
    /// The report of a reconcile that has found out no more yet.
    pub(crate) fn report(&self) -> Report {
        Report {
            revisions: Some(self.revisions.clone()),
            platform: self.platform.clone(),
            notes: self.notes.clone(),
            ..Report::default()
        }
    }

    pub(crate) fn writer<'s>(&'s self, cx: &'s Context) -> RevisionWriter<'s> {
        RevisionWriter { cx, extension: self.extension, account_uid: self.account_uid.as_deref() }
    }
}

/// What is known of an extension that may be worked on; takes over what an earlier program left, and binds revisions to
/// the ServiceAccount. `notes` is what is to be said of it already; with `is_tidy` no Secret can have been left without
/// an owner.
///
/// # Errors
/// The report of a reconcile that ends here.
pub(crate) async fn observe<'a>(
    cx: &Context,
    (extension, wanted): (&'a ClusterExtension, &'a Wanted),
    mut notes: Vec<String>,
    is_tidy: bool,
    now: Timestamp,
) -> Result<Observed<'a>, Box<Report>> {
    let default = cx.settings.default_account();
    let named = service_account::account(extension, default.as_ref());
    wanted.add(named.clone().map(Interest::ServiceAccount));
    wanted.add([Interest::Namespace(extension.spec.namespace.clone())]);
    let mut account = service_account::check(extension, &cx.accounts, &cx.settings).await;
    let identity = Identity::check(cx, extension, default.as_ref(), account.is_ok()).await;
    let identity = identity.unwrap_or_else(|error| {
        account = Err(error.after(account.as_ref().err()));
        Identity::default()
    });
    notes.extend(identity::note(extension, default.as_ref()));
    let writer = RevisionWriter { cx, extension, account_uid: identity.service_account.as_deref() };
    // What is installed is reported whatever is wrong with the extension itself.
    let known = async {
        if let Ok(account) = &account {
            let policy = ExtensionPolicy { cx, extension };
            policy.adopt(account).await.map_err(StepError::Revisions)?;
        }
        let revisions = revisions(cx, extension).map_err(StepError::Revisions)?;
        let takeover = Takeover { writer, account: named.as_ref(), now };
        // The events of what was taken over cause the next reconcile.
        Ok((!takeover.run(&revisions).await?).then_some(revisions))
    };
    let revisions = match (known.await, &account) {
        (Ok(Some(revisions)), _) => revisions,
        (Ok(None), _) => {
            return Err(Box::new(Report { notes, outcome: Outcome::Recorded, ..Report::default() }));
        }
        (Err(error), Ok(_)) => {
            return Err(Box::new(Report { notes, outcome: Outcome::Failed(error), ..Report::default() }));
        }
        (Err(error), Err(invalid)) => {
            tracing::warn!(extension = extension.name_any(), %error, "revisions not known");
            let outcome = Outcome::Failed(invalid.clone());
            return Err(Box::new(Report { unread: Some(error), notes, outcome, ..Report::default() }));
        }
    };
    let platform = cx.platform.judge(&extension.name_any(), revisions.platform_properties());
    notes.extend(takeover::foreign_note(cx, extension, &revisions));
    let prepared = async {
        if identity.record(cx.controller(), extension).await? {
            return Ok(None);
        }
        let account = account?;
        writer.bind(&revisions, &account).await.map_err(StepError::Revisions)?;
        let tidied = if is_tidy { Ok(None) } else { writer.tidy_secrets(now).await };
        Ok(Some((account, tidied.map_err(StepError::Revisions)?)))
    };
    let outcome = match prepared.await {
        Ok(Some((account, untidy_until))) => {
            notes.extend(annotations::in_force(extension));
            notes.extend(kinds::notes(&revisions));
            let account_uid = identity.service_account;
            return Ok(Observed {
                extension,
                account,
                account_uid,
                revisions,
                platform,
                untidy_until,
                notes,
                now,
                wanted,
            });
        }
        Ok(None) => Outcome::Recorded,
        Err(error) => Outcome::Failed(error),
    };
    Err(Box::new(Report { revisions: Some(revisions), platform, notes, outcome, ..Report::default() }))
}

/// The record of the ServiceAccount that a new extension uses, where nothing is wrong with it: what is, the reconcile of
/// an extension with finalizers reports.
pub(crate) async fn identity(cx: &Context, extension: &ClusterExtension) -> Option<String> {
    let default = cx.settings.default_account();
    service_account::check(extension, &cx.accounts, &cx.settings).await.ok()?;
    Identity::check(cx, extension, default.as_ref(), true).await.ok()?.to_write
}

/// The extension's revisions.
///
/// # Errors
/// One of them cannot be read.
pub(crate) fn revisions(cx: &Context, extension: &ClusterExtension) -> Result<Revisions, String> {
    let sets = cx.sets_of(extension)?;
    Ok(Revisions::read(sets.into_iter().filter(|set| takeover::is_revision(extension, set))))
}
