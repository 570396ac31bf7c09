//! The user's configuration of a bundle (`spec.config.inline`): its schema, its messages, its meaning.
//!
//! The schema depends on the bundle: `watchNamespace` is unknown, required or optional by the install modes.
//! Unlike upstream all unknown fields are reported, sorted; errors inside Kubernetes' types have path and
//! reason instead of `validation failed`; null means unset; without the feature gate there is no
//! `watchNamespace`.
//!
//! As in operator-controller's internal/operator-controller/rukpak/bundle/registryv1.go and config/config.go.

mod schema;

use std::collections::BTreeSet;

use olm_bundle::{
    InstallMode,
    typed::{DEPLOYMENT_CONFIG, convert},
};
use serde_json::{Map, Value};

use crate::{Features, Options, RenderError};

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
    let mut violations = unknown_fields(given, rule, options.features.deployment_config);
    let watch_namespace = watch_namespace(given.get(WATCH_NAMESPACE), rule, options, &mut violations);
    let config = given.get("deploymentConfig").filter(|_| options.features.deployment_config);
    if let Some(config) = config {
        schema::check_deployment_config(config, &mut violations);
    }
    if !violations.is_empty() {
        return Err(RenderError::Configuration(violations));
    }
    Ok(Configuration { watch_namespace, deployment_config: config.map(decode).transpose()?.flatten() })
}

fn unknown_fields(given: &Map<String, Value>, rule: NamespaceRule, deployment_config: bool) -> Vec<String> {
    let mut unknown: Vec<_> = given
        .keys()
        .filter(|key| match key.as_str() {
            WATCH_NAMESPACE => rule == NamespaceRule::Unknown,
            "deploymentConfig" => !deployment_config,
            _ => true,
        })
        .map(|key| format!("unknown field \"{key}\""))
        .collect();
    unknown.sort_unstable();
    unknown
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
    pub(crate) fn of(modes: &BTreeSet<InstallMode>, features: Features) -> Self {
        if !features.single_own_namespace_install_support {
            return Self::Unknown;
        }
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

/// The chosen namespace. Violations of an optional one are those of both branches of its schema.
fn watch_namespace(
    given: Option<&Value>,
    rule: NamespaceRule,
    options: &Options,
    violations: &mut Vec<String>,
) -> Option<String> {
    let (format, optional) = match rule {
        NamespaceRule::Unknown => return None,
        NamespaceRule::Required(format) => (format, false),
        NamespaceRule::Optional(format) => (format, true),
    };
    let found = match given {
        None | Some(Value::Null) if optional => return None,
        None | Some(Value::Null) => vec![format!("required field \"{WATCH_NAMESPACE}\" is missing")],
        Some(Value::String(namespace)) => {
            let found = namespace_violations(namespace, format, &options.install_namespace);
            if found.is_empty() {
                return Some(namespace.clone());
            }
            found
        }
        Some(other) => vec![schema::wrong_type(WATCH_NAMESPACE, other, "string")],
    };
    if let (true, Some(given)) = (optional, given) {
        violations.push(format!("invalid value for field \"{WATCH_NAMESPACE}\""));
        violations.push(schema::wrong_type(WATCH_NAMESPACE, given, "null"));
    }
    violations.extend(found);
    None
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
