//! Rules and schema pieces that more than one kind uses.
//!
//! A rule is a CEL expression that the API server evaluates; users read its message. Only functions
//! of Kubernetes 1.32 are used (`format.*` is newer on some servers, so names are checked by pattern).

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

/// A DNS-1123 label, as the name of a namespace or a phase (the length is limited separately).
pub const DNS1123_LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A DNS-1123 subdomain, as the name of most cluster objects.
pub const DNS1123_SUBDOMAIN_PATTERN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A version range as `spec.source.catalog.version` may hold it: terms of an operator and a version of one
/// to three components or wildcards, joined by blanks or commas (and) and `||` (or).
///
/// This is a filter on form; the resolver parses the text again. It accepts what upstream's expression
/// accepts and a range parser can read, and also `*` as a wildcard at each place where upstream's misplaced
/// brackets refuse it (`1 || *`, `1.*`). The lone `|` those brackets let through is refused, and the empty
/// text means "no range", as when the field is absent.
pub const VERSION_RANGE_PATTERN: &str = concat!(
    r"^$|^\s*(=||!=|>|<|>=|=>|<=|=<|~|~>|\^)\s*",
    r"v?(0|[1-9]\d*|x|X|\*)(\.(0|[1-9]\d*|x|X|\*)){0,2}",
    r"(-[0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*)?(\+[0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*)?\s*",
    r"((\s+|,\s*|\s*\|\|\s*)(=||!=|>|<|>=|=>|<=|=<|~|~>|\^)\s*",
    r"v?(0|[1-9]\d*|x|X|\*)(\.(0|[1-9]\d*|x|X|\*)){0,2}",
    r"(-[0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*)?(\+[0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*)?\s*)*$",
);

/// A bundle's version in a status. Not anchored at the end, as upstream's.
pub const SEMVER_PATTERN: &str = concat!(
    r"^([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(-([-0-9A-Za-z]+(\.[-0-9A-Za-z]+)*))?",
    r"(\+([-0-9A-Za-z]+(-\.[-0-9A-Za-z]+)*))?",
);

/// A bundle's release: empty, or identifiers joined by dots (numeric without leading zeros, or alphanumeric).
pub const RELEASE_PATTERN: &str = concat!(
    r"^$|^(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)",
    r"(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*$",
);

/// A path of fields joined by dots, as the probes of an object set name it.
pub const FIELD_PATH_PATTERN: &str = r"^[a-zA-Z0-9]+(?:\.[a-zA-Z0-9]+)*$";

/// The rule "the text matches `pattern`". CEL's raw strings keep the pattern readable; no pattern of this
/// API holds a quotation mark.
pub(crate) fn matches(pattern: &str, message: impl Into<String>) -> Rule {
    rule(format!("self.matches(r\"{pattern}\")"), message)
}

/// The rule "the name is a DNS-1123 subdomain", with the text upstream gives for the field called `field`.
pub(crate) fn subdomain(field: &str) -> Rule {
    matches(
        DNS1123_SUBDOMAIN_PATTERN,
        format!(
            "{field} must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, \
             hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 \
             characters"
        ),
    )
}

/// The rule "once set, the value stays".
pub(crate) fn immutable(message: &str) -> Rule {
    rule("self == oldSelf", message)
}

/// The rule of a union: the member called `member` is there exactly if the discriminator has its value.
pub(crate) fn union_member(discriminator: &str, value: &str, member: &str, message: &str) -> Rule {
    rule(
        format!(
            "has(self.{discriminator}) && self.{discriminator} == '{value}' ? has(self.{member}) : !has(self.{member})"
        ),
        message,
    )
}

pub(crate) fn rule(expression: impl Into<String>, message: impl Into<String>) -> Rule {
    Rule::new(expression.into()).message(message.into().as_str())
}

/// The schema of a time.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// The schema of a `metav1.LabelSelector`, replaced as a whole when merged.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements on labels; all must be met.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label's key.", "type": "string" },
                        "operator": {
                            "description": "The relation of the label to the values: In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                        },
                        "values": {
                            "description": "The values, for In and NotIn only.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string" },
                        },
                    },
                },
            },
            "matchLabels": {
                "description": "Labels with their required values; all must match.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
        },
    })
}

/// The schema of a list of `metav1.Condition`, a map by `type`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": { "description": "Human-readable details about the last transition.", "type": "string", "maxLength": 32768 },
                "observedGeneration": {
                    "description": "The metadata.generation that the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "The reason for the status, in CamelCase, for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "The status of the condition.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "The type of the condition.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    static REGEXES: LazyLock<(Regex, Regex)> =
        LazyLock::new(|| (Regex::new(UPSTREAM).unwrap(), Regex::new(VERSION_RANGE_PATTERN).unwrap()));

    /// The expression of upstream's CRD, which every version a stored extension may hold has passed.
    const UPSTREAM: &str = r"^(\s*(=||!=|>|<|>=|=>|<=|=<|~|~>|\^)\s*(v?(0|[1-9]\d*|[x|X|\*])(\.(0|[1-9]\d*|x|X|\*]))?(\.(0|[1-9]\d*|x|X|\*))?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?)\s*)((?:\s+|,\s*|\s*\|\|\s*)(=||!=|>|<|>=|=>|<=|=<|~|~>|\^)\s*(v?(0|[1-9]\d*|x|X|\*])(\.(0|[1-9]\d*|x|X|\*))?(\.(0|[1-9]\d*|x|X|\*]))?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?)\s*)*$";

    /// Texts made of the pieces expressions are made of, so that a good part of them matches.
    fn expressions() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "(0|[1-9]|10|x|X|\\*)",
            3 => Just(".".to_owned()),
            2 => "(=|!=|>|<|>=|=>|<=|=<|~|~>|\\^)",
            2 => "( |  |,|, | \\|\\| |\\|\\|)",
            1 => "(v|-alpha|-1|\\+b|-a\\.b)",
            1 => "[]|0a!&;-]",
        ];
        proptest::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_upstream_accepts_and_a_range_parser_reads_is_accepted(text in expressions()) {
            let (upstream, ours) = &*REGEXES;
            // What the misplaced brackets let through is no range: a bar or a bracket as a component.
            let readable = !text.contains(']') && !text.replace("||", "").contains('|') && !bar_for_a_version(&text);
            prop_assert!(!(readable && upstream.is_match(&text)) || ours.is_match(&text), "{text:?}");
        }
    }

    /// Whether one of two bars is where a version should be: at the start of the text or of a term.
    fn bar_for_a_version(text: &str) -> bool {
        let terms: Vec<_> = text.split("||").collect();
        terms.iter().any(|term| !term.contains(|c: char| c.is_ascii_alphanumeric() || c == '*'))
    }

    #[test]
    fn wildcards_and_only_they_are_new() {
        let (upstream, ours) = &*REGEXES;
        for text in ["1 || *", "1.2.* || 1.3.*", ">=1.11.0 <2.0.*", ""] {
            assert!(!upstream.is_match(text) && ours.is_match(text), "{text:?}");
        }
        for text in ["|", "|.1", "1.*]", "1 *]"] {
            assert!(upstream.is_match(text) && !ours.is_match(text), "{text:?}");
        }
    }
}
