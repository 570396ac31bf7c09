//! The shape of a catalog: the fields of each schema's documents, and their types.
//!
//! Derived by reading the lines once, a document at a time. It grows with the number of different keys, which is
//! limited, and not with the catalog.

use std::{collections::BTreeMap, io};

use olm_go::json::nodes;
use serde_json::Value;

use crate::{
    Documents, SchemaError,
    limits::{DOCUMENT_BYTES_MAX, DOCUMENT_NODES_MAX, SAMPLES_MAX, SCHEMA_BYTES_MAX},
    names::{field_name, root_field, type_name},
};

/// The documents that can be queried, by the field of the query.
#[derive(Debug, Default)]
pub(crate) struct CatalogShape {
    pub(crate) documents: BTreeMap<String, DocumentsShape>,
}

/// The documents of one schema.
#[derive(Debug)]
pub(crate) struct DocumentsShape {
    pub(crate) schema: String,
    pub(crate) shape: ObjectShape,
    pub(crate) count: usize,
}

/// An object and its fields.
#[derive(Debug)]
pub(crate) struct ObjectShape {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, FieldShape>,
}

/// A field: its keys in the documents, in the order in which they were met, and its type.
#[derive(Debug)]
pub(crate) struct FieldShape {
    pub(crate) keys: Vec<String>,
    pub(crate) shape: Shape,
}

#[derive(Debug)]
pub(crate) enum Shape {
    Scalar(Scalar),
    List(Scalar),
    Objects(ObjectShape),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// Also values of no other type, as JSON text.
    String,
    Int,
    Float,
    Boolean,
}

impl Scalar {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::Int => "Int",
            Self::Float => "Float",
            Self::Boolean => "Boolean",
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_i64() || number.is_u64() => Self::Int,
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() == 0.0 => Self::Int,
                _ => Self::Float,
            },
            _ => Self::String,
        }
    }
}

/// Reads the shape of a catalog.
pub(crate) fn derive(documents: &dyn Documents) -> Result<CatalogShape, SchemaError> {
    let mut catalog = CatalogShape::default();
    let mut room = Room(SCHEMA_BYTES_MAX);
    let mut line = Vec::new();
    for schema in documents.schemas() {
        let lines = documents.lines(schema);
        let mut listed = DocumentsShape {
            schema: schema.to_owned(),
            shape: ObjectShape { name: type_name(schema), fields: BTreeMap::new() },
            count: lines.len(),
        };
        for range in lines {
            // A document that is too large for an answer has no part in the types.
            if let Read::Document(Value::Object(document)) = read_document(documents, range, &mut line)? {
                observe(&mut listed.shape, &document, &mut room, Depth::Document)
                    .map_err(SchemaError::Content)?;
            }
        }
        let field = root_field(schema);
        if let Some(other) = catalog.documents.insert(field.clone(), listed) {
            let problem =
                format!("schemas {:?} and {schema:?} would both be the field {field}", other.schema);
            return Err(SchemaError::Content(problem));
        }
    }
    Ok(catalog)
}

/// A line that was read.
pub(crate) enum Read {
    Document(Value),
    /// It is longer, or has more values, than may be held in memory for a query.
    TooLarge,
}

/// Reads the document of a line, through a buffer that is used again.
pub(crate) fn read_document(
    documents: &dyn Documents,
    range: std::ops::Range<u64>,
    line: &mut Vec<u8>,
) -> Result<Read, io::Error> {
    let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    if length > DOCUMENT_BYTES_MAX {
        return Ok(Read::TooLarge);
    }
    line.resize(length, 0);
    documents.read(line, range.start)?;
    let text = str::from_utf8(line).map_err(io::Error::other)?;
    if nodes(text) > DOCUMENT_NODES_MAX {
        return Ok(Read::TooLarge);
    }
    Ok(Read::Document(serde_json::from_str(text)?))
}

/// Bytes that names may still take.
struct Room(usize);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Document,
    /// An object in a list of a document: the objects in it are text.
    Nested,
}

/// Adds the fields of an object that was read.
fn observe(
    object: &mut ObjectShape,
    seen: &serde_json::Map<String, Value>,
    room: &mut Room,
    depth: Depth,
) -> Result<(), String> {
    for (key, value) in seen {
        let name = field_name(key);
        let is_new_key = object.fields.get(&name).is_none_or(|field| !field.keys.contains(key));
        if is_new_key {
            // The name, the key, and what maps and types take for them.
            let bytes = name.len() + key.len() + 200;
            room.0 = room.0.checked_sub(bytes).ok_or("its documents have too many different fields")?;
        }
        let field = object
            .fields
            .entry(name.clone())
            .or_insert_with(|| FieldShape { keys: Vec::new(), shape: shape_of(value) });
        if is_new_key {
            field.keys.push(key.clone());
        }
        if depth == Depth::Document
            && let Value::Array(elements) = value
            && elements.first().is_some_and(Value::is_object)
        {
            if !matches!(field.shape, Shape::Objects(_)) {
                let name = format!("{}{}", object.name, type_name(&name));
                field.shape = Shape::Objects(ObjectShape { name, fields: BTreeMap::new() });
            }
            let Shape::Objects(nested) = &mut field.shape else { continue };
            for element in elements.iter().take(SAMPLES_MAX).filter_map(Value::as_object) {
                observe(nested, element, room, Depth::Nested)?;
            }
        }
    }
    Ok(())
}

/// The type that the first value of a field gives it.
fn shape_of(value: &Value) -> Shape {
    let Value::Array(elements) = value else { return Shape::Scalar(Scalar::of(value)) };
    let mut scalars = elements.iter().take(SAMPLES_MAX).map(Scalar::of);
    let first = scalars.next().unwrap_or(Scalar::String);
    Shape::List(if scalars.all(|other| other == first) { first } else { Scalar::String })
}
