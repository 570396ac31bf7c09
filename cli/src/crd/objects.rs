//! The custom resources of a cluster, and the impact of a CRD upgrade on them.

use std::fmt::Write as _;

use anyhow::Context as _;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use olm_crd::{Note, ObjectImpact, Report, Upgrade, UpgradeImpact};
use olm_object::text;
use olm_preflight::stored_objects::{self, Decision, ReadLimits};
use olm_runtime::{bounded, connect};
use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::Cluster;

/// Objects of a page.
const PAGE_OBJECTS: u32 = 500;
/// Objects of one definition that are validated.
const OBJECTS_MAX: usize = 100_000;
/// Objects that are named; the others are counted.
const NAMED_MAX: usize = 1_000;

/// The impact on the objects of a definition.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Objects {
    summary: String,
    #[serde(flatten)]
    impact: UpgradeImpact,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    named: Vec<Named>,
}

/// An object that the upgrade affects.
#[derive(Debug, Serialize)]
struct Named {
    /// `namespace/name`, or the name alone.
    object: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    invalid: Vec<String>,
    invalid_already: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undecided: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
}

/// The custom resources of a cluster.
pub(crate) struct CustomResources {
    client: Client,
}

impl CustomResources {
    pub(crate) async fn connect(cluster: &Cluster) -> anyhow::Result<Self> {
        Ok(Self { client: connect(cluster.config().await?)? })
    }

    /// Takes the status of the definition from the cluster. Returns whether the cluster has the definition.
    pub(crate) async fn add_status(&self, name: &str, definition: &mut Value) -> anyhow::Result<bool> {
        let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk));
        let live = bounded(api.get_opt(name)).await.with_context(|| format!("reading CRD {name:?}"))?;
        let Some(live) = live else { return Ok(false) };
        definition["status"] = live.data["status"].clone();
        Ok(true)
    }

    /// What the objects decide about an unsafe change, as the controller asks them.
    pub(crate) async fn decide(
        &self,
        change: (&Value, &Value, &Report),
        limits: &mut ReadLimits,
    ) -> Decision {
        stored_objects::decide(&self.client, "you", change, limits).await
    }

    /// Validates all objects of the definition.
    pub(crate) async fn objects(&self, old: &Value, new: &Value) -> anyhow::Result<Objects> {
        let served = |definition: &Value| -> Vec<String> {
            let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
            let served = versions.filter(|version| version["served"] == true);
            served.map(|version| text(version, "/name").to_owned()).collect()
        };
        let (before, mut common) = (served(old), served(new));
        common.retain(|version| before.contains(version));
        let upgrade = match Upgrade::new(old, new, &common) {
            Ok(upgrade) => upgrade,
            Err(error) => return Ok(Objects { summary: error.to_string(), ..Objects::default() }),
        };
        let gvk =
            GroupVersionKind::gvk(text(old, "/spec/group"), upgrade.version(), text(old, "/spec/names/kind"));
        let resource = ApiResource::from_gvk_with_plural(&gvk, text(old, "/spec/names/plural"));
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let (mut impact, mut named) = (UpgradeImpact::default(), Vec::new());
        let mut page = ListParams::default().limit(PAGE_OBJECTS);
        let mut note = "";
        loop {
            let listed = bounded(api.list(&page)).await;
            if let Err(kube::Error::Api(status)) = &listed
                // The answer to a path that is not served is no Status, and has no reason.
                && status.code == 404
            {
                let version = upgrade.version();
                let summary =
                    format!("not checked: the cluster does not serve version {version} of this CRD");
                return Ok(Objects { summary, ..Objects::default() });
            }
            let listed = listed.with_context(|| format!("listing {}", text(old, "/metadata/name")))?;
            for object in listed.items {
                let on_object = upgrade.impact_on(&serde_json::to_value(&object)?);
                impact.add(&on_object);
                if named.len() < NAMED_MAX {
                    named.extend(Named::of(&object, on_object));
                }
            }
            let next = listed.metadata.continue_.filter(|next| !next.is_empty());
            let Some(next) = next else { break };
            if impact.seen >= OBJECTS_MAX {
                note = "; not all were checked, there are too many";
                break;
            }
            page = page.continue_token(&next);
        }
        Ok(Objects { summary: format!("{impact}{note}"), impact, named })
    }
}

impl Named {
    /// `None` for an object that stays valid and keeps its fields.
    fn of(object: &DynamicObject, impact: ObjectImpact) -> Option<Self> {
        let name = object.name_any();
        let object = object.namespace().map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
        let notes = |notes: Vec<Note>| {
            notes.into_iter().map(|note| format!("{}: {}", note.path, note.text)).collect::<Vec<_>>()
        };
        let is_affected = !impact.is_harmless();
        let ObjectImpact { violations, invalid_already, undecided, lost, changed } = impact;
        let (invalid, undecided) = (notes(violations), notes(undecided));
        is_affected.then_some(Self { object, invalid, invalid_already, undecided, lost, changed })
    }
}

impl Objects {
    /// The answer for a definition that the cluster does not have.
    pub(crate) fn without_definition() -> Self {
        Self { summary: "the cluster does not have this CRD: no objects".to_owned(), ..Self::default() }
    }

    pub(crate) fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  objects  {}", self.summary);
        for Named { object, invalid, invalid_already, undecided, lost, changed } in &self.named {
            let already = if *invalid_already { " (already)" } else { "" };
            for note in invalid {
                let _ = writeln!(text, "    {object}  invalid{already}: {}", one_line(note));
            }
            for note in undecided {
                let _ = writeln!(text, "    {object}  undecided: {}", one_line(note));
            }
            for field in lost {
                let _ = writeln!(text, "    {object}  loses {}", one_line(field));
            }
            for field in changed {
                let _ = writeln!(text, "    {object}  may be read with another value of {}", one_line(field));
            }
        }
    }
}
