//! From the report of a reconcile to the status of a ClusterExtension.
//!
//! The conditions that upstream has carry its texts and nothing else; `Ready`, `Reconciling` and
//! `Stalled` are ours, in the meaning GitOps tools give them.

use std::{borrow::Cow, sync::LazyLock};

use jiff::Timestamp;
use olm_api::{
    Activity,
    ConditionStatus::{False, True, Unknown},
    ConditionType::{
        self, Available, BundleDeprecated, ChannelDeprecated, Deprecated, Installed, PackageDeprecated,
        Progressing, Ready, Stalled, UpdateAvailable, Upgradeable,
    },
    ConditionWriter, Conditions, Reason,
    v1::{
        BundleMetadata, ClusterExtension, ClusterExtensionInstallStatus, ClusterExtensionStatus,
        RevisionStatus,
    },
    with_remedy,
};
use olm_resolve::{AvailableUpdate, DeprecationReason, DeprecationStatus};
use olm_runtime::PANIC_REPORT;
use olm_text::one_line;
use regex::Regex;

use crate::{
    cluster_extension::{
        decide::hold::Pending,
        observe::revisions::{BundleRecord, Revision, Revisions},
        report::{Cause, CauseKind, Created, Report, StepError},
    },
    conditions::brief,
    facts::platform::Verdict,
};

/// The status after a reconcile. Conditions that the report does not concern stay as they are.
pub(crate) fn status(
    extension: &ClusterExtension,
    report: &Report,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let mut status = extension.status.clone().unwrap_or_default();
    let generation = extension.metadata.generation;
    let mut writer = ConditionWriter { conditions: &mut status.conditions, generation, now };
    match (report.revisions.as_ref(), report.error()) {
        // Nothing was learned of what is installed: it stays as it was reported.
        (None, Some(error @ StepError::Validation { .. })) if writer.conditions.is_true(Installed) => {
            failure(&mut writer, error);
        }
        // What is installed stays installed, whichever ServiceAccount may work on it.
        (revisions, Some(error @ StepError::Validation { .. }))
            if revisions.is_none_or(|r| r.installed().is_none()) =>
        {
            writer.put(Installed, Unknown, Reason::Failed, &error.to_string());
            failure(&mut writer, error);
        }
        (None, Some(error @ StepError::Takeover { .. })) => failure(&mut writer, error),
        (None, Some(error)) => {
            writer.put(Installed, Unknown, Reason::Failed, &error.to_string());
            writer.put(Progressing, True, Reason::Retrying, "retrying to get installed bundle");
            status.install = None;
        }
        (None, None) => {}
        (Some(revisions), error) => {
            // Nothing has failed while the first bundle is pulled, which is what the reason would say.
            if report.pulling().is_none() || writer.conditions.find(Installed).is_some() {
                installed(&mut writer, revisions, report.created().is_some());
            }
            platform(&mut writer, report.platform.as_ref());
            if let Some(found) = &report.deprecations {
                deprecations(&mut writer, found);
            }
            update(&mut writer, revisions, report.update.as_ref());
            // Of a first installation that is held there is no progress to report.
            if report.pending().is_some()
                && revisions.latest_active().is_none()
                && revisions.installed().is_none()
            {
                writer.conditions.remove(Progressing);
            }
            match error {
                // `Progressing` stays as it is until there is something to report of the bundle that is pulled.
                None if report.pulling().is_some() => available(&mut writer, revisions),
                None => mirrored(&mut writer, revisions, report.created().map(|created| &created.bundle)),
                Some(error) => {
                    // What is installed goes on being watched whatever else fails.
                    available(&mut writer, revisions);
                    failure(&mut writer, error);
                }
            }
            status.install =
                revisions.installed().map(|r| ClusterExtensionInstallStatus { bundle: metadata(&r.bundle) });
            if error.is_none() {
                status.active_revisions = active_revisions(revisions, report.created());
            }
        }
    }
    summary(&mut writer, report);
    report.policy.set_condition(&mut status.conditions, generation, now);
    report.guard.set_condition(&mut status.conditions, generation, now);
    status
}

/// The status after a reconcile that panicked: what was known stays as it is.
pub(crate) fn panicked(extension: &ClusterExtension, now: Timestamp) -> ClusterExtensionStatus {
    let mut status = extension.status.clone().unwrap_or_default();
    let generation = extension.metadata.generation;
    let mut writer = ConditionWriter { conditions: &mut status.conditions, generation, now };
    writer.put(Progressing, True, Reason::Retrying, PANIC_REPORT);
    summary(&mut writer, &Report::default());
    status
}

fn failure(writer: &mut ConditionWriter<'_>, error: &StepError) {
    let text = error.to_string();
    let text = without_connections(&text);
    match error {
        StepError::Bundle { cause: Cause { kind: CauseKind::InvalidConfiguration, .. }, .. } => {
            writer.put(Progressing, False, Reason::InvalidConfiguration, &text);
        }
        _ if error.is_terminal() => writer.put(Progressing, False, Reason::Blocked, &text),
        _ => writer.put(Progressing, True, Reason::Retrying, &text),
    }
}

fn installed(writer: &mut ConditionWriter<'_>, revisions: &Revisions, has_begun: bool) {
    if let Some(revision) = revisions.installed() {
        let message = format!("Installed bundle {} successfully", revision.bundle.reference);
        writer.put(Installed, True, Reason::Succeeded, &message);
        return;
    }
    let is_rolling_out = |latest: &&Revision| {
        latest.condition(Progressing).is_none_or(|c| c.reason != Reason::Retrying.as_str())
    };
    let healthy = has_begun || revisions.rolling_out().last().is_some_and(is_rolling_out);
    let reason = if healthy { Reason::Absent } else { Reason::Failed };
    writer.put(Installed, False, reason, "No bundle installed");
}

/// Copies what the installed revision says of its objects.
fn available(writer: &mut ConditionWriter<'_>, revisions: &Revisions) {
    if let Some(condition) = revisions.installed().and_then(|r| r.condition(Available)) {
        writer.conditions.mirror(condition, writer.generation, writer.now);
    }
}

/// Copies what the revisions say about themselves.
fn mirrored(writer: &mut ConditionWriter<'_>, revisions: &Revisions, created: Option<&BundleRecord>) {
    available(writer, revisions);
    let mut mirror = |revision: &Revision, type_: ConditionType| {
        revision.condition(type_).is_some_and(|condition| {
            writer.conditions.mirror(condition, writer.generation, writer.now);
            true
        })
    };
    // What was taken over from a Helm release counts as installed before its revision has been carried out once;
    // what upstream reported of its progress is not about that.
    let unreported = revisions.installed().filter(|installed| !mirror(installed, Progressing));
    let rolling = revisions.rolling_out();
    let is_reported = rolling.last().is_some_and(|latest| mirror(latest, Progressing));
    let waiting = rolling.last().copied().or(unreported).map(|latest| &latest.bundle).or(created);
    if let Some(bundle) = waiting
        && (!is_reported || created.is_some())
    {
        let message = format!("Revision {} is rolling out.", bundle.version);
        writer.put(Progressing, True, Reason::RollingOut, &message);
    }
}

fn deprecations(writer: &mut ConditionWriter<'_>, found: &DeprecationStatus) {
    let conditions = [
        (Deprecated, &found.deprecated),
        (PackageDeprecated, &found.package),
        (ChannelDeprecated, &found.channel),
        (BundleDeprecated, &found.bundle),
    ];
    for (type_, condition) in conditions {
        let (status, reason) = match condition.reason {
            DeprecationReason::Deprecated => (True, Reason::Deprecated),
            DeprecationReason::NotDeprecated => (False, Reason::NotDeprecated),
            DeprecationReason::DeprecationStatusUnknown => (Unknown, Reason::DeprecationStatusUnknown),
            DeprecationReason::Absent => (Unknown, Reason::Absent),
        };
        writer.put(type_, status, reason, &condition.message);
    }
}

/// Whether there is a newer version than the installed one. What the catalogs were not asked stays as it was.
fn update(writer: &mut ConditionWriter<'_>, revisions: &Revisions, found: Option<&AvailableUpdate>) {
    if revisions.installed().is_none() {
        writer.conditions.remove(UpdateAvailable);
        return;
    }
    // The message is a column of `kubectl get`.
    match found {
        None => {}
        Some(AvailableUpdate::Newer(version)) => {
            writer.put(UpdateAvailable, True, Reason::NewerVersion, &one_line(version));
        }
        Some(AvailableUpdate::Newest) => writer.put(UpdateAvailable, False, Reason::NewestVersion, ""),
        Some(AvailableUpdate::Unknown) => {
            writer.put(UpdateAvailable, Unknown, Reason::Unavailable, "unknown");
        }
    }
}

/// Whether the platform may be updated; nothing where the bundle or the cluster says nothing about it. What is not
/// known stays as it was.
fn platform(writer: &mut ConditionWriter<'_>, verdict: Option<&Verdict>) {
    let Some(verdict) = verdict else { return };
    let (status, reason) = match verdict {
        Verdict::NoLimit => {
            writer.conditions.remove(Upgradeable);
            return;
        }
        Verdict::Compatible { .. } => (True, Reason::CompatibleWithNextPlatformVersion),
        Verdict::Incompatible { .. } => (False, Reason::IncompatibleWithNextPlatformVersion),
        Verdict::Invalid(_) => (False, Reason::InvalidPlatformVersion),
    };
    writer.put(Upgradeable, status, reason, &verdict.to_string());
}

/// Sums up for GitOps tools.
fn summary(writer: &mut ConditionWriter<'_>, report: &Report) {
    let complaint = report.unguarded.as_deref().into_iter();
    let notes = report.notes.iter().map(|note| one_line(note));
    if let Some(pulling) = report.pulling() {
        // Upstream's conditions have no words for a pull and stay as they are.
        let notes = report.notes.iter().map(String::as_str);
        let message = complaint.chain([pulling]).chain(notes).collect::<Vec<_>>().join("\n");
        let activity = Activity::Reconciling(Reason::Reconciling, pulling);
        return writer.summarize(false, Reason::Reconciling, &message, activity);
    }
    let Some(progressing) = writer.conditions.find(Progressing).cloned() else {
        return report.pending().map_or((), |pending| nothing_yet(writer, report, pending));
    };
    let (waiting, remedies) = report
        .pending()
        .map_or((None, &[][..]), |pending| (Some(pending.sentence.as_str()), &pending.notes[..]));
    let (error, waits) = (report.error(), report.away());
    let reason = Reason::named(&progressing.reason).unwrap_or(Reason::Retrying);
    let rolled_out = progressing.status == True.as_str() && reason == Reason::Succeeded;
    let done = rolled_out && waits.is_none();
    let reason = if rolled_out && waits.is_some() { Reason::Retrying } else { reason };
    let available = writer.conditions.find(Available).cloned();
    let sick = available.filter(|available| done && available.status != True.as_str());
    let of_sick = sick.as_ref().map(|available| available.message.as_str());
    // The revision's own summary begins with its progress, and has more to say.
    let brief = brief(&progressing.message);
    let progress = own_summary(report).or(of_sick.is_none().then_some(&*brief));
    let explained = error.and_then(StepError::explanation).map(|remedy| with_remedy(&brief, remedy));
    // The first line is a column of `kubectl get`: it has what a person has to know.
    let lines: Vec<&str> = match &error {
        Some(_) => explained.as_deref().or(progress).into_iter().chain(complaint).collect(),
        None => waiting.into_iter().chain(complaint).chain(waits).chain(of_sick).chain(progress).collect(),
    };
    let remedies = remedies.iter().map(|remedy| Cow::Borrowed(remedy.as_str()));
    let message =
        lines.into_iter().map(Cow::Borrowed).chain(remedies).chain(notes).collect::<Vec<_>>().join("\n");
    let is_installed = writer.conditions.is_true(Installed);
    let is_ready = done && sick.is_none() && is_installed && report.unguarded.is_none();
    let explained = match error {
        Some(error) if error.recovers() => None,
        Some(_) => explained,
        None if done => None,
        None => stuck(report),
    };
    let activity = match &explained {
        explained if progressing.status == False.as_str() => {
            Activity::Stalled(reason, explained.as_deref().unwrap_or(&brief))
        }
        // It is tried again all the same, but nothing comes of it before a person acts.
        Some(explained) => Activity::Stalled(Reason::Blocked, explained),
        None if done => Activity::None,
        None => Activity::Reconciling(reason, waits.unwrap_or(&brief)),
    };
    let ready_reason = match (&sick, activity) {
        (Some(available), _) => Reason::named(&available.reason).unwrap_or(Reason::Retrying),
        (None, _) if done && report.unguarded.is_some() => Reason::Unguarded,
        // Alerts tell by it what does not continue by itself.
        (None, Activity::Stalled(reason, _)) => reason,
        (None, _) => reason,
    };
    // What is installed is as it should be, and something else waits.
    let activity = match (activity, report.pending()) {
        (Activity::None, Some(pending)) => held(pending),
        (activity, _) => activity,
    };
    writer.summarize(is_ready, ready_reason, &message, activity);
}

/// Sums up where the first installation waits.
fn nothing_yet(writer: &mut ConditionWriter<'_>, report: &Report, pending: &Pending) {
    let notes = pending.notes.iter().chain(&report.notes).map(String::as_str);
    let message = [pending.sentence.as_str()].into_iter().chain(report.unguarded.as_deref()).chain(notes);
    let message = message.collect::<Vec<_>>().join("\n");
    writer.summarize(false, Reason::Waiting, &message, held(pending));
}

/// What a change that waits means for those who wait with it.
fn held(pending: &Pending) -> Activity<'_> {
    match pending.stalled {
        Some(reason) => Activity::Stalled(reason, &pending.sentence),
        None => Activity::Reconciling(Reason::Waiting, &pending.sentence),
    }
}

/// What the latest revision cannot go on without, as it says itself.
fn stuck(report: &Report) -> Option<String> {
    let latest = report.revisions.as_ref()?.latest_active()?;
    latest.condition(Stalled).map(|stalled| stalled.message.clone())
}

/// The summary of the revision whose progress is the extension's.
fn own_summary(report: &Report) -> Option<&str> {
    let is_mirrored = report.error().is_none() && report.created().is_none();
    let revision = report.revisions.as_ref().filter(|_| is_mirrored)?.in_progress()?;
    revision.condition(Ready).map(|ready| ready.message.as_str())
}

fn metadata(bundle: &BundleRecord) -> BundleMetadata {
    BundleMetadata {
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        release: bundle.release.clone(),
    }
}

/// The installed revision by name, then those that roll out with their conditions, the one just made last.
fn active_revisions(revisions: &Revisions, created: Option<&Created>) -> Vec<RevisionStatus> {
    let installed = revisions
        .installed()
        .map(|r| RevisionStatus { name: r.name.clone(), conditions: Conditions::default() });
    let rolling = revisions.rolling_out().into_iter().map(|r| {
        let conditions: Vec<_> =
            [Available, Progressing].into_iter().filter_map(|t| r.condition(t).cloned()).collect();
        RevisionStatus { name: r.name.clone(), conditions: conditions.into() }
    });
    let created = created
        .map(|created| RevisionStatus { name: created.name.clone(), conditions: Conditions::default() });
    installed.into_iter().chain(rolling).chain(created).collect()
}

/// Removes the addresses of a broken connection: its ephemeral port would change the condition at every retry.
pub(crate) fn without_connections(text: &str) -> Cow<'_, str> {
    static CONNECTION: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("(?:read|write) (?:tcp|udp) [^ ]*->[^ ]*?(?:: |( )|$)").ok());
    CONNECTION.as_ref().map_or(Cow::Borrowed(text), |connection| connection.replace_all(text, "$1"))
}

#[cfg(test)]
mod tests;
