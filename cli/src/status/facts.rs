//! The status of a cluster's extensions, from their objects, and its text.

use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use olm_api::{
    ConditionType::{Progressing, Ready, Serving, Stalled, Succeeded},
    Conditions,
    names::{BUNDLE_NAME, BUNDLE_VERSION},
    v1::{ClusterCatalog, ClusterExtension, ClusterObjectSet, LifecycleState},
};
use operator_controller::{is_paused, remedy, waits_for_pause};
use serde::Serialize;

use crate::{classic::Classic, extension::revisions::is_revision, output::columns};

/// Characters of a reason or remedy in the table; all of it is in the detail and in JSON.
const WHY_CHARACTERS_MAX: usize = 140;

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    extensions: Vec<Extension>,
    catalogs: Vec<Catalog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    classic: Option<Classic>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Extension {
    name: String,
    package: String,
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    /// `Deleting`, `Paused`, `Ready`, or the reason why it is not.
    state: String,
    /// The bundle that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<Bundle>,
    /// The pending version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Pending>,
    conditions: Vec<ConditionView>,
    revisions: Vec<Revision>,
}

#[derive(Debug, Clone, Serialize)]
struct Bundle {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

#[derive(Debug, Serialize)]
struct Pending {
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<Bundle>,
    why: String,
    /// What a person has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConditionView {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Revision {
    name: String,
    bundle: Bundle,
    state: &'static str,
    rolled_out: bool,
    conditions: Vec<ConditionView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Catalog {
    name: String,
    serving: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_unpacked: Option<String>,
    /// Why it is not served, or the obstacle to newer content.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Status {
    pub(crate) fn of(
        extensions: &[ClusterExtension],
        sets: &[ClusterObjectSet],
        catalogs: &[ClusterCatalog],
        now: Timestamp,
    ) -> Self {
        Self {
            extensions: extensions.iter().map(|one| Extension::of(one, sets, now)).collect(),
            catalogs: catalogs.iter().map(Catalog::of).collect(),
            classic: None,
        }
    }

    /// The same with what the cluster has of OLM Classic.
    pub(super) fn with(self, classic: Option<Classic>) -> Self {
        Self { classic, ..self }
    }

    /// A line for each extension.
    pub(super) fn table(&self) -> String {
        let pending = |one: &Extension| one.pending.as_ref().map_or("-".to_owned(), Pending::line);
        let pending: Vec<String> = self.extensions.iter().map(pending).collect();
        let mut rows = vec![["EXTENSION", "INSTALLED", "REVISION", "STATE", "PENDING"]];
        for (one, pending) in self.extensions.iter().zip(&pending) {
            let installed = one.installed.as_ref();
            let bundle = installed.map_or("-", |bundle| &bundle.name);
            let revision = installed.and_then(|bundle| bundle.revision.as_deref()).unwrap_or("-");
            rows.push([&one.name, bundle, revision, &one.state, pending]);
        }
        let mut text = columns(&rows);
        if self.extensions.is_empty() {
            "there are no ClusterExtensions\n".clone_into(&mut text);
        }
        for catalog in self.catalogs.iter().filter(|catalog| !catalog.serving) {
            let why = catalog.why.as_deref().unwrap_or("it has no content yet");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "catalog {} is not served: {}", catalog.name, first_line(why));
        }
        text.push_str(&self.classic.as_ref().map(Classic::lines).unwrap_or_default());
        text
    }

    /// Everything about an extension.
    pub(crate) fn detail(&self) -> String {
        let mut text = String::new();
        for one in &self.extensions {
            one.write(&mut text);
        }
        text.push_str("Catalogs\n");
        let rows: Vec<_> = self.catalogs.iter().map(Catalog::row).collect();
        text.push_str(if rows.is_empty() { "  none that may be used has the package\n" } else { "" });
        text.push_str(&indented(&rows));
        text
    }
}

impl Extension {
    fn of(extension: &ClusterExtension, sets: &[ClusterObjectSet], now: Timestamp) -> Self {
        let is_mine = |set: &&ClusterObjectSet| is_revision(&extension.metadata, set);
        let mut mine: Vec<&ClusterObjectSet> = sets.iter().filter(is_mine).collect();
        mine.sort_by_key(|set| set.spec.revision);
        let revisions: Vec<Revision> = mine.into_iter().map(Revision::of).collect();
        let status = extension.status.clone().unwrap_or_default();
        let active = || revisions.iter().rev().filter(|revision| revision.state == "active");
        let installed = status.install.map(|install| Bundle {
            name: install.bundle.name,
            version: install.bundle.version,
            revision: active().find(|revision| revision.rolled_out).map(|revision| revision.name.clone()),
        });
        let is_deleted = extension.metadata.deletion_timestamp.is_some();
        let is_paused = is_paused(extension, now);
        let rolling = active().next().filter(|revision| !revision.rolled_out);
        let pending = if is_deleted {
            Pending::of_deletion(&status.conditions)
        } else {
            Pending::of(&status.conditions, rolling, is_paused)
        };
        let state = match status.conditions.find(Ready).or_else(|| status.conditions.find(Progressing)) {
            _ if is_deleted => "Deleting".to_owned(),
            _ if is_paused => "Paused".to_owned(),
            Some(ready) if ready.type_ == "Ready" && ready.status == "True" => "Ready".to_owned(),
            Some(other) => other.reason.clone(),
            None => "Unknown".to_owned(),
        };
        Self {
            name: extension.name_any(),
            package: extension.spec.source.catalog.as_ref().map_or(String::new(), |c| c.package_name.clone()),
            namespace: extension.spec.namespace.clone(),
            service_account: extension.spec.service_account.as_ref().and_then(|a| a.name.clone()),
            state,
            installed,
            pending,
            conditions: ConditionView::all(&status.conditions),
            revisions,
        }
    }

    fn write(&self, text: &mut String) {
        let account = self.service_account.as_deref().unwrap_or("(the cluster's default)");
        let installed = self.installed.as_ref().map_or("nothing".to_owned(), Bundle::line);
        let pending = match &self.pending {
            None => "nothing".to_owned(),
            Some(Pending { bundle: Some(bundle), why, .. }) => format!("{}: {why}", bundle.line()),
            Some(Pending { bundle: None, why, .. }) => why.clone(),
        };
        let remedy = self.pending.as_ref().and_then(|pending| pending.remedy.as_deref());
        let mut rows = vec![
            ["package", self.package.as_str()],
            ["namespace", &self.namespace],
            ["account", account],
            ["state", &self.state],
            ["installed", &installed],
            ["pending", &pending],
        ];
        rows.extend(remedy.map(|remedy| ["to do", remedy]));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", self.name);
        text.push_str(&indented(&rows));
        let rows = self.conditions.iter().map(|c| [&c.type_, &c.status, &c.reason, &c.message]);
        let _ = write!(text, "Conditions\n{}", indented(&rows.collect::<Vec<_>>()));
        let rows: Vec<_> = self.revisions.iter().map(Revision::row).collect();
        let _ = write!(text, "Revisions\n{}", indented(&rows));
    }
}

impl Bundle {
    fn line(&self) -> String {
        match &self.revision {
            Some(revision) => format!("{}  version {}, revision {revision}", self.name, self.version),
            None => format!("{}  version {}", self.name, self.version),
        }
    }
}

impl Pending {
    /// What an extension waits for, and the revision that is rolling out.
    fn of(conditions: &Conditions, rolling: Option<&Revision>, is_paused: bool) -> Option<Self> {
        let message = |type_| {
            let found = conditions.find(type_).filter(|c| c.reason != "Succeeded");
            found.filter(|c| !c.message.is_empty()).map(|c| c.message.clone())
        };
        let remedy = remedy(conditions).map(str::to_owned);
        let why = message(Progressing);
        if let Some(revision) = rolling {
            let of_set = revision.conditions.iter().filter(|c| c.status != "True" && !c.message.is_empty());
            let why = of_set.map(|c| c.message.clone()).next_back().or(why);
            let why = why.unwrap_or_else(|| "it is rolling out".to_owned());
            return Some(Self { bundle: Some(revision.bundle.clone()), why, remedy });
        }
        let waiting = waits_for_pause(conditions).filter(|_| is_paused);
        if let Some(waiting) = waiting {
            let why = format!("waits for the end of the pause: {waiting}");
            return Some(Self { bundle: None, why, remedy });
        }
        let failing = conditions.find(Progressing).is_some_and(|c| c.reason != "Succeeded");
        let why = why.or_else(|| message(Stalled)).filter(|_| failing)?;
        Some(Self { bundle: None, why, remedy })
    }

    /// What a deletion waits for, which is all that is pending.
    fn of_deletion(conditions: &Conditions) -> Option<Self> {
        let held = conditions.find(Ready).filter(|ready| ready.status != "True")?;
        Some(Self { bundle: None, why: held.message.clone(), remedy: None })
    }

    fn line(&self) -> String {
        let why = first_line(self.remedy.as_ref().unwrap_or(&self.why));
        match &self.bundle {
            Some(bundle) => format!("{}: {why}", bundle.name),
            None => why,
        }
    }
}

impl Revision {
    fn of(set: &ClusterObjectSet) -> Self {
        let annotation = |key: &str| set.annotations().get(key).cloned().unwrap_or_default();
        let conditions = set.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let bundle = Bundle {
            name: annotation(BUNDLE_NAME),
            version: annotation(BUNDLE_VERSION),
            revision: Some(set.name_any()),
        };
        let state = match set.spec.lifecycle_state {
            _ if set.metadata.deletion_timestamp.is_some() => "deleting",
            LifecycleState::Active => "active",
            LifecycleState::Archived => "archived",
        };
        let rolled_out = conditions.is_true(Succeeded);
        Self { name: set.name_any(), bundle, state, rolled_out, conditions: ConditionView::all(&conditions) }
    }

    fn row(&self) -> [&str; 4] {
        let is_out = if self.rolled_out { "rolled out" } else { "not rolled out" };
        [&self.name, self.state, &self.bundle.name, is_out]
    }
}

impl Catalog {
    fn of(catalog: &ClusterCatalog) -> Self {
        let status = catalog.status.clone().unwrap_or_default();
        let failing = status.conditions.find(Progressing).filter(|c| c.reason != "Succeeded");
        Self {
            name: catalog.name_any(),
            serving: status.conditions.is_true(Serving),
            image: status.resolved_source.map(|source| source.image.ref_),
            last_unpacked: status.last_unpacked.map(|time| time.0.to_string()),
            why: failing.map(|c| c.message.clone()).filter(|message| !message.is_empty()),
        }
    }

    fn row(&self) -> [String; 4] {
        let serving = if self.serving { "serving" } else { "not served" };
        let image = self.image.as_deref().unwrap_or("-");
        [
            self.name.clone(),
            serving.to_owned(),
            image.to_owned(),
            self.why.as_deref().map_or(String::new(), first_line),
        ]
    }
}

impl ConditionView {
    pub(crate) fn all(conditions: &Conditions) -> Vec<Self> {
        let views = conditions.iter().cloned().map(|Condition { type_, status, reason, message, .. }| Self {
            type_,
            status,
            reason,
            message,
        });
        views.collect()
    }
}

/// The first line, of bounded length.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut = line.char_indices().nth(WHY_CHARACTERS_MAX).map_or(line, |(end, _)| &line[..end]);
    if cut.len() < text.trim_end().len() { format!("{cut}...") } else { cut.to_owned() }
}

/// Rows in columns, all of them indented.
fn indented<C: AsRef<str>>(rows: &[impl AsRef<[C]>]) -> String {
    columns(rows).lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

#[cfg(test)]
mod tests;
