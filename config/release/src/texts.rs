//! What is packed beside the command for people: completion scripts and man pages, which it prints itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use olm_image::folder_files;

use crate::programs::output;

/// Shells, and the names that their completion scripts have in their folders.
const SHELLS: [(&str, &str); 4] =
    [("bash", "olm.bash"), ("zsh", "_olm"), ("fish", "olm.fish"), ("powershell", "olm.ps1")];

/// The script by which kubectl completes the words after `kubectl olm`. It belongs into the PATH.
pub(crate) const KUBECTL_COMPLETE: (&str, &str) =
    ("kubectl_complete-olm", "#!/bin/sh\nexec olm __complete \"$@\"\n");

/// The files by their paths in the archive, printed by the program; pages are written into a folder below `inputs`.
///
/// # Errors
/// The program does not run.
pub(crate) fn of_command(program: &Path, inputs: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for (shell, name) in SHELLS {
        let script = output(Command::new(program).args(["completion", shell]))?;
        files.insert(format!("completion/{name}"), script.into_bytes());
    }
    let pages = inputs.join("man");
    output(Command::new(program).arg("man").arg(&pages))?;
    for (name, path) in folder_files(&pages)? {
        let page = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        files.insert(format!("man/man1/{name}"), page);
    }
    Ok(files)
}
