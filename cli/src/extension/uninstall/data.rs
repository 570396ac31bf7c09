//! The custom resources that depend on an extension, and the extensions that use its CRDs.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use olm_api::{
    names::{OWNER_NAME_LABEL, PACKAGE_NAME},
    ownership::revision_of,
    v1::{ClusterExtension, ClusterObjectSet, LifecycleState},
};
use olm_dependencies::requirements;
use olm_runtime::bounded;

use super::super::revisions::{annotation, properties};
use crate::{cluster::list, output::counted};

/// Custom resources of one page; the API server counts the others.
const PAGE_OBJECTS: u32 = 100;

/// The data of an extension.
pub(super) struct Data {
    definitions: Vec<Definition>,
    /// Extensions that require its kinds or its package.
    users: Vec<String>,
}

/// A CRD of the extension.
struct Definition {
    name: String,
    group: String,
    kind: String,
    /// How many custom resources it has, if that could be counted.
    objects: Result<usize, String>,
}

impl Data {
    pub(super) async fn of(client: &Client, extension: &ClusterExtension) -> anyhow::Result<Self> {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let labelled = format!("{OWNER_NAME_LABEL}={}", extension.name_any());
        let listed = bounded(api.list(&ListParams::default().labels(&labelled))).await;
        let mut definitions = Vec::new();
        for crd in listed.context("listing CustomResourceDefinitions")?.items {
            definitions.push(Definition {
                name: crd.name_any(),
                group: crd.spec.group.clone(),
                kind: crd.spec.names.kind.clone(),
                objects: count(client, &crd).await,
            });
        }
        let users = users(extension, &definitions, &list(client).await?);
        Ok(Self { definitions, users })
    }

    /// Whether there are no CRDs.
    pub(super) fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// Whether all custom resources could be counted.
    pub(super) fn is_counted(&self) -> bool {
        self.definitions.iter().all(|one| one.objects.is_ok())
    }

    pub(super) fn objects(&self) -> usize {
        self.definitions.iter().filter_map(|one| one.objects.as_ref().ok()).sum()
    }

    /// The effect of the deletion policy.
    pub(super) fn text(&self, extension: &str, policy: &str) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = match policy {
            "Orphan" => {
                writeln!(text, "ClusterExtension {extension} is removed; everything that it installed stays")
            }
            "RetainCRDs" => writeln!(
                text,
                "ClusterExtension {extension} is removed; its CRDs and all custom resources stay"
            ),
            _ => writeln!(text, "ClusterExtension {extension} is removed with everything that it installed"),
        };
        let sign = if policy == "Delete" { '-' } else { ' ' };
        for Definition { name, objects, .. } in &self.definitions {
            let count = match objects {
                Ok(count) => counted(*count, "custom resource"),
                Err(why) => format!("custom resources not counted: {why}"),
            };
            let _ = writeln!(text, "  {sign} CustomResourceDefinition {name}: {count}");
        }
        if !self.users.is_empty() {
            let _ = writeln!(text, "These extensions require it or its CRDs: {}", self.users.join(", "));
        }
        text
    }

    pub(super) fn question(&self, extension: &str, policy: &str) -> String {
        match self.objects() {
            0 => format!("Remove {extension}?"),
            _ if policy != "Delete" => format!("Remove {extension}?"),
            count => {
                format!("Remove {extension} and delete {} of all users?", counted(count, "custom resource"))
            }
        }
    }
}

/// How many objects a definition has.
async fn count(client: &Client, crd: &CustomResourceDefinition) -> Result<usize, String> {
    let version = crd.spec.versions.iter().find(|version| version.served);
    let version = version.ok_or_else(|| "no version is served".to_owned())?;
    let gvk = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let page = ListParams::default().limit(PAGE_OBJECTS);
    let listed = bounded(api.list_metadata(&page)).await.map_err(|error| olm_runtime::api_text(&error))?;
    let more = listed.metadata.remaining_item_count.and_then(|more| usize::try_from(more).ok());
    Ok(listed.items.len().saturating_add(more.unwrap_or_default()))
}

/// The other extensions whose bundles require the package or one of the kinds.
fn users(extension: &ClusterExtension, definitions: &[Definition], sets: &[ClusterObjectSet]) -> Vec<String> {
    let package = extension.spec.source.catalog.as_ref().map_or("", |catalog| catalog.package_name.as_str());
    let requires = |set: &&ClusterObjectSet| {
        // What cannot be understood was not checked when it was installed either.
        let required = requirements(&properties(set)).unwrap_or_default();
        required.iter().any(|one| {
            one.packages().iter().any(|(name, _)| *name == package)
                || one.kinds().iter().any(|kind| {
                    definitions.iter().any(|crd| crd.group == kind.group && crd.kind == kind.kind)
                })
        })
    };
    let others = sets.iter().filter(|set| {
        set.spec.lifecycle_state == LifecycleState::Active && annotation(set, PACKAGE_NAME) != package
    });
    let users = others.filter(requires).filter_map(|set| Some(revision_of(&set.metadata)?.name.to_owned()));
    users.collect::<BTreeSet<String>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use olm_api::names::CATALOG_PROPERTIES_ANNOTATION;
    use serde_json::json;

    use super::*;

    fn set(extension: &str, properties: &serde_json::Value) -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {
                "name": format!("{extension}-1"),
                "annotations": {
                    PACKAGE_NAME: extension,
                    CATALOG_PROPERTIES_ANNOTATION: properties.to_string(),
                    olm_api::names::REVISION_OF_ANNOTATION: "u",
                },
                "ownerReferences": [{
                    "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                    "name": extension, "uid": "u", "controller": true,
                }],
            },
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent", "phases": []},
        }))
        .expect("a ClusterObjectSet")
    }

    #[test]
    fn extensions_that_use_a_kind_or_the_package_are_named() {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "light"},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "lamps"}}},
        }))
        .expect("an extension");
        let definitions = [Definition {
            name: "beacons.example.com".into(),
            group: "example.com".into(),
            kind: "Beacon".into(),
            objects: Ok(2),
        }];
        let kind = json!({"type": "olm.gvk.required", "value": {"group": "example.com", "kind": "Beacon", "version": "v1"}});
        let other = json!({"type": "olm.gvk.required", "value": {"group": "example.com", "kind": "Buoy", "version": "v1"}});
        let package = json!({"type": "olm.package.required", "value": {"packageName": "lamps", "versionRange": ">=1.0.0"}});
        let sets = [
            set("by-kind", &json!([kind])),
            set("by-package", &json!([package])),
            set("other", &json!([other])),
            set("lamps", &json!([kind])),
        ];
        let data = Data { users: users(&extension, &definitions, &sets), definitions: definitions.into() };
        assert_eq!(data.users, ["by-kind", "by-package"]);
        let text = data.text("light", "Delete");
        assert!(
            text.contains("- CustomResourceDefinition beacons.example.com: 2 custom resources"),
            "{text}"
        );
        assert_eq!(
            data.question("light", "Delete"),
            "Remove light and delete 2 custom resources of all users?"
        );
        assert_eq!(data.question("light", "RetainCRDs"), "Remove light?");
    }
}
