//! The cluster of `KUBECONFIG`.

use std::{ffi::OsStr, fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _};

use crate::prelude::*;
use kube::config::Kubeconfig;

/// Reads a kubeconfig, or a list of them as `KUBECONFIG` has it: files that do not exist count for nothing, and of what
/// several say the first counts, as for kubectl.
pub fn read(list: &OsStr) -> Result<Kubeconfig> {
    let files: Vec<_> = std::env::split_paths(list).filter(|path| path.is_file()).collect();
    ensure!(!files.is_empty(), "KUBECONFIG names no file that exists: {}", list.display());
    files.iter().try_fold(Kubeconfig::default(), |merged, file| {
        let read = Kubeconfig::read_from(file).with_context(|| format!("reading {}", file.display()))?;
        Ok(merged.merge(read)?)
    })
}

/// Writes it to a file of our own that is there until the end of this process: whoever changes the current context
/// meanwhile does not send us to another cluster.
pub fn copy(config: &Kubeconfig) -> Result<PathBuf> {
    let path = StateDirectory::kept("kubeconfig")?.join("kubeconfig");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(serde_json::to_string(config)?.as_bytes())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_kubectl_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            std::fs::write(folder.path().join(name), content).unwrap();
            folder.path().join(name)
        };
        let context = "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";
        let cluster = "current-context: b\nclusters: [{name: a, cluster: {server: https://a, certificate-authority: ca}}]";
        let files = [folder.path().join("none"), file("one", context), file("two", cluster)];
        let read = read(&std::env::join_paths(&files).unwrap()).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("a"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        let authority = folder.path().join("ca").display().to_string();
        assert_eq!(cluster.certificate_authority.as_deref(), Some(authority.as_str()));

        let error = super::read(files[0].as_os_str()).unwrap_err().to_string();
        assert!(error.starts_with("KUBECONFIG names no file that exists: /"), "{error}");
    }
}
