//! The form in which a plan is kept in the cluster.
//!
//! Values of fields are left out, and with them the data of Secrets; the texts of bundles are made visible and cut. The lists
//! are filled in the order in which a person needs them to decide, as far as there is room; the rest is counted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::v1alpha1::{
    ExtensionPlanSpec, GainedPermissions, PLAN_ENTRIES_MAX, PLAN_FIELDS_MAX, PLAN_TEXT_MAX, PlannedBundle,
    PlannedChange, PlannedCounts, PlannedCrd, PlannedExtension, PlannedImage, PlannedObject, SupersededPlan,
};
use olm_object::Rule;
use olm_rbac::dangers;
use olm_text::{cut, one_line};
use serde::Serialize;

use crate::{
    images::ImageChange,
    limits::RECORD_BYTES_MAX,
    objects::{Change, ObjectPlan},
    permissions::ServiceAccountPermissions,
    plan::{CrdFinding, Plan, Resolution},
    text::permission_line,
};

/// Bytes that everything but the lists takes at most.
const HEAD_BYTES: usize = 64 << 10;
/// Differences to an earlier plan that are named, and the characters of each.
const DIFFERENCES_MAX: usize = 20;
const DIFFERENCE_CHARACTERS_MAX: usize = 200;

/// What is kept of a plan: `uid` is the extension's, `from_catalog` the catalog of the installed bundle.
pub fn record(
    plan: &Plan,
    uid: &str,
    from_catalog: Option<&str>,
    first_possible: Timestamp,
    before: Option<&ExtensionPlanSpec>,
) -> ExtensionPlanSpec {
    let nothing = Resolution::default();
    let resolution = plan.resolution.known().unwrap_or(&nothing);
    let objects: Vec<&ObjectPlan> = plan.objects.known().into_iter().flatten().collect();
    let mut room = Room { left: RECORD_BYTES_MAX - HEAD_BYTES, omitted: 0 };
    let increase = plan.operator_permissions.known().map_or(&[][..], |permissions| &permissions.increase);
    let dependencies = room.take(plan.dependencies.iter().map(|one| text(one)));
    let permissions = room.take(gained(increase));
    let crds = room.take(plan.crds.known().into_iter().flatten().map(crd));
    let webhooks = room.take(objects.iter().copied().filter(|o| is_webhook(o)).map(|o| text(&o.object())));
    let restarts = room.take(objects.iter().copied().filter(|o| restarts(o)).map(|o| text(&o.object())));
    let images = plan.images.known().into_iter().flatten().filter(|image| image.before != image.after);
    let images = room.take(images.map(image));
    let listed = room.take(objects.iter().copied().filter_map(object));
    let count = |change| {
        let counted = objects.iter().filter(|object| object.change == change).count();
        i64::try_from(counted).unwrap_or(i64::MAX)
    };
    let mut spec = ExtensionPlanSpec {
        extension: PlannedExtension { name: plan.extension.clone(), uid: uid.to_owned() },
        digest: plan.digest(),
        from: resolution.installed.as_ref().map(|installed| PlannedBundle {
            version: text(&installed.version),
            bundle: text(&installed.bundle),
            catalog: from_catalog.map(text),
            image: text(&installed.image),
        }),
        to: PlannedBundle {
            version: text(&resolution.version),
            bundle: text(&resolution.bundle),
            catalog: resolution.catalog.as_deref().map(text),
            image: text(&resolution.image),
        },
        first_possible: Time(first_possible),
        counts: PlannedCounts {
            created: count(Change::Create),
            changed: count(Change::Change),
            deleted: count(Change::Delete),
            kept: count(Change::Keep),
        },
        dependencies,
        objects: listed,
        crds,
        permissions,
        images,
        webhooks,
        restarts,
        omitted: room.omitted,
        supersedes: None,
    };
    spec.supersedes = before.map(|before| SupersededPlan {
        digest: before.digest.clone(),
        differences: differences_to(before, &spec),
    });
    spec
}

/// How a plan differs from an earlier one, in clauses about the later.
pub fn differences_to(before: &ExtensionPlanSpec, after: &ExtensionPlanSpec) -> Vec<String> {
    let mut all = Vec::new();
    let mut value = |what: &str, old: &str, new: &str| {
        if old != new {
            all.push(text(&format!("{what} {new} instead of {old}")));
        }
    };
    value("version", &before.to.version, &after.to.version);
    value("image", &before.to.image, &after.to.image);
    let none = String::new();
    let catalog = |bundle: &PlannedBundle| bundle.catalog.as_ref().unwrap_or(&none).clone();
    value("catalog", &catalog(&before.to), &catalog(&after.to));
    let installed =
        |plan: &ExtensionPlanSpec| plan.from.as_ref().map_or_else(String::new, |b| b.version.clone());
    value("installed version", &installed(before), &installed(after));
    if before.dependencies != after.dependencies {
        all.push("other extensions are created for it".to_owned());
    }
    if before.permissions != after.permissions {
        all.push("the operator gains other permissions".to_owned());
    }
    if before.crds != after.crds {
        all.push("there are other findings on CRDs".to_owned());
    }
    let (old, new) = (keyed(&before.objects), keyed(&after.objects));
    for (name, object) in &new {
        match old.get(name) {
            Some(same) if same == object => {}
            Some(other) if other.change == object.change => {
                all.push(text(&format!("{name} changes in other fields")));
            }
            _ => all.push(text(&format!("{name} {}", becomes(object.change)))),
        }
    }
    all.extend(
        old.keys()
            .filter(|name| !new.contains_key(*name))
            .map(|name| text(&format!("{name} stays as it is"))),
    );
    if all.is_empty() {
        all.push("other values of fields, or another configuration".to_owned());
    }
    all.truncate(DIFFERENCES_MAX);
    all.iter().map(|one| cut(one, DIFFERENCE_CHARACTERS_MAX).into_owned()).collect()
}

fn becomes(change: PlannedChange) -> &'static str {
    match change {
        PlannedChange::Create => "is created",
        PlannedChange::Change => "changes",
        PlannedChange::Delete => "is deleted",
    }
}

fn keyed(objects: &[PlannedObject]) -> BTreeMap<String, &PlannedObject> {
    let name = |o: &PlannedObject| {
        let place = if o.namespace.is_empty() { String::new() } else { format!("{}/", o.namespace) };
        format!("{}.{} {place}{}", o.kind, o.api_version, o.name)
    };
    objects.iter().map(|object| (name(object), object)).collect()
}

/// The room for entries of all lists.
struct Room {
    left: usize,
    omitted: i64,
}

impl Room {
    fn take<T: Serialize>(&mut self, entries: impl IntoIterator<Item = T>) -> Vec<T> {
        let mut taken = Vec::new();
        for entry in entries {
            let bytes = serde_json::to_string(&entry).map_or(usize::MAX, |json| json.len() + 1);
            if taken.len() < PLAN_ENTRIES_MAX && bytes <= self.left {
                self.left -= bytes;
                taken.push(entry);
            } else {
                self.omitted += 1;
            }
        }
        taken
    }
}

fn text(text: &str) -> String {
    one_line(text).chars().take(PLAN_TEXT_MAX).collect()
}

fn is_webhook(object: &ObjectPlan) -> bool {
    object.change != Change::Keep
        && ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].contains(&object.kind.as_str())
}

/// Whether Pods of a workload are replaced.
fn restarts(object: &ObjectPlan) -> bool {
    let is_of_pods = |path: &str| path == "spec.template" || path.starts_with("spec.template.");
    object.change == Change::Change
        && ["DaemonSet", "Deployment", "StatefulSet"].contains(&object.kind.as_str())
        && object.fields.iter().any(|field| is_of_pods(&field.path))
}

fn object(object: &ObjectPlan) -> Option<PlannedObject> {
    let change = match object.change {
        Change::Create => PlannedChange::Create,
        Change::Change => PlannedChange::Change,
        Change::Delete => PlannedChange::Delete,
        Change::Keep | Change::Unknown => return None,
    };
    Some(PlannedObject {
        change,
        api_version: text(&object.api_version),
        kind: text(&object.kind),
        namespace: text(&object.namespace),
        name: text(&object.name),
        fields: object.fields.iter().take(PLAN_FIELDS_MAX).map(|field| text(&field.path)).collect(),
        note: object.note.as_deref().map(text),
    })
}

fn crd(finding: &CrdFinding) -> PlannedCrd {
    let accepted = finding.accepted.iter().map(|entry| format!("accepted: {entry}"));
    let all = finding.removed.iter().cloned().chain(finding.refused.iter().cloned()).chain(accepted);
    let all = all.chain(finding.stored_objects.iter().cloned());
    PlannedCrd {
        name: text(&finding.name),
        findings: all.take(PLAN_FIELDS_MAX).map(|one| text(&one)).collect(),
    }
}

fn image(ImageChange { workload, container, before, after }: &ImageChange) -> PlannedImage {
    PlannedImage {
        container: text(&format!("{workload} {container}")),
        from: before.as_deref().map(text),
        to: after.as_deref().map(text),
    }
}

/// The permissions of each ServiceAccount, one entry for each danger, the dangerous ones first.
fn gained(increase: &[ServiceAccountPermissions]) -> Vec<GainedPermissions> {
    let mut groups: BTreeMap<(bool, Option<&str>, String), Vec<String>> = BTreeMap::new();
    for one in increase {
        let account = text(&one.service_account);
        for permission in &one.permissions {
            let cluster: Vec<Rule> =
                permission.namespace.is_empty().then(|| permission.rule.clone()).into_iter().collect();
            let danger = dangers(&cluster).first().map(|danger| danger.meaning());
            let group = groups.entry((danger.is_none(), danger, account.clone())).or_default();
            group.push(text(&permission_line(permission)));
        }
        if !one.foreign_roles.is_empty() {
            let group = groups.entry((true, None, account)).or_default();
            group.extend(one.foreign_roles.iter().map(|role| text(&format!("all of {role}"))));
        }
    }
    let entry =
        |((_, danger, service_account), mut permissions): ((bool, Option<&str>, String), Vec<String>)| {
            permissions.truncate(PLAN_ENTRIES_MAX);
            GainedPermissions { service_account, danger: danger.map(str::to_owned), permissions }
        };
    groups.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use olm_rbac::Permission;
    use serde_json::json;

    use super::*;
    use crate::{
        difference::FieldChange,
        permissions::Permissions,
        plan::tests::{object as planned, plan},
        section::Section,
    };

    const DAWN: Timestamp = Timestamp::UNIX_EPOCH;

    fn recorded(plan: &Plan) -> ExtensionPlanSpec {
        record(plan, "u", Some("coast"), DAWN, None)
    }

    fn changed(kind: &str, name: &str, path: &str) -> ObjectPlan {
        let field = FieldChange { path: path.into(), before: None, after: Some(json!("hidden")) };
        ObjectPlan { kind: kind.into(), fields: vec![field], ..planned(name, Change::Change) }
    }

    #[test]
    fn names_and_paths_are_kept_and_values_are_not() {
        let secret = ObjectPlan {
            content: Some(json!({"data": {"key": "hidden"}})),
            ..changed("Secret", "s", "data.key")
        };
        let plan = plan(vec![
            secret,
            changed("Deployment", "d", "spec.template.spec.containers[a].image"),
            changed("Deployment", "scaled", "spec.replicas"),
            changed("ValidatingWebhookConfiguration", "w", "webhooks"),
            planned("same", Change::Keep),
        ]);
        let spec = recorded(&plan);
        assert!(!serde_json::to_string(&spec).unwrap().contains("hidden"));
        assert_eq!(spec.objects[0].fields, ["data.key"]);
        assert_eq!(spec.restarts, ["Deployment.v1 n/d"]);
        assert_eq!(spec.webhooks, ["ValidatingWebhookConfiguration.v1 n/w"]);
        assert_eq!((spec.counts.changed, spec.counts.kept, spec.objects.len()), (4, 1, 4));
        assert_eq!(spec.digest, plan.digest());
    }

    #[test]
    fn permissions_are_grouped_by_danger() {
        let rule = |resource: &str, verb: &str| Permission {
            namespace: String::new(),
            rule: Rule::new("", resource, None, &[verb]),
        };
        let mut plan = plan(Vec::new());
        let increase = vec![ServiceAccountPermissions {
            service_account: "n/a".into(),
            permissions: vec![rule("configmaps", "get"), rule("secrets", "list")],
            foreign_roles: vec!["ClusterRole view".into()],
            dangers: Vec::new(),
        }];
        plan.operator_permissions = Section::Known(Permissions { held: Vec::new(), increase });
        let groups = recorded(&plan).permissions;
        assert_eq!(groups[0].danger.as_deref(), Some("may read Secrets of every namespace"));
        assert_eq!((groups.len(), groups[0].permissions.len(), groups[1].permissions.len()), (2, 1, 2));
    }

    #[test]
    fn a_plan_that_is_too_large_is_cut_and_counted() {
        let many = (0..5_000).map(|index| planned(&format!("{index}-{}", "x".repeat(300)), Change::Create));
        let spec = recorded(&plan(many.collect()));
        let bytes = serde_json::to_string(&spec).unwrap().len();
        assert!(bytes <= RECORD_BYTES_MAX, "{bytes}");
        assert_eq!(spec.counts.created, 5_000);
        assert_eq!(spec.objects.len() + usize::try_from(spec.omitted).unwrap(), 5_000);
        assert!(spec.objects.len() > 100);
        // The head alone, with the longest texts.
        let mut long = plan(vec![planned(&"ä".repeat(5_000), Change::Create)]);
        let before = recorded(&long);
        let text = "\u{1f600}".repeat(5_000);
        let bundle = Resolution {
            version: text.clone(),
            bundle: text.clone(),
            image: text.clone(),
            catalog: Some(text),
            ..Resolution::default()
        };
        long.resolution = Section::Known(bundle);
        let spec = record(&long, "u", None, DAWN, Some(&before));
        assert_eq!(spec.objects[0].name.chars().count(), PLAN_TEXT_MAX);
        let head = ExtensionPlanSpec { objects: Vec::new(), ..spec };
        assert!(serde_json::to_string(&head).unwrap().len() <= HEAD_BYTES);
    }

    #[test]
    fn what_changed_between_two_plans_is_named() {
        let before = recorded(&plan(vec![planned("a", Change::Create), planned("b", Change::Create)]));
        let mut later = plan(vec![planned("b", Change::Delete), changed("ConfigMap", "c", "data")]);
        later.resolution = Section::Known(Resolution { version: "2".into(), ..Resolution::default() });
        let after = record(&later, "u", None, DAWN, Some(&before));
        let superseded = after.supersedes.unwrap();
        assert_eq!(superseded.digest, before.digest);
        assert_eq!(
            superseded.differences,
            [
                "version 2 instead of ",
                "ConfigMap.v1 n/b is deleted",
                "ConfigMap.v1 n/c changes",
                "ConfigMap.v1 n/a stays as it is"
            ]
        );
        assert_eq!(differences_to(&before, &before), ["other values of fields, or another configuration"]);
    }
}
