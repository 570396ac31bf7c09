//! The wanted part of an image's file system, as a map: layers edit it, links are resolved in it.
//!
//! Nothing here touches files. A path is relative to the image's root, without `.`, `..` or empty components.
//! Whiteouts ([`Tree::hide`]) remove what *lower* layers wrote, whatever order a layer's entries come in.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use thiserror::Error;

use crate::{
    limits::{LINK_HOPS_MAX, Limits},
    spool::Extent,
};

/// Why an entry cannot be placed, or a link not be followed: a sentence about the image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TreeError(String);

impl TreeError {
    pub(crate) fn path_too_long(limits: &Limits) -> Self {
        Self(format!("a path of the archive is longer than {} bytes", limits.path_bytes_max))
    }

    pub(crate) fn symbolic_link(link: &str) -> Self {
        Self(format!("symbolic link {link:?} does not lead to one of the image's wanted files"))
    }

    fn path_bytes(limits: &Limits) -> Self {
        Self(format!("the paths of the wanted files have more than {} bytes", limits.kept_path_bytes_max))
    }

    fn steps(limits: &Limits) -> Self {
        Self(format!("the whiteouts and links take more than {} steps to resolve", limits.tree_steps_max))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Directory,
    File(Extent),
    /// Target as written.
    Symlink(String),
}

#[derive(Debug, Clone)]
struct Placed {
    node: Node,
    layer: usize,
}

/// The wanted entries seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    entries: BTreeMap<String, Placed>,
    /// Bytes of paths and links ever placed; what was replaced still counts.
    path_bytes: usize,
    /// Entries looked at for whiteouts and replacements.
    steps: u64,
}

/// What a finished tree holds.
pub(crate) struct Resolved {
    pub(crate) files: BTreeMap<String, Extent>,
    pub(crate) directories: BTreeSet<String>,
}

impl Tree {
    /// Places an entry, replacing what was there; a directory over a directory merges.
    pub(crate) fn insert(
        &mut self,
        path: &str,
        node: Node,
        layer: usize,
        limits: &Limits,
    ) -> Result<(), TreeError> {
        for (index, _) in path.match_indices('/') {
            let parent = &path[..index];
            if self.entries.get(parent).is_some_and(|placed| placed.node != Node::Directory) {
                return Err(TreeError(format!(
                    "path {path:?} goes through {parent:?}, which is not a directory"
                )));
            }
        }
        if node != Node::Directory {
            for below in self.below(path, limits)? {
                self.entries.remove(&below);
            }
        }
        self.path_bytes += path.len() + if let Node::Symlink(target) = &node { target.len() } else { 0 };
        if self.path_bytes > limits.kept_path_bytes_max {
            return Err(TreeError::path_bytes(limits));
        }
        self.entries.insert(path.to_owned(), Placed { node, layer });
        if self.entries.len() > limits.kept_entries_max {
            return Err(TreeError(format!(
                "more than {} wanted files and directories",
                limits.kept_entries_max
            )));
        }
        Ok(())
    }

    /// What a hard link to `target` shares. A link to a symbolic link is that link again.
    pub(crate) fn link_target(&self, link: &str, target: &str) -> Result<Node, TreeError> {
        match self.entries.get(target) {
            Some(Placed { node: node @ (Node::File(_) | Node::Symlink(_)), .. }) => Ok(node.clone()),
            _ => Err(TreeError(format!(
                "hard link {link:?} means {target:?}, which is not among the image's wanted files"
            ))),
        }
    }

    /// Removes what layers below `layer` wrote at `path` and beneath it.
    pub(crate) fn hide(&mut self, path: &str, layer: usize, limits: &Limits) -> Result<(), TreeError> {
        self.hide_one(path, layer);
        self.hide_below(path, layer, limits)
    }

    /// Removes what layers below `layer` wrote beneath the directory `path` (the root when empty).
    pub(crate) fn hide_below(&mut self, path: &str, layer: usize, limits: &Limits) -> Result<(), TreeError> {
        for below in self.below(path, limits)? {
            self.hide_one(&below, layer);
        }
        Ok(())
    }

    fn hide_one(&mut self, path: &str, layer: usize) {
        if self.entries.get(path).is_some_and(|placed| placed.layer < layer) {
            self.entries.remove(path);
        }
    }

    fn below(&mut self, path: &str, limits: &Limits) -> Result<Vec<String>, TreeError> {
        let found = self.paths_below(path);
        self.steps = self.steps.saturating_add(found.len() as u64);
        if self.steps > limits.tree_steps_max {
            return Err(TreeError::steps(limits));
        }
        Ok(found)
    }

    fn paths_below(&self, path: &str) -> Vec<String> {
        if path.is_empty() {
            return self.entries.keys().cloned().collect();
        }
        // '0' is the byte after '/'.
        let (start, end) = (format!("{path}/"), format!("{path}0"));
        let range = (Bound::Included(start.as_str()), Bound::Excluded(end.as_str()));
        self.entries.range::<str, _>(range).map(|(path, _)| path.clone()).collect()
    }

    /// Files and directories, with symbolic links to files as files. A link to a wanted directory adds nothing:
    /// walking a tree does not follow it. Every other link is refused.
    pub(crate) fn resolve(&self, limits: &Limits) -> Result<Resolved, TreeError> {
        let directories = self.directories(limits)?;
        let mut steps = 0;
        let mut files = BTreeMap::new();
        let mut total = 0_u64;
        for (path, placed) in &self.entries {
            let extent = match &placed.node {
                Node::Directory => continue,
                Node::File(extent) => Some(*extent),
                Node::Symlink(target) => self.follow(path, target, &directories, limits, &mut steps)?,
            };
            if let Some(extent) = extent {
                total = total.saturating_add(extent.length);
                files.insert(path.clone(), extent);
            }
        }
        if total > limits.total_bytes_max {
            return Err(TreeError(format!(
                "the wanted files have more than {} bytes",
                limits.total_bytes_max
            )));
        }
        Ok(Resolved { files, directories })
    }

    /// Directories that have an entry, and those that are implied by what lies in them.
    fn directories(&self, limits: &Limits) -> Result<BTreeSet<String>, TreeError> {
        let mut directories = BTreeSet::new();
        let mut bytes = 0;
        for (path, placed) in &self.entries {
            if placed.node == Node::Directory {
                directories.insert(path.clone());
            }
            for (index, _) in path.rmatch_indices('/') {
                if !directories.insert(path[..index].to_owned()) {
                    break;
                }
                bytes += index;
                if bytes > limits.kept_path_bytes_max {
                    return Err(TreeError::path_bytes(limits));
                }
            }
        }
        Ok(directories)
    }

    /// The file a link means, or nothing when it means a wanted directory.
    fn follow(
        &self,
        link: &str,
        target: &str,
        directories: &BTreeSet<String>,
        limits: &Limits,
        steps: &mut u64,
    ) -> Result<Option<Extent>, TreeError> {
        let refused = || TreeError::symbolic_link(link);
        if target.is_empty() {
            return Err(refused());
        }
        let mut resolved = parent(link).to_owned();
        let mut rest: Vec<String> = Vec::new();
        push_components(&mut rest, &mut resolved, target);
        let mut hops = 1;
        while let Some(component) = rest.pop() {
            *steps += 1;
            if *steps > limits.tree_steps_max {
                return Err(TreeError::steps(limits));
            }
            if resolved.len() > limits.path_bytes_max {
                return Err(refused());
            }
            if component == ".." {
                if resolved.is_empty() {
                    return Err(refused());
                }
                resolved = parent(&resolved).to_owned();
                continue;
            }
            let next = join(&resolved, &component);
            match self.entries.get(&next).map(|placed| &placed.node) {
                Some(Node::Symlink(target)) => {
                    hops += 1;
                    if hops > LINK_HOPS_MAX {
                        return Err(refused());
                    }
                    push_components(&mut rest, &mut resolved, target);
                }
                Some(Node::File(extent)) if rest.is_empty() => return Ok(Some(*extent)),
                Some(Node::File(_)) => return Err(refused()),
                // A directory that is not known may still be passed on the way: `a/../b`.
                Some(Node::Directory) | None => resolved = next,
            }
        }
        if directories.contains(&resolved) { Ok(None) } else { Err(refused()) }
    }
}

/// Puts a link's components, last first, on top of what is still to walk; an absolute link starts at the root.
fn push_components(rest: &mut Vec<String>, resolved: &mut String, target: &str) {
    if target.starts_with('/') {
        resolved.clear();
    }
    let components = target.split('/').filter(|component| !matches!(*component, "" | "."));
    rest.extend(components.rev().map(str::to_owned));
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The path an archive's name means inside the image: cleaned, relative, empty for the root itself.
pub(crate) fn clean(name: &[u8], limits: &Limits) -> Result<String, TreeError> {
    if name.len() > limits.path_bytes_max {
        return Err(TreeError::path_too_long(limits));
    }
    let text = str::from_utf8(name).ok().filter(|text| !text.contains('\0'));
    let Some(text) = text else {
        return Err(TreeError(format!("path {:?} is not valid UTF-8 text", String::from_utf8_lossy(name))));
    };
    let mut components = Vec::new();
    for component in text.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                if components.pop().is_none() {
                    return Err(TreeError(format!("path {text:?} leaves the image")));
                }
            }
            component => components.push(component),
        }
    }
    if components.len() > limits.path_depth_max {
        return Err(TreeError(format!("path {text:?} is deeper than {} components", limits.path_depth_max)));
    }
    Ok(components.join("/"))
}
