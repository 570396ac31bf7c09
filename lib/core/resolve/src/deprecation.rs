//! What the deprecation conditions of an extension say.

use olm_fbc::{Deprecation, DeprecationEntry, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use olm_text::one_line;

use crate::{CatalogView, Request};

/// What the catalog of the resolved bundle says.
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

/// Status, reason and message of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeprecationCondition {
    /// Status.
    pub status: Truth,
    /// Reason.
    pub reason: DeprecationReason,
    /// Message.
    pub message: String,
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

/// Reason of a deprecation condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeprecationReason {
    /// Something is deprecated.
    Deprecated,
    /// Nothing is.
    NotDeprecated,
    /// Nothing is known.
    DeprecationStatusUnknown,
    /// There is nothing to be deprecated.
    Absent,
}

impl DeprecationReason {
    /// The reason as written in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deprecated => "Deprecated",
            Self::NotDeprecated => "NotDeprecated",
            Self::DeprecationStatusUnknown => "DeprecationStatusUnknown",
            Self::Absent => "Absent",
        }
    }
}

fn condition(status: Truth, reason: DeprecationReason, message: impl Into<String>) -> DeprecationCondition {
    DeprecationCondition { status, reason, message: message.into() }
}

fn unknown() -> DeprecationCondition {
    condition(
        Truth::Unknown,
        DeprecationReason::DeprecationStatusUnknown,
        "deprecation status unknown: catalog data unavailable",
    )
}

fn absent() -> DeprecationCondition {
    condition(Truth::Unknown, DeprecationReason::Absent, "no bundle installed yet")
}

fn told(messages: &[&str], otherwise: &str) -> DeprecationCondition {
    if messages.is_empty() {
        condition(Truth::False, DeprecationReason::NotDeprecated, otherwise)
    } else {
        // A line for each message: what a catalog says cannot look like more of them.
        let messages: Vec<_> = messages.iter().map(|message| one_line(message)).collect();
        condition(Truth::True, DeprecationReason::Deprecated, messages.join("\n"))
    }
}

/// What is known of deprecation where no bundle could be chosen: what the catalog says that the installed bundle is
/// from, else the only one that has the package.
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
            return DeprecationStatus {
                deprecated: unknown(),
                package: unknown(),
                channel: unknown(),
                bundle,
            };
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
        deprecated: told(&[package.as_slice(), &channel, &bundle].concat(), "not deprecated"),
        package: told(&package, "package not deprecated"),
        channel: told(&channel, "channel not deprecated"),
        bundle: if installed.is_some() { told(&bundle, "bundle not deprecated") } else { absent() },
    }
}
