//! `policy.json`: which images the administrator lets in.
//!
//! The most specific scope of the docker transport counts, as containers-policy.json(5) says: reference,
//! repository, namespaces, host, wildcard domain, the transport's own default, the default of all. Signatures
//! are not checked by this crate, so a scope that asks for one is refused, with the remedy; a policy that cannot
//! be read is an error, never an allowance.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde::Deserialize;
use thiserror::Error;

use crate::{limits::POLICY_BYTES_MAX, reference::CanonicalReference};

/// Why a policy cannot be read, or does not allow an image: a sentence.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct PolicyError(String);

#[derive(Debug, Clone, Deserialize)]
struct Requirement {
    r#type: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct File {
    default: Vec<Requirement>,
    #[serde(default)]
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
}

/// A policy.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Nothing: everything is accepted.
    file: Option<File>,
}

impl Policy {
    /// Reads a policy; an absent file allows everything.
    ///
    /// # Errors
    /// The file cannot be read, or is no policy.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let failed = |cause: io::Error| PolicyError(format!("{}: {cause}", path.display()));
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut text = String::new();
        file.take(POLICY_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        Self::parse(path, &text)
    }

    /// The policy in a text; `path` is for messages.
    ///
    /// # Errors
    /// The text is no policy.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PolicyError> {
        let invalid = |cause: String| PolicyError(format!("invalid policy in {}: {cause}", path.display()));
        if text.len() as u64 > POLICY_BYTES_MAX {
            return Err(invalid(format!("larger than {POLICY_BYTES_MAX} bytes")));
        }
        let file: File = serde_json::from_str(text)
            .map_err(|error| invalid(format!("error at line {}, column {}", error.line(), error.column())))?;
        let scopes = file.transports.values().flat_map(BTreeMap::values);
        if scopes.chain([&file.default]).any(Vec::is_empty) {
            return Err(invalid("List of verification policy requirements must not be empty".to_owned()));
        }
        Ok(Self { file: Some(file) })
    }

    /// Whether an image may be pulled.
    ///
    /// # Errors
    /// The policy does not let the image in.
    pub fn check(&self, reference: &CanonicalReference) -> Result<(), PolicyError> {
        let Some(file) = &self.file else { return Ok(()) };
        let docker = file.transports.get("docker");
        let found = docker.and_then(|scopes| {
            let scope = scopes_of(reference).into_iter().find(|scope| scopes.contains_key(scope))?;
            scopes.get(&scope).map(|requirements| (scope, requirements))
        });
        let (scope, requirements) = found.unwrap_or_else(|| (String::new(), &file.default));
        for requirement in requirements {
            match requirement.r#type.as_str() {
                "insecureAcceptAnything" => {}
                "reject" => {
                    return Err(PolicyError(format!(
                        "Source image rejected: Running image docker://{reference} is rejected by policy."
                    )));
                }
                kind => {
                    return Err(PolicyError(format!(
                        "Source image rejected: scope {scope:?} of the policy asks for {kind:?}, and signatures are not checked \
                         here: allow the scope by insecureAcceptAnything, or pull from a mirror that checks them"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The scopes that can cover a reference, most specific first; the empty one is the transport's default.
fn scopes_of(reference: &CanonicalReference) -> Vec<String> {
    let mut scopes = vec![reference.to_string()];
    let mut scope = reference.repository().to_string();
    while let Some(end) = scope.rfind('/') {
        scopes.push(scope.clone());
        scope.truncate(end);
    }
    scopes.push(scope.clone());
    let mut domain = scope.split(':').next().unwrap_or_default();
    while let Some((_, rest)) = domain.split_once('.') {
        scopes.push(format!("*.{rest}"));
        domain = rest;
    }
    scopes.push(String::new());
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, reference: &str) -> Result<(), String> {
        let reference = format!("{reference}@sha256:{}", "0".repeat(64));
        let reference = CanonicalReference::parse(&reference).expect("parses");
        let policy = Policy::parse(Path::new("/etc/containers/policy.json"), policy).expect("a policy");
        policy.check(&reference).map_err(|error| error.to_string())
    }

    const POLICY: &str = r#"{
        "default": [{"type": "reject"}],
        "transports": {"docker": {
            "quay.io": [{"type": "insecureAcceptAnything"}],
            "quay.io/signed": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}],
            "quay.io/signed/free": [{"type": "insecureAcceptAnything"}],
            "*.example.com": [{"type": "insecureAcceptAnything"}],
            "bad.example.com": [{"type": "insecureAcceptAnything"}, {"type": "reject"}]
        }, "oci": {"": [{"type": "insecureAcceptAnything"}]}}
    }"#;

    #[test]
    fn the_most_specific_scope_counts() {
        for (reference, allowed) in [
            ("quay.io/a/b", true),
            ("quay.io/signed/x", false),
            ("quay.io/signed/free", true),
            ("quay.io/signed/free/deeper", true),
            ("quay.io/signedx/y", true),
            ("a.b.example.com/x", true),
            ("a.example.com:5000/x", true),
            ("bad.example.com/x", false),
            ("example.com/x", false),
            ("other.io/x", false),
        ] {
            assert_eq!(check(POLICY, reference).is_ok(), allowed, "{reference}");
        }
    }

    #[test]
    fn a_refusal_says_what_the_policy_wants() {
        let error = check(POLICY, "other.io/x").expect_err("rejected");
        assert!(
            error.starts_with("Source image rejected: Running image docker://other.io/x@sha256:"),
            "{error}"
        );
        let error = check(POLICY, "quay.io/signed/x").expect_err("wants a signature");
        assert!(error.contains("scope \"quay.io/signed\" of the policy asks for \"signedBy\""), "{error}");
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_an_error_and_an_absent_one_allows_everything() {
        for text in ["", "{}", "[]", r#"{"default": []}"#, r#"{"default": [{"kind": "reject"}]}"#] {
            assert!(Policy::parse(Path::new("/p.json"), text).is_err(), "{text}");
        }
        let reference =
            CanonicalReference::parse(&format!("quay.io/x@sha256:{}", "0".repeat(64))).expect("parses");
        let absent = Policy::load(Path::new("/nonexistent/policy.json")).expect("none");
        assert!(absent.check(&reference).is_ok());
    }
}
