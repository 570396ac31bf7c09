//! Carries out a query that fits the types: documents are read one at a time and written out at once.

use std::{collections::BTreeSet, ops::Range};

use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::{
    Problem,
    introspection::Described,
    shape::{CatalogShape, DocumentsShape, ObjectShape, Read, Scalar, Shape, read_document},
    syntax::{Directive, Document, Field, Operation, Selection, Value},
    types::{PAGE, QUERY, SCHEMA_SUMMARY, SUMMARY, Types},
};
use crate::{limits::GRAPHQL_ANSWER_BYTES_MAX, store::Generation};

/// Everything a query is answered from.
pub(super) struct Source<'a> {
    pub(super) catalog: &'a CatalogShape,
    pub(super) types: &'a Types,
    pub(super) generation: &'a Generation,
    pub(super) deadline: Instant,
}

/// Answers an operation: an object as JSON.
pub(super) fn execute(
    source: &Source<'_>,
    document: &Document,
    operation: &Operation,
) -> Result<Vec<u8>, Problem> {
    let mut run = Run { source, document, operation, out: Vec::new() };
    run.object(&Node::Query, &[&operation.selections])?;
    Ok(run.out)
}

/// What an object in the answer stands for.
pub(super) enum Node<'a> {
    Query,
    Summary,
    SchemaSummary(&'a DocumentsShape),
    Object(&'a ObjectShape, &'a serde_json::Map<String, Json>),
    Described(Described<'a>),
}

/// The value of a field.
pub(super) enum Resolved<'a> {
    Leaf(Json),
    Object(Node<'a>),
    Objects(Vec<Node<'a>>),
    Documents(&'a DocumentsShape, Vec<Range<u64>>),
}

impl Node<'_> {
    fn type_name(&self) -> &str {
        match self {
            Self::Query => QUERY,
            Self::Summary => SUMMARY,
            Self::SchemaSummary(_) => SCHEMA_SUMMARY,
            Self::Object(shape, _) => &shape.name,
            Self::Described(described) => described.type_name(),
        }
    }
}

struct Run<'a> {
    source: &'a Source<'a>,
    document: &'a Document,
    operation: &'a Operation,
    out: Vec<u8>,
}

/// Fields of one name in the answer: they are one field, and what is selected in them is put together.
type Collected<'a> = Vec<(&'a str, Vec<&'a Field>)>;

impl<'a> Run<'a> {
    fn object(&mut self, node: &Node<'a>, selections: &[&'a [Selection]]) -> Result<(), Problem> {
        let fields = self.collect(node.type_name(), selections)?;
        self.fields(node, &fields)
    }

    fn fields(&mut self, node: &Node<'a>, fields: &Collected<'a>) -> Result<(), Problem> {
        self.out.push(b'{');
        for (at, (key, same)) in fields.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.leaf(&Json::from(*key))?;
            self.out.push(b':');
            let Some(field) = same.first() else { continue };
            let selections: Vec<&[Selection]> = same.iter().map(|field| &*field.selections).collect();
            match self.resolve(node, field)? {
                Resolved::Leaf(value) => self.leaf(&value)?,
                Resolved::Object(inner) => self.object(&inner, &selections)?,
                Resolved::Objects(nodes) => {
                    self.list(nodes.into_iter(), |run, inner| run.object(&inner, &selections))?;
                }
                Resolved::Documents(listed, lines) => self.documents(listed, lines, &selections)?,
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn documents(
        &mut self,
        listed: &'a DocumentsShape,
        lines: Vec<Range<u64>>,
        selections: &[&'a [Selection]],
    ) -> Result<(), Problem> {
        let fields = self.collect(&listed.shape.name, selections)?;
        let mut line = Vec::new();
        self.list(lines.into_iter(), |run, range| {
            let read = read_document(run.source.generation, range, &mut line);
            let document =
                read.map_err(|error| Problem::plain(format!("reading catalog content: {error}")))?;
            let document = match document {
                Read::Document(Json::Object(document)) => document,
                Read::Document(_) => return run.leaf(&Json::Null),
                Read::TooLarge => {
                    return Err(Problem::plain(
                        "a document of the catalog is too large for GraphQL: get it from /api/v1/metas, or use limit and offset to leave it out",
                    ));
                }
            };
            // What an object of a document holds lives as long as the document, not as the run.
            let mut inner =
                Run { source: run.source, document: run.document, operation: run.operation, out: Vec::new() };
            std::mem::swap(&mut inner.out, &mut run.out);
            let written = inner.fields(&Node::Object(&listed.shape, &document), &fields);
            std::mem::swap(&mut inner.out, &mut run.out);
            written
        })
    }

    fn list<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.out.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(self, item)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn leaf(&mut self, value: &Json) -> Result<(), Problem> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| Problem::plain(error.to_string()))?;
        if self.out.len() > GRAPHQL_ANSWER_BYTES_MAX {
            let text = format!("answer exceeds maximum of {GRAPHQL_ANSWER_BYTES_MAX} bytes");
            return Err(Problem::plain(text));
        }
        if Instant::now() > self.source.deadline {
            return Err(Problem::plain("context deadline exceeded"));
        }
        Ok(())
    }

    fn collect(&self, object: &str, selections: &[&'a [Selection]]) -> Result<Collected<'a>, Problem> {
        let (mut fields, mut seen) = (Vec::new(), BTreeSet::new());
        for selections in selections {
            self.collect_into(object, selections, &mut fields, &mut seen)?;
        }
        Ok(fields)
    }

    fn collect_into(
        &self,
        object: &str,
        selections: &'a [Selection],
        fields: &mut Collected<'a>,
        seen: &mut BTreeSet<&'a str>,
    ) -> Result<(), Problem> {
        for selection in selections {
            match selection {
                Selection::Field(field) if self.is_included(&field.directives) => {
                    match fields.iter_mut().find(|(key, _)| *key == field.key()) {
                        None => fields.push((field.key(), vec![field])),
                        Some((key, same)) => {
                            mergeable(key, same, field)?;
                            same.push(field);
                        }
                    }
                }
                Selection::Inline { on, directives, selections, .. }
                    if self.is_included(directives) && on.as_ref().is_none_or(|on| on == object) =>
                {
                    self.collect_into(object, selections, fields, seen)?;
                }
                Selection::Spread { name, directives, .. } if self.is_included(directives) => {
                    if let Some(fragment) = self.document.fragments.get(name)
                        && fragment.on == object
                        && seen.insert(name)
                    {
                        self.collect_into(object, &fragment.selections, fields, seen)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_included(&self, directives: &[Directive]) -> bool {
        directives.iter().all(|directive| {
            let condition = self.argument(&directive.arguments, "if");
            (condition == Some(&Value::Boolean(true))) == (directive.name == "include")
        })
    }

    /// An argument's literal, or the default of the variable in its place.
    fn argument<'b>(&'b self, arguments: &'b [(String, Value)], name: &str) -> Option<&'b Value> {
        match arguments.iter().find(|(given, _)| given == name).map(|(_, value)| value)? {
            Value::Variable(variable) => {
                let declared = self.operation.variables.iter().find(|declared| declared.name == *variable)?;
                declared.default.as_ref()
            }
            literal => Some(literal),
        }
    }

    fn integer(&self, field: &Field, name: &str) -> Option<i64> {
        match self.argument(&field.arguments, name)? {
            Value::Integer(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn resolve(&self, node: &Node<'a>, field: &'a Field) -> Result<Resolved<'a>, Problem> {
        let name = field.name.as_str();
        if name == "__typename" {
            return Ok(Resolved::Leaf(node.type_name().into()));
        }
        let source = self.source;
        let count = |number: usize| Resolved::Leaf(Json::from(number));
        let resolved = match (node, name) {
            (Node::Query, "summary") => Some(Resolved::Object(Node::Summary)),
            (Node::Query, "__schema") => Some(Resolved::Object(Node::Described(Described::Schema))),
            (Node::Query, "__type") => {
                let asked = match self.argument(&field.arguments, "name") {
                    Some(Value::String(asked)) => asked.as_str(),
                    _ => "",
                };
                let known = source.types.names().find(|known| *known == asked);
                Some(known.map_or(Resolved::Leaf(Json::Null), |known| {
                    Resolved::Object(Node::Described(Described::Type(known)))
                }))
            }
            (Node::Query, _) => source.catalog.documents.get(name).map(|listed| {
                // Nothing, too little and too much all mean a page.
                let limit = self.integer(field, "limit").and_then(|limit| u64::try_from(limit).ok());
                let limit = limit.filter(|limit| (1..=PAGE).contains(limit)).unwrap_or(PAGE);
                let offset = self.integer(field, "offset").and_then(|offset| usize::try_from(offset).ok());
                let lines = source.generation.lines(&listed.schema).skip(offset.unwrap_or_default());
                let limit = usize::try_from(limit).unwrap_or_default();
                Resolved::Documents(listed, lines.take(limit).collect())
            }),
            (Node::Summary, "totalSchemas") => Some(count(source.catalog.documents.len())),
            (Node::Summary, _) => {
                Some(Resolved::Objects(source.catalog.documents.values().map(Node::SchemaSummary).collect()))
            }
            (Node::SchemaSummary(listed), "name") => Some(Resolved::Leaf(listed.schema.as_str().into())),
            (Node::SchemaSummary(listed), "totalObjects") => Some(count(listed.count)),
            (Node::SchemaSummary(listed), _) => Some(count(listed.shape.fields.len())),
            (Node::Object(shape, object), _) => resolve_in(shape, object, name),
            (Node::Described(described), _) => described.resolve(source.types, name),
        };
        resolved.ok_or_else(|| {
            let text = format!("Cannot query field \"{name}\" on type \"{}\".", node.type_name());
            Problem::at(field.at, text)
        })
    }
}

/// Whether two fields of one name in the answer are the same question.
fn mergeable(key: &str, same: &[&Field], field: &Field) -> Result<(), Problem> {
    let Some(first) = same.first() else { return Ok(()) };
    let reason = if first.name != field.name {
        format!("{} and {} are different fields", first.name, field.name)
    } else if first.arguments != field.arguments {
        "they have differing arguments".to_owned()
    } else {
        return Ok(());
    };
    Err(Problem::at(field.at, format!("Fields \"{key}\" conflict because {reason}.")))
}

/// The value of a document's field. A value that is not of the field's type becomes one if it can.
fn resolve_in<'a>(
    shape: &'a ObjectShape,
    object: &'a serde_json::Map<String, Json>,
    name: &str,
) -> Option<Resolved<'a>> {
    let field = shape.fields.get(name)?;
    // Of several the last in the document, which has its keys in order.
    let found = field.keys.iter().filter_map(|key| object.get_key_value(key));
    let value = found.max_by_key(|(key, _)| *key).map_or(&Json::Null, |(_, value)| value);
    let null = Resolved::Leaf(Json::Null);
    Some(match (&field.shape, value) {
        (_, Json::Null) => null,
        (Shape::Scalar(scalar), value) => Resolved::Leaf(coerced(*scalar, value)),
        (Shape::List(scalar), Json::Array(elements)) => {
            Resolved::Leaf(elements.iter().map(|element| coerced(*scalar, element)).collect())
        }
        (Shape::Objects(shape), Json::Array(elements)) => {
            // An element that is no object has no fields to ask for; leaving it out keeps the others.
            let objects = elements.iter().filter_map(Json::as_object);
            Resolved::Objects(objects.map(|object| Node::Object(shape, object)).collect())
        }
        (Shape::List(_) | Shape::Objects(_), _) => null,
    })
}

fn coerced(scalar: Scalar, value: &Json) -> Json {
    match (scalar, value) {
        (_, Json::Null) => Json::Null,
        (Scalar::String, Json::String(_)) | (Scalar::Boolean, Json::Bool(_)) => value.clone(),
        (Scalar::String, other) => Json::String(other.to_string()),
        (Scalar::Float, Json::Number(number)) => json!(number),
        (Scalar::Int, Json::Number(number)) => {
            // An Int has 32 bits; a larger one has no value.
            let whole = number.as_i64().or_else(|| number.to_string().strip_suffix(".0")?.parse().ok());
            whole.and_then(|whole| i32::try_from(whole).ok()).map_or(Json::Null, Json::from)
        }
        _ => Json::Null,
    }
}
