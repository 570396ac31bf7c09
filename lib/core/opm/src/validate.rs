//! Whether a catalog is valid, by the rules and in the words of `opm validate`.
//!
//! As the original, in two steps. The first puts documents together into packages, channels and bundles; where
//! the original stops at its first finding, all are collected here, the original's first. The second checks
//! the packages; its findings are a tree. A package with findings in the first step is left out of the second,
//! so that nothing is reported that only follows from something reported already.
//!
//! Not checked, as in the original: icons, APIs, dependency ranges and constraints, targets of `replaces` and
//! `skips`, names against versions, order of versions, names of channels, whether images exist. Some of it is
//! documented all the same: see [`Outline::warnings`].
//!
//! Source: operator-registry `alpha/declcfg` (conversion), `alpha/model` (checks).

mod conversion;
mod graph;
mod packages;
mod tree;

use std::collections::BTreeMap;

use crate::{Finding, Outline};

pub(crate) use graph::check as check_graph;
pub use graph::{GraphError, head};
pub use tree::ErrorTree;

/// What validation found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What keeps documents from being put together; the first is what the original reports, alone.
    pub findings: Vec<Finding>,
    /// What is wrong with the packages.
    pub tree: Option<ErrorTree>,
    /// The packages that are not valid, each with the first thing that is wrong with it. Documents that name no package
    /// count as one without a name.
    pub faulty: BTreeMap<String, String>,
}

impl Report {
    /// Whether the catalog is valid.
    pub fn passed(&self) -> bool {
        self.findings.is_empty() && self.tree.is_none()
    }

    /// What the original reports; `None` when the catalog is valid.
    pub fn message(&self) -> Option<String> {
        match (self.findings.first(), &self.tree) {
            (Some(first), _) => Some(first.message.clone()),
            (None, tree) => tree.as_ref().map(ToString::to_string),
        }
    }
}

/// Validates a catalog whose documents have all been taken.
pub fn validate(outline: &Outline) -> Report {
    let (model, findings) = conversion::convert(outline);
    let trees = packages::check(&model);
    let mut faulty = BTreeMap::new();
    for finding in &findings {
        faulty.entry(finding.package.clone()).or_insert_with(|| finding.message.clone());
    }
    for (package, tree) in &trees {
        let first = tree.leaves().first().map(|leaf| leaf.get(1..).unwrap_or_default().join(": "));
        faulty.entry((*package).to_owned()).or_insert_with(|| first.unwrap_or_default());
    }
    let tree = ErrorTree::of("invalid index", trees.into_iter().map(|(_, tree)| tree).collect());
    Report { findings, tree, faulty }
}

#[cfg(test)]
mod tests;
