//! The names of opm's commands, which lead to ours: pipelines that call opm need another program name only.

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
    use clap::CommandFactory as _;

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
    fn every_name_leads_to_a_command() {
        for (name, ours) in NAMES {
            let mut command = crate::Arguments::command();
            for part in ours {
                command = command.find_subcommand(part).unwrap_or_else(|| panic!("{name:?}")).clone();
            }
        }
    }
}
