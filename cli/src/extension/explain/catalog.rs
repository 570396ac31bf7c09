//! `olm explain clustercatalog`: where its content comes from, whether it is served, and which extensions use it.

use std::fmt::Write as _;

use anyhow::{Context as _, anyhow};
use kube::{Api, Client, ResourceExt};
use olm_api::{
    ConditionType::{Progressing, Serving},
    names::CATALOG_ANNOTATION,
    v1::{AvailabilityMode, ClusterCatalog, ClusterExtension, ClusterObjectSet},
};
use olm_runtime::if_exists;
use olm_text::one_line;
use operator_controller::remedy;
use serde::Serialize;

use crate::{
    cluster::list,
    extension::revisions::{annotation, is_revision, latest_active},
    output::{below, columns},
    status::{facts::ConditionView, may_use},
};

/// The names of the kind ClusterCatalog.
pub(super) const CLUSTER_CATALOG: [&str; 3] = ["clustercatalog", "clustercatalogs", "ccat"];

/// A ClusterCatalog with what there is to say about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CatalogView {
    name: String,
    image: String,
    priority: i32,
    state: String,
    /// The image whose content is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_unpacked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Why there is no newer content, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// What a person has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    conditions: Vec<ConditionView>,
    /// Extensions whose newest revision came from it.
    used_by: Vec<String>,
    /// Extensions that do not use it, and may.
    open_to: Vec<String>,
}

impl CatalogView {
    /// Reads a catalog, and which extensions may use it.
    pub(super) async fn read(client: &Client, name: &str) -> anyhow::Result<Self> {
        let api: Api<ClusterCatalog> = Api::all(client.clone());
        let found =
            if_exists(api.get(name)).await.with_context(|| format!("reading ClusterCatalog {name}"))?;
        let none =
            || anyhow!("there is no ClusterCatalog {name:?}: \"kubectl get clustercatalogs\" lists all");
        let extensions: Vec<ClusterExtension> = list(client).await?;
        let sets: Vec<ClusterObjectSet> = list(client).await?;
        Ok(Self::of(&found.ok_or_else(none)?, &extensions, &sets))
    }

    fn of(catalog: &ClusterCatalog, extensions: &[ClusterExtension], sets: &[ClusterObjectSet]) -> Self {
        let (name, status) = (catalog.name_any(), catalog.status.clone().unwrap_or_default());
        let state = match catalog.spec.availability_mode {
            _ if catalog.metadata.deletion_timestamp.is_some() => "is being deleted",
            AvailabilityMode::Unavailable => "not served, as spec.availabilityMode asks",
            AvailabilityMode::Available if status.conditions.is_true(Serving) => "serving",
            AvailabilityMode::Available => "not served",
        };
        let came_from = |extension: &&ClusterExtension| {
            let mut mine: Vec<ClusterObjectSet> =
                sets.iter().filter(|set| is_revision(&extension.metadata, set)).cloned().collect();
            mine.sort_by_key(|set| set.spec.revision);
            latest_active(&mine).is_some_and(|set| annotation(set, CATALOG_ANNOTATION) == name)
        };
        let (used_by, others): (Vec<_>, Vec<_>) = extensions.iter().partition(came_from);
        let names = |all: Vec<&ClusterExtension>| all.into_iter().map(ResourceExt::name_any).collect();
        let failing = status.conditions.find(Progressing).filter(|one| one.reason != "Succeeded");
        Self {
            image: catalog.spec.source.image.as_ref().map(|image| image.ref_.clone()).unwrap_or_default(),
            priority: catalog.spec.priority,
            state: state.to_owned(),
            served: status.resolved_source.as_ref().map(|source| source.image.ref_.clone()),
            last_unpacked: status.last_unpacked.as_ref().map(|time| time.0.to_string()),
            address: status.urls.as_ref().map(|urls| urls.base.clone()),
            why: failing.map(|one| one.message.clone()).filter(|message| !message.is_empty()),
            remedy: remedy(&status.conditions).map(str::to_owned),
            conditions: ConditionView::all(&status.conditions),
            used_by: names(used_by),
            open_to: names(others.into_iter().filter(|extension| may_use(extension, catalog)).collect()),
            name,
        }
    }

    /// All of it as text.
    pub(super) fn detail(&self) -> String {
        let priority = self.priority.to_string();
        let mut rows =
            vec![["  image", self.image.as_str()], ["  priority", &priority], ["  state", &self.state]];
        let more = [
            ("  content", &self.served),
            ("  unpacked", &self.last_unpacked),
            ("  address", &self.address),
            ("  why", &self.why),
            ("  to do", &self.remedy),
        ];
        rows.extend(more.iter().filter_map(|(field, value)| Some([*field, value.as_deref()?])));
        let mut text = format!("{}\n{}Conditions\n", one_line(&self.name), columns(&rows));
        // Writing to a String cannot fail.
        for ConditionView { type_, status, reason, message } in &self.conditions {
            let _ = writeln!(text, "  {type_} {status} {reason}: {}", below(message, 4));
        }
        text.push_str("Extensions\n");
        for extension in &self.used_by {
            let _ = writeln!(text, "  {} is installed from it", one_line(extension));
        }
        for extension in &self.open_to {
            let _ = writeln!(text, "  {} may use it", one_line(extension));
        }
        if self.used_by.is_empty() && self.open_to.is_empty() {
            text.push_str("  none may use it\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_remedy_and_the_extensions_of_a_catalog_are_shown() {
        let condition = |type_: &str, status: &str, message: &str| {
            json!({"type": type_, "status": status, "reason": "Retrying", "message": message,
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let catalog = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "c"},
            "spec": {"priority": 7, "source": {"type": "Image", "image": {"ref": "registry.example.com/c:nope"}}},
            "status": {"conditions": [
                condition("Progressing", "True", "not found"), condition("Stalled", "True", "not found. Push it."),
            ]},
        }))
        .unwrap();
        let extension = |name: &str, selected: &str| -> ClusterExtension {
            serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                "metadata": {"name": name, "uid": name},
                "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": "p",
                    "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": selected}},
                }}},
            }))
            .unwrap()
        };
        let set = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {
                "name": "user-1",
                "annotations": {CATALOG_ANNOTATION: "c"},
                "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                                     "name": "user", "uid": "user", "controller": true}],
            },
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent", "phases": []},
        }))
        .unwrap();
        let all = [extension("user", "c"), extension("waits", "c"), extension("other", "d")];
        let text = CatalogView::of(&catalog, &all, &[set]).detail();
        for line in [
            "  image     registry.example.com/c:nope\n",
            "  priority  7\n",
            "  state     not served\n",
            "  why       not found\n",
            "  to do     Push it.\n",
            "  user is installed from it\n",
            "  waits may use it\n",
        ] {
            assert!(text.contains(line), "no {line:?} in {text}");
        }
        assert!(!text.contains("other"), "{text}");
    }
}
