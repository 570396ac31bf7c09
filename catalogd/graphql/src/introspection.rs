//! Introspection: types described in answers (October 2021, section 4).

use serde_json::{Value as Json, json};

use crate::{
    execute::{Node, Resolved},
    types::{Argument, CONDITION, DIRECTIVE_LOCATIONS, DIRECTIVES, DirectiveType, Field, QUERY, Type, Types},
};

/// An object of introspection.
#[derive(Clone, Copy)]
pub(crate) enum Described<'a> {
    Schema,
    /// A type, for instance `[Name!]`.
    Type(&'a str),
    Field(&'a Field),
    Argument(&'static Argument),
    EnumValue(&'static str),
    Directive(&'static DirectiveType),
}

impl<'a> Described<'a> {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Schema => "__Schema",
            Self::Type(_) => "__Type",
            Self::Field(_) => "__Field",
            Self::Argument(_) => "__InputValue",
            Self::EnumValue(_) => "__EnumValue",
            Self::Directive(_) => "__Directive",
        }
    }

    /// The value of a field; `None` if there is no such field.
    pub(crate) fn resolve(self, types: &'a Types, name: &str) -> Option<Resolved<'a>> {
        if matches!(name, "description" | "deprecationReason" | "isDeprecated") {
            return Some(Resolved::Leaf(match (self, name) {
                (_, "isDeprecated") => Json::Bool(false),
                (Self::Argument(argument), "description") => json!(argument.description),
                (Self::Directive(directive), "description") => json!(directive.description),
                _ => Json::Null,
            }));
        }
        match self {
            Self::Schema => schema(types, name),
            Self::Type(kind) => of_type(types, kind, name),
            Self::Field(field) => Some(match name {
                "name" => leaf(&field.name),
                "type" => object(Self::Type(&field.kind)),
                "args" => objects(field.arguments.iter().map(Self::Argument)),
                _ => return None,
            }),
            Self::Argument(argument) => Some(match name {
                "name" => leaf(argument.name),
                "type" => object(Self::Type(argument.kind)),
                "defaultValue" => Resolved::Leaf(json!(argument.default)),
                _ => return None,
            }),
            Self::EnumValue(value) => (name == "name").then(|| leaf(value)),
            Self::Directive(directive) => Some(match name {
                "name" => leaf(directive.name),
                "args" => objects(CONDITION.iter().map(Self::Argument)),
                "locations" => Resolved::Leaf(json!(DIRECTIVE_LOCATIONS)),
                _ => return None,
            }),
        }
    }
}

fn schema<'a>(types: &'a Types, name: &str) -> Option<Resolved<'a>> {
    Some(match name {
        "types" => objects(types.names().map(Described::Type)),
        "queryType" => object(Described::Type(QUERY)),
        "mutationType" | "subscriptionType" => null(),
        "directives" => objects(DIRECTIVES.iter().map(Described::Directive)),
        _ => return None,
    })
}

fn of_type<'a>(types: &'a Types, kind: &'a str, name: &str) -> Option<Resolved<'a>> {
    let wrapped = match kind.strip_suffix('!') {
        Some(inner) => Some(("NON_NULL", inner)),
        None => kind.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).map(|inner| ("LIST", inner)),
    };
    if let Some((wrapper, inner)) = wrapped {
        return Some(match name {
            "kind" => leaf(wrapper),
            "ofType" => object(Described::Type(inner)),
            _ => null(),
        });
    }
    let found = types.get(kind)?;
    Some(match (name, found) {
        ("kind", Type::Scalar) => leaf("SCALAR"),
        ("kind", Type::Enum(_)) => leaf("ENUM"),
        ("kind", Type::Object(_)) => leaf("OBJECT"),
        ("name", _) => leaf(kind),
        ("fields", Type::Object(fields)) => objects(fields.iter().map(Described::Field)),
        ("interfaces", Type::Object(_)) => objects(std::iter::empty()),
        ("enumValues", Type::Enum(values)) => objects(values.iter().copied().map(Described::EnumValue)),
        _ => null(),
    })
}

fn leaf<'a>(text: &str) -> Resolved<'a> {
    Resolved::Leaf(text.into())
}

fn null<'a>() -> Resolved<'a> {
    Resolved::Leaf(Json::Null)
}

fn object(described: Described<'_>) -> Resolved<'_> {
    Resolved::Object(Node::Described(described))
}

fn objects<'a>(described: impl Iterator<Item = Described<'a>>) -> Resolved<'a> {
    Resolved::Objects(described.map(Node::Described).collect())
}
