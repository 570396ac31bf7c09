//! The fields of the known schemas: their order, and which are left out when they are empty.

use serde_json::value::RawValue;
use std::collections::BTreeMap;

use olm_fbc::{SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use olm_go::field;

/// A field of a structure.
struct Field {
    name: &'static str,
    /// What is written when the field is missing; `None` leaves it out, also when it is empty.
    missing: Option<&'static str>,
    form: FieldForm,
}

impl Field {
    /// Whether null sets the field to nothing: slices and raw messages.
    fn is_emptied_by_null(&self) -> bool {
        matches!(self.form, Bytes | List(_) | Texts) || self.missing == Some(NULL)
    }
}

enum FieldForm {
    /// As it is.
    Raw,
    /// A list of texts, written as it is.
    Texts,
    /// Base64, written without the line breaks it may have.
    Bytes,
    Structure(&'static [Field]),
    List(&'static [Field]),
}

use FieldForm::{Bytes, List, Raw, Structure, Texts};

const fn always(name: &'static str, missing: &'static str, form: FieldForm) -> Field {
    Field { name, missing: Some(missing), form }
}

const fn optional(name: &'static str, form: FieldForm) -> Field {
    Field { name, missing: None, form }
}

const EMPTY: &str = "\"\"";
const NULL: &str = "null";

static PROPERTY: [Field; 2] = [always("type", EMPTY, Raw), always("value", NULL, Raw)];
static ICON: [Field; 2] = [always("base64data", NULL, Bytes), always("mediatype", EMPTY, Raw)];
static PACKAGE: [Field; 6] = [
    always("schema", EMPTY, Raw),
    always("name", EMPTY, Raw),
    always("defaultChannel", EMPTY, Raw),
    optional("icon", Structure(&ICON)),
    optional("description", Raw),
    optional("properties", List(&PROPERTY)),
];
static ENTRY: [Field; 4] = [
    always("name", EMPTY, Raw),
    optional("replaces", Raw),
    optional("skips", Texts),
    optional("skipRange", Raw),
];
static CHANNEL: [Field; 5] = [
    always("schema", EMPTY, Raw),
    always("name", EMPTY, Raw),
    always("package", EMPTY, Raw),
    always("entries", NULL, List(&ENTRY)),
    optional("properties", List(&PROPERTY)),
];
static RELATED_IMAGE: [Field; 2] = [always("name", EMPTY, Raw), always("image", EMPTY, Raw)];
static BUNDLE: [Field; 6] = [
    always("schema", EMPTY, Raw),
    optional("name", Raw),
    optional("package", Raw),
    always("image", EMPTY, Raw),
    optional("properties", List(&PROPERTY)),
    optional("relatedImages", List(&RELATED_IMAGE)),
];
static REFERENCE: [Field; 2] = [always("schema", EMPTY, Raw), optional("name", Raw)];
static DEPRECATION_ENTRY: [Field; 2] =
    [always("reference", "{\"schema\":\"\"}", Structure(&REFERENCE)), always("message", EMPTY, Raw)];
static DEPRECATION: [Field; 3] = [
    always("schema", EMPTY, Raw),
    always("package", EMPTY, Raw),
    always("entries", NULL, List(&DEPRECATION_ENTRY)),
];

/// The document in `line` with its fields in the order of its schema; of other schemas as it is.
pub(super) fn ordered(schema: &str, line: &[u8]) -> Result<String, serde_json::Error> {
    let fields = match schema {
        SCHEMA_PACKAGE => &PACKAGE[..],
        SCHEMA_CHANNEL => &CHANNEL,
        SCHEMA_BUNDLE => &BUNDLE,
        SCHEMA_DEPRECATIONS => &DEPRECATION,
        _ => return serde_json::from_slice::<&RawValue>(line).map(|raw| raw.get().to_owned()),
    };
    let mut out = String::with_capacity(line.len());
    let raw = serde_json::from_slice::<&RawValue>(line)?;
    structure(raw.get(), fields, &mut out)?;
    Ok(out)
}

fn structure(text: &str, fields: &[Field], out: &mut String) -> Result<(), serde_json::Error> {
    let members: BTreeMap<String, &RawValue> =
        if text == NULL { BTreeMap::new() } else { serde_json::from_str(text)? };
    let mut separator = '{';
    for field in fields {
        let members = members.iter().map(|(key, value)| (key.as_str(), value.get()));
        let value = if field.is_emptied_by_null() {
            field::last(members, field.name)
        } else {
            field::last(members.filter(|(_, value)| *value != NULL), field.name)
        };
        let value = value.filter(|value| *value != NULL);
        let value = match (value, field.missing) {
            (Some(EMPTY | "[]") | None, None) => continue,
            (Some(value), _) => value,
            (None, Some(missing)) => missing,
        };
        out.push(separator);
        separator = ',';
        out.push('"');
        out.push_str(field.name);
        out.push_str("\":");
        match &field.form {
            Bytes => out.push_str(&value.replace("\\n", "").replace("\\r", "")),
            Structure(fields) => structure(value, fields, out)?,
            List(fields) if value != NULL => list(value, fields, out)?,
            Raw | Texts | List(_) => out.push_str(value),
        }
    }
    if separator == '{' {
        out.push('{');
    }
    out.push('}');
    Ok(())
}

fn list(text: &str, fields: &[Field], out: &mut String) -> Result<(), serde_json::Error> {
    let items: Vec<&RawValue> = serde_json::from_str(text)?;
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        structure(item.get(), fields, out)?;
    }
    out.push(']');
    Ok(())
}
