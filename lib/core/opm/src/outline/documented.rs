//! Rules that the format's documentation and schemas state and the original does not enforce.
//!
//! Breaking one is a warning, and an error only for those who ask for it: published catalogs break several.
//! Source: the file-based catalogs reference of the OLM documentation, with its CUE schemas.

use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_CHANNEL, PROPERTY_CONSTRAINT, PROPERTY_CSV_METADATA, PROPERTY_GVK,
    PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED,
};
use olm_go::{
    Quoted,
    field::{self, list, text},
};
use olm_object::names;
use olm_semver::SkipRange;
use serde_json::{Map, Value};

use crate::property;

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
    "olm.kubeversion",
    "olm.label",
    "olm.maxOpenShiftVersion",
    "olm.substitutesFor",
];

/// Tells whether a text has the form that a field asks for.
type Check = fn(&str) -> bool;

/// Rules for every document, whatever its schema.
pub(super) fn every(object: &Map<String, Value>, notes: &mut Vec<String>) {
    if given_but_empty(object, "package") {
        notes.push("package is empty: leave it out or name one".into());
    }
    let Some(properties) = field::raw(object, "properties").filter(|value| !value.is_null()) else { return };
    let Some(properties) = properties.as_array() else {
        notes.push("properties is not a list".into());
        return;
    };
    for (index, property) in properties.iter().enumerate() {
        let place = format!("properties[{index}]");
        let Some(property) = property.as_object() else {
            notes.push(format!("{place} is not an object with type and value"));
            continue;
        };
        let kind = text(property, "type");
        if kind.is_empty() {
            notes.push(format!("{place}.type is missing or empty"));
        } else if kind.starts_with(RESERVED_PREFIX) && !RESERVED_PROPERTIES.contains(&kind) {
            notes.push(format!("{place}.type {} has OLM's own prefix: use one of yours", Quoted(kind)));
        }
        match property::raw_value(property) {
            None | Some(Value::Null) => notes.push(format!("{place}.value is missing or null")),
            Some(value) => property_value(kind, value, &place, notes),
        }
    }
}

fn property_value(kind: &str, value: &Value, place: &str, notes: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    let part = |name| text(object, name);
    match kind {
        PROPERTY_GVK | PROPERTY_GVK_REQUIRED => {
            let checks: [(&str, Check, &str); 3] = [
                ("group", names::is_subdomain, "a DNS subdomain"),
                ("version", names::is_label_1035, "a DNS label that begins with a letter"),
                ("kind", names::is_kind, "a DNS label that begins with a letter, in any case"),
            ];
            for (name, valid, wanted) in checks {
                if !valid(part(name)) {
                    notes.push(format!(
                        "{place}.value.{name} {} of type {kind} is not {wanted}",
                        Quoted(part(name))
                    ));
                }
            }
        }
        PROPERTY_PACKAGE_REQUIRED => {
            if part("packageName").is_empty() {
                notes.push(format!("{place}.value.packageName of type {kind} is missing or empty"));
            }
            let range = part("versionRange");
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

/// Rules for packages.
pub(super) fn package(object: &Map<String, Value>, notes: &mut Vec<String>) {
    let Some(icon) = field::scalar(object, "icon").and_then(Value::as_object) else { return };
    for name in ["base64data", "mediatype"] {
        if field::scalar(icon, name).is_none() {
            notes.push(format!("icon.{name} is missing"));
        }
    }
}

/// Rules for channels.
pub(super) fn channel(object: &Map<String, Value>, notes: &mut Vec<String>) {
    if field::raw(object, "entries").is_none_or(Value::is_null) {
        notes.push("entries is missing".into());
    }
    for (index, entry) in list(object, "entries").iter().enumerate() {
        let place = format!("entries[{index}]");
        let empty = Map::new();
        let entry = entry.as_object().unwrap_or(&empty);
        if text(entry, "name").is_empty() {
            notes.push(format!("{place}.name is missing or empty"));
        }
        for name in ["replaces", "skipRange"] {
            if given_but_empty(entry, name) {
                notes.push(format!("{place}.{name} is empty: leave it out"));
            }
        }
        let range = text(entry, "skipRange");
        if range.parse::<SkipRange>().is_ok_and(|range| range.has_empty_group()) {
            notes.push(empty_group(&place, "skipRange", range));
        }
    }
}

/// Rules for bundles.
pub(super) fn bundle(object: &Map<String, Value>, notes: &mut Vec<String>) {
    if text(object, "image").is_empty() {
        notes.push("image is missing or empty".into());
    }
    let empty = Map::new();
    let (mut no_image, mut no_name) = (Vec::new(), Vec::new());
    for (index, related) in list(object, "relatedImages").iter().enumerate() {
        let related = related.as_object().unwrap_or(&empty);
        if text(related, "image").is_empty() {
            no_image.push(index);
        }
        if given_but_empty(related, "name") {
            no_name.push(index);
        }
    }
    notes.extend(first_of(&no_image, "relatedImages", "image is missing or empty"));
    notes.extend(first_of(&no_name, "relatedImages", "name is empty: leave it out"));
}

/// One note for all elements of a list that break the same rule; related images do so by the hundred.
fn first_of(places: &[usize], list: &str, problem: &str) -> Option<String> {
    let (first, rest) = places.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
    Some(format!("{list}[{first}].{problem}{more}"))
}

/// Rules for deprecations.
pub(super) fn deprecation(object: &Map<String, Value>, notes: &mut Vec<String>) {
    if field::scalar(object, "name").is_some() {
        notes.push("name is set: deprecations belong to a package and have no name".into());
    }
}

/// Rules for documents of other schemas.
pub(super) fn custom(schema: &str, notes: &mut Vec<String>) {
    if schema.starts_with(RESERVED_PREFIX) {
        notes.push(format!("schema {} has OLM's own prefix: use one of yours", Quoted(schema)));
    }
}

fn given_but_empty(object: &Map<String, Value>, name: &str) -> bool {
    field::scalar(object, name).is_some_and(|value| value.as_str() == Some(""))
}
