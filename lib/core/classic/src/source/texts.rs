//! Reasons and messages of CatalogSources that users, consoles and scripts match on: upstream's, to the letter.

use std::collections::BTreeMap;

use olm_text::{cut, one_line};

/// Most packages or bundles that a sentence names.
pub const NAMED_MAX: usize = 5;
/// Longest text about one of them.
const NAMED_CHARACTERS_MAX: usize = 250;

/// The spec cannot be followed.
pub const SPEC_INVALID: &str = "SpecInvalidError";
/// The ConfigMap cannot be used.
pub const CONFIG_MAP: &str = "ConfigMapError";
/// What serves the content cannot be made, or reached.
pub const REGISTRY_SERVER: &str = "RegistryServerError";
/// The polling interval cannot be read.
pub const INVALID_INTERVAL: &str = "InvalidIntervalError";

/// Condition: whether every variable of the image template has a value.
pub const TEMPLATES_HAVE_RESOLVED: &str = "TemplatesHaveResolved";
/// Condition: the image that the template makes.
pub const RESOLVED_IMAGE: &str = "ResolvedImage";
/// Reason of both when they are true.
pub const ALL_TEMPLATES_RESOLVED: &str = "AllTemplatesResolved";
/// Reason of both when they are false.
pub const UNABLE_TO_RESOLVE: &str = "UnableToResolve";
/// Message when every variable has a value.
pub const TEMPLATE_RESOLVED: &str = "catalog image reference was successfully resolved";

/// A registry client that has not connected yet.
pub const IDLE: &str = "IDLE";
/// The content is on its way.
pub const CONNECTING: &str = "CONNECTING";
/// The content is served.
pub const READY: &str = "READY";
/// There is no content, and another attempt follows.
pub const TRANSIENT_FAILURE: &str = "TRANSIENT_FAILURE";

/// One of these states, as it is reported.
pub fn state(text: &str) -> Option<&'static str> {
    [IDLE, CONNECTING, READY, TRANSIENT_FAILURE].into_iter().find(|state| *state == text)
}

/// Message of a `grpc` source without image and address.
pub fn image_and_address_unset(source_type: &str) -> String {
    format!("image and address unset: at least one must be set for sourcetype: {source_type}")
}

/// Message of a ConfigMap source without a name.
pub fn config_map_unset(source_type: &str) -> String {
    format!("configmap name unset: must be set for sourcetype: {source_type}")
}

/// Message of a source of a type that there is not.
pub fn unknown_source_type(source_type: &str) -> String {
    format!("unknown sourcetype: {source_type}")
}

/// Message of a ConfigMap that cannot be read.
pub fn config_map_failed(name: &str, cause: &str) -> String {
    format!("failed to get catalog config map {name}: {cause}")
}

/// Message of a ConfigMap that cannot be owned.
pub fn config_map_owner(cause: &str) -> String {
    format!("unable to write owner onto catalog source configmap - {cause}")
}

/// Message of objects that cannot be made.
pub fn ensure_failed(cause: &str) -> String {
    format!("couldn't ensure registry server - {cause}")
}

/// Part of [`ensure_failed`]: which object, and why.
pub fn ensuring(what: &str, cause: &str) -> String {
    format!("error ensuring {what}: {cause}")
}

/// Part of [`ensuring`]: a Pod that polls an image and came to nothing.
pub fn update_failed(pod: &str, state: &str) -> String {
    format!("update pod {pod} in a {state} state: deleted update pod")
}

/// Why content is not taken: what the catalogs of its namespace hold in memory, their limit, and what it needs, in bytes.
pub fn memory_exceeded(namespace: &str, held: usize, limit: usize, wanted: usize) -> String {
    // In tenths, so that small catalogs do not count as none.
    let mebibytes = |bytes: usize| {
        let tenths = bytes.saturating_mul(10).div_ceil(1 << 20);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    format!(
        "the catalogs of namespace {namespace} hold {} of the {} MiB of memory they may take, and {} MiB more do not fit: delete catalogs of this namespace, or raise --namespace-memory-limit",
        mebibytes(held),
        mebibytes(limit),
        mebibytes(wanted)
    )
}

/// Sentence about invalid packages of a catalog that is served without them.
pub fn packages_left_out(faulty: &BTreeMap<String, String>) -> Option<String> {
    let named = faulty.iter().map(|(name, problem)| format!("{name} ({problem})"));
    left_out("Invalid packages", named, faulty.len())
}

/// Sentence about bundles of a registry server that are left out of its catalog: the first of them, and how many there are.
pub fn bundles_left_out(first: &[String], count: usize) -> Option<String> {
    left_out("Bundles that are too large or invalid", first.iter().cloned(), count)
}

fn left_out(what: &str, named: impl Iterator<Item = String>, count: usize) -> Option<String> {
    if count == 0 {
        return None;
    }
    let named = named.take(NAMED_MAX).map(|one| cut(&one_line(&one), NAMED_CHARACTERS_MAX).into_owned());
    let mut parts: Vec<String> = named.collect();
    let others = count.saturating_sub(parts.len());
    if others > 0 {
        parts.push(format!("{others} more"));
    }
    Some(format!("{what} are left out: {}.", parts.join(", ")))
}

/// Message of an interval that cannot be read.
pub fn invalid_interval(cause: &str) -> String {
    format!(
        "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: {cause}"
    )
}

/// Message of a template with these variables without a value, or with another fault.
pub fn template_failed(unresolved: &[&str], is_malformed: bool) -> String {
    let variables = format!("variable(s) \"{}\" could not be resolved", unresolved.join("\", \""));
    let syntax = "one or more template(s) has improper syntax";
    let cause = match (unresolved.is_empty(), is_malformed) {
        (false, true) => format!(", because {variables} and {syntax}"),
        (false, false) => format!(", because {variables}"),
        (true, true) => format!(", because {syntax}"),
        (true, false) => String::new(),
    };
    format!("cannot construct catalog image reference{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_named_up_to_a_limit() {
        let faulty = |count: usize| -> BTreeMap<String, String> {
            (0..count).map(|number| (format!("p{number}"), "x".repeat(1000))).collect()
        };
        assert_eq!(packages_left_out(&faulty(0)), None);
        let one = [("lamp".to_owned(), "no head\n".to_owned())].into();
        let text = packages_left_out(&one).unwrap();
        assert!(
            text.starts_with("Invalid packages are left out: lamp (no head") && !text.contains('\n'),
            "{text}"
        );
        let text = packages_left_out(&faulty(1000)).unwrap();
        assert!(text.contains("p0 (x") && text.ends_with(", 995 more."), "{text}");
        assert!(text.len() < 2000, "{}", text.len());
        let first = vec!["lamp.v1".to_owned(); NAMED_MAX];
        let text = bundles_left_out(&first[..2], 2).unwrap();
        assert_eq!(text, "Bundles that are too large or invalid are left out: lamp.v1, lamp.v1.");
        assert!(bundles_left_out(&first, 9).unwrap().ends_with(", 4 more."));
    }
}
