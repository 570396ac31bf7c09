//! ClusterCatalog: spec, image references, status.

use anyhow::Result;
use olm_api::v1::ClusterCatalog;
use serde_json::{Value, json};

use super::{accepted, check_creates, check_status, columns, completed, refused, with, without};

const REF: &str = "spec.source.image.ref";
const DOMAIN: &str = "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character.";
const NAME: &str = "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters.";
const END: &str = "must end with a digest or a tag";
const TAG_LENGTH: &str = "tag is invalid. the tag must not be more than 127 characters";
const TAG: &str = "tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", and \"-\" characters";
const ALGORITHM: &str = "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters.";
const DIGEST_LENGTH: &str = "digest is not valid. the encoded string must be at least 32 characters";
const HEX: &str = "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)";
const UNION: &str = "image is required when source type is Image, and forbidden otherwise";

fn catalog() -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": "crds-catalog"},
        "spec": {"source": {"type": "Image", "image": {"ref": "quay.io/operatorhubio/catalog:latest"}}},
    })
}

fn reference(text: &str) -> Value {
    with(&catalog(), REF, text)
}

fn hex(characters: usize) -> String {
    "0123456789abcdef".chars().cycle().take(characters).collect()
}

#[tokio::test]
async fn references_that_could_be_right_are_accepted() -> Result<()> {
    let references = [
        "quay.io/operatorhubio/catalog:latest".to_owned(),
        format!("quay.io/operatorhubio/catalog@sha256:{}", hex(64)),
        "localhost:5000/foo:v1".to_owned(),
        "localhost/foo:v1".to_owned(),
        "QUAY.IO/foo/bar:v1".to_owned(),
        "quay.io/foo/bar:x-".to_owned(),
        format!("quay.io/foo/bar:{}", "t".repeat(127)),
        // The controller's parser refuses these; admission only looks for common slips.
        format!("quay.io/x/y:tag@sha256:{}", hex(64)),
        "library/busybox:latest".to_owned(),
        "quay.io/Foo/bar:v1".to_owned(),
        "quay.io/foo/Bar:v1".to_owned(),
        "docker://quay.io/foo/bar:v1".to_owned(),
        "https://quay.io/foo/bar:v1".to_owned(),
        "quay.io//foo:v1".to_owned(),
        "quay.io/foo bar:v1".to_owned(),
        "quay.io/foo/bar:a:b".to_owned(),
        format!("quay.io/foo/bar@md5:{}", hex(32)),
        format!("quay.io/foo/bar@sha512:{}", hex(64)),
        format!("quay.io/foo/bar@sha256:{}", hex(64).to_uppercase()),
        format!("quay.io/foo/bar@a+b.c-d_e:{}", hex(32)),
        format!("quay.io/{}:v1", "a".repeat(989)),
    ];
    check_creates::<ClusterCatalog>(references.map(|text| accepted(text.clone(), reference(&text))).into())
        .await
}

#[tokio::test]
async fn references_that_cannot_be_right_are_refused_with_every_reason() -> Result<()> {
    let rows = [
        ("busybox:latest".to_owned(), vec![NAME]),
        ("quay.io/operatorhubio/catalog".to_owned(), vec![END]),
        (String::new(), vec![DOMAIN, NAME, END]),
        // The port's colon is taken for a tag's.
        ("localhost:5000/foo".to_owned(), vec![TAG]),
        (format!("quay.io/foo/bar:{}", "t".repeat(128)), vec![TAG_LENGTH]),
        (format!("reg.example.com:5000/{}/bar:v1.0.0", "a".repeat(120)), vec![TAG_LENGTH]),
        ("quay.io/foo/bar:-x".to_owned(), vec![TAG]),
        ("quay.io/foo/bar:".to_owned(), vec![TAG]),
        ("quay.io/foo/bar@sha256:abc".to_owned(), vec![DIGEST_LENGTH]),
        (format!("quay.io/foo/bar@99x:{}", hex(64)), vec![ALGORITHM]),
        (format!("quay.io/foo/bar@sha256:{}", "g".repeat(64)), vec![HEX]),
        ("quay.io/foo/bar@sha256:xyz".to_owned(), vec![DIGEST_LENGTH, HEX]),
        ("-quay.io/foo:v1".to_owned(), vec![DOMAIN]),
        ("[::1]:5000/foo:v1".to_owned(), vec![DOMAIN]),
        ("docker.io:8080".to_owned(), vec![NAME]),
    ];
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(text, messages)| {
            let because: Vec<_> = messages.into_iter().map(|message| (REF, message)).collect();
            refused(text.clone(), reference(&text), &because)
        })
        .collect();
    let long = format!("quay.io/{}:v1", "a".repeat(990));
    rows.push(denied("1001 characters", reference(&long), REF, "Too long: may not be more than 1000"));
    check_creates::<ClusterCatalog>(rows).await
}

#[tokio::test]
async fn unions_and_limits_are_enforced() -> Result<()> {
    let base = catalog();
    let poll = "spec.source.image.pollIntervalMinutes";
    let digest = reference(&format!("quay.io/operatorhubio/catalog@sha256:{}", hex(64)));
    check_creates::<ClusterCatalog>(vec![
        accepted("base", base.clone()),
        denied("no spec", without(&base, "spec"), "spec", "Required value"),
        denied("no source", with(&base, "spec", json!({})), "spec.source", "Required value"),
        denied("no type", without(&base, "spec.source.type"), "spec.source.type", "Required value"),
        denied(
            "other type",
            with(&base, "spec.source.type", "image"),
            "spec.source.type",
            "Unsupported value: \"image\": supported values: \"Image\"",
        ),
        denied("no image", without(&base, "spec.source.image"), "spec.source", UNION),
        denied("no reference", with(&base, "spec.source.image", json!({})), REF, "Required value"),
        accepted("polled every minute", with(&base, poll, 1)),
        accepted("polled once a century", with(&base, poll, 52_560_000)),
        denied("polled always", with(&base, poll, 0), poll, "should be greater than or equal to 1"),
        denied(
            "digest polled",
            with(&digest, poll, 10),
            "spec.source.image",
            "cannot specify pollIntervalMinutes while using digest-based image",
        ),
        accepted("lowest priority", with(&base, "spec.priority", i32::MIN)),
        accepted("highest priority", with(&base, "spec.priority", i32::MAX)),
        denied(
            "priority",
            with(&base, "spec.priority", i64::from(i32::MAX) + 1),
            "<nil>",
            "must be of type integer with format int32 in spec.priority",
        ),
        accepted("not available", with(&base, "spec.availabilityMode", "Unavailable")),
        denied(
            "availability",
            with(&base, "spec.availabilityMode", "Sometimes"),
            "spec.availabilityMode",
            "supported values: \"Available\", \"Unavailable\"",
        ),
    ])
    .await
}

#[tokio::test]
async fn defaults_are_filled_in() -> Result<()> {
    let object = completed::<ClusterCatalog>(catalog()).await?;
    assert_eq!(
        object["spec"],
        json!({
            "availabilityMode": "Available",
            "priority": 0,
            "source": {"type": "Image", "image": {"ref": "quay.io/operatorhubio/catalog:latest"}},
        })
    );
    Ok(())
}

#[tokio::test]
async fn columns_are_in_their_order() -> Result<()> {
    assert_eq!(columns::<ClusterCatalog>().await?, ["Name", "LastUnpacked", "Serving", "Age"]);
    Ok(())
}

#[tokio::test]
async fn a_status_is_checked() -> Result<()> {
    let resolved = |text: &str| json!({"resolvedSource": {"type": "Image", "image": {"ref": text}}});
    let base = |url: &str| json!({"urls": {"base": url}});
    let place = "status.resolvedSource.image.ref";
    check_status::<ClusterCatalog>(
        &catalog(),
        json!({}),
        vec![
            accepted("resolved", resolved(&format!("quay.io/operatorhubio/catalog@sha256:{}", hex(64)))),
            denied("tag", resolved("quay.io/operatorhubio/catalog:latest"), place, "must end with a digest"),
            denied("short digest", resolved("quay.io/a/b@sha256:abc"), place, DIGEST_LENGTH),
            denied("no hex", resolved(&format!("quay.io/a/b@sha256:{}", "g".repeat(64))), place, HEX),
            denied("algorithm", resolved(&format!("quay.io/a/b@9:{}", hex(64))), place, ALGORITHM),
            denied("domain", resolved(&format!("-quay.io/a/b@sha256:{}", hex(64))), place, DOMAIN),
            denied("name", resolved(&format!("quay.io@sha256:{}", hex(64))), place, NAME),
            denied(
                "no image",
                json!({"resolvedSource": {"type": "Image"}}),
                "status.resolvedSource.image",
                "Required value",
            ),
            accepted("address", base("https://catalogd-service.olmv1-system.svc/catalogs/a")),
            accepted("plain address", base("http://localhost:8080/catalogs/a")),
            denied("no address", base("not a url"), "status.urls.base", "must be a valid URL"),
            denied("scheme", base("ftp://host/a"), "status.urls.base", "scheme must be either http or https"),
            accepted("longest address", base(&format!("https://{}", "h".repeat(517)))),
            denied(
                "address too long",
                base(&format!("https://{}", "h".repeat(518))),
                "status.urls.base",
                "Too long: may not be more than 525",
            ),
            accepted("time", json!({"lastUnpacked": "2026-01-01T00:00:00Z"})),
            denied(
                "no time",
                json!({"lastUnpacked": "yesterday"}),
                "status.lastUnpacked",
                "must be of type date-time",
            ),
        ],
    )
    .await
}
