//! The APIs that a group provides, and what happens when two groups would provide the same one in a namespace.
//!
//! The decision is about one operator at a time, whenever it is reconciled. APIs come into the annotation of its group as
//! its operators come, and leave it when no operator of the group provides them any more.

use std::{collections::BTreeSet, fmt};

use olm_api_classic::ClusterServiceVersion;

use super::{
    membership::Group,
    targets::{Namespaces, is_global},
};
use crate::hashes;

/// A kind that an operator provides or needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api {
    /// The kind.
    pub kind: String,
    /// The version.
    pub version: String,
    /// The API group.
    pub group: String,
}

/// Several of them.
pub type Apis = BTreeSet<Api>;

impl Api {
    /// The hash by which labels name the API.
    pub fn hash(&self) -> String {
        hashes::fnv(&self.to_string())
    }
}

/// `Kind.version.group`.
impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kind, self.version, self.group)
    }
}

/// The APIs of an annotation. Blanks and what is no API are left out.
pub fn apis_of(annotation: &str) -> Apis {
    let api = |text: &str| {
        let (kind, rest) = text.split_once('.')?;
        let (version, group) = rest.split_once('.')?;
        Some(Api { kind: kind.to_owned(), version: version.to_owned(), group: group.to_owned() })
    };
    annotation.replace(' ', "").split(',').filter_map(api).collect()
}

/// The value of the annotation: sorted as texts.
pub fn annotation(apis: &Apis) -> String {
    let mut texts: Vec<_> = apis.iter().map(Api::to_string).collect();
    texts.sort_unstable();
    texts.join(",")
}

/// The APIs that an operator provides, and those that it needs from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApisOfOperator {
    /// Those that it provides.
    pub provided: Apis,
    /// Those that it needs.
    pub required: Apis,
}

/// The APIs of an operator.
///
/// # Errors
/// The name of a CustomResourceDefinition has no dot, so that it has no API group.
pub fn apis(csv: &ClusterServiceVersion) -> Result<ApisOfOperator, String> {
    let mut all = ApisOfOperator::default();
    let crds = csv.spec.customresourcedefinitions.as_ref();
    for (list, crds) in [
        (&mut all.provided, crds.map(|crds| &crds.owned)),
        (&mut all.required, crds.map(|crds| &crds.required)),
    ] {
        for crd in crds.into_iter().flatten() {
            let group = crd.name.split_once('.').map(|(_, group)| group.to_owned());
            let group = group.ok_or_else(|| format!("error parsing crd name: {}", crd.name))?;
            list.insert(Api { kind: crd.kind.clone(), version: crd.version.clone(), group });
        }
    }
    let services = csv.spec.apiservicedefinitions.as_ref();
    for (list, services) in [
        (&mut all.provided, services.map(|services| &services.owned)),
        (&mut all.required, services.map(|services| &services.required)),
    ] {
        list.extend(services.into_iter().flatten().map(|service| Api {
            kind: service.kind.clone(),
            version: service.version.clone(),
            group: service.group.clone(),
        }));
    }
    Ok(all)
}

/// The namespaces in which a group's APIs count: those that it selects and its own.
fn reach(group: &Group) -> Namespaces {
    let mut reach = group.targets.clone();
    if !reach.is_empty() && !is_global(&reach) {
        reach.insert(group.namespace.clone());
    }
    reach
}

/// Whether two groups share a namespace.
pub fn overlaps(one: &Group, other: &Group) -> bool {
    let (one, other) = (reach(one), reach(other));
    !one.is_empty() && !other.is_empty() && (is_global(&one) || is_global(&other) || !one.is_disjoint(&other))
}

/// The APIs that the groups which share a namespace with `group` provide. `others` may have the group itself, which does
/// not count.
pub fn intersecting<'g>(group: &Group, others: impl IntoIterator<Item = &'g Group>) -> Apis {
    let is_other = |other: &&Group| (&other.namespace, &other.name) != (&group.namespace, &group.name);
    let others = others.into_iter().filter(is_other).filter(|other| overlaps(group, other));
    others.flat_map(|other| other.provided.iter().cloned()).collect()
}

/// What becomes of an operator because of the APIs that it provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    Continue,
    /// The group is to provide these APIs from now on; then the operator is reconciled again.
    Provide(Apis),
    /// The group would have to provide other APIs, and is not to be changed.
    CannotModifyStatic,
    /// Another group provides one of them.
    Conflict,
}

/// Decides on the APIs that an operator of `group` provides, where `intersecting` groups provide others.
pub fn decide(provided: &Apis, group: &Group, intersecting: &Apis) -> Outcome {
    let is_listed = provided.is_subset(&group.provided);
    match (provided.is_disjoint(intersecting), is_listed) {
        (true, true) => Outcome::Continue,
        (false, false) => Outcome::Conflict,
        (true, false) | (false, true) if group.is_static => Outcome::CannotModifyStatic,
        (true, false) => Outcome::Provide(group.provided.union(provided).cloned().collect()),
        (false, true) => Outcome::Provide(group.provided.difference(provided).cloned().collect()),
    }
}

/// An operator of a group, as far as it matters to the group's APIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The APIs that it provides.
    pub provided: Apis,
    /// Whether it has no phase yet or is Pending, and is not being deleted.
    pub is_new: bool,
}

/// The APIs that a group is to list: those that an operator still provides. None if the list stays, because the group is
/// static or because an operator is about to add to it.
pub fn pruned(group: &Group, members: &[Member]) -> Option<Apis> {
    let adds = |member: &Member| member.is_new && !member.provided.is_subset(&group.provided);
    if group.is_static || members.iter().any(adds) {
        return None;
    }
    let kept: Apis = members.iter().flat_map(|member| &member.provided).cloned().collect();
    let kept: Apis = group.provided.intersection(&kept).cloned().collect();
    (kept != group.provided).then_some(kept)
}
