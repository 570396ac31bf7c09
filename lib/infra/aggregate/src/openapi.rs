//! OpenAPI documents, versions 2 and 3, made of the schema of the kind.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::Names;

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Where a document keeps its definitions, as the head of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Definitions,
    Components,
}

impl Place {
    fn path(self) -> &'static str {
        match self {
            Self::Definitions => "/definitions",
            Self::Components => "/components/schemas",
        }
    }

    fn reference(self, name: &str) -> Value {
        json!({ "$ref": format!("#{}/{name}", self.path()) })
    }
}

/// `/openapi/v2`.
pub(crate) fn second(names: &Names) -> Value {
    let (root, definitions) = definitions(names, Place::Definitions);
    json!({
        "swagger": "2.0",
        "info": { "title": names.group, "version": names.version },
        "paths": paths(names, Place::Definitions, &root),
        "definitions": definitions,
    })
}

/// `/openapi/v3/apis/<group>/<version>`.
pub(crate) fn third(names: &Names) -> Value {
    let (root, schemas) = definitions(names, Place::Components);
    json!({
        "openapi": "3.0.0",
        "info": { "title": names.group, "version": names.version },
        "paths": paths(names, Place::Components, &root),
        "components": { "schemas": schemas },
    })
}

/// The path of the document of version 3, without its first slash, which is also the name that clients know it by.
pub(crate) fn third_path(names: &Names) -> String {
    format!("apis/{}", names.api_version())
}

/// `com.example.apps.v1.`, for the group `apps.example.com` and the version `v1`.
fn prefix(names: &Names) -> String {
    let mut labels: Vec<_> = names.group.split('.').rev().collect();
    labels.push(names.version);
    labels.push("");
    labels.join(".")
}

/// The name of the kind's definition, and all definitions.
fn definitions(names: &Names, place: Place) -> (String, Value) {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.definitions_path = place.path().into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let root = (names.schema)(&mut generator);
    generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta>();
    let (prefix, mut all) = (prefix(names), Map::new());
    let whole = |name: &str| if name.contains('.') { name.to_owned() } else { format!("{prefix}{name}") };
    for (name, mut schema) in generator.take_definitions(true) {
        rename(&mut schema, place, &whole);
        all.insert(whole(&name), schema);
    }
    let root = root.get("$ref").and_then(Value::as_str).unwrap_or_default();
    let root = whole(root.rsplit('/').next().unwrap_or_default());
    let group_version_kind =
        |kind: &str| json!([{ "group": names.group, "version": names.version, "kind": kind }]);
    if let Some(schema) = all.get_mut(&root) {
        schema["x-kubernetes-group-version-kind"] = group_version_kind(names.kind);
    }
    let text = |description: &str| json!({ "description": description, "type": "string" });
    let list = json!({
        "description": format!("{0}List is a list of {0} objects.", names.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text("The group and version of the list."),
            "kind": text("The kind of the list."),
            "metadata": place.reference(LIST_META),
            "items": { "type": "array", "items": place.reference(&root) },
        },
        "x-kubernetes-group-version-kind": group_version_kind(&format!("{}List", names.kind)),
    });
    all.insert(format!("{root}List"), list);
    (root, Value::Object(all))
}

/// Gives references the whole names of definitions.
fn rename(schema: &mut Value, place: Place, whole: &impl Fn(&str) -> String) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                let name = value.as_str().and_then(|text| text.rsplit('/').next());
                match name {
                    Some(name) if key == "$ref" => {
                        *value = json!(format!("#{}/{}", place.path(), whole(name)));
                    }
                    _ => rename(value, place, whole),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, place, whole)),
        _ => {}
    }
}

fn paths(names: &Names, place: Place, root: &str) -> Value {
    let base = format!("/{}", third_path(names));
    let plural = names.plural;
    let (list, object) = (place.reference(&format!("{root}List")), place.reference(root));
    let get = |action: &str, id: &str, schema: &Value| operation(names, place, (action, id), schema);
    let mut paths = Map::new();
    let mut add = |path: String, parameters: &[&str], operation: Value| {
        let parameters: Vec<_> = parameters.iter().map(|name| parameter(place, name)).collect();
        paths.insert(path, json!({ "get": operation, "parameters": parameters }));
    };
    add(format!("{base}/{plural}"), &[], get("list", "listForAllNamespaces", &list));
    let namespaced = format!("{base}/namespaces/{{namespace}}/{plural}");
    add(namespaced.clone(), &["namespace"], get("list", "listNamespaced", &list));
    let object_path = format!("{namespaced}/{{name}}");
    add(object_path.clone(), &["name", "namespace"], get("get", "readNamespaced", &object));
    for subresource in names.subresources {
        let id = format!("connectNamespaced{subresource}");
        let operation = get("connect", &id, &json!({ "type": "string" }));
        add(format!("{object_path}/{subresource}"), &["name", "namespace"], operation);
    }
    Value::Object(paths)
}

fn parameter(place: Place, name: &str) -> Value {
    let mut parameter = json!({ "name": name, "in": "path", "required": true });
    match place {
        Place::Definitions => parameter["type"] = json!("string"),
        Place::Components => parameter["schema"] = json!({ "type": "string" }),
    }
    parameter
}

fn operation(names: &Names, place: Place, (action, id): (&str, &str), schema: &Value) -> Value {
    let answer = match place {
        Place::Definitions => json!({ "description": "OK", "schema": schema }),
        Place::Components => {
            json!({ "description": "OK", "content": { "application/json": { "schema": schema } } })
        }
    };
    let title: String = prefix(names).split('.').flat_map(capitalised).collect();
    json!({
        "operationId": format!("{id}{title}{}", names.kind),
        "responses": { "200": answer },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": names.group, "version": names.version, "kind": names.kind,
        },
    })
}

fn capitalised(text: &str) -> impl Iterator<Item = char> {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(characters)
}
