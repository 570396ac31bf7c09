//! What only tests put into a layer.

use std::io;

use tar::{EntryType, Header};

use crate::LayerBuilder;

impl LayerBuilder {
    pub(super) fn symlink(self, path: &str, target: &str) -> io::Result<Self> {
        self.link(EntryType::Symlink, path, target)
    }

    pub(super) fn hard_link(self, path: &str, target: &str) -> io::Result<Self> {
        self.link(EntryType::Link, path, target)
    }

    /// Hides `path` of lower layers.
    pub(super) fn whiteout(self, path: &str) -> io::Result<Self> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.file(&crate::tree::join(folder, &format!(".wh.{name}")), [])
    }

    /// Hides what lower layers have beneath `folder`.
    pub(super) fn opaque(self, folder: &str) -> io::Result<Self> {
        self.file(&crate::tree::join(folder, ".wh..wh..opq"), [])
    }

    fn link(self, kind: EntryType, path: &str, target: &str) -> io::Result<Self> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o644);
        let old = header.as_old_mut();
        old.name[..path.len()].copy_from_slice(path.as_bytes());
        old.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        self.raw(&header, &[])
    }
}
