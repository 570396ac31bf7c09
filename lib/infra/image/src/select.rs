//! Which part of an image is wanted: decided by the caller once the image's labels are known.

use thiserror::Error;

/// The wanted files of an image: folders or files, by path. Everything else is skipped while it streams by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// Cleaned paths; an empty one is the whole image.
    paths: Vec<String>,
}

/// Why an image is not wanted after all, in the words for its user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    message: String,
    terminal: bool,
}

impl Refusal {
    /// A refusal that may heal, such as one about a tag's present content.
    pub fn retry(message: impl Into<String>) -> Self {
        Self { message: message.into(), terminal: false }
    }

    /// A refusal that stays as long as the reference is the same.
    pub fn terminal(message: impl Into<String>) -> Self {
        // controller-runtime's prefix, which upstream's users see at this very place.
        Self { message: format!("terminal error: {}", message.into()), terminal: true }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::retry(message)
    }
}

impl Select {
    /// Everything in the image.
    pub fn everything() -> Self {
        Self { paths: vec![String::new()] }
    }

    /// The folders or files at these paths of the image; `/configs`, `configs` and `/configs/` are the same,
    /// `/` and the empty path are the whole image. A path that leaves the image is refused.
    ///
    /// # Errors
    /// A path leaves the image.
    pub fn paths<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Result<Self, Refusal> {
        let mut cleaned = Vec::new();
        for path in paths {
            let mut components = Vec::new();
            for component in path.as_ref().split('/') {
                match component {
                    ".." if components.pop().is_none() => {
                        return Err(Refusal::retry(format!(
                            "error getting relative path: {:?} leaves the image",
                            path.as_ref()
                        )));
                    }
                    "" | "." | ".." => {}
                    component => components.push(component),
                }
            }
            cleaned.push(components.join("/"));
        }
        Ok(Self { paths: cleaned })
    }

    /// Whether the entry at `path` is wanted.
    pub(crate) fn wants(&self, path: &str) -> bool {
        self.paths.iter().any(|wanted| wanted.is_empty() || lies_in(path, wanted))
    }

    /// Whether something wanted lies beneath `path`, which is not wanted itself.
    pub(crate) fn passes(&self, path: &str) -> bool {
        self.paths.iter().any(|wanted| wanted != path && lies_in(wanted, path))
    }
}

fn lies_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::Select;

    #[test]
    fn spellings_of_a_path_are_the_same() {
        for path in ["/configs", "configs", "/configs/", "./configs", "/a/../configs//"] {
            let select = Select::paths([path]).expect("valid");
            assert!(select.wants("configs") && select.wants("configs/a/b.yaml"), "{path}");
            assert!(!select.wants("configs2/a") && !select.wants("etc/configs"), "{path}");
        }
    }

    #[test]
    fn the_root_means_everything() {
        for path in ["", "/"] {
            assert!(Select::paths([path]).expect("valid").wants("etc/passwd"));
        }
        assert!(Select::everything().wants("etc/passwd"));
    }

    #[test]
    fn a_path_out_of_the_image_is_refused() {
        let refusal = Select::paths(["../configs"]).expect_err("refused");
        assert!(refusal.to_string().starts_with("error getting relative path: "), "{refusal}");
    }

    #[test]
    fn folders_above_a_wanted_path_are_passed() {
        let select = Select::paths(["/a/b/configs"]).expect("valid");
        assert!(select.passes("a") && select.passes("a/b"));
        assert!(!select.passes("a/b/configs") && !select.passes("a/c") && !select.wants("a/b"));
    }
}
