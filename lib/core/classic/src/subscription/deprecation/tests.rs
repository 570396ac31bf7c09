use olm_api_classic::SubscriptionStatus;
use serde_json::json;

use super::*;
use crate::registry_model::{self, Channel, Package};

fn catalog() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let channels = ["alpha", "beta"].map(|name| Channel {
        name: name.to_owned(),
        csv_name: "lamp.v1".to_owned(),
        deprecation: (name == "alpha").then(|| "use beta".to_owned()),
    });
    let package = Package {
        name: "lamp".to_owned(),
        channels: channels.into(),
        default_channel_name: "alpha".to_owned(),
        deprecation: Some("use torch".to_owned()),
    };
    snapshot.push_package(&package).unwrap();
    for channel in ["alpha", "beta"] {
        let bundle = registry_model::Bundle {
            csv_name: "lamp.v1".to_owned(),
            package_name: "lamp".to_owned(),
            channel_name: channel.to_owned(),
            deprecation: Some("too old".to_owned()),
            ..registry_model::Bundle::default()
        };
        snapshot.push_bundle(&bundle).unwrap();
    }
    snapshot
}

fn shown(channel: &str, installed: &str) -> Vec<String> {
    let mut subscription = Subscription::default();
    subscription.spec.name = "lamp".to_owned();
    subscription.spec.channel = Some(channel.to_owned());
    let conditions = json!([{"type": "ChannelDeprecated", "status": "True", "message": "before"}]);
    subscription.status = Some(SubscriptionStatus {
        installed_csv: Some(installed.to_owned()),
        conditions: serde_json::from_value(conditions).unwrap(),
        ..SubscriptionStatus::default()
    });
    follow(&mut subscription, &catalog(), Timestamp::UNIX_EPOCH);
    let line = |one: olm_api_classic::LegacyCondition| format!("{}: {}", one.type_, one.message.unwrap());
    subscription.status.unwrap().conditions.into_iter().map(line).collect()
}

#[test]
fn each_level_has_a_condition_and_all_together_one_more() {
    let mut all = shown("alpha", "lamp.v1");
    all.sort();
    let wanted = [
        "BundleDeprecated: olm.bundle/lamp.v1: too old",
        "ChannelDeprecated: olm.channel/alpha: use beta",
        "Deprecated: olm.package/lamp: use torch; olm.channel/alpha: use beta; olm.bundle/lamp.v1: too old",
        "PackageDeprecated: olm.package/lamp: use torch",
    ];
    assert_eq!(all, wanted);
}

#[test]
fn a_level_that_is_not_deprecated_any_more_loses_its_condition() {
    assert!(!shown("beta", "lamp.v1").iter().any(|line| line.starts_with("ChannelDeprecated")));
}

#[test]
fn the_channel_counts_only_for_a_subscription_that_names_it() {
    let all = shown("", "lamp.v1");
    assert!(!all.iter().any(|line| line.contains("olm.channel")), "{all:?}");
    assert!(all.iter().any(|line| line.starts_with("BundleDeprecated")), "{all:?}");
}

#[test]
fn without_an_entry_nothing_changes() {
    assert_eq!(shown("alpha", "lamp.v2"), ["ChannelDeprecated: before"]);
}
