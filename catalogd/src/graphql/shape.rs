//! What the documents of a catalog look like: the fields seen in each schema, and their types.
//!
//! Found by reading the lines once, a document at a time. What is kept grows with the number of different
//! keys, which is bounded, and not with the catalog.

use std::{collections::BTreeMap, io};

use olm_go::json::nodes;
use serde_json::Value;
use thiserror::Error;

use super::names::{field_name, root_field, type_name};
use crate::{
    limits::{
        GRAPHQL_DOCUMENT_BYTES_MAX, GRAPHQL_DOCUMENT_NODES_MAX, GRAPHQL_SAMPLES_MAX, GRAPHQL_SCHEMA_BYTES_MAX,
    },
    store::Generation,
};

/// The documents that can be asked for, by the query's fields.
#[derive(Debug, Default)]
pub(super) struct CatalogShape {
    pub(super) documents: BTreeMap<String, DocumentsShape>,
}

/// The documents of one schema.
#[derive(Debug)]
pub(super) struct DocumentsShape {
    pub(super) schema: String,
    pub(super) shape: ObjectShape,
    pub(super) count: usize,
}

/// An object and its fields.
#[derive(Debug)]
pub(super) struct ObjectShape {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, FieldShape>,
}

/// A field: the keys that stand for it, in the order they were met, and its type.
#[derive(Debug)]
pub(super) struct FieldShape {
    pub(super) keys: Vec<String>,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    Scalar(Scalar),
    List(Scalar),
    Objects(ObjectShape),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    /// Also whatever has no type of its own, as JSON text.
    String,
    Int,
    Float,
    Boolean,
}

impl Scalar {
    pub(super) fn name(self) -> &'static str {
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

/// Why a catalog has no shape.
#[derive(Debug, Error)]
pub(super) enum ShapeError {
    /// The lines could not be read.
    #[error("reading catalog content: {0}")]
    Read(#[from] io::Error),
    /// The content is such that it cannot be asked for by GraphQL.
    #[error("the catalog has no GraphQL schema: {0}")]
    Content(String),
}

/// Reads the shape of a catalog. Blocks.
pub(super) fn derive(generation: &Generation) -> Result<CatalogShape, ShapeError> {
    let mut catalog = CatalogShape::default();
    let mut room = Room(GRAPHQL_SCHEMA_BYTES_MAX);
    let mut line = Vec::new();
    for schema in generation.schemas() {
        let lines = generation.lines(schema);
        let mut documents = DocumentsShape {
            schema: schema.to_owned(),
            shape: ObjectShape { name: type_name(schema), fields: BTreeMap::new() },
            count: lines.len(),
        };
        for range in lines {
            // What is too large to be answered with has no part in the types.
            if let Read::Document(Value::Object(document)) = read_document(generation, range, &mut line)? {
                see(&mut documents.shape, &document, &mut room, Depth::Document)
                    .map_err(ShapeError::Content)?;
            }
        }
        let field = root_field(schema);
        if let Some(other) = catalog.documents.insert(field.clone(), documents) {
            let problem =
                format!("schemas {:?} and {schema:?} would both be the field {field}", other.schema);
            return Err(ShapeError::Content(problem));
        }
    }
    Ok(catalog)
}

/// What a line came to.
pub(super) enum Read {
    Document(Value),
    /// It is longer, or has more values, than is held in memory for a query.
    TooLarge,
}

/// Reads the document of a line, into a buffer that is used again.
pub(super) fn read_document(
    generation: &Generation,
    range: std::ops::Range<u64>,
    line: &mut Vec<u8>,
) -> Result<Read, io::Error> {
    let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    if length > GRAPHQL_DOCUMENT_BYTES_MAX {
        return Ok(Read::TooLarge);
    }
    line.resize(length, 0);
    generation.read_lines(line, range.start)?;
    let text = str::from_utf8(line).map_err(io::Error::other)?;
    if nodes(text) > GRAPHQL_DOCUMENT_NODES_MAX {
        return Ok(Read::TooLarge);
    }
    Ok(Read::Document(serde_json::from_str(text)?))
}

/// Bytes of names that may still be remembered.
struct Room(usize);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Document,
    /// An object in a list of a document: the objects in it are text.
    Nested,
}

fn see(
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
            for element in elements.iter().take(GRAPHQL_SAMPLES_MAX).filter_map(Value::as_object) {
                see(nested, element, room, Depth::Nested)?;
            }
        }
    }
    Ok(())
}

/// The type that the first value of a field gives it.
fn shape_of(value: &Value) -> Shape {
    let Value::Array(elements) = value else { return Shape::Scalar(Scalar::of(value)) };
    let mut scalars = elements.iter().take(GRAPHQL_SAMPLES_MAX).map(Scalar::of);
    let first = scalars.next().unwrap_or(Scalar::String);
    Shape::List(if scalars.all(|other| other == first) { first } else { Scalar::String })
}
