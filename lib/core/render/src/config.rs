//! The user's configuration of a bundle (`spec.config.inline`): its schema, its messages, its meaning.
//!
//! The schema depends on the bundle: `watchNamespace` is unknown, required or optional by the install modes, whatever
//! the feature gates. Unlike upstream all unknown fields are reported, sorted; errors inside Kubernetes' types have path
//! and reason instead of `validation failed`; a `deploymentConfig` that is null is unset.
//!
//! As in operator-controller's internal/operator-controller/rukpak/bundle/registryv1.go and config/config.go.

mod schema;

use std::collections::BTreeSet;

use olm_bundle::{
    InstallMode,
    typed::{DEPLOYMENT_CONFIG, convert},
};
use serde_json::{Map, Value};

use crate::{Options, RenderError};
use schema::Finding;

const WATCH_NAMESPACE: &str = "watchNamespace";
const NAMESPACE_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const NAMESPACE_CHARS_MAX: usize = 63;

/// A configuration that fits the bundle.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Configuration {
    /// The namespace to watch, if one was chosen.
    pub(crate) watch_namespace: Option<String>,
    /// `deploymentConfig`, typed; absent members are absent.
    pub(crate) deployment_config: Option<Map<String, Value>>,
}

/// Checks the configuration and takes it apart.
///
/// # Errors
/// [`RenderError::Configuration`] with every violation.
pub(crate) fn read(options: &Options, rule: NamespaceRule) -> Result<Configuration, RenderError> {
    if rule == NamespaceRule::Unknown && options.config.is_none() {
        return Ok(Configuration::default());
    }
    let empty = Map::new();
    let given = match &options.config {
        None => &empty,
        Some(Value::Object(map)) => map,
        Some(other) => {
            let text = format!("invalid type: got {}, want object", schema::json_type(other));
            return Err(RenderError::Configuration(vec![text]));
        }
    };
    // As the library of schemas has it: what is missing, then what is wrong, then what is unknown.
    let mut findings = Vec::new();
    let given_namespace = given.get(WATCH_NAMESPACE);
    if given_namespace.is_none() && matches!(rule, NamespaceRule::Required(_)) {
        findings.push(Finding::line(missing()));
    }
    let config = given.get("deploymentConfig").filter(|_| options.features.deployment_config);
    findings.extend(config.and_then(schema::deployment_config));
    let mut watched = None;
    match given_namespace.map(|given| watch_namespace(given, rule, options)) {
        Some(Ok(namespace)) => watched = namespace,
        Some(Err(finding)) => findings.push(finding),
        None => {}
    }
    findings.extend(Finding::lines(unknown_fields(given, rule, options.features.deployment_config)));
    let violations = Finding::listed(findings);
    if !violations.is_empty() {
        return Err(RenderError::Configuration(violations));
    }
    Ok(Configuration {
        watch_namespace: watched,
        deployment_config: config.map(decode).transpose()?.flatten(),
    })
}

fn missing() -> String {
    format!("required field \"{WATCH_NAMESPACE}\" is missing")
}

/// The unknown fields, sorted as the keys of the map are.
fn unknown_fields(given: &Map<String, Value>, rule: NamespaceRule, deployment_config: bool) -> Vec<String> {
    given
        .keys()
        .filter(|key| match key.as_str() {
            WATCH_NAMESPACE => rule == NamespaceRule::Unknown,
            "deploymentConfig" => !deployment_config,
            _ => true,
        })
        .map(|key| format!("unknown field \"{key}\""))
        .collect()
}

fn decode(config: &Value) -> Result<Option<Map<String, Value>>, RenderError> {
    let mut config = config.clone();
    if config.is_null() {
        return Ok(None);
    }
    // The value itself is the user's and may be secret: only place and rule are reported.
    convert(&DEPLOYMENT_CONFIG, &mut config)
        .map_err(|error| RenderError::DeploymentConfig(error.to_string()))?;
    Ok(match config {
        Value::Object(map) => Some(map),
        _ => None,
    })
}

/// Which namespace the user may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceRule {
    /// None: the field does not exist.
    Unknown,
    Required(Format),
    Optional(Format),
}

/// The comparison of the chosen namespace with the one of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Any,
    Own,
    Single,
}

impl NamespaceRule {
    /// The rule that follows from a bundle's install modes.
    pub(crate) fn of(modes: &BTreeSet<InstallMode>) -> Self {
        let own = modes.contains(&InstallMode::OwnNamespace);
        let single = modes.contains(&InstallMode::SingleNamespace);
        let format = match (own, single) {
            (false, false) => return Self::Unknown,
            (true, true) => Format::Any,
            (true, false) => Format::Own,
            (false, true) => Format::Single,
        };
        if modes.contains(&InstallMode::AllNamespaces) {
            Self::Optional(format)
        } else {
            Self::Required(format)
        }
    }
}

/// The chosen namespace, if it is one. The finding about an optional one has those of both branches of its schema.
fn watch_namespace(given: &Value, rule: NamespaceRule, options: &Options) -> Result<Option<String>, Finding> {
    let (format, optional) = match rule {
        NamespaceRule::Unknown => return Ok(None),
        NamespaceRule::Required(format) => (format, false),
        NamespaceRule::Optional(format) => (format, true),
    };
    let found = match given {
        Value::Null if optional => return Ok(None),
        Value::String(namespace) => {
            let found = namespace_violations(namespace, format, &options.install_namespace);
            match Finding::group(found.into_iter().map(Finding::line).collect()) {
                None => return Ok(Some(namespace.clone())),
                Some(found) => found,
            }
        }
        other => Finding::line(schema::wrong_type(WATCH_NAMESPACE, other, "string")),
    };
    if !optional {
        return Err(found);
    }
    let null = Finding::line(schema::wrong_type(WATCH_NAMESPACE, given, "null"));
    Err(Finding::Above(format!("invalid value for field \"{WATCH_NAMESPACE}\""), vec![null, found]))
}

fn namespace_violations(value: &str, format: Format, install_namespace: &str) -> Vec<String> {
    let differs = value != install_namespace;
    let broken = match format {
        _ if install_namespace.is_empty() => None,
        Format::Own if differs => Some((
            "ownNamespaceInstallMode",
            format!(
                "must be \"{install_namespace}\" (the namespace where the operator is installed) because this operator \
                 only supports OwnNamespace install mode"
            ),
        )),
        Format::Single if !differs => Some((
            "singleNamespaceInstallMode",
            format!(
                "must be different from \"{install_namespace}\" (the install namespace) because this operator uses \
                 SingleNamespace install mode to watch a different namespace"
            ),
        )),
        Format::Any | Format::Own | Format::Single => None,
    };
    if let Some((name, reason)) = broken {
        return vec![format!(
            "invalid format for field \"{WATCH_NAMESPACE}\": '{value}' is not valid {name}: invalid value \"{value}\": {reason}"
        )];
    }
    let length = value.chars().count();
    let mut found = Vec::new();
    if length < 1 {
        found.push(format!("field \"{WATCH_NAMESPACE}\" must have minimum length of 1 (len=0)"));
    }
    if length > NAMESPACE_CHARS_MAX {
        found.push(format!(
            "field \"{WATCH_NAMESPACE}\" must have maximum length of {NAMESPACE_CHARS_MAX} (len={length})"
        ));
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if value.is_empty() || value.starts_with('-') || value.ends_with('-') || !value.chars().all(inner) {
        found.push(format!("field \"{WATCH_NAMESPACE}\" must match pattern \"{NAMESPACE_PATTERN}\""));
    }
    found
}
