//! `olm.csv.metadata`: the fields of a ClusterServiceVersion that user interfaces show.
//!
//! Written as the original's structures print: known fields only, in their order, empty ones left out, except
//! that `apiServiceDefinitions`, `crdDescriptions` and `provider` always are there.

use olm_go::json::{self, Html, Object};
use serde_json::{Value, value::RawValue};

use crate::{FieldError, fields::Fields};

/// The value of the property for a ClusterServiceVersion.
pub(crate) fn csv_metadata(csv: &Value) -> Result<Box<RawValue>, FieldError> {
    let top = Fields::of(csv)?;
    let (metadata, spec) = (top.object("metadata")?, top.object("spec")?);
    let mut out = Vec::new();
    let mut object = Object::new(&mut out, Html::Kept);
    text_map(&mut object, "annotations", &metadata)?;
    owned_and_required(
        &mut object,
        "apiServiceDefinitions",
        &spec.object("apiservicedefinitions")?,
        service,
    )?;
    owned_and_required(&mut object, "crdDescriptions", &spec.object("customresourcedefinitions")?, crd)?;
    texts(&mut object, &spec, &["description", "displayName"])?;
    list(&mut object, &spec, "installModes", |object, mode| {
        always(object, mode, &["type"])?;
        object.value("supported", &Value::Bool(mode.boolean("supported")?));
        Ok(())
    })?;
    text_list(&mut object, &spec, "keywords")?;
    text_map(&mut object, "labels", &metadata)?;
    list(&mut object, &spec, "links", |object, link| texts(object, link, &["name", "url"]))?;
    list(&mut object, &spec, "maintainers", |object, person| texts(object, person, &["name", "email"]))?;
    texts(&mut object, &spec, &["maturity", "minKubeVersion"])?;
    list(&mut object, &spec, "nativeAPIs", |object, api| always(object, api, &["group", "version", "kind"]))?;
    let mut provider = Object::new(object.key("provider"), Html::Kept);
    texts(&mut provider, &spec.object("provider")?, &["name", "url"])?;
    provider.end();
    object.end();
    Ok(json::into_raw(out))
}

/// Strings that are left out when empty.
fn texts(object: &mut Object<'_>, fields: &Fields<'_>, names: &[&str]) -> Result<(), FieldError> {
    for name in names {
        let text = fields.text(name)?;
        if !text.is_empty() {
            object.text(name, text);
        }
    }
    Ok(())
}

/// Strings that are always there.
fn always(object: &mut Object<'_>, fields: &Fields<'_>, names: &[&str]) -> Result<(), FieldError> {
    for name in names {
        object.text(name, fields.text(name)?);
    }
    Ok(())
}

fn text_map(object: &mut Object<'_>, name: &str, fields: &Fields<'_>) -> Result<(), FieldError> {
    let entries = fields.text_map(name)?;
    if !entries.is_empty() {
        let mut map = Object::new(object.key(name), Html::Kept);
        for (key, content) in entries {
            map.text(key, content);
        }
        map.end();
    }
    Ok(())
}

fn text_list(object: &mut Object<'_>, fields: &Fields<'_>, name: &str) -> Result<(), FieldError> {
    let items = fields.texts(name)?;
    if !items.is_empty() {
        let out = object.key(name);
        separated(out, &items, |out, item| {
            json::write_text(out, item, Html::Kept);
            Ok(())
        })?;
    }
    Ok(())
}

/// A list of objects, left out when empty.
fn list(
    object: &mut Object<'_>,
    fields: &Fields<'_>,
    name: &str,
    write: impl Fn(&mut Object<'_>, &Fields<'_>) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let items = fields.objects(name)?;
    if items.is_empty() {
        return Ok(());
    }
    separated(object.key(name), &items, |out, item| {
        let mut object = Object::new(out, Html::Kept);
        write(&mut object, item)?;
        object.end();
        Ok(())
    })
}

fn separated<T>(
    out: &mut Vec<u8>,
    items: &[T],
    write: impl Fn(&mut Vec<u8>, &T) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item)?;
    }
    out.push(b']');
    Ok(())
}

fn owned_and_required(
    object: &mut Object<'_>,
    name: &str,
    definitions: &Fields<'_>,
    write: impl Fn(&mut Object<'_>, &Fields<'_>) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let mut inner = Object::new(object.key(name), Html::Kept);
    list(&mut inner, definitions, "owned", &write)?;
    list(&mut inner, definitions, "required", &write)?;
    inner.end();
    Ok(())
}

fn crd(object: &mut Object<'_>, crd: &Fields<'_>) -> Result<(), FieldError> {
    always(object, crd, &["name", "version", "kind"])?;
    described(object, crd)
}

fn service(object: &mut Object<'_>, service: &Fields<'_>) -> Result<(), FieldError> {
    always(object, service, &["name", "group", "version", "kind"])?;
    texts(object, service, &["deploymentName"])?;
    let port = service.integer("containerPort")?;
    if port != 0 {
        object.value("containerPort", &Value::from(port));
    }
    described(object, service)
}

/// What CRDs and API services have in common.
fn described(object: &mut Object<'_>, api: &Fields<'_>) -> Result<(), FieldError> {
    texts(object, api, &["displayName", "description"])?;
    list(object, api, "resources", |object, resource| {
        always(object, resource, &["name", "kind", "version"])
    })?;
    for name in ["statusDescriptors", "specDescriptors", "actionDescriptors"] {
        list(object, api, name, descriptor)?;
    }
    Ok(())
}

fn descriptor(object: &mut Object<'_>, descriptor: &Fields<'_>) -> Result<(), FieldError> {
    always(object, descriptor, &["path"])?;
    texts(object, descriptor, &["displayName", "description"])?;
    text_list(object, descriptor, "x-descriptors")?;
    if let Some(value) = descriptor.raw("value") {
        // The original passes this on as its encoder wrote the ClusterServiceVersion.
        json::write_value(object.key("value"), value, Html::Escaped);
    }
    Ok(())
}
