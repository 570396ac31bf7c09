//! Whiteouts of the OCI image specification: entries that say what of lower layers is gone.

use crate::tree::join;

const PREFIX: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// What a whiteout entry does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whiteout {
    /// The path and everything beneath it is gone.
    Hide(String),
    /// Everything beneath the folder is gone.
    HideBelow(String),
    /// Bookkeeping of a union file system, without meaning here.
    Ignored,
}

/// The whiteout that an entry with this cleaned path is, if it is one.
pub(crate) fn whiteout(path: &str) -> Option<Whiteout> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    // The prefix is reserved: what lies in such a folder is bookkeeping too.
    if folder.split('/').any(|component| component.starts_with(PREFIX)) {
        return Some(Whiteout::Ignored);
    }
    if name == OPAQUE {
        return Some(Whiteout::HideBelow(folder.to_owned()));
    }
    match name.strip_prefix(PREFIX)? {
        hidden if hidden.starts_with(PREFIX) || matches!(hidden, "" | "." | "..") => Some(Whiteout::Ignored),
        hidden => Some(Whiteout::Hide(join(folder, hidden))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Whiteout, whiteout};

    #[test]
    fn names_tell_whiteouts() {
        for (path, wanted) in [
            ("configs/.wh.b", Some(Whiteout::Hide("configs/b".into()))),
            (".wh.configs", Some(Whiteout::Hide("configs".into()))),
            ("configs/.wh..wh..opq", Some(Whiteout::HideBelow("configs".into()))),
            (".wh..wh..opq", Some(Whiteout::HideBelow(String::new()))),
            ("a/.wh..wh.plnk", Some(Whiteout::Ignored)),
            ("a/.wh.", Some(Whiteout::Ignored)),
            ("a/.wh...", Some(Whiteout::Ignored)),
            (".wh..wh.plnk/x", Some(Whiteout::Ignored)),
            ("a/.wh.b/c", Some(Whiteout::Ignored)),
            ("a/.white", None),
            ("a/b.wh.c", None),
        ] {
            assert_eq!(whiteout(path), wanted, "{path}");
        }
    }
}
