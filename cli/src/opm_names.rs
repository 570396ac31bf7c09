//! The names of opm's commands, which lead to ours: pipelines that call opm need another program name only. And hints for
//! commands that other tools have.

use std::ffi::OsString;

/// Commands of opm, and ours of the same meaning. Longer names come first.
const NAMES: [(&[&str], &[&str]); 11] = [
    (&["alpha", "list"], &["catalog", "list"]),
    (&["alpha", "render-graph"], &["catalog", "graph"]),
    (&["alpha", "convert-template"], &["catalog", "template", "convert"]),
    (&["alpha", "render-template"], &["catalog", "template", "render"]),
    (&["alpha", "template"], &["catalog", "template"]),
    (&["generate", "dockerfile"], &["catalog", "dockerfile"]),
    (&["render"], &["catalog", "render"]),
    (&["validate"], &["catalog", "validate"]),
    (&["init"], &["catalog", "init"]),
    (&["migrate"], &["catalog", "migrate"]),
    (&["serve"], &["catalog", "serve"]),
];

/// Commands that other tools have and this one has not, and what does the same.
const HINTS: [(&[&str], &str); 3] = [
    (
        &["logs"],
        "\"olm explain EXTENSION\" names the Pods of an extension; \"kubectl logs -n NAMESPACE POD\" prints their logs, \"olm events EXTENSION\" what happened",
    ),
    (
        &["catalog", "add"],
        "apply a ClusterCatalog whose spec.source.image.ref names the image; \"kubectl explain clustercatalog.spec\" describes it, \"olm catalog pack\" makes such an image",
    ),
    (
        &["catalog", "remove"],
        "\"kubectl delete clustercatalog NAME\" removes a catalog; what is installed from it stays",
    ),
];

/// What to use instead of a command that there is not.
pub(crate) fn hint(arguments: &[OsString]) -> Option<&'static str> {
    let given =
        |name: &[&str]| arguments.iter().skip(1).zip(name).filter(|(one, other)| one == other).count();
    HINTS.iter().find(|(name, _)| given(name) == name.len()).map(|(_, hint)| *hint)
}

/// The arguments of the process, the program's name included, with a command of opm replaced by ours.
pub(crate) fn replaced(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let given = |name: &[&str]| {
        arguments.len() > name.len() && arguments.iter().skip(1).zip(name).all(|(one, other)| one == other)
    };
    if let Some((name, ours)) = NAMES.iter().find(|(name, _)| given(name)) {
        arguments.splice(1..=name.len(), ours.iter().map(OsString::from));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    fn after(line: &str) -> String {
        let all = replaced(line.split(' ').map(OsString::from));
        all.iter().map(|one| one.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_of_opm_become_ours_and_others_stay() {
        assert_eq!(after("olm alpha list packages x"), "olm catalog list packages x");
        assert_eq!(after("olm render a -o yaml"), "olm catalog render a -o yaml");
        assert_eq!(after("olm alpha render-template basic x"), "olm catalog template render basic x");
        for other in ["olm", "olm alpha", "olm resolve render", "olm bundle render x", "olm --help render"] {
            assert_eq!(after(other), other);
        }
    }

    #[test]
    fn commands_of_other_tools_have_a_hint() {
        let hint = |line: &str| hint(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(hint("olm logs lighthouse").is_some_and(|hint| hint.contains("kubectl logs")));
        assert!(hint("olm catalog add x quay.io/x").is_some_and(|hint| hint.contains("ClusterCatalog")));
        for other in ["olm", "olm catalog", "olm catalog list add", "olm status logs"] {
            assert_eq!(hint(other), None, "{other}");
        }
        // None of them is a command.
        for (name, _) in HINTS {
            let arguments = std::iter::once(&"olm").chain(name);
            assert!(crate::Arguments::try_parse_from(arguments).is_err(), "{name:?}");
        }
    }

    #[test]
    fn every_name_leads_to_a_command() {
        for (name, ours) in NAMES {
            let mut command = crate::Arguments::command();
            for part in ours {
                command = command.find_subcommand(part).unwrap_or_else(|| panic!("{name:?}")).clone();
            }
        }
    }
}
