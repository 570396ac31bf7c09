//! The deprecation conditions of an extension.

use olm_fbc::{Deprecation, DeprecationEntry, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use olm_text::one_line;

use crate::{CatalogView, Request};

/// The deprecations that the catalog of the resolved bundle lists.
#[derive(Debug, Clone, Copy)]
pub enum DeprecationData<'a> {
    /// No catalog can be asked that has the package.
    Unavailable,
    /// One can; it may have no deprecations for the package.
    Available(Option<&'a Deprecation>),
}

/// The four conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeprecationStatus {
    /// `Deprecated`: any of the others.
    pub deprecated: DeprecationCondition,
    /// `PackageDeprecated`.
    pub package: DeprecationCondition,
    /// `ChannelDeprecated`.
    pub channel: DeprecationCondition,
    /// `BundleDeprecated`: about the installed bundle, not the resolved one.
    pub bundle: DeprecationCondition,
}

/// Reason and message of a condition. The reason decides about its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeprecationCondition {
    /// Reason.
    pub reason: DeprecationReason,
    /// Message.
    pub message: String,
}

/// Reason of a deprecation condition, with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeprecationReason {
    /// `True`: something is deprecated.
    Deprecated,
    /// `False`: nothing is deprecated.
    NotDeprecated,
    /// `Unknown`: the catalogs cannot be read.
    DeprecationStatusUnknown,
    /// `Unknown`: no bundle is installed.
    Absent,
}

fn condition(reason: DeprecationReason, message: impl Into<String>) -> DeprecationCondition {
    DeprecationCondition { reason, message: message.into() }
}

fn unknown() -> DeprecationCondition {
    let message = "deprecation status unknown: catalog data unavailable";
    condition(DeprecationReason::DeprecationStatusUnknown, message)
}

fn absent() -> DeprecationCondition {
    condition(DeprecationReason::Absent, "no bundle installed yet")
}

fn of_messages(messages: &[&str], otherwise: &str) -> DeprecationCondition {
    if messages.is_empty() {
        condition(DeprecationReason::NotDeprecated, otherwise)
    } else {
        // A line for each message: a text of a catalog cannot look like several messages.
        let messages: Vec<_> = messages.iter().map(|message| one_line(message)).collect();
        condition(DeprecationReason::Deprecated, messages.join("\n"))
    }
}

/// The deprecations that apply where no bundle could be chosen: those of the catalog that the installed bundle is
/// from, else of the only one that has the package.
pub fn deprecation_data<'a>(request: &Request, catalogs: &'a [CatalogView<'_>]) -> DeprecationData<'a> {
    let having = || {
        let readable =
            catalogs.iter().filter_map(|catalog| Some((catalog.name, catalog.content.as_ref().ok()?)));
        readable.filter(|(_, content)| !content.bundles.is_empty())
    };
    let origin = request.installed.as_ref().and_then(|installed| installed.catalog.as_deref());
    let of_origin = having().find(|(name, _)| Some(*name) == origin);
    let only = || Some(having()).filter(|all| all.clone().count() == 1).and_then(|mut all| all.next());
    match of_origin.or_else(only) {
        Some((_, content)) => DeprecationData::Available(content.deprecations.first()),
        None => DeprecationData::Unavailable,
    }
}

/// The conditions of an extension that names `channels` (all when empty) and has `installed` installed.
/// Entries without a message count for the choice of bundles, but not here.
pub fn deprecation_status(
    data: DeprecationData<'_>,
    channels: &[String],
    installed: Option<&str>,
) -> DeprecationStatus {
    let deprecation = match data {
        DeprecationData::Available(deprecation) => deprecation,
        DeprecationData::Unavailable => {
            let bundle = if installed.is_some() { unknown() } else { absent() };
            let [deprecated, package, channel] = [unknown(), unknown(), unknown()];
            return DeprecationStatus { deprecated, package, channel, bundle };
        }
    };
    let messages = |counts: &dyn Fn(&DeprecationEntry) -> bool| -> Vec<&str> {
        let entries = deprecation.into_iter().flat_map(|deprecation| &deprecation.entries);
        entries
            .filter(|entry| !entry.message.is_empty() && counts(entry))
            .map(|entry| entry.message.as_str())
            .collect()
    };
    let package = messages(&|entry| entry.reference.schema == SCHEMA_PACKAGE);
    let channel = messages(&|entry| {
        entry.reference.schema == SCHEMA_CHANNEL
            && (channels.is_empty() || channels.contains(&entry.reference.name))
    });
    let bundle = messages(&|entry| {
        entry.reference.schema == SCHEMA_BUNDLE && installed == Some(entry.reference.name.as_str())
    });
    DeprecationStatus {
        deprecated: of_messages(&[package.as_slice(), &channel, &bundle].concat(), "not deprecated"),
        package: of_messages(&package, "package not deprecated"),
        channel: of_messages(&channel, "channel not deprecated"),
        bundle: if installed.is_some() { of_messages(&bundle, "bundle not deprecated") } else { absent() },
    }
}
