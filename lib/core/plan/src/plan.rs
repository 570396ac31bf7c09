//! The plan: one value, its digest, its JSON form.

use olm_objectset::sha256;
use olm_rbac::Permission;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    dry_run::DryRun, images::ImageChange, objects::ObjectPlan, permissions::Permissions, section::Section,
};

/// The inputs of a plan, besides the bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// Digest of everything the objects are made from: the bundle, the namespace, the ServiceAccount, the configuration.
    pub digest: String,
    /// Digest of the objects.
    pub content_digest: String,
    /// The install namespace.
    pub namespace: String,
    /// The ServiceAccount that installs: namespace and name.
    pub service_account: String,
    /// The extensions that are there, or would be created, because the bundle requires them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
}

/// The bundle that was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Its package.
    pub package: String,
    /// Its name.
    pub bundle: String,
    /// Its version, the release included.
    pub version: String,
    /// Its image.
    pub image: String,
    /// The catalog that has it; nothing if none has it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// The bundle that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<InstalledBundle>,
}

/// The bundle that is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledBundle {
    /// Its name.
    pub bundle: String,
    /// Its version, the release included.
    pub version: String,
    /// Its image.
    pub image: String,
    /// The ClusterObjectSet.
    pub revision: String,
}

/// The findings on one CRD.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrdFinding {
    /// Its name.
    pub name: String,
    /// Changes that block the revision, in crdify's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Changes that would block it, and that the administrator accepts: entries of the annotation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// Changes that would block it, and that affect no stored object, which decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decided_by_objects: Vec<String>,
    /// A note that the definition is removed, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<String>,
    /// The impact of refused changes on stored objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_objects: Option<String>,
    /// The objects in question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<NamedObject>,
}

/// A custom resource that a CRD change affects.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NamedObject {
    /// `namespace/name`, or the name alone.
    pub object: String,
    /// The impact on it, in a few words.
    pub impact: String,
}

/// The effects of a new revision.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Name of the ClusterExtension.
    pub extension: String,
    /// Name of the ClusterObjectSet that would be made.
    pub revision: String,
    /// Its inputs.
    pub inputs: Inputs,
    /// The bundle.
    pub resolution: Section<Resolution>,
    /// The extensions that would be created first, because the bundle requires them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Objects of the old and the new content.
    pub objects: Section<Vec<ObjectPlan>>,
    /// Images of workloads.
    pub images: Section<Vec<ImageChange>>,
    /// CRDs that change in a way that matters to stored objects, and those that go.
    pub crds: Section<Vec<CrdFinding>>,
    /// Permissions that the installing ServiceAccount does not have.
    pub missing_permissions: Section<Vec<Permission>>,
    /// Permissions of the operator.
    pub operator_permissions: Section<Permissions>,
    /// The API server's verdicts on the objects.
    pub dry_run: Section<DryRun>,
    /// Why the controller does not act for the extension at all, if it does not.
    #[serde(skip)]
    pub refusal: Option<String>,
    /// Notes for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Plan {
    /// The plan with everything in its order, whatever order the facts came in.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        if let Section::Known(objects) = &mut self.objects {
            objects.sort_by_cached_key(|o| {
                (o.api_version.clone(), o.kind.clone(), o.namespace.clone(), o.name.clone())
            });
        }
        if let Section::Known(images) = &mut self.images {
            images.sort();
        }
        if let Section::Known(crds) = &mut self.crds {
            for crd in &mut *crds {
                crd.refused.sort();
                crd.accepted.sort();
                crd.objects.sort();
            }
            crds.sort();
        }
        if let Section::Known(missing) = &mut self.missing_permissions {
            missing.sort();
        }
        if let Section::Known(permissions) = &mut self.operator_permissions {
            permissions.held.sort();
            permissions.increase.sort();
        }
        if let Section::Known(said) = &mut self.dry_run {
            said.refused.sort();
            said.deferred.sort();
        }
        self.notes.sort();
        self
    }

    /// Digest of the inputs, of our own fields before and after, and of the findings on CRDs, on which an approval may rest.
    /// What the API server says of the plan is no part of it, and neither are numbers: of the revision, of stored objects.
    pub fn digest(&self) -> String {
        let objects = self.objects.known().map(|objects| {
            let object = |o: &ObjectPlan| {
                json!([o.api_version, o.kind, o.namespace, o.name, o.before_digest, o.after_digest])
            };
            let mut all: Vec<Value> = objects.iter().map(object).collect();
            all.sort_by_cached_key(Value::to_string);
            all
        });
        let crds = self.crds.known().map(|crds| {
            let finding =
                |crd: &CrdFinding| json!([crd.name, crd.refused, crd.accepted, crd.removed.is_some()]);
            let mut all: Vec<Value> = crds.iter().map(finding).collect();
            all.sort_by_cached_key(Value::to_string);
            all
        });
        sha256(&json!({
            "extension": self.extension,
            "crds": crds,
            "inputs": self.inputs,
            "resolution": self.resolution.known(),
            "objects": objects,
        }))
    }

    /// The obstacles to the revision, a text each; it is made if there are none.
    pub fn blocked(&self) -> Vec<String> {
        let mut blocked: Vec<String> = self.refusal.iter().cloned().collect();
        for crd in self.crds.known().into_iter().flatten().filter(|crd| !crd.refused.is_empty()) {
            blocked.push(format!("CRD {:?} cannot be replaced safely", crd.name));
        }
        if self.missing_permissions.known().is_some_and(|missing| !missing.is_empty()) {
            blocked.push(format!("ServiceAccount {:?} is missing permissions", self.inputs.service_account));
        }
        for refused in self.dry_run.known().into_iter().flat_map(|said| &said.refused) {
            blocked.push(format!("the API server refuses {}: {}", refused.object, refused.message));
        }
        blocked
    }

    /// The JSON form: keys and lists sorted, with the digest and the obstacles.
    pub fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(self.clone().sorted()).unwrap_or_default();
        value["digest"] = self.digest().into();
        value["blocked"] = json!(self.blocked());
        value
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::Change;

    pub(crate) fn object(name: &str, change: Change) -> ObjectPlan {
        ObjectPlan {
            change,
            phase: "deploy".into(),
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "n".into(),
            name: name.into(),
            fields: Vec::new(),
            content: None,
            before_digest: None,
            after_digest: Some(sha256(&json!(name))),
            note: None,
        }
    }

    pub(crate) fn plan(objects: Vec<ObjectPlan>) -> Plan {
        let resolution = Resolution { package: "p".into(), bundle: "p.v1".into(), ..Resolution::default() };
        Plan {
            extension: "e".into(),
            revision: "e-1".into(),
            inputs: Inputs { service_account: "n/installer".into(), ..Inputs::default() },
            resolution: Section::Known(resolution),
            dependencies: Vec::new(),
            objects: Section::Known(objects),
            images: Section::Known(Vec::new()),
            crds: Section::Known(Vec::new()),
            missing_permissions: Section::Known(Vec::new()),
            operator_permissions: Section::Known(Permissions::default()),
            dry_run: Section::Known(DryRun::default()),
            refusal: None,
            notes: Vec::new(),
        }
    }

    fn shuffled() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
        proptest::collection::btree_set("[a-z]{1,4}", 0..12).prop_flat_map(|names| {
            let names: Vec<String> = names.into_iter().collect();
            (Just(names.clone()), Just(names).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn the_same_facts_in_another_order_are_the_same_plan((names, other) in shuffled()) {
            let of = |names: &[String]| {
                let mut plan = plan(names.iter().map(|name| object(name, Change::Create)).collect());
                plan.crds = Section::Known(
                    names.iter().map(|name| CrdFinding { name: name.clone(), ..CrdFinding::default() }).collect(),
                );
                plan.notes = names.to_vec();
                plan
            };
            let (one, two) = (of(&names), of(&other));
            prop_assert_eq!(one.digest(), two.digest());
            prop_assert_eq!(one.to_json().to_string(), two.to_json().to_string());
            prop_assert_eq!(one.to_text(), two.to_text());
        }

        #[test]
        fn another_object_is_another_plan((names, _) in shuffled(), more in "[A-Z]{3}") {
            let objects = |names: &[String]| names.iter().map(|name| object(name, Change::Create)).collect();
            let mut longer = names.clone();
            longer.push(more);
            prop_assert_ne!(plan(objects(&names)).digest(), plan(objects(&longer)).digest());
        }
    }

    #[test]
    fn opinions_and_numbers_are_no_part_of_the_digest() {
        let one = plan(vec![object("a", Change::Create)]);
        let mut two = one.clone();
        two.revision = "e-7".into();
        two.dry_run = Section::unknown("the API server was away");
        two.notes.push("a note".into());
        assert_eq!(one.digest(), two.digest());
        // Once they are created it is the plan that was approved still.
        two.dependencies = vec!["base".into()];
        assert_eq!(one.digest(), two.digest());
        two.inputs.dependencies = two.dependencies.clone();
        assert_ne!(one.digest(), two.digest());
        two.inputs.dependencies.clear();
        two.inputs.namespace = "other".into();
        assert_ne!(one.digest(), two.digest());
        let crd = |removed: Option<&str>, accepted: &[&str]| {
            let mut plan = one.clone();
            plan.crds = Section::Known(vec![CrdFinding {
                name: "a.b".into(),
                removed: removed.map(str::to_owned),
                accepted: accepted.iter().map(|entry| (*entry).to_owned()).collect(),
                ..CrdFinding::default()
            }]);
            plan.digest()
        };
        assert_eq!(crd(Some("3 objects"), &[]), crd(Some("4 objects"), &[]));
        assert_ne!(crd(Some("3 objects"), &[]), crd(None, &[]));
        assert_ne!(crd(None, &["a.b:x:y"]), crd(None, &[]));
    }

    #[test]
    fn what_blocks_is_named() {
        let mut plan = plan(Vec::new());
        assert!(plan.blocked().is_empty());
        plan.refusal = Some("another namespace".into());
        plan.missing_permissions = Section::Known(vec![Permission::default()]);
        plan.crds = Section::Known(vec![CrdFinding {
            name: "a.b".into(),
            refused: vec!["x".into()],
            ..CrdFinding::default()
        }]);
        assert_eq!(
            plan.blocked(),
            [
                "another namespace",
                "CRD \"a.b\" cannot be replaced safely",
                "ServiceAccount \"n/installer\" is missing permissions"
            ]
        );
        assert_eq!(plan.to_json()["blocked"].as_array().unwrap().len(), 3);
    }
}
