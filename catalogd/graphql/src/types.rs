//! The types that queries are validated against: those of a catalog, and those of introspection.

use std::collections::BTreeMap;

use crate::shape::{CatalogShape, ObjectShape, Scalar, Shape};

/// The type of the query itself.
pub(crate) const QUERY: &str = "Query";
pub(crate) const SUMMARY: &str = "CatalogSummary";
pub(crate) const SCHEMA_SUMMARY: &str = "SchemaSummary";

/// Documents in an answer where a query sets no limit or one that is out of bounds.
pub(crate) const PAGE: u64 = 100;

/// All types by name.
#[derive(Debug)]
pub(crate) struct Types {
    all: BTreeMap<String, Type>,
}

#[derive(Debug)]
pub(crate) enum Type {
    Scalar,
    Enum(&'static [&'static str]),
    Object(Vec<Field>),
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// The type, for instance `[Name!]!`.
    pub(crate) kind: String,
    pub(crate) arguments: &'static [Argument],
}

#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) default: Option<&'static str>,
    pub(crate) description: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct DirectiveType {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

const PAGING: &[Argument] = &[
    argument("limit", "Int", Some("100"), Some("Maximum number of items to return")),
    argument("offset", "Int", Some("0"), Some("Number of items to skip")),
];
const BY_NAME: &[Argument] = &[argument("name", "String!", None, None)];
const DEPRECATED_TOO: &[Argument] = &[argument("includeDeprecated", "Boolean", Some("false"), None)];
/// The argument of both directives.
pub(crate) const CONDITION: &[Argument] = &[argument("if", "Boolean!", None, None)];
/// The directives of queries.
pub(crate) const DIRECTIVES: [DirectiveType; 2] = [
    DirectiveType { name: "include", description: "Includes this only if the argument is true." },
    DirectiveType { name: "skip", description: "Leaves this out if the argument is true." },
];
/// The places where directives are allowed.
pub(crate) const DIRECTIVE_LOCATIONS: &[&str] = &["FIELD", "FRAGMENT_SPREAD", "INLINE_FRAGMENT"];
const TYPE_KINDS: &[&str] =
    &["SCALAR", "OBJECT", "INTERFACE", "UNION", "ENUM", "INPUT_OBJECT", "LIST", "NON_NULL"];

const fn argument(
    name: &'static str,
    kind: &'static str,
    default: Option<&'static str>,
    description: Option<&'static str>,
) -> Argument {
    Argument { name, kind, default, description }
}

/// The types of introspection (October 2021, section 4.2), and the summary of a catalog.
const FIXED: &[(&str, &[(&str, &str)])] = &[
    (SUMMARY, &[("schemas", "[SchemaSummary]"), ("totalSchemas", "Int")]),
    (SCHEMA_SUMMARY, &[("name", "String"), ("totalFields", "Int"), ("totalObjects", "Int")]),
    (
        "__Schema",
        &[
            ("types", "[__Type!]!"),
            ("queryType", "__Type!"),
            ("mutationType", "__Type"),
            ("subscriptionType", "__Type"),
            ("directives", "[__Directive!]!"),
        ],
    ),
    (
        "__Type",
        &[
            ("kind", "__TypeKind!"),
            ("name", "String"),
            ("description", "String"),
            ("fields", "[__Field!]"),
            ("interfaces", "[__Type!]"),
            ("possibleTypes", "[__Type!]"),
            ("enumValues", "[__EnumValue!]"),
            ("inputFields", "[__InputValue!]"),
            ("ofType", "__Type"),
        ],
    ),
    (
        "__Field",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("args", "[__InputValue!]!"),
            ("type", "__Type!"),
            ("isDeprecated", "Boolean!"),
            ("deprecationReason", "String"),
        ],
    ),
    (
        "__InputValue",
        &[("name", "String!"), ("description", "String"), ("type", "__Type!"), ("defaultValue", "String")],
    ),
    (
        "__EnumValue",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("isDeprecated", "Boolean!"),
            ("deprecationReason", "String"),
        ],
    ),
    (
        "__Directive",
        &[
            ("name", "String!"),
            ("description", "String"),
            ("locations", "[__DirectiveLocation!]!"),
            ("args", "[__InputValue!]!"),
        ],
    ),
];

impl Types {
    /// The types of a catalog.
    pub(crate) fn of(catalog: &CatalogShape) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for scalar in [Scalar::String, Scalar::Int, Scalar::Float, Scalar::Boolean] {
            all.insert(scalar.name().to_owned(), Type::Scalar);
        }
        all.insert("__TypeKind".to_owned(), Type::Enum(TYPE_KINDS));
        all.insert("__DirectiveLocation".to_owned(), Type::Enum(DIRECTIVE_LOCATIONS));
        for (name, fields) in FIXED {
            let fields = fields.iter().map(|(name, kind)| field(name, kind));
            all.insert((*name).to_owned(), Type::Object(fields.collect()));
        }
        let mut query = vec![field("summary", SUMMARY)];
        for (name, listed) in &catalog.documents {
            let arguments = PAGING;
            query.push(Field { name: name.clone(), kind: format!("[{}]", listed.shape.name), arguments });
            add(&mut all, &listed.shape)?;
        }
        if all.insert(QUERY.to_owned(), Type::Object(query)).is_some() {
            return Err(taken(QUERY));
        }
        Ok(Self { all })
    }

    /// A type by its bare name.
    pub(crate) fn get(&self, name: &str) -> Option<&Type> {
        self.all.get(name)
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The field of an object type; `__typename` and the query's `__schema` and `__type` among them.
    pub(crate) fn field(&self, object: &str, name: &str) -> Option<FieldType<'_>> {
        let fixed = |kind, arguments| Some(FieldType { kind, arguments });
        match (object, name) {
            (_, "__typename") => return fixed("String!", &[]),
            (QUERY, "__schema") => return fixed("__Schema!", &[]),
            (QUERY, "__type") => return fixed("__Type", BY_NAME),
            _ => {}
        }
        let Some(Type::Object(fields)) = self.all.get(object) else { return None };
        let field = fields.iter().find(|field| field.name == name)?;
        Some(FieldType { kind: &field.kind, arguments: field.arguments })
    }
}

/// Type and arguments of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldType<'a> {
    pub(crate) kind: &'a str,
    pub(crate) arguments: &'static [Argument],
}

/// The name in a type like `[Name!]!`.
pub(crate) fn bare(kind: &str) -> &str {
    kind.trim_matches(['[', ']', '!'])
}

fn add(all: &mut BTreeMap<String, Type>, shape: &ObjectShape) -> Result<(), String> {
    let mut fields = Vec::with_capacity(shape.fields.len());
    for (name, found) in &shape.fields {
        let kind = match &found.shape {
            Shape::Scalar(scalar) => scalar.name().to_owned(),
            Shape::List(scalar) => format!("[{}]", scalar.name()),
            Shape::Objects(objects) => {
                add(all, objects)?;
                format!("[{}]", objects.name)
            }
        };
        fields.push(field(name, &kind));
    }
    match all.insert(shape.name.clone(), Type::Object(fields)) {
        None => Ok(()),
        Some(_) => Err(taken(&shape.name)),
    }
}

fn taken(name: &str) -> String {
    format!("two of its types would be named {name}")
}

fn field(name: &str, kind: &str) -> Field {
    let arguments = match (name, bare(kind)) {
        ("fields", "__Field") | ("enumValues", "__EnumValue") => DEPRECATED_TOO,
        _ => &[],
    };
    Field { name: name.to_owned(), kind: kind.to_owned(), arguments }
}
