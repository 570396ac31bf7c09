//! The documents of a release that are made of its other files.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::VERSION;
use crate::programs::{CLI, Platform};
use crate::source::Source;

/// Digests by the names of files.
pub(crate) type Digests = BTreeMap<String, String>;

/// Formats digests as `sha256sum --check` reads them.
pub(crate) fn checksums(digests: &Digests) -> String {
    digests.iter().fold(String::new(), |mut text, (name, digest)| {
        let _ = writeln!(text, "{digest}  {name}");
        text
    })
}

/// Provenance as an in-toto statement with SLSA's predicate: which files were built from which commit, and how.
pub(crate) fn provenance(
    digests: &Digests,
    source: &Source,
    parameters: &Value,
    lock: &str,
    builder: &str,
) -> Value {
    let subjects: Vec<Value> =
        digests.iter().map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest}})).collect();
    let repository = format!("git+{}", source.repository);
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{}/make-release/v1", source.repository),
                "externalParameters": {"repository": repository, "tag": format!("v{VERSION}")},
                "internalParameters": parameters,
                "resolvedDependencies": [
                    {"uri": repository, "digest": {"gitCommit": source.commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": lock}},
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    })
}

/// The manifest by which krew installs the command, with an archive for each platform.
pub(crate) fn krew(repository: &str, archives: &[(&Platform, String, &str)]) -> String {
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: {CLI}\nspec:\n  \
         version: v{VERSION}\n  homepage: {repository}\n  \
         shortDescription: Install and upgrade operators with OLM\n  \
         description: |\n    Installs, upgrades, rolls back and removes operators on clusters with OLM v1, after showing\n    \
         a plan: what changes, with which permissions, and why another version is not chosen.\n    \
         Explains why an installation does not proceed, also with OLM Classic. For authors:\n    \
         validates, compares and publishes bundles and file-based catalogs.\n  platforms:\n"
    );
    for (platform, name, digest) in archives {
        let _ = write!(
            text,
            "    - selector:\n        matchLabels:\n          os: linux\n          arch: {}\n      \
             uri: {repository}/releases/download/v{VERSION}/{name}\n      sha256: {digest}\n      bin: {CLI}\n",
            platform.architecture
        );
    }
    text
}
