//! ClusterExtension: spec and transitions.

use olm_test::prelude::*;

use super::{Rows, check_creates, check_updates, columns, completed, with, without};

pub(super) const SUBDOMAIN: &str = "must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters";

const NAMESPACE: &str = "spec.namespace";
const ACCOUNT: &str = "spec.serviceAccount";
const ACCOUNT_NAME: &str = "spec.serviceAccount.name";
const CATALOG: &str = "spec.source.catalog";
const PACKAGE: &str = "spec.source.catalog.packageName";
const VERSION: &str = "spec.source.catalog.version";
const CHANNELS: &str = "spec.source.catalog.channels";
const SELECTOR: &str = "spec.source.catalog.selector";
const POLICY: &str = "spec.source.catalog.upgradeConstraintPolicy";
const INSTALL: &str = "spec.install";
const CONFIG: &str = "spec.config";
const DEADLINE: &str = "spec.progressDeadlineMinutes";

pub(super) fn extension() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": "crds-extension"},
        "spec": {
            "namespace": "pipelines",
            "serviceAccount": {"name": "pipelines-installer"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "pipelines-operator"}},
        },
    })
}

fn enforcement(value: &str) -> Value {
    json!({"preflight": {"crdUpgradeSafety": {"enforcement": value}}})
}

fn channels(count: usize) -> Value {
    (0..count).map(|index| format!("channel-{index}")).collect()
}

#[tokio::test]
async fn specs_within_the_rules_are_accepted() -> Result<()> {
    let forced = json!({
        "packageName": "p", "channels": ["latest"], "version": "1.2.3", "upgradeConstraintPolicy": "SelfCertified",
    });
    let selector = json!({
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}, {"key": "e", "operator": "Exists"}],
    });
    let rows = Rows::of(&extension())
        .yes_without("spec")
        .yes_without(ACCOUNT)
        .yes(NAMESPACE, "n".repeat(63))
        .yes(NAMESPACE, "1")
        .yes(ACCOUNT_NAME, "a".repeat(253))
        .yes(ACCOUNT_NAME, "a.b-c.d")
        .yes(PACKAGE, "p".repeat(253))
        .yes(CHANNELS, channels(256))
        .yes(CHANNELS, json!([]))
        .yes(CHANNELS, json!(["pipelines-1.14", "latest"]))
        .yes(SELECTOR, selector)
        .yes(CATALOG, forced)
        .yes(POLICY, "CatalogProvided")
        .yes(INSTALL, enforcement("None"))
        .yes(INSTALL, enforcement("Strict"))
        .yes(CONFIG, json!({"configType": "Inline", "inline": {"a": {"b": [1, null]}}}))
        .yes(DEADLINE, 10)
        .yes(DEADLINE, 720);
    check_creates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn names_outside_the_rules_are_refused() -> Result<()> {
    let longer_than_253 = "Too long: may not be more than 253";
    let mut rows = Rows::of(&extension())
        .required(NAMESPACE)
        .required(PACKAGE)
        .no(NAMESPACE, "n".repeat(64), "Too long: may not be more than 63")
        .no(ACCOUNT, json!({}), "spec.serviceAccount in body should have at least 1 properties")
        .no(ACCOUNT_NAME, "a".repeat(254), longer_than_253)
        .no(PACKAGE, "a".repeat(254), longer_than_253)
        .no_for(CHANNELS, json!(["c".repeat(254)]), &[("spec.source.catalog.channels[0]", longer_than_253)])
        .no_for(
            ACCOUNT_NAME,
            "",
            &[(ACCOUNT_NAME, "should be at least 1 chars long"), (ACCOUNT_NAME, SUBDOMAIN)],
        );
    for text in ["", "A", "a.b", "a_b", "-a", "a-", "a b", "\u{e4}"] {
        rows = rows.no(NAMESPACE, text, "namespace must be a valid DNS1123 label");
    }
    let channel = "channels entries must be valid DNS1123 subdomains";
    for text in ["A", "a..b", ".a", "a.", "a_b", "-a", "a-.b", "a b"] {
        rows = rows
            .no(PACKAGE, text, &format!("packageName {SUBDOMAIN}"))
            .no(ACCOUNT_NAME, text, &format!("name {SUBDOMAIN}"))
            .no_for(CHANNELS, json!(["good", text]), &[("spec.source.catalog.channels[1]", channel)]);
    }
    rows = rows.no(PACKAGE, "", &format!("packageName {SUBDOMAIN}")).no_for(
        CHANNELS,
        json!([""]),
        &[("spec.source.catalog.channels[0]", channel)],
    );
    check_creates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn unions_and_limits_are_enforced() -> Result<()> {
    let union = "catalog is required when sourceType is Catalog, and forbidden otherwise";
    let inline = "inline is required when configType is Inline, and forbidden otherwise";
    let crd_upgrade_safety = "spec.install.preflight.crdUpgradeSafety";
    let no_operator = json!({"matchExpressions": [{"key": "k"}]});
    let rows = Rows::of(&extension())
        .required("spec.source")
        .required("spec.source.sourceType")
        .no_without(CATALOG, "spec.source", union)
        .no("spec.source.sourceType", "Image", "Unsupported value: \"Image\": supported values: \"Catalog\"")
        .no(CHANNELS, channels(257), "Too many: 257: must have at most 256 items")
        .no(POLICY, "Any", "supported values: \"CatalogProvided\", \"SelfCertified\"")
        .no_for(
            SELECTOR,
            no_operator,
            &[(&format!("{SELECTOR}.matchExpressions[0].operator"), "Required value")],
        )
        .no(INSTALL, json!({}), "at least one of [preflight] are required when install is specified")
        // The rule "at least one of [crdUpgradeSafety]" is never reached: the field is required as well.
        .no_for(INSTALL, json!({"preflight": {}}), &[(crd_upgrade_safety, "Required value")])
        .no_for(
            INSTALL,
            json!({"preflight": {"crdUpgradeSafety": {}}}),
            &[(&format!("{crd_upgrade_safety}.enforcement"), "Required value")],
        )
        .no_for(
            INSTALL,
            enforcement("Lax"),
            &[(&format!("{crd_upgrade_safety}.enforcement"), "supported values: \"None\", \"Strict\"")],
        )
        .no(CONFIG, json!({"configType": "Inline"}), inline)
        .no_for(CONFIG, json!({"inline": {"a": 1}}), &[("spec.config.configType", "Required value")])
        .no_for(
            CONFIG,
            json!({"configType": "Secret", "inline": {"a": 1}}),
            &[("spec.config.configType", "supported values: \"Inline\"")],
        )
        .no_for(
            CONFIG,
            json!({"configType": "Inline", "inline": {}}),
            &[("spec.config.inline", "should have at least 1 properties")],
        )
        .no_for(
            CONFIG,
            json!({"configType": "Inline", "inline": []}),
            &[("spec.config.inline", "must be of type object")],
        )
        .no(DEADLINE, 9, "should be greater than or equal to 10")
        .no(DEADLINE, 721, "should be less than or equal to 720");
    check_creates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn names_are_immutable_but_the_account_may_be_cleared() -> Result<()> {
    let base = extension();
    let rows = Rows::of(&base)
        .no(NAMESPACE, "other", "namespace is immutable")
        .no(PACKAGE, "other", "packageName is immutable")
        .no(ACCOUNT_NAME, "other", "name is immutable once set but may be cleared")
        .yes_without(ACCOUNT);
    check_updates::<ClusterExtension>(rows).await?;
    let rows = Rows::of(&without(&base, ACCOUNT)).yes(ACCOUNT, json!({"name": "set-later"}));
    check_updates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn everything_else_may_change() -> Result<()> {
    let configured = with(&extension(), INSTALL, enforcement("None"));
    let configured = with(&configured, CONFIG, json!({"configType": "Inline", "inline": {"a": 1}}));
    let rows = Rows::of(&configured)
        .yes("spec.source.catalog.version", "1.11.1")
        .yes(CHANNELS, json!(["c"]))
        .yes(SELECTOR, json!({"matchLabels": {"a": "b"}}))
        .yes(POLICY, "SelfCertified")
        .yes(DEADLINE, 30)
        .yes(INSTALL, enforcement("Strict"))
        .yes(CONFIG, json!({"configType": "Inline", "inline": {"b": 2}}))
        .yes_without(INSTALL)
        .yes_without(CONFIG);
    check_updates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn defaults_are_filled_in_and_unknown_fields_dropped() -> Result<()> {
    let object = completed::<ClusterExtension>(with(&extension(), "spec.watchNamespace", "x")).await?;
    assert_eq!(object["spec"], with(&extension(), POLICY, "CatalogProvided")["spec"]);
    Ok(())
}

#[tokio::test]
async fn columns_are_in_their_order() -> Result<()> {
    let names = columns::<ClusterExtension>().await?;
    let upstreams = ["Name", "Installed Bundle", "Version", "Installed", "Progressing"];
    assert_eq!(names[..upstreams.len()], upstreams);
    assert_eq!(names[upstreams.len()..], ["Ready", "Available Update", "Age", "Message"]);
    Ok(())
}

#[tokio::test]
async fn kubectl_explains_what_is_not_created_and_how_ranges_are_written() -> Result<()> {
    let cluster = Cluster::shared().await?;
    for (field, parts) in [
        (NAMESPACE, &["It must exist: it is not created.", "Immutable."][..]),
        (ACCOUNT, &["needs the permissions for all of them. It must exist: it is not created."]),
        (VERSION, &["an exact version such as `1.2.3`", "`1.14.x`, `>=1.11, <1.13` or `1.x || >=3.1`"]),
        (CHANNELS, &["Unset or empty: all channels of the package."]),
    ] {
        wait::until(&format!("kubectl to explain {field}"), olm_test::world::DEADLINE, async || {
            // It breaks lines where the terminal ends.
            let explained = kubectl(cluster, &["explain", &format!("clusterextension.{field}")])?;
            let explained = explained.split_whitespace().collect::<Vec<_>>().join(" ");
            wait::check(parts.iter().all(|part| explained.contains(part)), || explained)
        })
        .await?;
    }
    Ok(())
}
