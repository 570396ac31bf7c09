//! Whether the catalogs have a newer version than the installed one, for people who decide when to update.

use std::cmp::Ordering;

use crate::{CatalogView, MajorUpdates, Request, Resolution, resolve};

/// What the catalogs say about versions newer than the installed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AvailableUpdate {
    /// This is the newest version that the update paths lead to.
    Newer(String),
    /// No update path leads to a newer one.
    Newest,
    /// The catalogs do not say: one that may have the answer cannot be read, several disagree, or none has the package
    /// or its channels.
    Unknown,
}

/// The newest version that the update paths lead to, were it not for the version range, for blocked major updates, and
/// for an update policy;
/// channels and catalogs are those of the request. `found` is the answer to the request itself, if it has one. Nothing
/// where nothing is installed.
pub fn available_update(
    request: &Request,
    catalogs: &[CatalogView<'_>],
    found: Option<&Resolution>,
) -> Option<AvailableUpdate> {
    let installed = request.installed.as_ref()?;
    let is_free = request.wanted_version().is_none()
        && request.options.major_updates == MajorUpdates::Allow
        && request.ceiling.is_none();
    let newest = if let Some(found) = found.filter(|_| is_free) {
        Some(found.version.clone())
    } else {
        let mut free = Request { version: None, ceiling: None, ..request.clone() };
        free.options.major_updates = MajorUpdates::Allow;
        resolve(&free, catalogs).ok().map(|found| found.version)
    };
    let installed = installed.bundle_version(request.options.releases).ok();
    Some(match (newest, installed) {
        (Some(newest), Some(installed)) if newest.cmp_precedence(&installed) == Ordering::Greater => {
            AvailableUpdate::Newer(newest.to_string())
        }
        (Some(_), Some(_)) => AvailableUpdate::Newest,
        (None, _) | (_, None) => AvailableUpdate::Unknown,
    })
}
