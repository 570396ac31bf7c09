//! A plan as a person reads it.

use std::fmt::Write as _;

use olm_rbac::Permission;
use olm_text::{counted, one_line};
use serde_json::Value;

use crate::{
    content::ContentDifference,
    difference::FieldChange,
    dry_run::DryRun,
    images::ImageChange,
    limits::{FIELDS_SHOWN_MAX, NAMED_OBJECTS_MAX, VALUE_CHARACTERS_MAX},
    objects::{Change, ObjectPlan},
    permissions::{ServiceAccountPermissions, place_of},
    plan::{CrdFinding, Plan, Resolution},
    section::Section,
    writes::Writes,
};

/// The field that every new version changes in every object.
const VERSION_FIELD: &str = "metadata.annotations[\"olm.operatorframework.io/bundle-version\"]";

impl Plan {
    /// The text form: changes, obstacles, and parts that are not known.
    pub fn to_text(&self) -> String {
        let plan = self.clone().sorted();
        let mut text = format!("{} would become revision {}\n", plan.extension, plan.revision);
        section(&mut text, "Bundle", &plan.resolution, resolution);
        line(&mut text, &format!("  applied as ServiceAccount {}", plan.inputs.service_account));
        line(&mut text, &format!("  namespace  {}", plan.inputs.namespace));
        line(&mut text, &format!("  plan       {}", plan.digest()));
        list(&mut text, "Extensions that are created first", &plan.dependencies);
        section(&mut text, "Objects", &plan.objects, |text, all| objects(text, all));
        section(&mut text, "Images", &plan.images, |text, all| images(text, all));
        section(&mut text, "CRDs", &plan.crds, |text, all| all.iter().for_each(|one| crd(text, one)));
        section(
            &mut text,
            "Missing permissions of the ServiceAccount",
            &plan.missing_permissions,
            |text, all| {
                for one in all {
                    line(text, &format!("  {}", permission_line(one)));
                }
            },
        );
        section(&mut text, "New permissions of the operator", &plan.operator_permissions, |text, all| {
            permissions(text, '+', &all.increase);
        });
        section(&mut text, "Dry-run", &plan.dry_run, dry_run);
        list(&mut text, "Notes", &plan.notes);
        list(&mut text, "Blocked", &plan.blocked());
        text.truncate(text.trim_end().len());
        text
    }
}

impl ContentDifference {
    /// The text form, in the words of a plan.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        part(&mut text, "Objects", |text| objects(text, &self.objects));
        part(&mut text, "Images", |text| images(text, &self.images));
        part(&mut text, "New permissions of the operator", |text| {
            permissions(text, '+', &self.gained_permissions);
        });
        part(&mut text, "Permissions that the operator loses", |text| {
            permissions(text, '-', &self.lost_permissions);
        });
        text
    }
}

impl Writes {
    /// The text form, in the words of a plan.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        part(&mut text, "Objects", |text| objects(text, &self.objects));
        part(&mut text, "Images", |text| images(text, &self.images));
        part(&mut text, "Dry-run", |text| dry_run(text, &self.dry_run));
        list(&mut text, "Notes", &self.notes);
        text
    }
}

/// A line. Names and values are foreign: a line break of theirs begins no other line.
fn line(text: &mut String, line: &str) {
    text.push_str(&one_line(line));
    text.push('\n');
}

/// Lines of a text that may have several, with what comes before the first and the further ones.
fn lines(text: &mut String, [first, further]: [&str; 2], all: &str) {
    for (index, one) in all.lines().enumerate() {
        line(text, &format!("{}{one}", if index == 0 { first } else { further }));
    }
}

fn list(text: &mut String, title: &str, items: &[String]) {
    if !items.is_empty() {
        line(text, title);
        for one in items {
            lines(text, ["  ", "  "], one);
        }
    }
}

/// A part with its title; an empty one is a line.
fn part(text: &mut String, title: &str, write: impl FnOnce(&mut String)) {
    let mut inner = String::new();
    write(&mut inner);
    if inner.is_empty() {
        line(text, &format!("{title}: none"));
    } else {
        line(text, title);
        text.push_str(&inner);
    }
}

/// A section that may not be known.
fn section<T>(text: &mut String, title: &str, section: &Section<T>, write: impl FnOnce(&mut String, &T)) {
    match section {
        Section::Unknown { why } => line(text, &format!("{title}: not known: {why}")),
        Section::Known(content) => part(text, title, |text| write(text, content)),
    }
}

fn resolution(text: &mut String, chosen: &Resolution) {
    let Resolution { package, bundle, version, image, catalog, installed } = chosen;
    line(text, &format!("  {bundle}  version {version} of package {package}"));
    line(text, &format!("  image      {image}"));
    line(text, &format!("  catalog    {}", catalog.as_deref().unwrap_or("(none has it any more)")));
    match installed {
        Some(old) => line(
            text,
            &format!("  installed  {}  version {}, revision {}", old.bundle, old.version, old.revision),
        ),
        None => line(text, "  installed  nothing"),
    }
}

fn objects(text: &mut String, all: &[ObjectPlan]) {
    let only_version = |object: &&ObjectPlan| {
        object.change == Change::Change && object.fields.iter().all(|f| f.path == VERSION_FIELD)
    };
    for object in all {
        let sign = match object.change {
            Change::Create => '+',
            Change::Change if !only_version(&object) => '~',
            Change::Delete => '-',
            Change::Unknown => '?',
            Change::Change | Change::Keep if object.note.is_some() => ' ',
            Change::Change | Change::Keep => continue,
        };
        line(text, &format!("  {sign} {}", object.object()));
        if let Some(note) = &object.note {
            line(text, &format!("      {note}"));
        }
        if sign == '~' {
            let fields: Vec<_> = object.fields.iter().filter(|field| field.path != VERSION_FIELD).collect();
            for field in fields.iter().take(FIELDS_SHOWN_MAX) {
                line(text, &format!("      {}", change(field)));
            }
            let more = fields.len().saturating_sub(FIELDS_SHOWN_MAX);
            if more > 0 {
                line(text, &format!("      and {more} more fields"));
            }
        }
    }
    let count = |what: &dyn Fn(&&ObjectPlan) -> bool| all.iter().filter(what).count();
    let marked = count(&only_version);
    let kept = count(&|object| object.change == Change::Keep);
    if marked > 0 {
        line(text, &format!("    {marked} more that only get the new version as an annotation"));
    }
    if kept > 0 {
        line(text, &format!("    {kept} more that stay as they are"));
    }
}

fn dry_run(text: &mut String, said: &DryRun) {
    line(text, &format!("  {} accepted", counted(said.accepted, "object")));
    for refused in &said.refused {
        lines(text, ["  refused: ", "    "], &format!("{}: {}", refused.object, refused.message));
    }
    for deferred in &said.deferred {
        line(text, &format!("  checked when its turn comes: {}: {}", deferred.object, deferred.why));
    }
}

fn change(field: &FieldChange) -> String {
    match (&field.before, &field.after) {
        (Some(before), Some(after)) => {
            format!("{}: {} -> {}", field.path, shown(before), shown(after))
        }
        (None, Some(after)) => format!("{}: + {}", field.path, shown(after)),
        (Some(before), None) => format!("{}: - {}", field.path, shown(before)),
        (None, None) => field.path.clone(),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

fn crd(text: &mut String, crd: &CrdFinding) {
    line(text, &format!("  {}", crd.name));
    for refused in &crd.refused {
        lines(text, ["    refused: ", "      "], refused);
    }
    for accepted in &crd.accepted {
        line(text, &format!("    accepted: {accepted}"));
    }
    for decided in &crd.decided_by_objects {
        lines(text, ["    accepted, no stored object is affected: ", "      "], decided);
    }
    if let Some(removed) = &crd.removed {
        line(text, &format!("    {removed}"));
    }
    if let Some(objects) = &crd.stored_objects {
        line(text, &format!("    stored objects: {objects}"));
    }
    for object in crd.objects.iter().take(NAMED_OBJECTS_MAX) {
        line(text, &format!("      {}: {}", object.object, object.impact));
    }
    let more = crd.objects.len().saturating_sub(NAMED_OBJECTS_MAX);
    if more > 0 {
        line(text, &format!("      and {more} more"));
    }
}

fn images(text: &mut String, all: &[ImageChange]) {
    for image in all.iter().filter(|image| image.before != image.after) {
        let (before, after) = (image.before.as_deref(), image.after.as_deref());
        let (before, after) = (before.unwrap_or("(none)"), after.unwrap_or("(none)"));
        line(text, &format!("  {} [{}]: {before} -> {after}", image.workload, image.container));
    }
}

/// Permissions with a sign for gained or lost.
fn permissions(text: &mut String, sign: char, all: &[ServiceAccountPermissions]) {
    for ServiceAccountPermissions { service_account, permissions, foreign_roles, dangers } in all {
        line(text, &format!("  {service_account}"));
        for one in permissions {
            line(text, &format!("    {sign} {}", permission_line(one)));
        }
        for one in foreign_roles {
            line(text, &format!("    {sign} all of {one}"));
        }
        for one in dangers {
            line(text, &format!("    ! {one}"));
        }
    }
}

/// A permission on one line.
pub fn permission_line(Permission { namespace, rule }: &Permission) -> String {
    let join =
        |items: &mut dyn Iterator<Item = &String>| items.map(String::as_str).collect::<Vec<_>>().join(",");
    let mut on: Vec<String> = rule.non_resource_urls.iter().cloned().collect();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            on.push(if group.is_empty() { resource.clone() } else { format!("{group}/{resource}") });
        }
    }
    let mut text = on.join(",");
    if !rule.resource_names.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, " {:?}", join(&mut rule.resource_names.iter()));
    }
    format!("{text}: {} {}", join(&mut rule.verbs.iter()), place_of(namespace))
}

#[cfg(test)]
mod tests {
    use olm_object::Rule;
    use serde_json::json;

    use super::*;
    use crate::plan::{
        NamedObject,
        tests::{object, plan},
    };

    #[test]
    fn a_person_reads_what_happens_and_what_is_not_known() {
        let mut changed = object("b", Change::Change);
        changed.fields = vec![FieldChange {
            path: "data.x".into(),
            before: Some(json!("1")),
            after: Some(json!("y".repeat(200))),
        }];
        let mut marked = object("c", Change::Change);
        marked.fields = vec![FieldChange {
            path: VERSION_FIELD.into(),
            before: Some(json!("1")),
            after: Some(json!("2")),
        }];
        let all = vec![
            object("a", Change::Create),
            changed,
            marked,
            object("d", Change::Delete),
            object("e", Change::Keep),
        ];
        let mut plan = plan(all);
        plan.dry_run = Section::unknown("no token");
        let text = plan.to_text();
        for wanted in [
            "e would become revision e-1\n",
            "  installed  nothing\n",
            "  + ConfigMap.v1 n/a\n  ~ ConfigMap.v1 n/b\n      data.x: \"1\" -> \"yyyy",
            "... (202 characters)\n  - ConfigMap.v1 n/d\n",
            "    1 more that only get the new version as an annotation\n    1 more that stay as they are\n",
            "Missing permissions of the ServiceAccount: none\n",
            "Dry-run: not known: no token",
        ] {
            assert!(text.contains(wanted), "{wanted:?} in\n{text}");
        }
    }

    #[test]
    fn crds_are_listed_one_by_one() {
        let finding = CrdFinding {
            name: "a.b".into(),
            refused: vec!["v1: ^.spec.size: maximum: lower".into()],
            accepted: vec!["a.b:^.spec.x:type".into()],
            stored_objects: Some("1 of 9 objects would become invalid".into()),
            objects: (0..25)
                .map(|n| NamedObject { object: format!("n/{n:02}"), impact: "would become invalid".into() })
                .collect(),
            ..CrdFinding::default()
        };
        let mut text = String::new();
        crd(&mut text, &finding);
        assert!(text.starts_with(
            "  a.b\n    refused: v1: ^.spec.size: maximum: lower\n    accepted: a.b:^.spec.x:type\n    \
             stored objects: 1 of 9 objects would become invalid\n      n/00: would become invalid\n"
        ));
        assert!(text.ends_with("      n/19: would become invalid\n      and 5 more\n"), "{text}");
    }

    #[test]
    fn a_permission_is_one_line() {
        let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a", "b"], "verbs": ["get", "list"]});
        let one = Permission { namespace: "n".into(), rule: Rule::of(&rule) };
        assert_eq!(permission_line(&one), "apps/deployments \"a,b\": get,list in namespace n");
    }
}
