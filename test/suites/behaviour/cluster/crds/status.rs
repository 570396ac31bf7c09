//! What the controllers may write into a status.

use olm_api::v1::MAX_PHASES;
use olm_test::prelude::*;

use super::cluster_catalog::{ALGORITHM, DIGEST_LENGTH, DOMAIN, HEX, NAME, catalog, hex};
use super::cluster_extension::{SUBDOMAIN, extension};
use super::cluster_object_set::{EMPTY, LABEL, object_set};
use super::{Rows, check_status, with};

fn condition() -> Value {
    json!({
        "type": "Installed", "status": "True", "reason": "Succeeded", "message": "m", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test]
async fn conditions_are_those_of_kubernetes() -> Result<()> {
    let at = |field: &str| format!("status.conditions.0.{field}");
    let rows = Rows::of(&json!({"status": {"conditions": [condition()]}}))
        .yes(&at("message"), "m".repeat(32_768))
        .no(&at("message"), "m".repeat(32_769), "Too long: may not be more than 32768")
        .no(&at("status"), "Maybe", "supported values: \"True\", \"False\", \"Unknown\"")
        .no(&at("reason"), "not a reason", "should match")
        .no(&at("reason"), "", EMPTY)
        .no(&at("reason"), "R".repeat(1_025), "Too long: may not be more than 1024")
        .no(&at("type"), "not a type", "should match")
        .no(&at("type"), "T".repeat(317), "Too long: may not be more than 316")
        .no(&at("observedGeneration"), -1, "should be greater than or equal to 0")
        .no(&at("lastTransitionTime"), "yesterday", "must be of type date-time")
        .no_for(
            "status.conditions",
            json!([condition(), condition()]),
            &[("status.conditions[1]", "Duplicate value")],
        );
    check_status::<ClusterExtension>(&extension(), rows).await
}

#[tokio::test]
async fn an_extension_names_its_bundle_and_revisions() -> Result<()> {
    let bundle = json!({"name": "pipelines-operator.v1.2.3", "version": "1.2.3-alpha+1"});
    let (name, version) = ("status.install.bundle.name", "status.install.bundle.version");
    let (release, revisions) = ("status.install.bundle.release", "status.activeRevisions");
    let mut rows = Rows::of(&json!({"status": {"install": {"bundle": bundle}}}))
        .required(name)
        .required(version)
        .required("status.install.bundle")
        .no(name, "Pipelines_operator", &format!("packageName {SUBDOMAIN}"))
        .no(version, "v1", "version must be well-formed semver")
        // The expression is not anchored at its end.
        .yes(version, "1.2.3.4")
        .yes(revisions, json!([{"name": "a-1", "conditions": [condition()]}, {"name": "a-2"}]))
        .no_for(revisions, json!([{}]), &[("status.activeRevisions[0].name", "Required value")])
        .yes(release, "a".repeat(20))
        .no(release, "a".repeat(21), "Too long: may not be more than 20");
    for text in ["", "1", "0", "a", "1.2", "alpha-1.0", "0a"] {
        rows = rows.yes(release, text);
    }
    let rule = "release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)";
    for text in ["01", "1.", ".1", "1..2", "a_b", "1.00"] {
        rows = rows.no(release, text, rule);
    }
    check_status::<ClusterExtension>(&extension(), rows).await
}

#[tokio::test]
async fn a_catalog_names_a_digest_and_an_address() -> Result<()> {
    let (place, base) = ("status.resolvedSource.image.ref", "status.urls.base");
    let digest = format!("quay.io/operatorhubio/catalog@sha256:{}", hex(64));
    let address = "https://catalogd-service.olmv1-system.svc/catalogs/a";
    let served = json!({"status": {
        "resolvedSource": {"type": "Image", "image": {"ref": digest}},
        "urls": {"base": address},
        "lastUnpacked": "2026-01-01T00:00:00Z",
    }});
    let rows = Rows::of(&served)
        .no(place, "quay.io/operatorhubio/catalog:latest", "must end with a digest")
        .no(place, "quay.io/a/b@sha256:abc", DIGEST_LENGTH)
        .no(place, format!("quay.io/a/b@sha256:{}", "g".repeat(64)), HEX)
        .no(place, format!("quay.io/a/b@9:{}", hex(64)), ALGORITHM)
        .no(place, format!("-quay.io/a/b@sha256:{}", hex(64)), DOMAIN)
        .no(place, format!("quay.io@sha256:{}", hex(64)), NAME)
        .no(
            place,
            format!("quay.io/{}@sha256:{}", "a".repeat(921), hex(64)),
            "Too long: may not be more than 1000",
        )
        .required("status.resolvedSource.image")
        .required("status.resolvedSource.type")
        .no("status.resolvedSource.type", "Git", "supported values: \"Image\"")
        .yes(base, "http://localhost:8080/catalogs/a")
        .yes(base, format!("https://{}", "h".repeat(517)))
        .no(base, format!("https://{}", "h".repeat(518)), "Too long: may not be more than 525")
        .no(base, "not a url", "must be a valid URL")
        .no(base, "ftp://host/a", "scheme must be either http or https")
        .no("status.lastUnpacked", "yesterday", "must be of type date-time");
    check_status::<ClusterCatalog>(&catalog(), rows).await
}

#[tokio::test]
async fn an_object_set_keeps_the_digests_it_saw_first() -> Result<()> {
    let many = |count: usize| -> Value {
        (0..count).map(|index| json!({"name": format!("p{index}"), "digest": "sha256:0a"})).collect()
    };
    let rule = "digest must be in the format '<algorithm>:<hex>'";
    let at = "status.observedPhases[0].digest";
    let observed = |digest: &str| json!([{"name": "deploy", "digest": digest}]);
    let phases = "status.observedPhases";
    let mut rows = Rows::of(&json!({"status": {"observedPhases": []}}))
        .yes(phases, observed("sha256:0123456789abcdef"))
        .yes(phases, many(MAX_PHASES))
        .no(phases, many(MAX_PHASES + 1), "Too many: 21: must have at most 20 items")
        .no_for(
            phases,
            json!([{"name": "Deploy", "digest": "sha256:0a"}]),
            &[("status.observedPhases[0].name", LABEL)],
        )
        .no_for(phases, observed(""), &[(at, EMPTY), (at, rule)])
        .no_for(
            phases,
            observed(&format!("sha256:{}", "a".repeat(250))),
            &[(at, "Too long: may not be more than 256")],
        );
    for wrong in ["sha256", "sha256:", ":0a", "sha256:0A", "SHA256:0a", "sha256:0g", "a:b:c"] {
        rows = rows.no_for(phases, observed(wrong), &[(at, rule)]);
    }
    check_status::<ClusterObjectSet>(&object_set(), rows).await?;

    let immutable = "observedPhases is immutable";
    let seen = json!({"status": {"observedPhases": observed("sha256:0a")}});
    let later = with(&seen, "status.observedPhases.0.name", "later")["status"]["observedPhases"][0].clone();
    let rows = Rows::of(&seen)
        .no(phases, observed("sha256:0b"), immutable)
        .no(phases, json!([observed("sha256:0a")[0], later]), immutable)
        .no(phases, json!([]), immutable);
    check_status::<ClusterObjectSet>(&object_set(), rows).await
}
