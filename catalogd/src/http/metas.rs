//! `/api/v1/metas`: the lines of a schema, package and name, from the index.

use axum::http::{HeaderMap, Method};
use olm_fbc::Query;
use sha2::{Digest, Sha256};

use super::{
    Content,
    body::{self, Answer},
    conditional::Validators,
    encoding::compressed,
    routes::percent_decoded,
};

/// The parameters of a query string. Of repeated parameters the first counts; empty means not given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    schema: Option<String>,
    package: Option<String>,
    name: Option<String>,
}

impl Parameters {
    /// Reads a query string; `None` when it is malformed or names anything else.
    pub(super) fn parse(query: &str) -> Option<Self> {
        let mut parameters = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            // Upstream drops such pairs, and then answers with the whole catalog.
            if pair.contains(';') {
                return None;
            }
            let pair = pair.replace('+', " ");
            let (key, value) = pair.split_once('=').unwrap_or((&pair, ""));
            let value = percent_decoded(value)?;
            let parameter = match percent_decoded(key)?.as_str() {
                "schema" => &mut parameters.schema,
                "package" => &mut parameters.package,
                "name" => &mut parameters.name,
                _ => return None,
            };
            parameter.get_or_insert(value);
        }
        Some(parameters)
    }

    fn query(&self) -> Query<'_> {
        Query { schema: self.schema.as_deref(), package: self.package.as_deref(), name: self.name.as_deref() }
    }

    /// Distinguishes queries in entity tags.
    fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for value in [&self.schema, &self.package, &self.name] {
            hash.update(value.as_deref().unwrap_or_default());
            hash.update([0]);
        }
        let head = hash.finalize().iter().take(8).fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
        format!("{head:016x}")
    }
}

pub(super) fn answer(
    content: Content,
    parameters: &Parameters,
    method: &Method,
    headers: &HeaderMap,
) -> Answer {
    let query = parameters.query();
    let digest = content.generation.digest();
    let etag = if query.is_empty() {
        format!("\"{digest}\"")
    } else {
        format!("\"{digest}-{}\"", parameters.fingerprint())
    };
    let lines = content.generation.find(&query);
    let member = compressed(method, headers, &content.generation, &lines);
    let validators =
        Validators { etag, is_compressed: member.is_some(), last_modified: content.last_modified };
    if let Some(response) = validators.check(headers) {
        return Answer::Whole(response);
    }
    let mut response = body::lines(lines, member);
    validators.stamp(&mut response);
    Answer::Parts(response, content.generation)
}
