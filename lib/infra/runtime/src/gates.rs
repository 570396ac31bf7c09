//! The gates that `--feature-gates` sets, in the form that Kubernetes' programs understand.
//!
//! `AllAlpha` and `AllBeta` are for the gates that are not named; a name given again counts as it was given last.
//! Which gates there are is not known here.

use std::collections::BTreeMap;

use thiserror::Error;

/// A gate is not of the form `name=bool`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid value of feature gate {gate:?}, want <name>=true or <name>=false")]
pub struct GateSyntax {
    /// The text given.
    pub gate: String,
}

/// Gates by name, and what is asked of all alpha ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureGates {
    alpha: Option<bool>,
    named: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// Reads the flag's values: `name=bool`, separated by commas.
    ///
    /// # Errors
    /// A part has another form.
    pub fn parse<S: AsRef<str>>(values: &[S]) -> Result<Self, GateSyntax> {
        let mut gates = Self::default();
        let all = values.iter().flat_map(|value| value.as_ref().split(','));
        for gate in all.map(str::trim).filter(|gate| !gate.is_empty()) {
            let malformed = || GateSyntax { gate: gate.to_owned() };
            let (name, value) = gate.split_once('=').ok_or_else(malformed)?;
            let on = boolean(value.trim()).ok_or_else(malformed)?;
            match name.trim() {
                "AllAlpha" => gates.alpha = Some(on),
                // There is no beta gate.
                "AllBeta" => {}
                name => drop(gates.named.insert(name.to_owned(), on)),
            }
        }
        Ok(gates)
    }

    /// What is asked of alpha gates that are not named.
    pub fn alpha(&self) -> Option<bool> {
        self.alpha
    }

    /// The gates that are named.
    pub fn named(&self) -> impl Iterator<Item = (&str, bool)> {
        self.named.iter().map(|(name, on)| (name.as_str(), *on))
    }
}

/// A boolean in the spellings of Go's flags.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Some(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Some(false),
        _ => None,
    }
}

/// Logs the state of every gate, as upstream does.
pub fn log_gates<'a>(states: impl IntoIterator<Item = (&'a str, bool)>) {
    let mut states: Vec<String> = states.into_iter().map(|(name, on)| format!("{name}={on}")).collect();
    states.sort();
    tracing::info!(gates = states.join(","), "feature gate status");
}
