//! What the publishers of a catalog say of the package, the channel and the bundle of a Subscription.

use jiff::Timestamp;
use olm_api_classic::Subscription;

use super::{conditions, texts};
use crate::graph::Snapshot;

/// Brings the conditions about deprecations up to date. Without an entry of the installed version nothing changes.
pub fn follow(subscription: &mut Subscription, catalog: &Snapshot, now: Timestamp) {
    let package = subscription.spec.name.clone();
    let wanted = subscription.spec.channel.clone().unwrap_or_default();
    let status = subscription.status.get_or_insert_default();
    let Some(installed) = status.installed_csv.clone().filter(|name| !name.is_empty()) else { return };
    let Some(content) = catalog.packages.get(&package) else { return };
    let found = content.graph.by_preference().find(|(name, channel)| {
        (wanted.is_empty() || wanted == *name) && channel.entries.contains_key(&installed)
    });
    let Some((_, channel)) = found else { return };
    // Whose Subscription names no channel did not choose the deprecated one.
    let of_channel = channel.deprecation.as_ref().filter(|_| !wanted.is_empty());
    let of_bundle = content.graph.deprecated_bundles.get(&installed);
    let levels = [
        (texts::PACKAGE_DEPRECATED, content.graph.deprecation.as_ref(), format!("olm.package/{package}")),
        (texts::CHANNEL_DEPRECATED, of_channel, format!("olm.channel/{wanted}")),
        (texts::BUNDLE_DEPRECATED, of_bundle, format!("olm.bundle/{installed}")),
    ];
    let mut all = Vec::new();
    for (type_, message, about) in levels {
        match message {
            Some(message) => {
                let message = format!("{about}: {message}");
                conditions::set(status, [type_, "True", "", &message], now);
                all.push(message);
            }
            None => conditions::remove(status, &[type_]),
        }
    }
    if all.is_empty() {
        conditions::remove(status, &[texts::DEPRECATED]);
    } else {
        conditions::set(status, [texts::DEPRECATED, "True", "", &all.join("; ")], now);
    }
}

#[cfg(test)]
mod tests;
