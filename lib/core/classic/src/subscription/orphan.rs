//! ClusterServiceVersions that no Subscription refers to. Upstream refuses to install anything of their package beside them,
//! for ever; here a Subscription takes one over where there is no doubt that it is the one that it would have installed.

use std::collections::BTreeSet;

use olm_api_classic::{ClusterServiceVersion, Subscription};
use olm_go::Quoted;
use olm_object::GroupVersionKind;

use super::texts;
use crate::{
    graph::{Bundle, Snapshot},
    resolve::Unowned,
};

/// What a Subscription may do with what is installed without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adoption {
    /// There is nothing of its package.
    None,
    /// It takes over the ClusterServiceVersion of this name.
    Adopt(String),
    /// It must not: the sentence says what does not agree, and what helps.
    Refused(String),
}

/// What a Subscription without an installed version may do with a ClusterServiceVersion that no Subscription refers to. It
/// takes over the only one whose package is its own, that is an entry of its catalog and channel, and whose version and
/// provided kinds are those of that entry.
pub fn adoption(
    subscription: &Subscription,
    all: &[Subscription],
    csvs: &[ClusterServiceVersion],
    catalog: &Snapshot,
) -> Adoption {
    let package = subscription.spec.name.as_str();
    if names_a_version(subscription) {
        return Adoption::None;
    }
    let unowned = Unowned::all(csvs, all);
    let entries: BTreeSet<&str> = entries(subscription, catalog).map(|bundle| bundle.name.as_str()).collect();
    let found = unowned.iter().filter(|one| one.package() == package || entries.contains(one.name()));
    let found: Vec<_> = found.collect();
    let [only] = found[..] else {
        if found.is_empty() {
            return Adoption::None;
        }
        let names: Vec<_> = found.iter().map(|one| Quoted(one.name()).to_string()).collect();
        return Adoption::Refused(format!(
            "several ClusterServiceVersions without a Subscription are of package {}, {}: delete all but one",
            Quoted(package),
            names.join(" and ")
        ));
    };
    let rivals = all.iter().filter(|one| one.spec.name == package && !names_a_version(one)).count();
    let starting = subscription.spec.starting_csv.as_deref().filter(|name| !name.is_empty());
    let disagreement = if only.package() != package {
        Some(match only.package() {
            "" => {
                "its package: it has no annotation operatorframework.io/properties that names one".to_owned()
            }
            other => format!("its package: that is {}", Quoted(other)),
        })
    } else if !entries.contains(only.name()) {
        Some(format!(
            "the catalog entry: CatalogSource {}/{} has no such entry in the channel",
            subscription.spec.source_namespace, subscription.spec.source
        ))
    } else if let Some(starting) = starting.filter(|starting| *starting != only.name()) {
        Some(format!("the catalog entry: spec.startingCSV is {}", Quoted(starting)))
    } else if rivals > 1 {
        Some(format!("its package: {rivals} Subscriptions ask for it"))
    } else {
        let entry = entries_named(subscription, catalog, only.name());
        entry.and_then(|entry| other_content(only, entry)).map(|what| format!("its content: {what}"))
    };
    match disagreement {
        None => Adoption::Adopt(only.name().to_owned()),
        Some(what) => Adoption::Refused(format!(
            "ClusterServiceVersion {} has no Subscription and is not taken over because of {what}; delete it, or correct what \
             does not agree",
            Quoted(only.name())
        )),
    }
}

/// Has a Subscription take over a ClusterServiceVersion.
pub fn adopt(subscription: &mut Subscription, csv: &str) {
    let status = subscription.status.get_or_insert_default();
    status.current_csv = Some(csv.to_owned());
    status.installed_csv = Some(csv.to_owned());
    status.state = Some(texts::AT_LATEST_KNOWN.to_owned());
}

/// Whether a Subscription has a version already.
fn names_a_version(subscription: &Subscription) -> bool {
    let named = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    let status = subscription.status.as_ref();
    status.is_some_and(|status| named(&status.installed_csv) || named(&status.current_csv))
}

/// The bundles that a Subscription may choose.
fn entries<'c>(subscription: &'c Subscription, catalog: &'c Snapshot) -> impl Iterator<Item = &'c Bundle> {
    let wanted = subscription.spec.channel.as_deref().unwrap_or_default();
    catalog.packages.get(&subscription.spec.name).into_iter().flat_map(move |package| {
        let channels = package
            .graph
            .channels
            .iter()
            .filter(move |(name, _)| wanted.is_empty() || wanted == name.as_str());
        channels.flat_map(|(_, channel)| channel.entries.keys()).filter_map(|name| package.bundles.get(name))
    })
}

fn entries_named<'c>(
    subscription: &'c Subscription,
    catalog: &'c Snapshot,
    name: &str,
) -> Option<&'c Bundle> {
    entries(subscription, catalog).find(|bundle| bundle.name == name)
}

/// What differs between a ClusterServiceVersion and the catalog entry of its name.
fn other_content(csv: &Unowned, entry: &Bundle) -> Option<String> {
    if entry.version.as_ref() != Some(csv.version()) {
        return Some(format!("it has version {}, the entry {}", csv.version(), Quoted(&entry.version_text)));
    }
    let kinds =
        |all: &BTreeSet<GroupVersionKind>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    (*csv.kinds() != entry.provided).then(|| {
        format!("it provides the kinds [{}], the entry [{}]", kinds(csv.kinds()), kinds(&entry.provided))
    })
}

#[cfg(test)]
mod tests;
