//! From the report of a reconcile to the status of a ClusterExtension.
//!
//! The conditions that the original has carry its texts and nothing else; `Ready`, `Reconciling` and
//! `Stalled` are ours, in the meaning GitOps tools give them.

use jiff::Timestamp;
use olm_api::{
    ConditionStatus::{self, False, True, Unknown},
    ConditionType::{
        self, Available, BundleDeprecated, ChannelDeprecated, Deprecated, Installed, PackageDeprecated,
        Progressing, Ready, Reconciling, Stalled, Upgradeable,
    },
    ConditionUpdate, Conditions, Reason,
    v1::{
        BundleMetadata, ClusterExtension, ClusterExtensionInstallStatus, ClusterExtensionStatus,
        RevisionStatus,
    },
};
use olm_resolve::{DeprecationReason, DeprecationStatus};
use olm_runtime::PANIC_REPORT;
use olm_text::one_line;

use crate::{
    cluster_extension::{
        observe::revisions::{BundleRecord, Revision, Revisions},
        report::{Cause, CauseKind, Created, Report, StepError},
    },
    facts::platform::Verdict,
};

/// The status after a reconcile. Conditions that the report does not concern stay as they are.
pub(crate) fn status(
    extension: &ClusterExtension,
    report: &Report,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let mut status = extension.status.clone().unwrap_or_default();
    let mut writer =
        Writer { conditions: &mut status.conditions, generation: extension.metadata.generation, now };
    match (report.revisions.as_ref(), report.error()) {
        // Nothing was learned of what is installed: it stays as it was reported.
        (None, Some(error @ StepError::Validation { .. })) if writer.conditions.is_true(Installed) => {
            writer.failure(error);
        }
        // What is installed stays installed, whoever may work on it.
        (revisions, Some(error @ StepError::Validation { .. }))
            if revisions.is_none_or(|r| r.installed().is_none()) =>
        {
            writer.put(Installed, Unknown, Reason::Failed, &error.to_string());
            writer.failure(error);
        }
        (None, Some(error @ StepError::Takeover { .. })) => writer.failure(error),
        (None, Some(error)) => {
            writer.put(Installed, Unknown, Reason::Failed, &error.to_string());
            writer.put(Progressing, True, Reason::Retrying, "retrying to get installed bundle");
            status.install = None;
        }
        (None, None) => {}
        (Some(revisions), error) => {
            // Nothing has failed while the first bundle is pulled, which is what the reason would say.
            if report.pulling().is_none() || writer.conditions.find(Installed).is_some() {
                writer.installed(revisions);
            }
            writer.platform(report.platform.as_ref());
            if let Some(found) = &report.deprecations {
                writer.deprecations(found);
            }
            match error {
                // `Progressing` stays as it is until there is something to report of the bundle that is pulled.
                None if report.pulling().is_some() => writer.available(revisions),
                None => writer.mirrored(revisions, report.created().map(|created| &created.bundle)),
                Some(error) => {
                    // What is installed goes on being watched whatever else fails.
                    writer.available(revisions);
                    writer.failure(error);
                }
            }
            status.install =
                revisions.installed().map(|r| ClusterExtensionInstallStatus { bundle: metadata(&r.bundle) });
            if error.is_none() {
                status.active_revisions = active_revisions(revisions, report.created());
            }
        }
    }
    let generation = extension.metadata.generation;
    Writer { conditions: &mut status.conditions, generation, now }.summary(report);
    report.policy.set_condition(&mut status.conditions, generation, now);
    status
}

/// The status after a reconcile that panicked: what was known stays as it is.
pub(crate) fn panicked(extension: &ClusterExtension, now: Timestamp) -> ClusterExtensionStatus {
    let mut status = extension.status.clone().unwrap_or_default();
    let mut writer =
        Writer { conditions: &mut status.conditions, generation: extension.metadata.generation, now };
    writer.put(Progressing, True, Reason::Retrying, PANIC_REPORT);
    writer.summary(&Report::default());
    status
}

struct Writer<'a> {
    conditions: &'a mut Conditions,
    generation: Option<i64>,
    now: Timestamp,
}

impl Writer<'_> {
    fn put(&mut self, type_: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        self.conditions.set(ConditionUpdate::new(type_, status, reason, message, self.generation), self.now);
    }

    fn failure(&mut self, error: &StepError) {
        let text = without_connections(&error.to_string());
        match error {
            StepError::Bundle { cause: Cause { kind: CauseKind::InvalidConfiguration, .. }, .. } => {
                self.put(Progressing, False, Reason::InvalidConfiguration, &text);
            }
            _ if error.is_terminal() => self.put(Progressing, False, Reason::Blocked, &text),
            _ => self.put(Progressing, True, Reason::Retrying, &text),
        }
    }

    fn installed(&mut self, revisions: &Revisions) {
        if let Some(revision) = revisions.installed() {
            let message = format!("Installed bundle {} successfully", revision.bundle.reference);
            self.put(Installed, True, Reason::Succeeded, &message);
            return;
        }
        let healthy = revisions.rolling_out().last().is_some_and(|latest| {
            latest.conditions.find(Progressing).is_none_or(|c| c.reason != Reason::Retrying.as_str())
        });
        let reason = if healthy { Reason::Absent } else { Reason::Failed };
        self.put(Installed, False, reason, "No bundle installed");
    }

    /// Copies what the installed revision says of its objects.
    fn available(&mut self, revisions: &Revisions) {
        if let Some(condition) = revisions.installed().and_then(|r| r.conditions.find(Available)) {
            self.conditions.mirror(condition, self.generation, self.now);
        }
    }

    /// Copies what the revisions say about themselves.
    fn mirrored(&mut self, revisions: &Revisions, created: Option<&BundleRecord>) {
        self.available(revisions);
        let mut mirror = |revision: &Revision, type_: ConditionType| {
            revision.conditions.find(type_).is_some_and(|condition| {
                self.conditions.mirror(condition, self.generation, self.now);
                true
            })
        };
        // What was taken over from a Helm release counts as installed before its revision has been carried out once;
        // what the original told of its progress is not about that.
        let untold = revisions.installed().filter(|installed| !mirror(installed, Progressing));
        let rolling = revisions.rolling_out();
        let told = rolling.last().is_some_and(|latest| mirror(latest, Progressing));
        let waiting = rolling.last().copied().or(untold).map(|latest| &latest.bundle).or(created);
        if let Some(bundle) = waiting
            && (!told || created.is_some())
        {
            let message = format!("Revision {} is rolling out.", bundle.version);
            self.put(Progressing, True, Reason::RollingOut, &message);
        }
    }

    fn deprecations(&mut self, found: &DeprecationStatus) {
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
            self.put(type_, status, reason, &condition.message);
        }
    }

    /// Whether the platform may be updated; nothing where the bundle or the cluster says nothing about it. What is not
    /// known stays as it was.
    fn platform(&mut self, verdict: Option<&Verdict>) {
        let (status, reason) = match verdict {
            None => return,
            Some(Verdict::NoLimit) => {
                self.conditions.remove(Upgradeable);
                return;
            }
            Some(Verdict::Compatible { .. }) => (True, Reason::CompatibleWithNextPlatformVersion),
            Some(Verdict::Incompatible { .. }) => (False, Reason::IncompatibleWithNextPlatformVersion),
            Some(Verdict::Invalid(_)) => (False, Reason::InvalidPlatformVersion),
        };
        let message = verdict.map(ToString::to_string).unwrap_or_default();
        self.put(Upgradeable, status, reason, &message);
    }

    /// Says that a bundle is on its way. Upstream's conditions have no words for that and stay as they are.
    fn pulling(&mut self, report: &Report, pulling: &str) {
        let before = report.unguarded.iter().map(String::as_str);
        let lines: Vec<&str> =
            before.chain([pulling]).chain(report.notes.iter().map(String::as_str)).collect();
        self.put(Ready, False, Reason::Reconciling, &lines.join("\n"));
        self.put(Reconciling, True, Reason::Reconciling, pulling);
        self.conditions.remove(Stalled);
    }

    /// `Ready`, and `Reconciling` or `Stalled` while they apply.
    fn summary(&mut self, report: &Report) {
        let error = report.error();
        if let Some(pulling) = report.pulling() {
            self.pulling(report, pulling);
            return;
        }
        let Some(progressing) = self.conditions.find(Progressing).cloned() else { return };
        let reason = reason(&progressing.reason);
        let rolled_out = progressing.status == True.as_str() && reason == Reason::Succeeded;
        let waits = report.away();
        let done = rolled_out && waits.is_none();
        let reason = if rolled_out && waits.is_some() { Reason::Retrying } else { reason };
        let available = self.conditions.find(Available).cloned();
        let healthy = available.as_ref().is_none_or(|a| a.status == True.as_str());
        let installed = self.conditions.is_true(Installed);
        let mut message = match &available {
            Some(available) if done && !healthy => available.message.clone(),
            _ => progressing.message.clone(),
        };
        let added = error.is_none().then(|| added(report, &progressing.message)).flatten();
        for text in added.as_deref().into_iter().chain(waits) {
            message.push('\n');
            message.push_str(text);
        }
        for note in &report.notes {
            message.push('\n');
            message.push_str(&one_line(note));
        }
        if let Some(complaint) = &report.unguarded {
            message.insert_str(0, &format!("{complaint}\n"));
        }
        let ready_reason = match &available {
            Some(available) if done && !healthy => self::reason(&available.reason),
            _ if done && report.unguarded.is_some() => Reason::Unguarded,
            _ => reason,
        };
        let ready = done && healthy && installed && report.unguarded.is_none();
        self.put(Ready, if ready { True } else { False }, ready_reason, &message);
        let explained = match error {
            Some(error) => error.explanation().map(|text| format!("{}\n{text}", progressing.message)),
            None if done => None,
            None => stuck(report),
        };
        let is_terminal = progressing.status == False.as_str();
        let stalled = is_terminal || explained.is_some();
        if stalled {
            // It is tried again all the same, but nothing comes of it before somebody acts.
            let reason = if is_terminal { reason } else { Reason::Blocked };
            self.put(Stalled, True, reason, explained.as_deref().unwrap_or(&progressing.message));
        } else {
            self.conditions.remove(Stalled);
        }
        if stalled || done {
            self.conditions.remove(Reconciling);
        } else {
            self.put(Reconciling, True, reason, waits.unwrap_or(&progressing.message));
        }
    }
}

/// What the latest revision cannot go on without, as it says itself.
fn stuck(report: &Report) -> Option<String> {
    let latest = report.revisions.as_ref()?.latest_active()?;
    latest.conditions.find(Stalled).map(|stalled| stalled.message.clone())
}

/// What the latest revision has to add to what it says of its progress.
fn added(report: &Report, progressing: &str) -> Option<String> {
    let latest = report.revisions.as_ref()?.latest_active()?;
    let more = latest.conditions.find(Ready)?.message.strip_prefix(progressing)?;
    more.strip_prefix('\n').map(str::to_owned)
}

fn reason(text: &str) -> Reason {
    Reason::ALL.iter().copied().find(|r| r.as_str() == text).unwrap_or(Reason::Retrying)
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
            [Available, Progressing].into_iter().filter_map(|t| r.conditions.find(t).cloned()).collect();
        RevisionStatus { name: r.name.clone(), conditions: conditions.into() }
    });
    let created = created
        .map(|created| RevisionStatus { name: created.name.clone(), conditions: Conditions::default() });
    installed.into_iter().chain(rolling).chain(created).collect()
}

/// Removes the addresses of a broken connection: its ephemeral port would change the condition at every retry.
pub(crate) fn without_connections(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, length)) = connection(rest) {
        kept.push_str(&rest[..start]);
        rest = &rest[start + length..];
    }
    kept.push_str(rest);
    kept
}

/// Finds `(read|write) (tcp|udp) <address>-><address>[: ]`: its place and length.
fn connection(text: &str) -> Option<(usize, usize)> {
    for verb in ["read tcp ", "read udp ", "write tcp ", "write udp "] {
        let Some(start) = text.find(verb) else { continue };
        let tail = &text[start + verb.len()..];
        let end = tail.find(": ").map_or(tail.find(' ').unwrap_or(tail.len()), |e| e);
        let addresses = &tail[..end];
        if addresses.contains("->") && !addresses.contains(' ') {
            let separator = if tail[end..].starts_with(": ") { 2 } else { 0 };
            return Some((start, verb.len() + end + separator));
        }
    }
    None
}

#[cfg(test)]
mod tests;
