//! Completion scripts for shells, completion as a plug-in of kubectl, and man pages: all made of the commands' own
//! description.

use std::{io::Write, path::PathBuf};

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::{Generator as _, Shell};

/// The help text below the options.
pub(crate) const HELP: &str = "Examples:
  source <(olm completion bash)
  olm completion zsh > \"${fpath[1]}/_olm\"
  olm completion fish > ~/.config/fish/completions/olm.fish
  olm completion powershell | Out-String | Invoke-Expression

As a plug-in of kubectl (kubectl olm) the words are completed by a program kubectl_complete-olm in the PATH:
  printf '#!/bin/sh\\nexec olm __complete \"$@\"\\n' > ~/.local/bin/kubectl_complete-olm
  chmod +x ~/.local/bin/kubectl_complete-olm";

/// The end of the answer to kubectl: complete no files.
const NO_FILES: &str = ":4";
/// The end of the answer to kubectl: complete files, if nothing was named.
const FILES: &str = ":0";

/// `olm completion`
#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
    shell: Shell,
}

/// `olm __complete`
#[derive(Debug, Args)]
pub(crate) struct Words {
    /// The words of the command line after the program's name; the last one is to be completed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// `olm man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder for the pages, one for each command
    folder: PathBuf,
}

/// The description of all commands.
fn described() -> Command {
    let mut command = crate::Arguments::command().bin_name("olm");
    command.build();
    command
}

impl Completion {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut script = Vec::new();
        let command = described();
        self.shell.try_generate(&command, &mut script).context("writing the script")?;
        out.write_all(&script)?;
        Ok(())
    }
}

impl Words {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (candidates, end) = candidates(&described(), &self.words);
        for candidate in candidates {
            writeln!(out, "{candidate}")?;
        }
        writeln!(out, "{end}")?;
        Ok(())
    }
}

/// What the last word may become, and what else may be completed.
fn candidates(command: &Command, words: &[String]) -> (Vec<String>, &'static str) {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut command = command;
    for word in before {
        if let Some(found) = command.find_subcommand(word) {
            command = found;
        }
    }
    let flag = |name: &str| {
        let is_named = |arg: &&clap::Arg| {
            arg.get_long().is_some_and(|long| name == format!("--{long}"))
                || arg.get_short().is_some_and(|short| name == format!("-{short}"))
        };
        command.get_arguments().find(is_named).filter(|arg| arg.get_action().takes_values())
    };
    let values = |arg: &clap::Arg| -> Vec<String> {
        let values = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
        values.map(|value| value.get_name().to_owned()).collect()
    };
    let mut all: Vec<String> = Vec::new();
    let mut end = NO_FILES;
    if let Some(arg) = before.last().and_then(|word| flag(word)) {
        all = values(arg);
        end = if all.is_empty() { FILES } else { NO_FILES };
    } else if last.starts_with('-') {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        all = shown.filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect();
    } else {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        all.extend(shown.map(|command| command.get_name().to_owned()));
        let arguments: Vec<&clap::Arg> = command.get_positionals().collect();
        all.extend(arguments.iter().flat_map(|arg| values(arg)));
        if !command.has_subcommands() && !arguments.is_empty() {
            end = FILES;
        }
    }
    all.retain(|candidate| candidate.starts_with(last));
    all.sort_unstable();
    (all, end)
}

impl Man {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let pages = pages(&described());
        for (name, text) in &pages {
            let path = self.folder.join(format!("{name}.1"));
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        writeln!(out, "{}: {}", self.folder.display(), crate::output::counted(pages.len(), "page"))?;
        Ok(())
    }
}

/// The pages of a command and of those below it, by name.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    if command.is_hide_set() || command.get_name() == "help" {
        return Vec::new();
    }
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(command.clone()).render(&mut text);
    std::iter::once((name, text)).chain(command.get_subcommands().flat_map(pages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> (Vec<String>, &'static str) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(&described(), &words)
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        assert_eq!(words("cata"), (vec!["catalog".to_owned()], NO_FILES));
        assert!(words("catalog pa").0.contains(&"path".to_owned()));
        assert_eq!(words("catalog list pack"), (vec!["packages".to_owned()], FILES));
        assert_eq!(words("catalog path x --fr").0, ["--from"]);
        assert_eq!(words("search x -o ").0, ["json", "name", "text", "wide", "yaml"]);
        assert_eq!(words("bundle validate --auth-file "), (Vec::new(), FILES));
        let top = words("").0;
        assert!(top.contains(&"search".to_owned()) && !top.contains(&"__complete".to_owned()), "{top:?}");
    }

    #[test]
    fn every_shell_has_a_script_that_names_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let mut text = Vec::new();
            Completion { shell }.run(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("search") && text.contains("catalog"), "{shell}");
        }
    }

    #[test]
    fn every_command_has_an_example() {
        fn without(command: &Command, path: &str, missing: &mut Vec<String>) {
            let shown =
                || command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
            for one in shown() {
                without(one, &format!("{path} {}", one.get_name()), missing);
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if shown().next().is_none() && !help.contains("Example") {
                missing.push(path.to_owned());
            }
        }
        let mut missing = Vec::new();
        without(&described(), "olm", &mut missing);
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let pages = pages(&described());
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["olm", "olm-search", "olm-catalog-path", "olm-bundle-validate"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("__complete") || name.contains("help")), "{names:?}");
        let (_, page) = pages.iter().find(|(name, _)| name == "olm-catalog-path").unwrap();
        assert!(String::from_utf8_lossy(page).contains("from"));
    }
}
