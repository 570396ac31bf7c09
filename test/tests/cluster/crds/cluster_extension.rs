//! ClusterExtension: spec, transitions, status.

use anyhow::Result;
use olm_api::v1::ClusterExtension;
use serde_json::{Value, json};

use super::{
    accepted, check_creates, check_status, check_updates, columns, completed, refused, with, without,
};

const SUBDOMAIN: &str = "must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters";
const NAMESPACE: &str = "namespace must be a valid DNS1123 label";

fn extension() -> Value {
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

fn version(text: &str) -> Value {
    with(&extension(), "spec.source.catalog.version", text)
}

// Shows S002-18, S002-19, S002-20, S002-21, S002-22 to S002-29, S002-31 to S002-54, S002-57, S002-58,
// S002-63, S002-66, S002-80.
#[tokio::test]
async fn the_documented_version_strings_are_accepted() -> Result<()> {
    let documented = [
        ">=1.11, <1.13",
        "1.11.x",
        ">=1.12.X",
        "<=2.x",
        "*",
        "~1.11.0",
        "~1",
        "~1.12",
        "~1.12.x",
        "~1.x",
        "^0",
        "^0.0",
        "^0.0.3",
        "^0.2",
        "^0.2.3",
        "^1.2.x",
        "^1.2.3",
        "^2.x",
        "^2.3",
        "1.11.1",
        ">1.11.1",
        "1.14.0",
        "1.14.x",
        ">=1.16",
    ];
    check_creates::<ClusterExtension>(documented.map(|text| accepted(text, version(text))).into()).await
}

#[tokio::test]
async fn version_ranges_are_accepted_by_their_form() -> Result<()> {
    let operators = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"];
    let forms =
        ["1", "1.2", "v1.2.3", " 1.2.3", "1.x", "1.X", "1.*", "1.2.*", "1.2.3-alpha.1", "1.2.3+a-b.c"];
    let mut rows: Vec<_> = operators
        .iter()
        .flat_map(|operator| forms.map(|form| format!("{operator}{form}")))
        .map(|text| accepted(text.clone(), version(&text)))
        .collect();
    // The last five are refused by upstream's expression, whose brackets are misplaced.
    for text in [
        "",
        " 1.2.3 ",
        "1 2",
        ">=1,<2",
        ">=1 , <2",
        "1||2",
        "1 || 2",
        "x",
        "X",
        "1 || x",
        "0.0.0",
        "1 || *",
        "1.2.* || 1.3.*",
        ">=1.11.0 <2.0.*",
        "1.*",
        "1.2.x || >=2.0.*, !=2.1.*",
    ] {
        rows.push(accepted(format!("{text:?}"), version(text)));
    }
    rows.push(accepted("64 characters", version(&format!("1.2.3-{}", "a".repeat(58)))));
    check_creates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn other_version_expressions_are_refused() -> Result<()> {
    let field = "spec.source.catalog.version";
    let mut rows: Vec<_> = [
        "==1.2.3",
        "=!1.2.3",
        "!1.2.3",
        "<<1.2.3",
        ">>1.2.3",
        ">~1.2.3",
        "~~1",
        "1.2.3 - 2.3.4",
        ">=1 && <2",
        "1.2.3;2.3.4",
        "1.2.3.4",
        ".1",
        "1.",
        "01.2.3",
        "1.02.3",
        "1.2.03",
        "1.Y",
        "1.2.3-",
        "1.2.3+",
        "v",
        "latest",
        "|",
        "1 | 2",
        "1 ||",
        "|| 1",
        ", 1",
        "*]",
        "[1.2.3]",
        " ",
        "1\u{e4}",
    ]
    .map(|text| denied(text, version(text), field, "invalid version expression"))
    .into();
    rows.push(denied(
        "65 characters",
        version(&format!("1.2.3-{}", "a".repeat(59))),
        field,
        "Too long: may not be more than 64",
    ));
    check_creates::<ClusterExtension>(rows).await
}

// Shows S002-17, S002-61, S002-62, S002-67, S002-76, S002-79, S002-81, S002-85.
#[tokio::test]
async fn specs_within_the_rules_are_accepted() -> Result<()> {
    let base = extension();
    let catalog = "spec.source.catalog";
    let channels: Vec<_> = (0..256).map(|index| format!("channel-{index}")).collect();
    check_creates::<ClusterExtension>(vec![
        accepted("base", base.clone()),
        accepted("no spec", without(&base, "spec")),
        accepted("no account", without(&base, "spec.serviceAccount")),
        accepted("longest namespace", with(&base, "spec.namespace", "n".repeat(63))),
        accepted("namespace of one digit", with(&base, "spec.namespace", "1")),
        accepted("longest account", with(&base, "spec.serviceAccount.name", "a".repeat(253))),
        accepted("dotted account", with(&base, "spec.serviceAccount.name", "a.b-c.d")),
        accepted("longest package", with(&base, "spec.source.catalog.packageName", "p".repeat(253))),
        accepted("most channels", with(&base, &format!("{catalog}.channels"), json!(channels))),
        accepted("no channels", with(&base, &format!("{catalog}.channels"), json!([]))),
        accepted("selector", with(&base, &format!("{catalog}.selector"), json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}, {"key": "e", "operator": "Exists"}],
        }))),
        accepted("everything about a forced change", with(&base, catalog, json!({
            "packageName": "p", "channels": ["latest"], "version": "1.2.3", "upgradeConstraintPolicy": "SelfCertified",
        }))),
        accepted("no check", with(&base, "spec.install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}))),
        accepted("check", with(&base, "spec.install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}}))),
        accepted("configuration", with(&base, "spec.config", json!({"configType": "Inline", "inline": {"a": {"b": [1, null]}}}))),
        accepted("shortest deadline", with(&base, "spec.progressDeadlineMinutes", 10)),
        accepted("longest deadline", with(&base, "spec.progressDeadlineMinutes", 720)),
    ])
    .await
}

#[tokio::test]
async fn names_outside_the_rules_are_refused() -> Result<()> {
    let base = extension();
    let mut rows = vec![
        denied("no namespace", without(&base, "spec.namespace"), "spec.namespace", "Required value"),
        denied(
            "namespace too long",
            with(&base, "spec.namespace", "n".repeat(64)),
            "spec.namespace",
            "Too long: may not be more than 63",
        ),
        denied(
            "account without a name",
            with(&base, "spec.serviceAccount", json!({})),
            "spec.serviceAccount",
            "spec.serviceAccount in body should have at least 1 properties",
        ),
        refused(
            "account with an empty name",
            with(&base, "spec.serviceAccount.name", ""),
            &[
                (
                    "spec.serviceAccount.name",
                    "spec.serviceAccount.name in body should be at least 1 chars long",
                ),
                ("spec.serviceAccount.name", SUBDOMAIN),
            ],
        ),
        denied(
            "account too long",
            with(&base, "spec.serviceAccount.name", "a".repeat(254)),
            "spec.serviceAccount.name",
            "Too long: may not be more than 253",
        ),
        denied(
            "package too long",
            with(&base, "spec.source.catalog.packageName", "a".repeat(254)),
            "spec.source.catalog.packageName",
            "Too long: may not be more than 253",
        ),
        denied(
            "no package",
            with(&base, "spec.source.catalog", json!({})),
            "spec.source.catalog.packageName",
            "Required value",
        ),
    ];
    for text in ["", "A", "a.b", "a_b", "-a", "a-", "a b", "ä"] {
        rows.push(denied(
            format!("namespace {text:?}"),
            with(&base, "spec.namespace", text),
            "spec.namespace",
            NAMESPACE,
        ));
    }
    for text in ["", "A", "a..b", ".a", "a.", "a_b", "-a", "a-.b", "a b"] {
        rows.push(denied(
            format!("package {text:?}"),
            with(&base, "spec.source.catalog.packageName", text),
            "spec.source.catalog.packageName",
            &format!("packageName {SUBDOMAIN}"),
        ));
        rows.push(denied(
            format!("channel {text:?}"),
            with(&base, "spec.source.catalog.channels", json!(["good", text])),
            "spec.source.catalog.channels[1]",
            "channels entries must be valid DNS1123 subdomains",
        ));
        if !text.is_empty() {
            rows.push(denied(
                format!("account {text:?}"),
                with(&base, "spec.serviceAccount.name", text),
                "spec.serviceAccount.name",
                &format!("name {SUBDOMAIN}"),
            ));
        }
    }
    check_creates::<ClusterExtension>(rows).await
}

#[tokio::test]
async fn unions_and_limits_are_enforced() -> Result<()> {
    let base = extension();
    let channels: Vec<_> = (0..257).map(|index| format!("channel-{index}")).collect();
    let union = "catalog is required when sourceType is Catalog, and forbidden otherwise";
    let inline = "inline is required when configType is Inline, and forbidden otherwise";
    let deadline = "spec.progressDeadlineMinutes";
    check_creates::<ClusterExtension>(vec![
        denied("no source", without(&base, "spec.source"), "spec.source", "Required value"),
        denied(
            "no source type",
            without(&base, "spec.source.sourceType"),
            "spec.source.sourceType",
            "Required value",
        ),
        denied("no catalog", without(&base, "spec.source.catalog"), "spec.source", union),
        denied(
            "other source",
            with(&base, "spec.source.sourceType", "Image"),
            "spec.source.sourceType",
            "Unsupported value: \"Image\": supported values: \"Catalog\"",
        ),
        denied(
            "too many channels",
            with(&base, "spec.source.catalog.channels", json!(channels)),
            "spec.source.catalog.channels",
            "Too many: 257: must have at most 256 items",
        ),
        denied(
            "channel too long",
            with(&base, "spec.source.catalog.channels", json!(["c".repeat(254)])),
            "spec.source.catalog.channels[0]",
            "Too long: may not be more than 253",
        ),
        denied(
            "policy",
            with(&base, "spec.source.catalog.upgradeConstraintPolicy", "Any"),
            "spec.source.catalog.upgradeConstraintPolicy",
            "supported values: \"CatalogProvided\", \"SelfCertified\"",
        ),
        denied(
            "selector without operator",
            with(
                &base,
                "spec.source.catalog.selector",
                json!({
                    "matchExpressions": [{"key": "k"}],
                }),
            ),
            "spec.source.catalog.selector.matchExpressions[0].operator",
            "Required value",
        ),
        denied(
            "empty install",
            with(&base, "spec.install", json!({})),
            "spec.install",
            "at least one of [preflight] are required when install is specified",
        ),
        denied(
            "empty preflight",
            with(&base, "spec.install", json!({"preflight": {}})),
            "spec.install.preflight.crdUpgradeSafety",
            "Required value",
        ),
        denied(
            "no enforcement",
            with(&base, "spec.install", json!({"preflight": {"crdUpgradeSafety": {}}})),
            "spec.install.preflight.crdUpgradeSafety.enforcement",
            "Required value",
        ),
        denied(
            "enforcement",
            with(&base, "spec.install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Lax"}}})),
            "spec.install.preflight.crdUpgradeSafety.enforcement",
            "supported values: \"None\", \"Strict\"",
        ),
        denied(
            "no configuration",
            with(&base, "spec.config", json!({"configType": "Inline"})),
            "spec.config",
            inline,
        ),
        denied(
            "no configuration type",
            with(&base, "spec.config", json!({"inline": {"a": 1}})),
            "spec.config.configType",
            "Required value",
        ),
        denied(
            "other configuration type",
            with(&base, "spec.config", json!({"configType": "Secret", "inline": {"a": 1}})),
            "spec.config.configType",
            "supported values: \"Inline\"",
        ),
        denied(
            "empty configuration",
            with(&base, "spec.config", json!({"configType": "Inline", "inline": {}})),
            "spec.config.inline",
            "should have at least 1 properties",
        ),
        denied(
            "configuration that is a list",
            with(&base, "spec.config", json!({"configType": "Inline", "inline": []})),
            "spec.config.inline",
            "must be of type object",
        ),
        denied(
            "deadline too short",
            with(&base, deadline, 9),
            deadline,
            "should be greater than or equal to 10",
        ),
        denied(
            "deadline too long",
            with(&base, deadline, 721),
            deadline,
            "should be less than or equal to 720",
        ),
    ])
    .await
}

#[tokio::test]
async fn what_is_immutable_stays_and_the_rest_may_change() -> Result<()> {
    let base = extension();
    let account = "spec.serviceAccount";
    check_updates::<ClusterExtension>(&base, vec![
        accepted("no change", base.clone()),
        denied("namespace", with(&base, "spec.namespace", "other"), "spec.namespace", "namespace is immutable"),
        denied("package", with(&base, "spec.source.catalog.packageName", "other"), "spec.source.catalog.packageName", "packageName is immutable"),
        denied("account", with(&base, "spec.serviceAccount.name", "other"), "spec.serviceAccount.name", "name is immutable once set but may be cleared"),
        accepted("account cleared", without(&base, account)),
        accepted("the rest", with(&with(&with(&base, "spec.source.catalog", json!({
            "packageName": "pipelines-operator", "version": "1", "channels": ["c"],
            "selector": {"matchLabels": {"a": "b"}}, "upgradeConstraintPolicy": "SelfCertified",
        })), "spec.install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}})),
        "spec.progressDeadlineMinutes", 30)),
    ])
    .await?;
    check_updates::<ClusterExtension>(
        &without(&base, account),
        vec![accepted("account set later", base.clone())],
    )
    .await?;
    let full =
        with(&base, "spec.install", json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}));
    let full = with(&full, "spec.config", json!({"configType": "Inline", "inline": {"a": 1}}));
    check_updates::<ClusterExtension>(
        &full,
        vec![
            accepted("install removed", without(&full, "spec.install")),
            accepted("configuration removed", without(&full, "spec.config")),
        ],
    )
    .await
}

// Shows S002-83.
#[tokio::test]
async fn defaults_are_filled_in_and_unknown_fields_dropped() -> Result<()> {
    let object = completed::<ClusterExtension>(with(&extension(), "spec.watchNamespace", "x")).await?;
    assert_eq!(
        object["spec"],
        json!({
            "namespace": "pipelines",
            "serviceAccount": {"name": "pipelines-installer"},
            "source": {
                "sourceType": "Catalog",
                "catalog": {"packageName": "pipelines-operator", "upgradeConstraintPolicy": "CatalogProvided"},
            },
        })
    );
    Ok(())
}

#[tokio::test]
async fn columns_are_in_their_order() -> Result<()> {
    let names = columns::<ClusterExtension>().await?;
    assert_eq!(names, ["Name", "Installed Bundle", "Version", "Installed", "Progressing", "Age"]);
    Ok(())
}

#[tokio::test]
async fn a_status_is_checked() -> Result<()> {
    let bundle =
        |name: &str, version: &str| json!({"install": {"bundle": {"name": name, "version": version}}});
    let release = |text: &str| with(&bundle("a.v1", "1.0.0"), "install.bundle.release", text);
    let condition = json!({
        "type": "Installed", "status": "True", "reason": "Succeeded", "message": "m", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let changed = |field: &str, value: Value| json!({"conditions": [with(&condition, field, value)]});
    let name_rule = format!("packageName {SUBDOMAIN}");
    let mut rows = vec![
        accepted("bundle", bundle("pipelines-operator.v1.2.3", "1.2.3-alpha+1")),
        denied("name", bundle("Pipelines_operator", "1.2.3"), "status.install.bundle.name", &name_rule),
        denied(
            "version",
            bundle("a.v1", "v1"),
            "status.install.bundle.version",
            "version must be well-formed semver",
        ),
        // The expression is not anchored at its end.
        accepted("version with a tail", bundle("a.v1", "1.2.3.4")),
        denied(
            "no version",
            json!({"install": {"bundle": {"name": "a.v1"}}}),
            "status.install.bundle.version",
            "Required value",
        ),
        denied("no bundle", json!({"install": {}}), "status.install.bundle", "Required value"),
        accepted("condition", changed("message", json!("m".repeat(32_768)))),
        denied(
            "message",
            changed("message", json!("m".repeat(32_769))),
            "status.conditions[0].message",
            "Too long: may not be more than 32768",
        ),
        denied(
            "status",
            changed("status", json!("Maybe")),
            "status.conditions[0].status",
            "supported values: \"True\", \"False\", \"Unknown\"",
        ),
        denied(
            "reason",
            changed("reason", json!("not a reason")),
            "status.conditions[0].reason",
            "should match",
        ),
        denied(
            "no reason",
            changed("reason", json!("")),
            "status.conditions[0].reason",
            "should be at least 1 chars long",
        ),
        denied(
            "generation",
            changed("observedGeneration", json!(-1)),
            "status.conditions[0].observedGeneration",
            "should be greater than or equal to 0",
        ),
        denied(
            "type twice",
            json!({"conditions": [condition, condition]}),
            "status.conditions[1]",
            "Duplicate value",
        ),
        accepted(
            "revisions",
            json!({"activeRevisions": [{"name": "a-1", "conditions": [condition]}, {"name": "a-2"}]}),
        ),
        denied(
            "revision without a name",
            json!({"activeRevisions": [{}]}),
            "status.activeRevisions[0].name",
            "Required value",
        ),
    ];
    for text in ["", "1", "0", "a", "1.2", "alpha-1.0", "0a", "a".repeat(20).as_str()] {
        rows.push(accepted(format!("release {text:?}"), release(text)));
    }
    let rule = "release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)";
    for text in ["01", "1.", ".1", "1..2", "a_b", "1.00"] {
        rows.push(denied(format!("release {text:?}"), release(text), "status.install.bundle.release", rule));
    }
    rows.push(denied(
        "long release",
        release(&"a".repeat(21)),
        "status.install.bundle.release",
        "Too long: may not be more than 20",
    ));
    check_status::<ClusterExtension>(&extension(), json!({}), rows).await
}
