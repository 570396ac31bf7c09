//! Rules that the format's documentation and schemas state and opm does not enforce.
//!
//! Breaking one is a warning, and an error only for those who ask for it: published catalogs break several.
//! Source: the file-based catalogs reference of the OLM documentation, with its CUE schemas.

use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_CHANNEL, PROPERTY_CONSTRAINT, PROPERTY_CSV_METADATA, PROPERTY_GVK,
    PROPERTY_GVK_REQUIRED, PROPERTY_KUBERNETES_VERSION, PROPERTY_MAX_OPENSHIFT_VERSION, PROPERTY_PACKAGE,
    PROPERTY_PACKAGE_REQUIRED, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
use olm_go::{Quoted, field::Fields};
use olm_object::names;
use olm_semver::SkipRange;
use serde_json::Value;

/// Names with this prefix belong to OLM.
const RESERVED_PREFIX: &str = "olm.";

/// Property types with that prefix which OLM, its tools or its documentation define.
const RESERVED_PROPERTIES: [&str; 12] = [
    PROPERTY_PACKAGE,
    PROPERTY_PACKAGE_REQUIRED,
    PROPERTY_GVK,
    PROPERTY_GVK_REQUIRED,
    PROPERTY_CONSTRAINT,
    PROPERTY_BUNDLE_OBJECT,
    PROPERTY_CSV_METADATA,
    PROPERTY_CHANNEL,
    PROPERTY_KUBERNETES_VERSION,
    "olm.label",
    PROPERTY_MAX_OPENSHIFT_VERSION,
    "olm.substitutesFor",
];

/// Checks whether a text has the form that a field asks for.
type Check = fn(&str) -> bool;

/// The broken rules of a document.
pub(super) fn notes(schema: &str, document: Fields<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    match schema {
        SCHEMA_PACKAGE => package(document, &mut notes),
        SCHEMA_CHANNEL => channel(document, &mut notes),
        SCHEMA_BUNDLE => bundle(document, &mut notes),
        SCHEMA_DEPRECATIONS if document.scalar("name").is_some() => {
            notes.push("name is set: deprecations belong to a package and have no name".into());
        }
        custom if custom.starts_with(RESERVED_PREFIX) && custom != SCHEMA_DEPRECATIONS => {
            notes.push(format!("schema {} has OLM's own prefix: use a prefix of your own", Quoted(custom)));
        }
        _ => {}
    }
    if is_empty(document, "package") {
        notes.push("package is empty: remove the field or name a package".into());
    }
    match document.raw("properties") {
        None | Some(Value::Null | Value::Array(_)) => {}
        Some(_) => notes.push("properties is not a list".into()),
    }
    for (index, value) in document.list("properties").iter().enumerate() {
        property(Fields::of(value), value.is_object(), &format!("properties[{index}]"), &mut notes);
    }
    notes
}

fn property(property: Fields<'_>, is_object: bool, place: &str, notes: &mut Vec<String>) {
    if !is_object {
        return notes.push(format!("{place} is not an object with type and value"));
    }
    let kind = property.text("type");
    if kind.is_empty() {
        notes.push(format!("{place}.type is missing or empty"));
    } else if kind.starts_with(RESERVED_PREFIX) && !RESERVED_PROPERTIES.contains(&kind) {
        notes.push(format!("{place}.type {} has OLM's own prefix: use a prefix of your own", Quoted(kind)));
    }
    match property.raw("value") {
        None | Some(Value::Null) => notes.push(format!("{place}.value is missing or null")),
        Some(Value::Object(value)) => property_value(kind, value.into(), place, notes),
        Some(_) => {}
    }
}

fn property_value(kind: &str, value: Fields<'_>, place: &str, notes: &mut Vec<String>) {
    match kind {
        PROPERTY_GVK | PROPERTY_GVK_REQUIRED => {
            let checks: [(&str, Check, &str); 3] = [
                ("group", names::is_subdomain, "a DNS subdomain"),
                ("version", names::is_label_1035, "a DNS label that begins with a letter"),
                ("kind", names::is_kind, "a DNS label that begins with a letter, in any case"),
            ];
            for (name, valid, wanted) in checks {
                let part = value.text(name);
                if !valid(part) {
                    let part = Quoted(part);
                    notes.push(format!("{place}.value.{name} {part} of type {kind} is not {wanted}"));
                }
            }
        }
        PROPERTY_PACKAGE_REQUIRED => {
            if value.text("packageName").is_empty() {
                notes.push(format!("{place}.value.packageName of type {kind} is missing or empty"));
            }
            let range = value.text("versionRange");
            match range.parse::<SkipRange>() {
                Ok(parsed) if parsed.has_empty_group() => {
                    notes.push(empty_group(place, "value.versionRange", range));
                }
                Ok(_) => {}
                Err(problem) => notes.push(format!(
                    "{place}.value.versionRange {} of type {kind} is not a range: {problem}",
                    Quoted(range)
                )),
            }
        }
        _ => {}
    }
}

fn empty_group(place: &str, name: &str, range: &str) -> String {
    format!("{place}.{name} {} has nothing between two \"||\": that part never matches", Quoted(range))
}

fn package(package: Fields<'_>, notes: &mut Vec<String>) {
    let Some(icon) = package.scalar("icon").map(Fields::of) else { return };
    let missing = ["base64data", "mediatype"].into_iter().filter(|name| icon.scalar(name).is_none());
    notes.extend(missing.map(|name| format!("icon.{name} is missing")));
}

fn channel(channel: Fields<'_>, notes: &mut Vec<String>) {
    if channel.raw("entries").is_none_or(Value::is_null) {
        notes.push("entries is missing".into());
    }
    for (index, entry) in channel.objects("entries").enumerate() {
        let place = format!("entries[{index}]");
        if entry.text("name").is_empty() {
            notes.push(format!("{place}.name is missing or empty"));
        }
        for name in ["replaces", "skipRange"] {
            if is_empty(entry, name) {
                notes.push(format!("{place}.{name} is empty: remove the field"));
            }
        }
        let range = entry.text("skipRange");
        if range.parse::<SkipRange>().is_ok_and(|range| range.has_empty_group()) {
            notes.push(empty_group(&place, "skipRange", range));
        }
    }
}

fn bundle(bundle: Fields<'_>, notes: &mut Vec<String>) {
    if bundle.text("image").is_empty() {
        notes.push("image is missing or empty".into());
    }
    // One note for all that break the same rule: related images do so by the hundred.
    let first = |breaks: &dyn Fn(Fields<'_>) -> bool, problem| {
        let mut places = bundle.objects("relatedImages").enumerate().filter(|(_, related)| breaks(*related));
        let ((first, _), rest) = (places.next()?, places.count());
        let more = if rest == 0 { String::new() } else { format!(" (and {rest} more)") };
        Some(format!("relatedImages[{first}].{problem}{more}"))
    };
    notes.extend(first(&|related| related.text("image").is_empty(), "image is missing or empty"));
    notes
        .extend(first(&|related| is_empty(related, "name"), "name is empty: remove the field or set a name"));
}

/// Whether a field is given and empty.
fn is_empty(fields: Fields<'_>, name: &str) -> bool {
    fields.scalar(name).is_some_and(|value| value.as_str() == Some(""))
}
