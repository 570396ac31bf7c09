//! Kubeconfigs: files that name clusters and users.
//!
//! kube reads them with a YAML deserializer of its own, whose code for each of their types is a 30th of the program and
//! serves nothing else. Here they become values first, like all other YAML, within limits.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use kube::config::{AuthInfo, Kubeconfig};
use olm_yaml::Limits;

/// Largest kubeconfig: a thousand clusters with their certificates.
const BYTES_MAX: usize = 16 << 20;

/// The kubeconfig of `KUBECONFIG`, whose files are merged, else the one in the home directory; `None` where there is no file,
/// or none that names a cluster, as in a Pod.
///
/// # Errors
/// The text names the file that cannot be read, and what is wrong with it.
pub(crate) fn find() -> Result<Option<Kubeconfig>, String> {
    let files = files();
    let existing = files.iter().filter(|file| file.exists());
    let merged = existing.map(|file| read(file)).try_fold(Kubeconfig::default(), |merged, next| {
        merged.merge(next?).map_err(|error| format!("{}: {error}", listed(&files)))
    })?;
    Ok((!merged.clusters.is_empty()).then_some(merged))
}

/// The given file, or those that [`find`] looks for, in words.
pub(crate) fn place(given: Option<&Path>) -> String {
    given.map_or_else(|| listed(&files()), |path| listed(&[path.to_owned()]))
}

fn files() -> Vec<PathBuf> {
    let given = env::var_os("KUBECONFIG").unwrap_or_default();
    let given: Vec<_> = env::split_paths(&given).filter(|path| !path.as_os_str().is_empty()).collect();
    if given.is_empty() {
        env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect()
    } else {
        given
    }
}

fn listed(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    format!("kubeconfig {}", files.join(", "))
}

/// Reads a kubeconfig. The paths in it are relative to its folder, and absolute afterwards.
///
/// # Errors
/// As [`find`].
pub(crate) fn read(path: &Path) -> Result<Kubeconfig, String> {
    let broken = |error: &dyn std::fmt::Display| format!("{}: {error}", place(Some(path)));
    let bytes = fs::read(path).map_err(|error| broken(&error))?;
    let text =
        olm_yaml::text(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes)).map_err(|e| broken(&e))?;
    let limits = Limits { bytes: BYTES_MAX, expanded_bytes: BYTES_MAX, ..Limits::default() };
    let mut merged = Kubeconfig::default();
    for document in olm_yaml::documents_within(text, limits) {
        let document = document.map_err(|error| broken(&error))?;
        if !document.is_null() {
            let next = serde_json::from_value(document).map_err(|error| broken(&error))?;
            merged = merged.merge(next).map_err(|error| broken(&error))?;
        }
    }
    if let Some(folder) = path.parent() {
        make_absolute(&mut merged, folder);
    }
    Ok(merged)
}

fn make_absolute(kubeconfig: &mut Kubeconfig, folder: &Path) {
    let absolute = |path: &mut Option<String>| {
        if let Some(path) = path {
            // A file name that is no UTF-8 stays as it is.
            if let Some(joined) = folder.join(&path).to_str() {
                joined.clone_into(path);
            }
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        absolute(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        let AuthInfo { client_certificate, client_key, token_file, exec, .. } = user;
        [client_certificate, client_key, token_file].into_iter().for_each(absolute);
        // A bare name is looked for in PATH.
        if let Some(exec) = exec
            && exec.command.as_ref().is_some_and(|command| command.contains('/'))
        {
            absolute(&mut exec.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: one
  cluster: {server: 'https://10.0.0.1:6443', certificate-authority: ca.pem}
- name: two
  cluster: {server: 'https://10.0.0.2:6443', certificate-authority: /etc/ca.pem}
contexts:
- {name: one, context: {cluster: one, user: me}}
users:
- name: me
  user: {client-certificate: me/cert.pem, client-key: me/key.pem, exec: {command: ./login, apiVersion: v1}}
---
---
apiVersion: v1
users:
- {name: me, user: {token: another}}
- {name: you, user: {tokenFile: token, exec: {command: login}}}
";

    #[test]
    fn documents_are_merged_and_paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let inside = |name: &str| Some(folder.path().join(name).to_str().unwrap().to_owned());
        for bom in ["", "\u{feff}"] {
            fs::write(&file, format!("{bom}{TWO}")).unwrap();
            let read = read(&file).unwrap();
            assert_eq!(read.current_context.as_deref(), Some("one"));
            let authorities = read
                .clusters
                .iter()
                .map(|named| named.cluster.as_ref().unwrap().certificate_authority.clone());
            assert_eq!(authorities.collect::<Vec<_>>(), [inside("ca.pem"), Some("/etc/ca.pem".to_owned())]);
            let users: Vec<_> =
                read.auth_infos.iter().map(|named| named.auth_info.clone().unwrap()).collect();
            assert_eq!(users.len(), 2);
            assert_eq!(users[0].client_certificate, inside("me/cert.pem"));
            assert_eq!(users[0].client_key, inside("me/key.pem"));
            assert_eq!(users[0].exec.as_ref().unwrap().command, inside("./login"));
            assert!(users[0].token.is_none(), "the first document has the first word");
            assert_eq!(users[1].token_file, inside("token"));
            assert_eq!(users[1].exec.as_ref().unwrap().command.as_deref(), Some("login"));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let shown = file.display().to_string();
        for (bytes, wanted) in [
            (&b"clusters: [a"[..], "line 1"),
            (b"clusters: 7", "invalid type: integer `7`"),
            (b"\xff\xfea\0", "not valid UTF-8"),
            (b"kind: Config\n---\nkind: List\n", "mismatching kind"),
        ] {
            fs::write(&file, bytes).unwrap();
            let error = read(&file).unwrap_err();
            assert!(error.contains(&shown) && error.contains(wanted), "{error}");
        }
        fs::write(&file, vec![b'#'; BYTES_MAX + 1]).unwrap();
        let error = read(&file).unwrap_err();
        assert!(error.contains(&shown) && error.contains("bytes"), "{error}");
        assert!(read(&folder.path().join("none")).unwrap_err().contains("none"));
    }
}
