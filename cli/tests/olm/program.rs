//! Running the program, and files to run it on.

use std::{
    fs,
    io::pipe,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// The program with these arguments, and no settings of this machine for registries.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_olm"));
    command.args(arguments).env_remove("REGISTRY_AUTH_FILE").env_remove("CONTAINERS_REGISTRIES_CONF");
    command
}

pub(crate) fn olm(arguments: &[&str]) -> Output {
    command(arguments).output().expect("runs")
}

/// Runs it with standard output into a pipe without a reader; its exit code and standard error.
pub(crate) fn unread(command: &mut Command) -> (Option<i32>, String) {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped()).output().expect("runs");
    (output.status.code(), text(output.stderr))
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

pub(crate) fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, content).expect("written");
}

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in files {
        write(folder.path(), name, content);
    }
    folder
}
