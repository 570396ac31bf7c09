//! Published Go programs that tests use: built once into the user's cache.
//!
//! A folder beneath `test`, such as `test/kit/controlplane`, is a Go module without source that names them; they are
//! built into a folder named after the module's checksums, each only when it is missing.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::{Progress, in_path, test_folder, variable};

const PART: &str = "Go";
/// Begins the names of folders into which Go builds.
const PARTIAL: &str = ".partial-";

/// A module of programs.
pub struct GoModule<'a> {
    /// Its folder beneath `test`; the last part also names the folder in the cache.
    pub folder: &'a str,
    /// The programs that are wanted, by file name.
    pub programs: &'a [&'a str],
    /// Programs that are built under another name: that name, and the file name.
    pub renamed: &'a [(&'a str, &'a str)],
    /// Flags of the linker.
    pub link_flags: String,
    /// Build tags, which leave out what tests do not use.
    pub tags: &'a str,
}

impl GoModule<'_> {
    /// The folder with the programs. Those that are missing are built (some minutes, once). Blocks.
    pub fn built(&self) -> Result<PathBuf> {
        if !self.missing()?.is_empty() {
            Progress::during(|progress| self.build(progress))?;
        }
        self.cache()
    }

    /// The programs that are not in the cache.
    pub fn missing(&self) -> Result<Vec<&str>> {
        let folder = self.cache()?;
        Ok(self.programs.iter().copied().filter(|program| !folder.join(program).is_file()).collect())
    }

    /// The folder in the cache, which need not be there.
    pub fn cache(&self) -> Result<PathBuf> {
        let module = self.module();
        let name = module.file_name().context("a Go module without a folder of its own")?;
        Ok(cache_folder()?.join(name).join(checksum(&module.join("go.sum"))?))
    }

    fn module(&self) -> PathBuf {
        test_folder().join(self.folder)
    }

    /// Builds the programs that are missing, and says how far that is.
    pub fn build(&self, progress: &Progress) -> Result<()> {
        if in_path("go").is_none() {
            bail!(
                "{} must be built, with Go 1.26 or later: install it (https://go.dev/dl)",
                self.missing()?.join(", ")
            );
        }
        let folder = self.cache()?;
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        // Two processes at once build once: the second waits here and then finds the programs.
        let lock = File::create(folder.with_file_name(".lock"))?;
        progress.set(PART, "waiting for another build");
        lock.lock()?;
        let missing = self.missing()?;
        if !missing.is_empty() {
            remove_partial(&folder)?;
            progress.line(&format!("building {} (once, some minutes)", missing.join(", ")));
            let partial = folder.join(format!("{PARTIAL}{}", std::process::id()));
            fs::create_dir(&partial)?;
            let built = self.build_into(&partial, &missing, progress);
            let kept = built.and_then(|()| self.keep(&partial, &folder, &missing));
            let removed = fs::remove_dir_all(&partial);
            kept?;
            removed?;
        }
        progress.done(PART);
        Ok(())
    }

    fn build_into(&self, partial: &Path, missing: &[&str], progress: &Progress) -> Result<()> {
        let text = fs::read_to_string(self.module().join("go.mod"))?;
        let packages =
            tools(&text).filter(|package| missing.contains(&self.file_name(package))).collect::<Vec<_>>();
        ensure!(packages.len() == missing.len(), "go.mod of {} names not each of {missing:?}", self.folder);

        let mut all = 0;
        let mut downloads = 0;
        let mut list = self.go(&["list", "-deps"]);
        let seen = |line: &str| {
            downloads += usize::from(line.starts_with("go: downloading"));
            progress.set(PART, format!("{downloads} modules downloaded"));
        };
        progress.set(PART, "starting");
        run(list.args(&packages), progress, |_| all += 1, seen)?;

        let mut compiled = 0;
        let mut build = self.go(&["build", "-v", "-trimpath", "-ldflags", &self.link_flags]);
        build.args(["-tags", self.tags]).arg("-o").arg(partial).args(&packages);
        progress.set(PART, format!("0 of {all} packages"));
        run(
            &mut build,
            progress,
            |_| {},
            |line| {
                // Only names of packages are printed when all is well.
                compiled += usize::from(!line.contains(' '));
                progress.set(PART, format!("{compiled} of {all} packages"));
            },
        )
    }

    fn go(&self, arguments: &[&str]) -> Command {
        let mut go = Command::new("go");
        go.current_dir(self.module()).args(arguments).stdin(Stdio::null());
        go
    }

    /// The file name of the program that Go makes of a package.
    fn file_name<'a>(&'a self, package: &'a str) -> &'a str {
        let name = go_name(package);
        self.renamed.iter().find(|(built, _)| *built == name).map_or(name, |(_, wanted)| wanted)
    }

    /// Moves the programs to where they are looked for.
    fn keep(&self, partial: &Path, folder: &Path, missing: &[&str]) -> Result<()> {
        for program in missing {
            let renamed = self.renamed.iter().find(|(_, wanted)| wanted == program);
            let built = partial.join(renamed.map_or(*program, |(built, _)| built));
            fs::rename(&built, folder.join(program)).with_context(|| format!("Go built no {program}"))?;
        }
        Ok(())
    }
}

/// Runs a command and calls `output` and `errors` with each line of the two. A failure has the last lines of errors.
fn run(
    command: &mut Command,
    progress: &Progress,
    mut output: impl FnMut(&str) + Send,
    mut errors: impl FnMut(&str),
) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("running go")?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut tail = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines().map_while(Result::ok));
            lines.for_each(|line| output(&line));
        });
        for line in err.into_iter().flat_map(|err| BufReader::new(err).lines().map_while(Result::ok)) {
            errors(&line);
            if line.contains(' ') && !line.starts_with("go: downloading") {
                tail.push(line);
            }
            if progress.has_failed() {
                // An error means that it has ended already.
                let _ = child.kill();
            }
        }
    });
    let status = child.wait()?;
    let shown = &tail[tail.len().saturating_sub(20)..];
    ensure!(status.success(), "{} {status}: {}", command.get_program().display(), shown.join("\n"));
    Ok(())
}

/// The packages that a go.mod names as tools.
fn tools(go_mod: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    go_mod.lines().filter_map(move |line| {
        let line = line.trim();
        match line.strip_prefix("tool ").map(str::trim) {
            Some("(") => inside = true,
            Some(package) => return Some(package),
            None if line == ")" => inside = false,
            None if inside => return Some(line),
            None => {}
        }
        None
    })
}

/// How Go names the program of a package: after its last part that is no major version.
fn go_name(package: &str) -> &str {
    let is_version = |part: &str| part.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
    package.rsplit('/').find(|part| !is_version(part)).unwrap_or(package)
}

/// Removes what builds left behind that were killed. Needs the lock.
fn remove_partial(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn cache_folder() -> Result<PathBuf> {
    let folder = |name| variable(name).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("olm"))
}

/// The first 16 hexadecimal digits of a file's SHA-256: new versions of anything get a new folder.
fn checksum(path: &Path) -> Result<String> {
    let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let digest = Sha256::digest(&content);
    Ok(digest.iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_is_named_after_the_modules_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go.sum");
        fs::write(&file, "abc").unwrap();
        assert_eq!(checksum(&file).unwrap(), "ba7816bf8f01cfea");
    }

    #[test]
    fn tools_of_a_module_are_found_by_the_names_of_their_programs() {
        let one = "module a\n\ntool example.com/cmd/promtool\n\nrequire (\n\tother v1.0.0\n)\n";
        assert_eq!(tools(one).collect::<Vec<_>>(), ["example.com/cmd/promtool"]);
        let two =
            "tool (\n\tgo.etcd.io/etcd/server/v3\n\texample.com/kwok\n)\nrequire example.com/a v1.0.0\n";
        assert_eq!(tools(two).map(go_name).collect::<Vec<_>>(), ["server", "kwok"]);
    }

    #[test]
    fn a_command_is_stopped_when_another_part_has_failed() {
        let mut endless = Command::new("sh");
        endless.args(["-c", "while echo package >&2; do :; done"]);
        let error = Progress::during(|progress| {
            assert!(progress.fail() && !progress.fail());
            run(&mut endless, progress, |_| {}, |_| {}).unwrap_err()
        });
        assert!(error.to_string().contains("signal: 9"), "{error}");
    }

    #[test]
    fn a_killed_builds_folder_is_removed_and_programs_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".partial-1")).unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        remove_partial(folder.path()).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["etcd"]);
    }
}
