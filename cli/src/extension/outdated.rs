//! `olm outdated`: newer versions in the catalogs, and what keeps extensions from them.

use std::io::Write;

use clap::Args;
use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{
    ConditionType::UpdateAvailable,
    names::{MAJOR_UPDATES_ANNOTATION, ROLLBACK_TO_ANNOTATION},
    v1::ClusterExtension,
};
use olm_runtime::connect;
use operator_controller::{is_paused, plan::Planner};
use serde::Serialize;
use tokio::sync::OnceCell;

use super::{
    planning::{Planning, version_of},
    upgrade::Target,
};
use crate::{
    cluster::{Cluster, list},
    output::{self, Differs, Format, columns},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The newest version that the upgrade paths and the extension's channels lead to, whatever its version range says.

Exit codes: 0 everything is up to date, 1 error, 2 something is outdated.

Examples:
  olm outdated
  olm outdated -o json";

/// `olm outdated`
#[derive(Debug, Args)]
pub(crate) struct Outdated {
    /// Only extensions that are installed in this namespace
    #[arg(long, short = 'n', value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    planning: Planning,
}

/// An extension that has a newer version, or of which that is not known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    extension: String,
    installed: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<String>,
    /// What keeps it from being installed by itself, or why it is not known.
    note: String,
}

/// What is known of newer versions.
enum Newer {
    Version(String),
    None,
    Unknown(String),
}

impl Outdated {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = self.cluster.config().await?;
        let mut extensions: Vec<ClusterExtension> = list(&connect(config.clone())?).await?;
        if let Some(namespace) = &self.namespace {
            extensions.retain(|extension| extension.spec.namespace == *namespace);
        }
        // The catalogs are asked only where the controller has not reported anything.
        let (plans, mut rows) = (OnceCell::new(), Vec::new());
        for extension in &extensions {
            let Some(installed) = installed(extension) else { continue };
            let newer = if let Some(newer) = reported(extension) {
                newer
            } else {
                let plans = plans.get_or_try_init(|| self.planning.plans(&config, true)).await?;
                asked(&plans.planner, extension, &installed).await
            };
            rows.extend(row(extension, installed, newer, Timestamp::now()));
        }
        output::answer(out, self.output, &rows, |rows| table(rows))?;
        if rows.is_empty() { Ok(()) } else { Err(Differs.into()) }
    }
}

fn installed(extension: &ClusterExtension) -> Option<String> {
    Some(extension.status.as_ref()?.install.as_ref()?.bundle.version.clone())
}

/// The controller's own answer.
fn reported(extension: &ClusterExtension) -> Option<Newer> {
    let conditions = &extension.status.as_ref()?.conditions;
    let found = conditions.find(UpdateAvailable)?;
    Some(match found.status.as_str() {
        "True" => Newer::Version(found.message.clone()),
        "False" => Newer::None,
        _ => Newer::Unknown(found.message.clone()),
    })
}

/// The answer of the catalogs.
async fn asked(planner: &Planner, extension: &ClusterExtension, installed: &str) -> Newer {
    let newest = match Target::default().of(extension) {
        Ok(newest) => newest,
        Err(error) => return Newer::Unknown(error.to_string()),
    };
    match planner.resolution(&newest).await {
        Ok(answer) => match answer.chosen {
            Ok(found) if found.version.version.to_string() == installed => Newer::None,
            Ok(found) => Newer::Version(found.version.to_string()),
            Err(why) => Newer::Unknown(why),
        },
        Err(error) => Newer::Unknown(error.to_string()),
    }
}

fn row(extension: &ClusterExtension, installed: String, newer: Newer, now: Timestamp) -> Option<Row> {
    let (available, note) = match newer {
        Newer::None => return None,
        Newer::Version(version) => (Some(version), held_back(extension, now)),
        Newer::Unknown(why) => (None, format!("not known: {why}")),
    };
    Some(Row { extension: extension.name_any(), installed, available, note })
}

/// What keeps the extension from upgrading by itself.
fn held_back(extension: &ClusterExtension, now: Timestamp) -> String {
    let name = extension.name_any();
    let is_set = |annotation: &str| extension.annotations().contains_key(annotation);
    if is_paused(extension, now) {
        return format!("paused: olm resume {name}");
    }
    if is_set(ROLLBACK_TO_ANNOTATION) {
        return format!("rolled back: olm upgrade {name}");
    }
    match version_of(extension) {
        Some(version) => format!("version is {version}: olm upgrade {name}"),
        None if is_set(MAJOR_UPDATES_ANNOTATION) => "major upgrades are blocked".to_owned(),
        None => format!("olm status {name} shows why it is not installed"),
    }
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "everything is up to date".to_owned();
    }
    let mut cells = vec![["EXTENSION", "INSTALLED", "AVAILABLE", "NOTE"].map(str::to_owned)];
    for Row { extension, installed, available, note } in rows {
        let available = available.clone().unwrap_or_else(|| "?".to_owned());
        let note = note.lines().next().unwrap_or_default().to_owned();
        cells.push([extension.clone(), installed.clone(), available, note]);
    }
    columns(&cells).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn extension(version: &Value, annotations: &Value, conditions: &Value) -> ClusterExtension {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "light", "annotations": annotations},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p", "version": version}}},
            "status": {"conditions": conditions, "install": {"bundle": {"name": "p.v1", "version": "1.0.0"}}},
        }))
        .expect("an extension")
    }

    #[test]
    fn the_controllers_condition_is_the_answer() {
        let of = |status: &str, message: &str| {
            let condition = json!([{
                "type": "UpdateAvailable", "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            let extension = extension(&json!("1.0.0"), &json!({}), &condition);
            let newer = reported(&extension).expect("reported");
            row(&extension, "1.0.0".into(), newer, Timestamp::UNIX_EPOCH)
        };
        let found = of("True", "1.1.0").expect("outdated");
        assert_eq!(found.available.as_deref(), Some("1.1.0"));
        assert_eq!(found.note, "version is 1.0.0: olm upgrade light");
        assert!(of("False", "").is_none());
        let unknown = of("Unknown", "no catalog is served").expect("a row");
        assert_eq!((unknown.available, unknown.note.as_str()), (None, "not known: no catalog is served"));
        assert!(reported(&extension(&json!(null), &json!({}), &json!([]))).is_none());
    }

    #[test]
    fn what_holds_an_extension_back_is_named_with_the_remedy() {
        let held_back = |one: &ClusterExtension| super::held_back(one, Timestamp::UNIX_EPOCH);
        let paused = |value: &str| {
            let annotations = json!({olm_api::names::PAUSED_ANNOTATION: value});
            extension(&json!("1.0.0"), &annotations, &json!([]))
        };
        assert_eq!(held_back(&paused("true")), "paused: olm resume light");
        assert_eq!(held_back(&paused("2030-01-31T08:00:00Z")), "paused: olm resume light");
        assert_eq!(held_back(&paused("1969-01-31T08:00:00Z")), "version is 1.0.0: olm upgrade light");
        let back = extension(&json!(null), &json!({ROLLBACK_TO_ANNOTATION: "1"}), &json!([]));
        assert_eq!(held_back(&back), "rolled back: olm upgrade light");
        let major = extension(&json!(null), &json!({MAJOR_UPDATES_ANNOTATION: "Block"}), &json!([]));
        assert_eq!(held_back(&major), "major upgrades are blocked");
    }
}
