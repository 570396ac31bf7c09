//! Published Go programs that tests use: built once into the user's cache.
//!
//! A folder beneath this package, such as `test/kit/controlplane`, is a Go module without source that names them;
//! `go build tool` builds them into a folder named after the module's checksums.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// A module of programs.
pub(crate) struct GoModule<'a> {
    /// Its folder beneath this package; the last part also names the folder in the cache.
    pub(crate) folder: &'a str,
    /// The programs, by file name.
    pub(crate) programs: &'a [&'a str],
    /// Programs that are built under another name: that name, and the file name.
    pub(crate) renamed: &'a [(&'a str, &'a str)],
    /// Flags of the linker.
    pub(crate) link_flags: String,
    /// Build tags, which leave out what tests do not use.
    pub(crate) tags: &'a str,
}

impl GoModule<'_> {
    /// The folder with the programs, which are built if they are not there (some minutes, once). Blocks.
    pub(crate) fn built(&self) -> Result<PathBuf> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let name = module.file_name().context("a Go module without a folder of its own")?;
        let folder = cache_folder()?.join(name).join(checksum(&module.join("go.sum"))?);
        if !self.complete(&folder) {
            self.build(&module, &folder)?;
        }
        Ok(folder)
    }

    fn complete(&self, folder: &Path) -> bool {
        self.programs.iter().all(|program| folder.join(program).is_file())
    }

    fn build(&self, module: &Path, folder: &Path) -> Result<()> {
        let cache = folder.parent().context("the cache folder has no parent")?;
        fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
        // Two test processes at once build once: the second waits here and then finds the folder.
        let lock = File::create(cache.join(".lock"))?;
        lock.lock()?;
        if self.complete(folder) {
            return Ok(());
        }
        // Not with a print macro: libtest would keep it to itself, for some minutes.
        writeln!(
            std::io::stderr(),
            "building {} into {} (once, some minutes)",
            self.programs.join(", "),
            folder.display()
        )?;
        let partial = tempfile::Builder::new().prefix(".partial-").tempdir_in(cache)?;
        let mut go = Command::new("go");
        go.current_dir(module).args(["build", "-trimpath", "-ldflags", &self.link_flags]);
        go.args(["-tags", self.tags]).arg("-o").arg(partial.path()).arg("tool");
        match go.status() {
            Ok(status) if status.success() => {}
            Ok(status) => bail!("`go build tool` in {} failed: {status}", module.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
                "the programs that tests use are built with Go, which is not installed: install Go 1.26 or later \
                 (https://go.dev/dl), or set KUBECONFIG to the kubeconfig of a cluster the tests may use"
            ),
            Err(error) => return Err(error).context("running go"),
        }
        for (built, wanted) in self.renamed {
            fs::rename(partial.path().join(built), partial.path().join(wanted))?;
        }
        if !self.complete(partial.path()) {
            bail!("`go build tool` did not build every program of {}", module.display());
        }
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::rename(partial.keep(), folder)?;
        Ok(())
    }
}

fn cache_folder() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("olm"))
}

/// The first 16 hexadecimal digits of a file's SHA-256: new versions of anything get a new folder.
fn checksum(path: &Path) -> Result<String> {
    let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let digest = Sha256::digest(&content);
    Ok(digest[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
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
        let module = GoModule {
            folder: "x",
            programs: &["go.sum"],
            renamed: &[],
            link_flags: String::new(),
            tags: "",
        };
        assert!(module.complete(folder.path()));
        let module = GoModule { programs: &["other"], ..module };
        assert!(!module.complete(folder.path()));
    }
}
