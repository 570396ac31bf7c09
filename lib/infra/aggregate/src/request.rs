//! What a request asks for, as its path and query say.

use axum::extract::Query;
use http::{Method, Uri};

use crate::{Failure, Names, selector::Filter};

/// A request for objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The verb that RBAC knows.
    pub(crate) verb: &'static str,
    pub(crate) namespace: Option<String>,
    /// The object, or the one that the field selector of a list names.
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Asked {
    /// Reads the part of a path below the group and version. `None` for paths that are no objects'.
    pub(crate) fn parse(names: &Names, method: &Method, path: &str, query: &Parameters) -> Option<Self> {
        let path: Vec<_> = path.split('/').map(decoded).collect::<Option<_>>()?;
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        let (namespace, rest) = match path.as_slice() {
            ["namespaces", namespace, rest @ ..] if !namespace.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (name, subresource) = match *rest {
            [plural] if plural == names.plural => (None, None),
            [plural, name] if plural == names.plural && namespace.is_some() => (Some(name), None),
            [plural, name, subresource]
                if plural == names.plural
                    && namespace.is_some()
                    && names.subresources.contains(&subresource) =>
            {
                (Some(name), Some(subresource))
            }
            _ => return None,
        };
        let verb = match (method, name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) if query.is_set("watch") => "watch",
            (&Method::GET, None) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, None) => "deletecollection",
            (&Method::DELETE, Some(_)) => "delete",
            _ => "",
        };
        let name = name.map(str::to_owned).or_else(|| Filter::named(query));
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(Self { verb, namespace: owned(namespace), name, subresource: owned(subresource) })
    }
}

fn decoded(part: &str) -> Option<String> {
    percent_encoding::percent_decode_str(part).decode_utf8().ok().map(Into::into)
}

/// The query of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn of(uri: &Uri) -> Result<Self, Failure> {
        let query = Query::try_from_uri(uri).map_err(|error| Failure::bad_request(error.to_string()))?;
        Ok(Self(query.0))
    }

    /// The first value of a parameter; empty when there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether a parameter is there and not false.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.iter().any(|(key, value)| key == name && !matches!(value.as_str(), "false" | "0"))
    }
}
