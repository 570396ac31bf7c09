//! Executes a validated query: documents are read one at a time and written out at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use serde_json::{Value as Json, json};

use crate::{
    Documents, QueryError, Schema,
    ast::{Directive, Document, Field, Operation, Selection, Value},
    introspection::Described,
    limits::ANSWER_BYTES_MAX,
    shape::{DocumentsShape, ObjectShape, Read, Scalar, Shape, read_document},
    types::{PAGE, QUERY, SCHEMA_SUMMARY, SUMMARY},
};

/// The input of an execution, beside the query.
pub(crate) struct Source<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) documents: &'a dyn Documents,
    pub(crate) is_overdue: &'a dyn Fn() -> bool,
}

/// Answers an operation: an object as JSON.
pub(crate) fn execute(
    source: &Source<'_>,
    document: &Document,
    operation: &Operation,
) -> Result<Vec<u8>, QueryError> {
    let variables =
        operation.variables.iter().map(|declared| (declared.name.as_str(), declared.default.as_ref()));
    let query = Executable { document, variables: variables.collect() };
    let mut run = Run { source, query: &query, out: Vec::new() };
    run.object(&Node::Query, &[&operation.selections])?;
    Ok(run.out)
}

/// The origin of an object in the answer.
pub(crate) enum Node<'a> {
    Query,
    Summary,
    SchemaSummary(&'a DocumentsShape),
    Object(&'a ObjectShape, &'a serde_json::Map<String, Json>),
    Described(Described<'a>),
}

/// The value of a field.
pub(crate) enum Resolved<'a> {
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

/// A query and the values of its variables.
struct Executable<'a> {
    document: &'a Document,
    variables: BTreeMap<&'a str, Option<&'a Value>>,
}

struct Run<'a> {
    source: &'a Source<'a>,
    query: &'a Executable<'a>,
    out: Vec<u8>,
}

/// Fields by their name in the answer: those of the same name are one field, and their selections are merged.
type Collected<'a> = Vec<(&'a str, Vec<&'a Field>)>;

impl<'a> Run<'a> {
    fn object(&mut self, node: &Node<'a>, selections: &[&'a [Selection]]) -> Result<(), QueryError> {
        let fields = self.collect(node.type_name(), selections)?;
        self.fields(node, &fields)
    }

    fn fields(&mut self, node: &Node<'a>, fields: &Collected<'a>) -> Result<(), QueryError> {
        self.check_limits()?;
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
    ) -> Result<(), QueryError> {
        let fields = self.collect(&listed.shape.name, selections)?;
        let mut line = Vec::new();
        self.list(lines.into_iter(), |run, range| {
            let read = read_document(run.source.documents, range, &mut line);
            let document =
                read.map_err(|error| QueryError::plain(format!("reading catalog content: {error}")))?;
            let document = match document {
                Read::Document(Json::Object(document)) => document,
                Read::Document(_) => return run.leaf(&Json::Null),
                Read::TooLarge => {
                    return Err(QueryError::plain(
                        "a document of the catalog is too large for GraphQL: get it from /api/v1/metas, or use limit and offset to leave it out",
                    ));
                }
            };
            // Objects of a document live as long as the document, which is shorter than the run.
            let mut inner =
                Run { source: run.source, query: run.query, out: std::mem::take(&mut run.out) };
            let written = inner.fields(&Node::Object(&listed.shape, &document), &fields);
            run.out = inner.out;
            written
        })
    }

    fn list<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
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

    fn leaf(&mut self, value: &Json) -> Result<(), QueryError> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| QueryError::plain(error.to_string()))?;
        self.check_limits()
    }

    /// Ends the work when the answer is too long or comes too late.
    fn check_limits(&self) -> Result<(), QueryError> {
        if self.out.len() > ANSWER_BYTES_MAX {
            let text = format!("answer exceeds maximum of {ANSWER_BYTES_MAX} bytes");
            return Err(QueryError::plain(text));
        }
        if (self.source.is_overdue)() {
            return Err(QueryError::plain("context deadline exceeded"));
        }
        Ok(())
    }

    fn collect(&self, object: &str, selections: &[&'a [Selection]]) -> Result<Collected<'a>, QueryError> {
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
    ) -> Result<(), QueryError> {
        for selection in selections {
            match selection {
                Selection::Field(field) if self.is_included(&field.directives) => {
                    match fields.iter_mut().find(|(key, _)| *key == field.key()) {
                        None => fields.push((field.key(), vec![field])),
                        Some((key, same)) => {
                            check_mergeable(key, same, field)?;
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
                    if let Some(fragment) = self.query.document.fragments.get(name)
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
            Value::Variable(variable) => self.query.variables.get(variable.as_str()).copied().flatten(),
            literal => Some(literal),
        }
    }

    fn integer(&self, field: &Field, name: &str) -> Option<i64> {
        match self.argument(&field.arguments, name)? {
            Value::Integer(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn resolve(&self, node: &Node<'a>, field: &'a Field) -> Result<Resolved<'a>, QueryError> {
        let name = field.name.as_str();
        if name == "__typename" {
            return Ok(Resolved::Leaf(node.type_name().into()));
        }
        let Source { schema, documents, .. } = *self.source;
        let count = |number: usize| Resolved::Leaf(Json::from(number));
        let resolved = match (node, name) {
            (Node::Query, "summary") => Some(Resolved::Object(Node::Summary)),
            (Node::Query, "__schema") => Some(Resolved::Object(Node::Described(Described::Schema))),
            (Node::Query, "__type") => {
                let asked = match self.argument(&field.arguments, "name") {
                    Some(Value::String(asked)) => asked.as_str(),
                    _ => "",
                };
                let known = schema.types.names().find(|known| *known == asked);
                Some(known.map_or(Resolved::Leaf(Json::Null), |known| {
                    Resolved::Object(Node::Described(Described::Type(known)))
                }))
            }
            (Node::Query, _) => schema.catalog.documents.get(name).map(|listed| {
                // A limit that is absent or out of bounds means a page.
                let limit = self.integer(field, "limit").and_then(|limit| u64::try_from(limit).ok());
                let limit = limit.filter(|limit| (1..=PAGE).contains(limit)).unwrap_or(PAGE);
                let offset = self.integer(field, "offset").and_then(|offset| usize::try_from(offset).ok());
                let lines = documents.lines(&listed.schema).skip(offset.unwrap_or_default());
                let limit = usize::try_from(limit).unwrap_or_default();
                Resolved::Documents(listed, lines.take(limit).collect())
            }),
            (Node::Summary, "totalSchemas") => Some(count(schema.catalog.documents.len())),
            (Node::Summary, _) => {
                Some(Resolved::Objects(schema.catalog.documents.values().map(Node::SchemaSummary).collect()))
            }
            (Node::SchemaSummary(listed), "name") => Some(Resolved::Leaf(listed.schema.as_str().into())),
            (Node::SchemaSummary(listed), "totalObjects") => Some(count(listed.count)),
            (Node::SchemaSummary(listed), _) => Some(count(listed.shape.fields.len())),
            (Node::Object(shape, object), _) => resolve_in(shape, object, name),
            (Node::Described(described), _) => described.resolve(&schema.types, name),
        };
        resolved.ok_or_else(|| {
            let text = format!("Cannot query field \"{name}\" on type \"{}\".", node.type_name());
            QueryError::at(field.at, text)
        })
    }
}

/// Rejects fields of one name in the answer that ask for different things.
fn check_mergeable(key: &str, same: &[&Field], field: &Field) -> Result<(), QueryError> {
    let Some(first) = same.first() else { return Ok(()) };
    let reason = if first.name != field.name {
        format!("{} and {} are different fields", first.name, field.name)
    } else if first.arguments != field.arguments {
        "they have differing arguments".to_owned()
    } else {
        return Ok(());
    };
    Err(QueryError::at(field.at, format!("Fields \"{key}\" conflict because {reason}.")))
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
            // An element that is not an object has no fields; the others are answered without it.
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
