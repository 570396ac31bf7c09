//! The texts of refusals beside upstream's.

use olm_bundle::ReadError;
use olm_render::RenderError;

/// Upstream's line about whatever is wrong inside a type of Kubernetes.
const UNEXPLAINED: &str = "validation failed";

/// How two texts compare.
pub(super) enum Words {
    Same,
    /// They differ as a row of the page of differences says.
    Named(&'static str),
    Different,
}

/// Compares our refusal with upstream's text.
pub(super) fn compare(ours: &RenderError, theirs: &str) -> Words {
    // The data's marks for where the error came from, and for its sort.
    let theirs = ["load: ", "terminal error: "]
        .iter()
        .fold(theirs, |text, mark| text.strip_prefix(mark).unwrap_or(text));
    let text = ours.to_string();
    if text == theirs {
        return Words::Same;
    }
    let named = match ours {
        RenderError::Bundle(ReadError::Memory(_)) => {
            theirs.contains("excessive aliasing").then_some("limits")
        }
        RenderError::Bundle(error) => is_about_same_file(error, &text, theirs).then_some("parse errors"),
        RenderError::Configuration(_) => explains_more(&text, theirs).then_some("configuration errors"),
        RenderError::DeploymentConfig(_) => has_place(&text, theirs).then_some("configuration errors"),
        _ => None,
    };
    named.map_or(Words::Different, Words::Named)
}

/// Whether both are about a file that cannot be read, and name the same one. Of `metadata/annotations.yaml` upstream
/// does not say the name.
fn is_about_same_file(error: &ReadError, ours: &str, theirs: &str) -> bool {
    let begin = match error {
        ReadError::Objects { path, .. } => format!("error parsing objects in \"{path}\": "),
        ReadError::Metadata { path: "metadata/annotations.yaml", .. } => {
            return ["error unmarshaling JSON: ", "error converting YAML to JSON: "]
                .iter()
                .any(|begin| theirs.starts_with(begin));
        }
        ReadError::Metadata { path, .. } => format!("failed to unmarshal {path}: "),
        _ => return false,
    };
    ours.starts_with(&begin) && theirs.starts_with(&begin)
}

/// Whether ours has everything that upstream's says, and says more: all unknown fields, and the places and reasons of
/// what upstream calls `validation failed`.
fn explains_more(ours: &str, theirs: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let text = text
            .strip_prefix("invalid ClusterExtension configuration: invalid configuration: ")
            .unwrap_or(text);
        let text = text.strip_prefix("multiple errors found:\n  - ").unwrap_or(text);
        text.split("\n  - ").map(str::to_owned).collect()
    };
    let (ours, theirs) = (lines(ours), lines(theirs));
    let unexplained = theirs.iter().any(|line| line == UNEXPLAINED);
    let explained = theirs.iter().filter(|line| *line != UNEXPLAINED);
    explained.clone().all(|line| ours.contains(line))
        && (ours.len() > theirs.len() || unexplained && ours.len() > explained.count())
}

/// Whether ours is upstream's with the place of the value.
fn has_place(ours: &str, theirs: &str) -> bool {
    ours.strip_prefix(theirs).is_some_and(|rest| rest.starts_with(" at "))
}
