//! Chains of versions of which each replaces the one before.

use std::collections::{BTreeMap, BTreeSet};

use olm_api_classic::{ClusterServiceVersion, names::COPIED_FROM_LABEL};

use super::{Phase, Successor};

/// The versions of a namespace by name, without copies.
#[derive(Debug, Clone, Default)]
pub struct Siblings<'c>(BTreeMap<&'c str, &'c ClusterServiceVersion>);

impl<'c> Siblings<'c> {
    /// Those of a list.
    pub fn of(csvs: impl IntoIterator<Item = &'c ClusterServiceVersion>) -> Self {
        let own = csvs.into_iter().filter(|csv| !is_copy(csv));
        Self(own.filter_map(|csv| Some((csv.metadata.name.as_deref()?, csv))).collect())
    }

    /// The version that another one replaces.
    pub fn replaced(&self, csv: &ClusterServiceVersion) -> Option<&'c ClusterServiceVersion> {
        let name = csv.spec.replaces.as_deref().filter(|name| csv.metadata.name.as_deref() != Some(name))?;
        self.0.get(name).copied()
    }

    /// The version that replaces another one. Of several the first by name that is not being deleted.
    pub fn successor(&self, csv: &ClusterServiceVersion) -> Option<&'c ClusterServiceVersion> {
        let name = csv.metadata.name.as_deref()?;
        let replaces = |other: &&&ClusterServiceVersion| {
            other.spec.replaces.as_deref() == Some(name) && other.metadata.name.as_deref() != Some(name)
        };
        let mut all: Vec<_> = self.0.values().filter(replaces).copied().collect();
        all.sort_by_key(|other| other.metadata.deletion_timestamp.is_some());
        all.first().copied()
    }

    /// The successor of a version, as its step sees it.
    pub fn succession(&self, csv: &ClusterServiceVersion) -> Option<Successor> {
        let next = self.successor(csv)?;
        let (mut newest, mut seen) = (next, BTreeSet::new());
        while let Some(later) = self.successor(newest) {
            // A chain may be a ring.
            if !seen.insert(later.metadata.name.as_deref()) {
                break;
            }
            newest = later;
        }
        let name = next.metadata.name.clone().unwrap_or_default();
        Some(Successor { name, phase: phase(next), newest: phase(newest) })
    }

    /// The names of all versions that one replaces, and those that these replace in turn.
    pub fn predecessors(&self, csv: &ClusterServiceVersion) -> BTreeSet<&'c str> {
        let (mut names, mut current) = (BTreeSet::new(), csv);
        while let Some(earlier) = self.replaced(current) {
            if !names.insert(earlier.metadata.name.as_deref().unwrap_or_default()) {
                break;
            }
            current = earlier;
        }
        names
    }

    /// Whether a version outside the chain owns one of the CustomResourceDefinitions that this one owns.
    pub fn has_crd_conflict(&self, csv: &ClusterServiceVersion) -> bool {
        let owned = |csv: &'c ClusterServiceVersion| {
            let crds = csv.spec.customresourcedefinitions.as_ref();
            crds.into_iter().flat_map(|crds| &crds.owned).map(|crd| crd.name.as_str())
        };
        let own: BTreeSet<&str> = csv
            .spec
            .customresourcedefinitions
            .iter()
            .flat_map(|crds| &crds.owned)
            .map(|crd| crd.name.as_str())
            .collect();
        if own.is_empty() {
            return false;
        }
        let name = csv.metadata.name.as_deref().unwrap_or_default();
        let before = self.predecessors(csv);
        self.0.iter().any(|(other_name, other)| {
            let is_conflict = || {
                let is_later = self.predecessors(other).contains(name);
                !is_later && owned(other).any(|crd| own.contains(crd))
            };
            *other_name != name && !before.contains(other_name) && is_conflict()
        })
    }
}

/// The phase of a version.
pub fn phase(csv: &ClusterServiceVersion) -> Phase {
    Phase::of(csv.status.as_ref().and_then(|status| status.phase.as_deref()))
}

/// Whether the object is a copy.
pub fn is_copy(csv: &ClusterServiceVersion) -> bool {
    csv.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(COPIED_FROM_LABEL))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn csv(name: &str, replaces: &str, crd: &str, phase: &str) -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name},
            "spec": {
                "displayName": name, "install": {"strategy": "deployment"}, "replaces": replaces,
                "customresourcedefinitions": {"owned": [{"name": crd, "version": "v1", "kind": "A"}]},
            },
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn a_chain_is_followed_both_ways_and_may_be_a_ring() {
        let all =
            [csv("a", "", "x", "Failed"), csv("b", "a", "x", "Failed"), csv("c", "b", "x", "Succeeded")];
        let siblings = Siblings::of(&all);
        let succession = siblings.succession(&all[0]).unwrap();
        assert_eq!(
            (succession.name.as_str(), succession.phase, succession.newest),
            ("b", Phase::Failed, Phase::Succeeded)
        );
        assert_eq!(siblings.predecessors(&all[2]), ["a", "b"].into());
        assert!(siblings.succession(&all[2]).is_none());
        let ring = [csv("a", "b", "x", ""), csv("b", "a", "x", "")];
        let siblings = Siblings::of(&ring);
        assert_eq!(siblings.predecessors(&ring[0]).len(), 2);
        assert_eq!(siblings.succession(&ring[0]).unwrap().name, "b");
        assert!(Siblings::of(&[csv("a", "a", "x", "")]).succession(&csv("a", "a", "x", "")).is_none());
    }

    #[test]
    fn only_versions_outside_the_chain_are_in_conflict() {
        let all =
            [csv("a", "", "x", ""), csv("b", "a", "x", ""), csv("c", "", "y", ""), csv("d", "", "x", "")];
        let chain = Siblings::of(&all[..3]);
        assert!(!chain.has_crd_conflict(&all[0]) && !chain.has_crd_conflict(&all[1]));
        let with_other = Siblings::of(&all);
        assert!(with_other.has_crd_conflict(&all[0]) && with_other.has_crd_conflict(&all[3]));
        assert!(!with_other.has_crd_conflict(&all[2]));
    }
}
